"""Compaction options: their names in pylance, where their values come from, and which values are refused."""

import pytest
from lance.optimize import CompactionOptions as TheirOptions

from lance_core.compaction.options import CompactionOptions, CompactionSettings
from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError

OURS = {"target_bytes_per_fragment"}


def test_compaction_option_names_match_pylance() -> None:
    assert set(CompactionOptions.__annotations__) == set(TheirOptions.__annotations__) | OURS


def test_compaction_options_override_config_and_config_overrides_defaults() -> None:
    config = {
        "lance.compaction.target_rows_per_fragment": "500",
        "lance.compaction.target_bytes_per_fragment": "+9000",
        "lance.compaction.materialize_deletions": "FALSE",
        "lance.compaction.materialize_deletions_threshold": "0.5",
        "lance.compaction.max_source_fragments": "7",
        "lance.compaction.data_storage_version": "stable",
        "lance.compaction.compaction_mode": "try_binary_copy",
        "lance.compaction.num_threads": "nonsense that the reference does not read either",
        "lance.compaction.unknown": "1",
        "target_rows_per_fragment": "1",
    }
    settings = CompactionSettings.of({"max_source_fragments": 3, "materialize_deletions": None}, config)
    assert settings == CompactionSettings(
        target_rows_per_fragment=500,
        target_bytes_per_fragment=9000,
        materialize_deletions=False,
        materialize_deletions_threshold=0.5,
        max_source_fragments=3,
        data_storage_version="2.2",
        compaction_mode="try_binary_copy",
    )
    assert CompactionSettings.of({}, {}) == CompactionSettings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target_rows_per_fragment", 0),
        ("target_rows_per_fragment", -1),
        ("target_rows_per_fragment", 2**64),
        ("target_bytes_per_fragment", 0),
        ("max_bytes_per_file", 0),
        ("max_rows_per_group", 0),
        ("batch_size", 0),
        ("num_threads", -1),
        ("io_buffer_size", 0),
        ("binary_copy_read_batch_bytes", 0),
        ("max_source_fragments", 0),
        ("max_source_rows", 0),
        ("max_source_bytes", 0),
        ("materialize_deletions_threshold", -0.1),
        ("materialize_deletions_threshold", float("nan")),
        ("materialize_deletions_threshold", 10**400),
        ("excluded_fragment_ids", [-1]),
        ("excluded_fragment_ids", [2**32]),
        ("compaction_mode", "fast"),
        ("data_storage_version", "9.9"),
        ("strategy", "x"),
        ("transaction_properties", {}),
        ("index_remap_mode", "Direct"),
    ],
)
def test_compaction_option_out_of_range_raises_invalid_input(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError):
        CompactionSettings.of({name: value}, {})


def test_compaction_options_accept_their_largest_values() -> None:
    settings = CompactionSettings.of({"excluded_fragment_ids": [0, 2**32 - 1], "max_source_rows": 2**64 - 1}, {})
    assert (settings.excluded_fragment_ids, settings.max_source_rows) == ((0, 2**32 - 1), 2**64 - 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target_rows_per_fragment", "x"),
        ("target_rows_per_fragment", 1.5),
        ("materialize_deletions", 1),
        ("materialize_deletions", "true"),
        ("materialize_deletions_threshold", "x"),
        ("materialize_deletions_threshold", True),
        ("excluded_fragment_ids", 5),
        ("excluded_fragment_ids", {0, 1}),
        ("excluded_fragment_ids", "01"),
        ("excluded_fragment_ids", ["a"]),
        ("compaction_mode", 5),
        ("data_storage_version", 2.2),
        ("defer_index_remap", "no"),
        (1, 2),
    ],
)
def test_compaction_option_of_the_wrong_type_raises_invalid_type(name: str, value: object) -> None:
    with pytest.raises(InvalidTypeError):
        CompactionSettings.of({name: value}, {})


@pytest.mark.parametrize(("name", "value"), [("compaction_mode", "force_binary_copy"), ("defer_index_remap", True)])
def test_unsupported_compaction_options_are_refused_and_named_in_the_error(name: str, value: object) -> None:
    with pytest.raises(NotSupportedError, match=name):
        CompactionSettings.of({name: value}, {})


def test_compaction_options_that_are_not_a_dict_raise_invalid_type() -> None:
    with pytest.raises(InvalidTypeError):
        CompactionSettings.of(None, {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("target_rows_per_fragment", "abc"),
        ("target_rows_per_fragment", ""),
        ("target_rows_per_fragment", "-1"),
        ("target_rows_per_fragment", " 75"),
        ("target_rows_per_fragment", "75.0"),
        ("target_rows_per_fragment", "٧"),
        ("max_source_fragments", "0"),
        ("materialize_deletions", "0"),
        ("materialize_deletions_threshold", "x"),
        ("compaction_mode", "zz"),
        ("data_storage_version", "zz"),
    ],
)
def test_error_about_malformed_compaction_config_names_the_entry(name: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"lance\.compaction|data storage version"):
        CompactionSettings.of({}, {f"lance.compaction.{name}": text})


def test_options_override_an_unsupported_compaction_config() -> None:
    config = {"lance.compaction.defer_index_remap": "true"}
    with pytest.raises(NotSupportedError, match=r"lance\.compaction\.defer_index_remap"):
        CompactionSettings.of({}, config)
    assert CompactionSettings.of({"defer_index_remap": False}, config) == CompactionSettings()


def test_compaction_settings_round_trip_through_json() -> None:
    settings = CompactionSettings.of(
        {"excluded_fragment_ids": (3, 1), "compaction_mode": "Reencode", "target_bytes_per_fragment": 5}, {}
    )
    document = settings.to_document()
    assert (document["compaction_mode"], document["excluded_fragment_ids"]) == ("Reencode", [3, 1])
    assert CompactionSettings.from_document({**document, "of a newer release": 1}) == settings
    with pytest.raises(InvalidInputError):
        CompactionSettings.from_document({**document, "target_rows_per_fragment": 0})
