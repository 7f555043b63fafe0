"""Field ids: which are in use, and which is the next.

An id is in use while the schema or a data file names it, so that the id of a dropped column comes back once its last
file has vanished. A table whose manifest counts the ids it has given (``max_allocated_field_id``) never gives one
twice.

Source: behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_core.proto import pb_table

__all__ = ["next_field_id"]


def next_field_id(message: pb_table.Manifest) -> int:
    """The id that the next new field of a table gets."""
    if message.HasField("max_allocated_field_id"):
        return message.max_allocated_field_id + 1
    named = {field.id for field in message.fields}
    stored = {field_id for fragment in message.fragments for file in fragment.files for field_id in file.fields}
    return max(named | stored, default=-1) + 1
