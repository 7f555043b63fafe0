"""Fragments, data files, base paths and index summaries."""

import pytest

from lance_core.errors import CorruptDataError, NotSupportedError, UnsupportedVersionError
from lance_core.io.memory_store import MemoryStore
from lance_core.proto import pb_table
from lance_core.schema.field import Field
from lance_core.table.base_paths import BasePath, FileLocator
from lance_core.table.data_file import DataFile, stored_fields
from lance_core.table.deletion_file import DeletionFile, DeletionFileType
from lance_core.table.fragment import Fragment, Fragments
from lance_core.table.index_metadata import parse_index_section
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_file import serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming
from lance_core.versions import LanceFileVersion
from tests.support.records import data_file


def test_data_files_round_trip_and_keep_base_zero() -> None:
    for base_id in (None, 0, 3):
        record = data_file("x.lance", base_id=base_id)
        assert DataFile.from_proto(record.to_proto()) == record
        assert record.to_proto().HasField("base_id") is (base_id is not None)


def test_data_file_columns_omit_unused_and_hidden_fields() -> None:
    record = data_file(field_ids=(4, -2, 7, -3, 9), column_indices=(0, 1, 2, 3, -1))
    assert record.columns() == {4: 0, 7: 2}
    assert record.live_field_ids == (4, 7, 9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"field_ids": (1, 2), "column_indices": (0,)}, r"number of field ids \(2\) differs"),
        ({"field_ids": (1, 1), "column_indices": (0, 1)}, "occurs twice"),
    ],
)
def test_contradictory_column_indices_raise_corrupt_data(changes: dict[str, object], words: str) -> None:
    with pytest.raises(CorruptDataError, match=words):
        data_file(**changes).columns()


def test_data_files_in_format_0_1_list_fields_without_column_indices() -> None:
    legacy = LanceFileVersion.V0_1
    assert data_file(field_ids=(3, 5, 4), column_indices=(), file_version=legacy).columns() == {3: 0, 5: 2, 4: 1}
    # The first field has a new id now.
    assert data_file(field_ids=(7, 4), column_indices=(), file_version=legacy).columns().keys() == {4, 7}
    with pytest.raises(CorruptDataError, match="occurs twice"):
        data_file(field_ids=(3, 3), column_indices=(), file_version=legacy).columns()


@pytest.mark.parametrize(
    ("version", "listed"),
    [("0.1", [0, 1, 2, 3, 4, 5, 6, 9]), ("2.0", [9, 0, 1, 2, 3, 4]), ("2.1", [9, 1, 3, 4]), ("2.2", [9, 1, 3, 4])],
)
def test_data_file_lists_its_fields_by_format_version(version: str, listed: list[int]) -> None:
    members = (Field(id=5, name="x", logical_type="int32"), Field(id=6, name="y", logical_type="int32"))
    item = Field(id=3, name="item", logical_type="int32")
    fields = (
        # A column that was cast has a new id at its old position.
        Field(id=9, name="cast", logical_type="int64"),
        Field(
            id=0,
            name="s",
            logical_type="struct",
            children=(
                Field(id=1, name="a", logical_type="string"),
                Field(id=2, name="l", logical_type="list", children=(item,)),
            ),
        ),
        Field(id=4, name="p", logical_type="struct", metadata={"packed": b"true"}, children=members),
    )
    assert [field.id for field in stored_fields(fields, LanceFileVersion(version))] == listed


def test_file_versions_are_resolved_from_their_number_pairs() -> None:
    for pair, version in (((2, 2), "2.2"), ((2, 0), "2.0"), ((0, 3), "2.0"), ((0, 2), "0.1")):
        message = pb_table.DataFile(path="x", file_major_version=pair[0], file_minor_version=pair[1])
        assert DataFile.from_proto(message).file_version is LanceFileVersion(version)
    with pytest.raises(UnsupportedVersionError, match=r"data file x: data file version 9\.0 is newer"):
        DataFile.from_proto(pb_table.DataFile(path="x", file_major_version=9))
    with pytest.raises(CorruptDataError, match=r"data file x: .*\(1, 0\): no release"):
        DataFile.from_proto(pb_table.DataFile(path="x", file_major_version=1))
    with pytest.raises(CorruptDataError, match="empty path"):
        DataFile.from_proto(pb_table.DataFile())


def test_recorded_path_with_a_nul_character_raises_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="contains a NUL"):
        DataFile.from_proto(pb_table.DataFile(path="a\0b.lance", file_major_version=2, file_minor_version=2))
    with pytest.raises(CorruptDataError, match="base path 3 contains a NUL"):
        BasePath.from_proto(pb_table.BasePath(id=3, path="/a\0b"))


def test_fragment_records_keep_uninterpreted_fields() -> None:
    message = pb_table.DataFragment(id=1, physical_rows=5, inline_row_ids=b"ids", metadata={"k": "v"})
    fragment = Fragment(message)
    assert fragment.has_row_ids
    assert fragment.message == message
    assert Fragment(pb_table.DataFragment(column_row_ids={})).has_row_ids
    assert not Fragment(pb_table.DataFragment()).has_row_ids


