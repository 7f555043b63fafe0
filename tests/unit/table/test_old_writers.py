"""Defects of old releases in manifests that record which release wrote them."""

import pytest

from lance_core.proto import pb_table
from lance_core.schema.convert import fields_to_proto
from lance_core.schema.field import Field, Schema
from lance_core.table.index_metadata import read_fragment_bitmap
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_file import serialize_manifest_file
from lance_core.table.old_writers import AsWritten, Defect, OldDefect, corrected, defects_of
from lance_core.table.paths import ManifestName, ManifestNaming
from tests.support.manifests import deletion, index, part, section, with_files

SCHEMA = Schema(
    fields=(
        Field(id=0, name="a", logical_type="int64"),
        Field(
            id=1,
            name="s",
            logical_type="struct",
            children=(
                Field(id=2, name="x", logical_type="int64"),
                Field(id=3, name="y", logical_type="int64"),
            ),
        ),
    )
)


def old_file(path: str, *field_ids: int) -> pb_table.DataFile:
    """Return a file in format 0.1."""
    return pb_table.DataFile(path=path, fields=field_ids, file_major_version=0, file_minor_version=2)


def message(release: str | None, *fragments: object, library: str = "lance", file_version: str = "0.1") -> object:
    found = pb_table.Manifest(version=1, fields=fields_to_proto(SCHEMA))
    found.data_format.file_format, found.data_format.version = "lance", file_version
    found.fragments.extend(fragment.message for fragment in fragments)
    if release is not None:
        found.writer_version.library, found.writer_version.version = library, release
    return found


def right(release: str | None, *fragments: object, indices: bytes | None = None, **how: str) -> AsWritten:
    return corrected(AsWritten(message(release, *fragments, **how), indices))


def listed(found: AsWritten) -> list[list[int]]:
    [fragment] = found.message.fragments
    return [list(file.fields) for file in fragment.files]


@pytest.mark.parametrize(
    ("release", "library", "is_old"),
    [
        (None, "lance", True),
        ("0.8.1", "lance", False),
        ("0.8.0", "lance", False),
        ("14.0.2", "lance", False),
        ("0.1.0", "lance-pipelines", False),
        ("nightly", "lance", False),
    ],
)
def test_row_counts_of_early_releases_are_treated_as_unknown(release: str | None, library: str, is_old: bool) -> None:
    fragment = with_files(part(0, 90, deleted=10), old_file("f", 0, 1, 2, 3))
    written = AsWritten(message(release, fragment, library=library), None)
    found = corrected(written)
    assert [each.physical_rows for each in found.message.fragments] == [0 if is_old else 90]
    assert found.message.fragments[0].deletion_file == deletion(10)
    assert (found is written) is not is_old
    assert written.message.fragments[0].physical_rows == 90
    assert list(defects_of(written, {0: 90})) == []
    expected = [Defect(OldDefect.ROW_COUNTS, "fragment 0 records 90 rows but has 100")] if is_old else []
    assert list(defects_of(written, {0: 100})) == expected


@pytest.mark.parametrize(
    ("release", "is_old"),
    [("0.8.1", True), ("0.10.5", True), ("0.10.18", True), ("0.11.0", False), ("14.0.2", False)],
)
def test_last_data_file_that_lists_a_field_contains_it_in_early_releases(release: str, is_old: bool) -> None:
    fragment = with_files(part(), old_file("f", 0, 2), old_file("g", 2), old_file("h", 2, 3))
    expected = [[0, -2], [-2], [2, 3]] if is_old else [[0, 2], [2], [2, 3]]
    assert listed(right(release, fragment)) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        # A struct is in every file that contains one of its members.
        (((0, 1, 2), (1, 3)), ((0, 1, 2), (1, 3))),
        # Then its old members are in no file, and the struct is not either.
        (((0, 1, 2, 3), (1, 2, 3)), ((0, -2, -2, -2), (1, 2, 3))),
        (((0, 1, 2, 3), (1, 3)), ((0, 1, 2, -2), (1, 3))),
        # A numeric column whose id was reused for a struct.
        (((0, 1), (1, 2, 3)), ((0, -2), (1, 2, 3))),
        # Ids missing from the schema are ignored.
        (((0, 7), (1, 2, 7)), ((0, -2), (1, 2, 7))),
        # Unused and hidden columns belong to no field.
        (((0, -2, -3), (1, 2, -2, -3)), ((0, -2, -3), (1, 2, -2, -3))),
    ],
)
def test_files_of_early_releases_keep_the_struct_members_they_contain(
    files: list[list[int]], expected: list[list[int]]
) -> None:
    fragment = with_files(part(), *(old_file(str(number), *ids) for number, ids in enumerate(files)))
    assert listed(right("0.10.5", fragment)) == list(map(list, expected))


