"""FragmentMetadata: its JSON form, and its conversion to records."""

import json

import lance.fragment
import pytest

from lance_core.errors import InvalidInputError, NotSupportedError, UnsupportedVersionError
from lance_core.public.data_file_metadata import DataFile
from lance_core.public.fragment_conversion import fragment_from_record, fragment_to_record
from lance_core.public.fragment_metadata import DeletionFile, FragmentMetadata

# Written by pylance 14.0.2 for a fragment with a deleted row and stable row ids.
DOCUMENT = {
    "id": 1,
    "files": [
        {
            "fields": [0],
            "column_indices": [0],
            "file_major_version": 2,
            "file_minor_version": 2,
            "file_size_bytes": 406,
            "base_id": None,
            "path": "01101010001010010100010060d53b44b18af969a281a8b4cf.lance",
        }
    ],
    "overlays": [],
    "physical_rows": 10,
    "deletion_file": {
        "read_version": 2,
        "id": 18255615447496438931,
        "file_type": "array",
        "num_deleted_rows": 1,
        "base_id": None,
    },
    "row_id_meta": {"Inline": [10, 6, 10, 4, 8, 10, 16, 20]},
    "created_at_version_meta": {"inline": [10, 8, 10, 4, 10, 2, 16, 10, 16, 2]},
    "last_updated_at_version_meta": {"inline": [10, 8, 10, 4, 10, 2, 16, 10, 16, 2]},
}


@pytest.mark.parametrize("form", [DOCUMENT, json.dumps(DOCUMENT)], ids=["dictionary", "text"])
def test_fragment_metadata_json_of_pylance_survives_a_round_trip(form: object) -> None:
    metadata = FragmentMetadata.from_json(form)
    assert metadata.to_json() == DOCUMENT
    assert (metadata.num_rows, metadata.num_deletions) == (9, 1)
    assert metadata.deletion_file.path(1) == "_deletions/1-2-18255615447496438931.arrow"


def test_fragment_metadata_round_trips_through_records() -> None:
    metadata = FragmentMetadata.from_json(DOCUMENT)
    record = fragment_to_record(metadata)
    assert record.message.inline_row_ids == bytes([10, 6, 10, 4, 8, 10, 16, 20])
    assert record.message.files[0].file_size_bytes == 406
    assert fragment_from_record(record) == metadata


def test_fragment_with_unknown_file_size_and_base_zero_survives_a_round_trip() -> None:
    file = DataFile("x.lance", [0], [0], 2, 2, None, 0)
    record = fragment_to_record(FragmentMetadata(0, [file], 1))
    assert record.files[0].num_bytes == 0
    assert record.files[0].base_id == 0
    assert fragment_from_record(record).files == [file]


@pytest.mark.parametrize(
    "document",
    ["", "{", "[]", "1", "{}", {}, {"id": 0, "files": [{"nope": 1}], "physical_rows": 1}, {"id": 0, "files": 3}],
)
def test_malformed_fragment_metadata_json_is_refused(document: object) -> None:
    with pytest.raises(InvalidInputError):
        FragmentMetadata.from_json(document)


def _metadata(**changes: object) -> FragmentMetadata:
    file = {"path": "x", "fields": [0], "column_indices": [0], "file_major_version": 2, "file_minor_version": 2}
    file |= {key: value for key, value in changes.items() if key in file or key == "file_size_bytes"}
    rest = {key: value for key, value in changes.items() if key not in file}
    return FragmentMetadata(**{"id": 0, "files": [DataFile(**file)], "physical_rows": 1, **rest})


@pytest.mark.parametrize(
    "changes",
    [
        {"physical_rows": -1},
        {"physical_rows": "many"},
        {"id": 2**64},
        {"fields": ["a"]},
        {"fields": [2**31]},
        {"file_size_bytes": -1},
        {"file_major_version": 1},
        {"row_id_meta": {"Inline": [256]}},
    ],
)
def test_fragment_metadata_with_values_out_of_range_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        fragment_to_record(_metadata(**changes))


def test_fragment_metadata_with_unsupported_parts_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="overlays"):
        FragmentMetadata.from_json({**_metadata().to_json(), "overlays": [{"offsets": ["x"]}]})
    with pytest.raises(NotSupportedError, match="inline or in a column"):
        fragment_to_record(_metadata(row_id_meta="Elsewhere"))
    with pytest.raises(UnsupportedVersionError):
        fragment_to_record(_metadata(file_major_version=3))


def test_fragment_metadata_keeps_sequences_in_hidden_columns() -> None:
    """The sequences have the form that the reference uses."""
    versions = {"column": {}}
    spilled = _metadata(row_id_meta="Column", created_at_version_meta=versions, last_updated_at_version_meta=versions)
    record = fragment_to_record(FragmentMetadata.from_json(json.dumps(spilled.to_json())))
    assert record.message.HasField("column_row_ids")
    assert record.message.HasField("column_created_at_versions")
    assert record.message.HasField("column_last_updated_at_versions")
    assert fragment_from_record(record) == spilled


def test_inline_row_ids_given_as_a_number_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="Inline: expected a list of bytes"):
        fragment_to_record(_metadata(row_id_meta={"Inline": 3_000_000_000}))


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"read_version": 1, "id": 2, "file_type": [], "num": 1}'])
def test_malformed_deletion_file_json_is_refused(document: str) -> None:
    with pytest.raises(InvalidInputError, match="deletion file"):
        DeletionFile.from_json(document)


def test_deletion_file_round_trips_through_json() -> None:
    deletion = DeletionFile(read_version=1, id=2, file_type="bitmap", num_deleted_rows=3)
    assert DeletionFile.from_json(json=deletion.json()) == deletion
    assert deletion.path(9) == "_deletions/9-1-2.bin"
    with pytest.raises(InvalidInputError, match="'array', 'bitmap'"):
        DeletionFile(read_version=1, id=2, file_type="other", num_deleted_rows=3)


@pytest.mark.parametrize("base", [None, "", "a", "a/b", "/a/"])
def test_path_of_a_deletion_file_in_a_base_path_equals_that_of_pylance(base: str | None) -> None:
    ours, theirs = (kind(3, 7, "array", 2, None) for kind in (DeletionFile, lance.fragment.DeletionFile))
    assert ours.path(5, base) == theirs.path(5, base)


def test_deprecated_methods_of_fragment_metadata_return_the_fields_and_warn() -> None:
    metadata = FragmentMetadata(0, [DataFile("a.lance", [1, 2])], 3)
    with pytest.warns(DeprecationWarning, match="use files instead"):
        assert metadata.data_files() == metadata.files
    with pytest.warns(DeprecationWarning, match="use fields instead"):
        assert metadata.files[0].field_ids() == [1, 2]