def test_content_key_of_a_fragment_does_not_change_with_new_files_or_deletions() -> None:
    message = pb_table.DataFragment(physical_rows=9, files=[pb_table.DataFile(path="a.lance", file_size_bytes=7)])
    assert Fragment(message).content_key == "('a.lance',) (0, 0)"
    message.files.add().path = "b.lance"
    message.deletion_file.CopyFrom(pb_table.DeletionFile(read_version=4, id=11, num_deleted_rows=2))
    for path in ("x", "y"):
        message.overlays.add().data_file.path = path
    fragment = Fragment(message)
    assert fragment.content_key == "('a.lance', 'b.lance') (4, 11) 0a030a0178 0a030a0179"
    assert fragment.data_file_paths == ("a.lance", "b.lance")
    assert fragment.data_file_bytes == (7, 0)
    assert (fragment.has_deletion_file, fragment.num_deleted_rows, fragment.num_live_rows) == (True, 2, 7)


def test_fragments_of_a_version_behave_like_a_sequence() -> None:
    message = pb_table.Manifest(fragments=[{"id": number} for number in range(5)])
    fragments = Fragments(message.fragments)
    assert len(fragments) == 5
    assert (fragments[0].id, fragments[-1].id) == (0, 4)
    assert [fragment.id for fragment in fragments] == [0, 1, 2, 3, 4]
    assert [fragment.id for fragment in fragments[1:4:2]] == [1, 3]
    assert [fragment.id for fragment in reversed(fragments)] == [4, 3, 2, 1, 0]
    with pytest.raises(IndexError):
        fragments[5]


def test_data_files_are_located_in_their_base_path() -> None:
    bases = [
        BasePath(id=0, path="memory://other/root", is_table_root=True),
        BasePath(id=1, path="memory://other/plain", is_table_root=False, name="fast"),
    ]
    locator = FileLocator(MemoryStore(), "mine", bases)
    assert locator.data_file(data_file("x.lance")).path == "mine/data/x.lance"
    assert locator.data_file(data_file("x.lance", base_id=0)).path == "root/data/x.lance"
    assert locator.data_file(data_file("x.lance", base_id=1)).path == "plain/x.lance"
    deletion = DeletionFile(file_type=DeletionFileType.ARROW, read_version=1, id=2, base_id=0)
    assert locator.deletion_file(9, deletion).path == "root/_deletions/9-1-2.arrow"
    with pytest.raises(CorruptDataError, match="base path 5"):
        locator.data_file(data_file(base_id=5))


def test_index_section_is_parsed_into_names_and_fields() -> None:
    section = pb_table.IndexSection(indices=[{"name": "i", "fields": [1, 2], "covering_fields": [2]}])
    [index] = parse_index_section(section.SerializeToString())
    assert (index.name, index.field_ids, index.covering_field_ids) == ("i", (1, 2), (2,))
    assert parse_index_section(None) == ()
    with pytest.raises(CorruptDataError):
        parse_index_section(b"\xff")


def _manifest(**values: object) -> Manifest:
    values = {"version": 1, "data_format": {"file_format": "lance", "version": "2.2"}, **values}
    return Manifest(message=pb_table.Manifest(**values), naming=ManifestNaming.V2)


def test_data_file_of_a_different_version_without_the_mixed_versions_flag_raises_corrupt_data() -> None:
    old = pb_table.DataFile(path="x", file_major_version=2, file_minor_version=1)
    with pytest.raises(CorruptDataError, match=r"has format 2\.1, but the table has format 2\.2"):
        _manifest(fragments=[{"files": [old]}]).check_readable()
    _manifest(fragments=[{"files": [old]}], reader_feature_flags=256, writer_feature_flags=256).check_readable()


def test_manifest_whose_version_differs_from_its_name_raises_corrupt_data() -> None:
    draft = Manifest.empty().message
    draft.version = 3
    data = serialize_manifest_file(draft, index_section=None, transaction=None)
    with pytest.raises(CorruptDataError, match="the file name has version 4, but the content has version 3"):
        Manifest.parse(data, path="m", name=ManifestName(4, ManifestNaming.V2))


def test_manifest_with_a_fragment_tree_raises_not_supported() -> None:
    message = pb_table.Manifest(version=1, fragment_tree={})
    data = serialize_manifest_file(message, index_section=None, transaction=None)
    with pytest.raises(NotSupportedError, match="outside the manifest"):
        Manifest.parse(data, path="m", name=ManifestName(1, ManifestNaming.V2))


def test_format_of_a_table_without_a_data_format_is_derived_from_its_flags() -> None:
    for flags, version in ((0, LanceFileVersion.V0_1), (4, LanceFileVersion.V2_0)):
        manifest = Manifest(message=pb_table.Manifest(version=1, writer_feature_flags=flags), naming=ManifestNaming.V1)
        assert manifest.file_version is version
