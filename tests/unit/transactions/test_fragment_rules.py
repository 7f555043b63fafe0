"""The requirements for a new fragment."""

import pytest

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.proto import pb_table
from lance_core.table.deletion_file import DeletionFile, DeletionFileType
from lance_core.table.fragment import Fragment
from lance_core.transactions.operations.fragment_rules import check_new_fragments
from lance_core.versions import LanceFileVersion
from tests.support.records import data_file, fragment

DELETION = DeletionFile(file_type=DeletionFileType.ARROW, read_version=1, id=2)


def _check_fragments(*fragments: Fragment, file_version: LanceFileVersion | None = LanceFileVersion.V2_2) -> None:
    check_new_fragments(fragments, field_ids={0, 1, 5}, base_ids={0}, file_version=file_version)


def test_valid_fragments_are_accepted() -> None:
    _check_fragments(
        fragment(), Fragment.of([data_file(), data_file(field_ids=(5,), column_indices=(0,))], physical_rows=1)
    )
    _check_fragments(fragment(field_ids=(1, 9, -2), column_indices=(0, 1, 2)))
    _check_fragments(fragment(base_id=0))


def _with(**values: object) -> Fragment:
    message = pb_table.DataFragment()
    message.CopyFrom(fragment().message)
    message.MergeFrom(pb_table.DataFragment(**values))
    return Fragment(message)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Fragment.of([], physical_rows=1), "no data files"),
        (fragment(0), "0 rows"),
        (Fragment.of([data_file()], physical_rows=1, deletion=DELETION), "deletion file"),
        (_with(inline_row_ids=b"x"), "row ids"),
        (_with(overlays=[{}]), "overlays"),
        (fragment(field_ids=(0, 0)), "lists a field twice"),
        (fragment(column_indices=(0,)), "2 fields and 1 column index; expected 2 column indices"),
        (fragment(column_indices=()), "2 fields and 0 column indices"),
        (Fragment.of([data_file(), data_file()], physical_rows=1), "field 0 is stored in two data files"),
        (
            fragment(file_version=LanceFileVersion.V0_1, column_indices=()),
            r"format 0\.1, but the table has format 2\.2",
        ),
        (fragment(file_version=LanceFileVersion.V0_1), "2 fields and 2 column indices"),
        (fragment(base_id=3), r"unknown base path 3; the table has: \[0\]"),
    ],
)
def test_invalid_fragments_are_refused(bad: Fragment, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        _check_fragments(fragment(), bad)


@pytest.mark.parametrize("field_ids", [(), (9, 8), (-2, -2)])
def test_files_without_a_field_of_the_table_are_refused(field_ids: tuple[int, ...]) -> None:
    with pytest.raises(SchemaMismatchError, match="contains no field of the table"):
        _check_fragments(fragment(field_ids=field_ids, column_indices=tuple(range(len(field_ids)))))


@pytest.mark.parametrize("own", [LanceFileVersion.V2_0, LanceFileVersion.V2_1, LanceFileVersion.V2_2])
@pytest.mark.parametrize("added", [LanceFileVersion.V2_0, LanceFileVersion.V2_1, LanceFileVersion.V2_2])
def test_data_files_of_all_format_versions_except_0_1_can_be_mixed(
    own: LanceFileVersion, added: LanceFileVersion
) -> None:
    _check_fragments(fragment(file_version=added), file_version=own)


def test_new_files_in_format_0_1_list_the_lowest_field_first() -> None:
    legacy = LanceFileVersion.V0_1
    with pytest.raises(InvalidInputError, match=r"must list its lowest field id first, found \[1, 0\]"):
        _check_fragments(fragment(field_ids=(1, 0), file_version=legacy, column_indices=()), file_version=legacy)


def test_data_files_in_format_0_1_without_column_indices_are_accepted() -> None:
    _check_fragments(
        fragment(file_version=LanceFileVersion.V0_1, column_indices=()), file_version=LanceFileVersion.V0_1
    )
