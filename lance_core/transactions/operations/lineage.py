"""Preserves the properties that a fragment keeps when an operation replaces its data files.

An operation contains complete fragments. Row ids, row versions, data overlays, and clustering belong to the rows, which
do not move. They are copied from the table, so that they are not lost if the new fragment was built without them.
"""

from __future__ import annotations

from typing import Final

from lance_core.proto import pb_table

__all__ = ["with_lineage_of"]

_OF_THE_ROWS: Final = (
    "inline_row_ids",
    "column_row_ids",
    "inline_last_updated_at_versions",
    "column_last_updated_at_versions",
    "inline_created_at_versions",
    "column_created_at_versions",
    "clustering_id",
)


def with_lineage_of(old: pb_table.DataFragment, new: pb_table.DataFragment) -> pb_table.DataFragment:
    """Return a copy of ``new`` with the row ids, row versions, overlays, and metadata of ``old``."""
    result = pb_table.DataFragment()
    result.CopyFrom(new)
    for name in _OF_THE_ROWS:
        result.ClearField(name)
    del result.overlays[:]
    result.metadata.clear()
    for name in _OF_THE_ROWS:
        if not old.HasField(name):
            continue
        value = getattr(old, name)
        if isinstance(value, (bytes, int)):
            setattr(result, name, value)
        else:
            getattr(result, name).CopyFrom(value)
            getattr(result, name).SetInParent()
    result.overlays.extend(old.overlays)
    result.metadata.update(old.metadata)
    return result
