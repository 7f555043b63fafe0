"""The relatives of a field, and field ids in use."""

import pytest

from lance_core.proto import pb_file, pb_table
from lance_core.table.field_ids import highest_field_id, next_field_id, with_relatives

# a | l: list of struct {x, y} | b
FIELDS = [
    pb_file.Field(id=number, parent_id=parent) for number, parent in [(0, -1), (1, -1), (2, 1), (3, 2), (4, 2), (5, -1)]
]


@pytest.mark.parametrize(
    ("field_ids", "expected"),
    [({0}, {0}), ({3}, {1, 2, 3}), ({1}, {1, 2, 3, 4}), ({2, 5}, {1, 2, 3, 4, 5}), (set(), set()), ({-3}, {-3})],
)
def test_field_relatives_are_ancestors_and_descendants_but_not_siblings(
    field_ids: set[int], expected: set[int]
) -> None:
    assert with_relatives(FIELDS, field_ids) == expected


@pytest.mark.parametrize(
    ("fields", "stored", "overlaid", "highest"),
    [([], [], [], -1), ([0, 1], [0, 1], [], 1), ([0], [0, 3], [2], 3), ([0], [0, -2], [2, -2], 2), ([], [-2], [], -1)],
)
def test_field_id_is_in_use_while_a_file_or_overlay_lists_it(
    fields: list[int], stored: list[int], overlaid: list[int], highest: int
) -> None:
    fragment = pb_table.DataFragment(
        files=[pb_table.DataFile(fields=stored)],
        overlays=[pb_table.DataOverlayFile(data_file=pb_table.DataFile(fields=overlaid))],
    )
    manifest = pb_table.Manifest(fields=[pb_file.Field(id=each) for each in fields], fragments=[fragment])
    assert highest_field_id(manifest) == highest
    assert next_field_id(manifest) == highest + 1
    manifest.max_allocated_field_id = 9
    assert highest_field_id(manifest) == 9
