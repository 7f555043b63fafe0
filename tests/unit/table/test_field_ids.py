"""Fields that change together."""

import pytest

from lance_core.proto import pb_file
from lance_core.table.field_ids import with_relatives

# a | l: list of struct {x, y} | b
FIELDS = [
    pb_file.Field(id=number, parent_id=parent) for number, parent in [(0, -1), (1, -1), (2, 1), (3, 2), (4, 2), (5, -1)]
]


@pytest.mark.parametrize(
    ("field_ids", "expected"),
    [({0}, {0}), ({3}, {1, 2, 3}), ({1}, {1, 2, 3, 4}), ({2, 5}, {1, 2, 3, 4, 5}), (set(), set()), ({-3}, {-3})],
)
def test_parents_and_children_but_no_siblings(field_ids: set[int], expected: set[int]) -> None:
    assert with_relatives(FIELDS, field_ids) == expected