@pytest.mark.parametrize(
    ("recorded", "pairs", "expected"),
    [
        ("0.1", [(0, 3), (0, 3)], "2.0"),
        ("0.1", [(2, 0), (0, 3)], "2.0"),
        ("0.1", [(2, 1)], "2.1"),
        ("0.1", [(0, 2)], "0.1"),
        ("0.1", [(0, 2), (0, 3)], "0.1"),
        ("0.1", [(9, 9)], "0.1"),
        ("0.1", [], "0.1"),
        ("2.0", [(0, 2)], "2.0"),
    ],
)
def test_table_format_of_early_releases_is_taken_from_the_data_files(
    recorded: str, pairs: list[tuple[int, int]], expected: str
) -> None:
    fragments = [
        with_files(
            part(number), pb_table.DataFile(path=f"{number}", file_major_version=major, file_minor_version=minor)
        )
        for number, (major, minor) in enumerate(pairs)
    ]
    assert right("0.16.1", *fragments, file_version=recorded).message.data_format.version == expected


def segment(version: int, *fragment_ids: int, name: str = "i") -> pb_table.IndexMetadata:
    found = index(name, (0,), set(fragment_ids))
    found.dataset_version = version
    found.uuid.uuid = bytes([version]) * 16
    return found


def covered(found: AsWritten) -> list[set[int]]:
    return [set(read_fragment_bitmap(each)) for each in pb_table.IndexSection.FromString(found.index_section).indices]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("0.21.0", [{1, 2}, {0}, {0, 1}, set()]),
        ("0.8.15", [{1, 2}, {0}, {0, 1}, set()]),
        ("0.8.14", [set(), set(), set(), set()]),
        (None, [set(), set(), set(), set()]),
        ("0.22.0", [{0, 1, 2}, {0}, {0, 1}, {0, 2}]),
    ],
)
def test_fragment_in_several_index_segments_is_kept_only_in_the_oldest(release: str, expected: list[set[int]]) -> None:
    """The oldest segment is that of the earliest version, regardless of its position."""
    indices = section(segment(5, 0, 1, 2), segment(3, 0), segment(4, 0, 1, name="other"), segment(6, 0, 2))
    assert covered(right(release, part(), indices=indices, file_version="2.0")) == expected


def test_system_index_entries_keep_their_fragments() -> None:
    indices = section(index("__lance_frag_reuse", (), {5}, "FragmentReuse"), segment(1, 5))
    assert covered(right("0.8.14", part(), indices=indices, file_version="2.0")) == [{5}, set()]


def test_correct_index_section_remains_unchanged() -> None:
    indices = section(segment(3, 0), segment(4, 1), segment(4, 0, name="other"))
    written = AsWritten(message("0.21.0", part(), file_version="2.0"), indices)
    assert corrected(written) is written
    assert list(defects_of(written, {})) == []


def test_parsed_manifest_of_an_early_release_contains_both_the_corrected_and_the_written_content() -> None:
    fragment = with_files(part(), old_file("f", 0, 2), old_file("g", 2))
    data = serialize_manifest_file(message("0.10.5", fragment), index_section=None, transaction=None, dictionaries={})
    name = ManifestName(1, ManifestNaming.V1)
    manifest = Manifest.parse(data, path="1.manifest", name=name)
    assert [file.field_ids for file in manifest.fragments[0].files] == [(0, -2), (2,)]
    assert [list(file.fields) for file in manifest.as_written.message.fragments[0].files] == [[0, 2], [2]]
    data = serialize_manifest_file(message("0.11.0", fragment), index_section=None, transaction=None, dictionaries={})
    assert Manifest.parse(data, path="1.manifest", name=name).as_written is None
