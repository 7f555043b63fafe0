"""Feature flags: which flags permit reading and writing, and how the flags of a manifest are computed."""

import pytest

from lance_core.errors import CorruptDataError, UnsupportedFeatureFlagError
from lance_core.proto import pb_table
from lance_core.table.feature_flags import derive_flags, require_readable, require_writable
from lance_core.table.fragment_totals import FragmentTotals

READ_AND_WRITE = [1, 2, 4, 8, 16, 32, 128, 256, 2048]
READ_ONLY = [1024, 16384]
REFUSED = [64, 512, 4096, 8192, 65536, 1 << 40, 1 << 63]


def _manifest(reader: int, writer: int, **values: object) -> pb_table.Manifest:
    return pb_table.Manifest(version=5, reader_feature_flags=reader, writer_feature_flags=writer, **values)


@pytest.mark.parametrize("flag", READ_AND_WRITE)
def test_known_feature_flags_are_accepted(flag: int) -> None:
    require_readable(_manifest(flag, flag))
    require_writable(_manifest(flag, flag))


@pytest.mark.parametrize("flag", READ_ONLY)
def test_read_only_feature_flags_refuse_writing(flag: int) -> None:
    require_readable(_manifest(flag, flag))
    with pytest.raises(UnsupportedFeatureFlagError, match=f"cannot write the table: .*: {flag} "):
        require_writable(_manifest(flag, flag))


@pytest.mark.parametrize("flag", REFUSED)
def test_unknown_feature_flags_are_refused_and_named_in_the_error(flag: int) -> None:
    with pytest.raises(UnsupportedFeatureFlagError, match=f"version 5: cannot .*: unsupported feature flags: {flag} "):
        require_readable(_manifest(flag, flag))


@pytest.mark.parametrize("flag", [64, 512, 4096, 8192, 1 << 17])
def test_writer_feature_flag_alone_does_not_prevent_reading(flag: int) -> None:
    require_readable(_manifest(0, flag))
    with pytest.raises(UnsupportedFeatureFlagError, match="cannot write"):
        require_writable(_manifest(0, flag))


@pytest.mark.parametrize("flag", [256, 1024, 16384, 65536])
@pytest.mark.parametrize("words", [(1, 0), (0, 1)])
def test_paired_feature_flag_set_in_only_one_word_raises_corrupt_data(flag: int, words: tuple[int, int]) -> None:
    with pytest.raises(CorruptDataError, match="set for only one"):
        require_readable(_manifest(flag * words[0], flag * words[1]))


def test_unique_field_ids_flag_without_a_high_water_mark_raises_corrupt_data() -> None:
    require_writable(_manifest(0, 32768, max_allocated_field_id=9))
    for broken in (
        _manifest(0, 32768),
        _manifest(0, 0, max_allocated_field_id=9),
        _manifest(32768, 32768, max_allocated_field_id=9),
    ):
        with pytest.raises(CorruptDataError, match="32768"):
            require_readable(broken)


def _derive(message: pb_table.Manifest, previous: pb_table.Manifest, **changes: object) -> tuple[int, int]:
    given = {"index_section": None, "stable_row_ids": False, **changes}
    return derive_flags(message, FragmentTotals.of(message), previous=previous, **given)


NOTHING = pb_table.Manifest()


@pytest.mark.parametrize(
    ("message", "changes", "expected"),
    [
        (pb_table.Manifest(), {}, (0, 0)),
        (pb_table.Manifest(fragments=[{"deletion_file": {"id": 1}}]), {}, (1, 1)),
        (pb_table.Manifest(), {"stable_row_ids": True}, (2, 2)),
        (pb_table.Manifest(config={"a": "b"}), {}, (0, 8)),
        (pb_table.Manifest(table_metadata={"a": "b"}), {}, (0, 0)),
        (pb_table.Manifest(base_paths=[{"id": 0, "path": "/x"}]), {}, (16, 16)),
        (pb_table.Manifest(max_allocated_field_id=0), {}, (0, 32768)),
        (
            pb_table.Manifest(),
            {"index_section": pb_table.IndexSection(indices=[{"covering_fields": [3]}]).SerializeToString()},
            (128, 128),
        ),
    ],
)
def test_feature_flags_are_derived_from_the_manifest_content(
    message: pb_table.Manifest, changes: dict[str, object], expected: tuple[int, int]
) -> None:
    assert _derive(message, NOTHING, **changes) == expected


def test_only_sticky_feature_flags_are_kept() -> None:
    previous = _manifest(0xFFFF, 0xFFFF)
    assert _derive(pb_table.Manifest(), previous) == (256 | 1024 | 16384,) * 2


def test_feature_flags_mark_row_lineage_in_hidden_columns() -> None:
    previous = _manifest(2048, 2048)
    spilled = pb_table.Manifest(fragments=[pb_table.DataFragment(column_row_ids={})])
    for before in (previous, NOTHING):
        assert _derive(spilled, before, stable_row_ids=True) == (2050, 2050)
    assert _derive(pb_table.Manifest(fragments=[{}]), previous, stable_row_ids=True) == (2, 2)


@pytest.mark.parametrize(
    ("own", "pairs", "marked"),
    [
        ("2.2", [(2, 2)], False),
        ("2.2", [(2, 2), (2, 1)], True),
        ("2.1", [(2, 2)], True),
        ("2.0", [(2, 0), (0, 3)], False),
        ("0.1", [(0, 0), (0, 2)], False),
        ("2.2", [], False),
    ],
)
def test_feature_flags_mark_files_whose_version_differs_from_that_of_the_table(
    own: str, pairs: list[tuple[int, int]], marked: bool
) -> None:
    message = _manifest(0, 0)
    message.data_format.version = own
    for major, minor in pairs:
        message.fragments.add().files.add(path="x", file_major_version=major, file_minor_version=minor)
    expected = (256, 256) if marked else (0, 0)
    assert _derive(message, _manifest(0, 0)) == expected
    # Once set, the flag is kept.
    assert _derive(message, _manifest(256, 256)) == (256, 256)
