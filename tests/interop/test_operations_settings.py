"""Calls that change config or metadata, or restore versions, have the same results as in pylance."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    IncompatibleTransactionError,
    InvalidSchemaError,
    InvalidTypeError,
    SchemaMismatchError,
    VersionNotFoundError,
)

Call = Callable[[Any], object]
ROWS = pa.table(
    {"a": pa.array([1, 2], pa.int64()), "s": [{"x": 1}, {"x": 2}], "l": [[1], [2, 3]]},
    schema=pa.schema(
        [
            pa.field("a", pa.int64(), metadata={"unit": "m"}),
            pa.field("s", pa.struct([pa.field("x", pa.int64())])),
            pa.field("l", pa.list_(pa.int64())),
        ],
        metadata={"from": "test"},
    ),
)
CALLS: dict[str, Call] = {
    "set": lambda dataset: dataset.update_config({"k": "1", "j": "2"}),
    "remove": lambda dataset: dataset.update_config({"k": None, "nope": None}),
    "replace": lambda dataset: dataset.update_config({"z": "1", "n": None}, replace=True),
    "nothing": lambda dataset: dataset.update_config({}),
    "empty": lambda dataset: dataset.update_config({}, replace=True),
    "delete keys": lambda dataset: dataset.delete_config_keys(["k", "nope"]),
    "table": lambda dataset: dataset.update_metadata({"owner": "me", "ü": "ß"}),
    "table, replace": lambda dataset: dataset.update_metadata({"owner": "you"}, replace=True),
    "schema": lambda dataset: dataset.update_schema_metadata({"more": "1"}),
    "schema, remove": lambda dataset: dataset.update_schema_metadata({"from": None}),
    "schema, replace": lambda dataset: dataset.update_schema_metadata({"only": "1"}, replace=True),
    "schema, deprecated": lambda dataset: dataset.replace_schema_metadata({"only": "2"}),
    "fields": lambda dataset: dataset.update_field_metadata({"a": {"q": "1"}, "s.x": {"r": "2"}, "l.item": {"t": ""}}),
    "field, remove": lambda dataset: dataset.update_field_metadata({"a": {"unit": None}}),
    "field, replace": lambda dataset: dataset.update_field_metadata({"a": {"q": "1"}}, replace=True),
    "field, deprecated": lambda dataset: dataset.replace_field_metadata("a", {"q": "2"}),
    "no field": lambda dataset: dataset.update_field_metadata({}),
}


@pytest.fixture
def uris(tmp_path: Path) -> tuple[str, str]:
    pair = str(tmp_path / "theirs"), str(tmp_path / "ours")
    for uri in pair:
        lance.write_dataset(ROWS, uri)
        lance.dataset(uri).update_config({"k": "0", "kept": "yes"})
    return pair


def _state(uri: str) -> tuple[object, ...]:
    """Return the state of a table, which must be equal in both libraries."""
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    theirs.validate()
    ours.validate()
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert (ours.config(), ours.metadata, ours.version) == (theirs.config(), theirs.metadata, theirs.version)
    assert ours.to_table().equals(theirs.to_table())
    message = ours.manifest.message
    fields = [(field.id, field.name, dict(field.metadata)) for field in message.fields]
    return (
        ours.version,
        # Without metadata, whose order in the reference is that of a hash table; the metadata is compared below.
        ours.schema.to_string(show_field_metadata=False, show_schema_metadata=False),
        ours.config(),
        ours.metadata,
        ours.schema_metadata,
        fields,
        message.reader_feature_flags,
        message.writer_feature_flags,
    )


@pytest.mark.parametrize("name", CALLS)
def test_a_settings_call_has_the_same_result_as_in_pylance(name: str, uris: tuple[str, str]) -> None:
    theirs, ours = lance.dataset(uris[0]), lance_core.dataset(uris[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, found = CALLS[name](theirs), CALLS[name](ours)
    assert found == expected
    assert ours.version == theirs.version == 3
    assert _state(uris[1]) == _state(uris[0])
    # The order of the entries in the reference is that of a hash table.
    operations = [lance_core.dataset(uri).read_transaction(3).operation for uri in uris]
    assert operations[0] == operations[1]


def test_a_sequence_of_settings_calls_has_the_same_results_as_in_pylance(uris: tuple[str, str]) -> None:
    theirs, ours = lance.dataset(uris[0]), lance_core.dataset(uris[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in CALLS.values():
            assert call(ours) == call(theirs)
            assert ours.version == theirs.version
    assert _state(uris[1]) == _state(uris[0])


def test_deprecated_methods_issue_a_deprecation_warning(uris: tuple[str, str]) -> None:
    dataset = lance_core.dataset(uris[1])
    with pytest.warns(DeprecationWarning, match="use update_schema_metadata"):
        dataset.replace_schema_metadata({})
    with pytest.warns(DeprecationWarning, match="use update_field_metadata"):
        dataset.replace_field_metadata("a", {})


def test_invalid_settings_are_refused_and_named_in_the_error(uris: tuple[str, str]) -> None:
    uri = uris[1]
    dataset = lance_core.dataset(uri)
    mistakes: list[tuple[type[Exception], str, Call]] = [
        (SchemaMismatchError, "'nope'", lambda each: each.update_field_metadata({"nope": {"a": "b"}})),
        (SchemaMismatchError, "'A'", lambda each: each.update_field_metadata({"A": {"a": "b"}})),
        (InvalidTypeError, "must be a string, found 1", lambda each: each.update_config({1: "x"})),
        (InvalidTypeError, "must be a string, found 1", lambda each: each.update_metadata({"x": 1})),
        (InvalidTypeError, "values", lambda each: each.update_schema_metadata(3)),
        (InvalidTypeError, "field_updates", lambda each: each.update_field_metadata([])),
        (
            InvalidSchemaError,
            "must not be nullable",
            lambda each: each.update_field_metadata({"a": {"lance-schema:unenforced-primary-key": "true"}}),
        ),
    ]
    for kind, match, call in mistakes:
        with pytest.raises(kind, match=match):
            call(dataset)
        with pytest.raises((OSError, TypeError)):
            call(lance.dataset(uri))
    assert dataset.version == lance.dataset(uri).version == 2


def test_settings_of_a_stale_handle_are_committed_unless_they_conflict(uris: tuple[str, str]) -> None:
    stale = [lance_core.dataset(uris[1]) for _ in range(3)]
    lance.dataset(uris[1]).update_config({"theirs": "1", "k": "9"})
    assert stale[0].update_config({"ours": "1"}) == {"k": "9", "kept": "yes", "theirs": "1", "ours": "1"}
    with pytest.raises(IncompatibleTransactionError, match="'update_config'"):
        stale[1].update_config({"k": "7"})
    assert stale[2].update_schema_metadata({"more": "1"}) == {"from": "test", "more": "1"}
    _state(uris[1])


def _grow(uri: str) -> None:
    """Create versions 3 to 6 after the two of the fixture: append, delete, overwrite, and change the config."""
    lance.write_dataset(ROWS, uri, mode="append")
    lance.dataset(uri).delete("a = 1")
    lance.write_dataset(ROWS.select(["a"]), uri, mode="overwrite")
    lance.dataset(uri).update_config({"late": "1"})


@pytest.mark.parametrize("version", range(1, 7))
def test_restoring_any_version_creates_the_same_table_as_in_pylance(version: int, uris: tuple[str, str]) -> None:
    for uri in uris:
        _grow(uri)
    theirs, ours = lance.dataset(uris[0], version=version), lance_core.dataset(uris[1], version=version)
    assert theirs.restore() == ours.restore() is None
    assert ours.version == theirs.version == 7
    assert _state(uris[1]) == _state(uris[0])
    messages = [lance_core.dataset(uri).manifest.message for uri in uris]
    assert messages[0].max_fragment_id == messages[1].max_fragment_id == 2
    # Ids continue to increase, and the versions in between are kept.
    lance.write_dataset(lance.dataset(uris[1]).to_table(), uris[1], mode="append")
    assert lance.dataset(uris[1]).get_fragments()[-1].fragment_id == 3
    assert [each["version"] for each in lance.dataset(uris[1]).versions()] == list(range(1, 9))


def test_the_next_stable_row_id_never_decreases(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(ROWS, uri, enable_stable_row_ids=True)
    lance.write_dataset(ROWS, uri, mode="append")
    dataset = lance_core.dataset(uri, version=1)
    dataset.restore()
    assert (dataset.manifest.message.next_row_id, dataset.manifest.message.reader_feature_flags) == (4, 2)
    lance.write_dataset(ROWS, uri, mode="append")
    assert lance.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == [0, 1, 4, 5]
    lance.dataset(uri).validate()


def test_restoring_a_version_restores_its_index(uris: tuple[str, str]) -> None:
    uri = uris[1]
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance.write_dataset(ROWS, uri, mode="overwrite")
    assert not lance.dataset(uri).has_index
    lance_core.dataset(uri, version=3).restore()
    restored = lance.dataset(uri)
    assert restored.has_index
    assert restored.to_table(filter="a = 2")["a"].to_pylist() == [2]
    restored.validate()


def test_a_missing_version_cannot_be_restored(uris: tuple[str, str]) -> None:
    with pytest.raises(VersionNotFoundError):
        lance_core.LanceDataset.commit(uris[1], lance_core.LanceOperation.Restore(99))
    assert lance_core.dataset(uris[1]).version == 2


def test_a_restore_keeps_concurrently_changed_metadata(uris: tuple[str, str]) -> None:
    lance.dataset(uris[1]).update_schema_metadata({"new": "1"})
    for module, words in ((lance, "is incompatible with"), (lance_core, "cannot be applied to that version")):
        with pytest.raises(OSError, match=words):
            module.LanceDataset.commit(uris[1], module.LanceOperation.Restore(1), read_version=2)
    assert lance_core.LanceDataset.commit(uris[1], lance_core.LanceOperation.Restore(1)).version == 4
