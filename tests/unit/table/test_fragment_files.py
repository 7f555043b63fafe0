"""The data file of a fragment that contains a field."""

import pytest

from lance_core.table.field_ids import next_field_id
from lance_core.table.fragment_files import drop_dead_files, field_files, new_files, rewritten_fields, with_dead_fields
from tests.support.manifests import column_file, part, table, with_files

BEFORE = with_files(part(0), column_file("one", 0, 1), column_file("two", 2)).message


def test_field_belongs_to_the_data_file_that_lists_it() -> None:
    after = with_files(part(0), column_file("one", 0, -2), column_file("two", 2), column_file("new", 1)).message
    assert field_files(BEFORE) == {0: (None, "one"), 1: (None, "one"), 2: (None, "two")}
    assert rewritten_fields(BEFORE, after) == {1}
    assert [file.path for file in new_files(BEFORE, after)] == ["new"]
    assert len(new_files(None, after)) == 3


def test_unused_fields_keep_their_column_positions() -> None:
    dead = with_dead_fields(column_file("one", 4, 5, 6), {5})
    assert (list(dead.fields), list(dead.column_indices)) == ([4, -2, 6], [0, 1, 2])


@pytest.mark.parametrize(
    ("files", "field_ids", "kept"),
    [
        ((column_file("a", 0), column_file("b", -2)), None, ["a"]),
        ((column_file("a", 0), column_file("b", -2, 1)), None, ["a", "b"]),
        ((column_file("a", 0), column_file("b", 1)), {0}, ["a"]),
        ((column_file("a", 0), column_file("b", -3, -4)), {0}, ["a", "b"]),
        # A fragment must have at least one file.
        ((column_file("a", -2), column_file("b", -2)), None, ["b"]),
        ((column_file("a", 1), column_file("b", 2)), {0}, ["b"]),
    ],
)
def test_data_files_without_a_live_field_are_dropped(
    files: tuple[object, ...], field_ids: set[int] | None, kept: list[str]
) -> None:
    fragment = with_files(part(0), *files).message
    assert drop_dead_files(fragment, field_ids) is (len(kept) < len(files))
    assert [file.path for file in fragment.files] == kept


def test_field_ids_are_reused_when_no_file_lists_them_unless_the_table_counts_field_ids() -> None:
    current = table(with_files(part(0), column_file("a", 0, 7)))
    assert next_field_id(current.message) == 8
    assert next_field_id(table(part(0)).message) == 2
    assert next_field_id(table(part(0), max_allocated_field_id=11).message) == 12
