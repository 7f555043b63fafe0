"""Field ids: which are in use, and which is the next.

An id is in use while the schema or a data file names it, so that the id of a dropped column comes back once its last
file has vanished. A table whose manifest counts the ids it has given (``max_allocated_field_id``) never gives one
twice.

Source: behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lance_core.proto import pb_file, pb_table

__all__ = ["next_field_id", "with_relatives"]


def next_field_id(message: pb_table.Manifest) -> int:
    """The id that the next new field of a table gets."""
    if message.HasField("max_allocated_field_id"):
        return message.max_allocated_field_id + 1
    named = {field.id for field in message.fields}
    stored = {field_id for fragment in message.fragments for file in fragment.files for field_id in file.fields}
    return max(named | stored, default=-1) + 1


def with_relatives(fields: Iterable[pb_file.Field], field_ids: Collection[int]) -> frozenset[int]:
    """Fields, and those that they are part of or made of.

    Data files list the fields that own a column, an index names a list or struct itself: of both the values change
    together.

    Args:
        fields: of the schema; a parent stands before its children.
        field_ids: some of them.
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
