"""Field ids: the ids in use, and the next id to assign.

An id is in use while the schema, a data file, or a data overlay refers to it, so the id of a dropped column may be
reused once the last file with the column has been removed. A table whose manifest records the highest assigned id
(``max_allocated_field_id``) never assigns an id twice.

Source: behavior of pylance 14.0.2.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lance_core.proto import pb_file, pb_table

__all__ = ["highest_field_id", "next_field_id", "with_relatives"]


def next_field_id(message: pb_table.Manifest) -> int:
    """Return the id to assign to the next new field of a table."""
    return highest_field_id(message) + 1


def highest_field_id(message: pb_table.Manifest) -> int:
    """Return the highest id in use, or the highest id ever assigned if the table records it; -1 if there are no ids."""
    if message.HasField("max_allocated_field_id"):
        return message.max_allocated_field_id
    highest = max((field.id for field in message.fields), default=-1)
    for fragment in message.fragments:
        for file in chain(fragment.files, (overlay.data_file for overlay in fragment.overlays)):
            highest = max(highest, max(file.fields, default=-1))
    return highest


def with_relatives(fields: Iterable[pb_file.Field], field_ids: Collection[int]) -> frozenset[int]:
    """Return the ids of some fields and of all their ancestors and descendants.

    Data files list the fields that own a column, while an index may refer to a list or struct. If the values of a field
    change, so do the values of its ancestors and descendants.

    Args:
        fields: the fields of the schema; a parent precedes its children.
        field_ids: ids of the fields to start from.
    """
    wanted = set(field_ids)
    ordered = list(fields)
    below = set(wanted)
    for field in ordered:
        if field.parent_id in below:
            below.add(field.id)
    above = set(wanted)
    for field in reversed(ordered):
        if field.id in above and field.parent_id >= 0:
            above.add(field.parent_id)
    return frozenset(above | below)
