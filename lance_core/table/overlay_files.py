"""Data overlays of a fragment: the cells that they cover, and the overlays that are no longer needed.

::

    offsets covered    1   4   7          physical positions in the fragment, including deleted rows
    rank               0   1   2          the row in the overlay's own file that contains the value

There is one bitmap for all fields of the file, or one for each field. Overlays are listed in order of age, the oldest
first; if several cover the same cell, the last one applies. Offsets past the last row of the fragment have no effect.

When a new data file provides a field, the field is marked as dead (-2) in older overlays, as in older data files; an
overlay without a live field is removed.

The feature is experimental. Like the reference implementation, this library enables it only if the environment variable
``LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES`` is set; an empty value is sufficient.

Source: ``lance.table.DataOverlayFile``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from lance_core.errors import CorruptDataError
from lance_core.table.data_file import DEAD_FIELD_ID
from lance_core.table.fragment_files import with_dead_fields
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyroaring import BitMap

    from lance_core.proto import pb_table

__all__ = [
    "OVERLAYS_VARIABLE",
    "coverage",
    "covered_anywhere",
    "drop_dead_overlays",
    "overlaid_fields",
    "overlays_enabled",
    "retire_overlaid_fields",
]

OVERLAYS_VARIABLE: Final = "LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES"
"""The environment variable that enables data overlays if it is set to any value, even an empty one."""


def overlays_enabled() -> bool:
    """Return whether tables with overlays may be read and written."""
    return OVERLAYS_VARIABLE in os.environ


def overlaid_fields(overlays: Sequence[pb_table.DataOverlayFile]) -> frozenset[int]:
    """Return the ids of the fields for which at least one overlay may contain values."""
    return frozenset(field_id for overlay in overlays for field_id in overlay.data_file.fields if field_id >= 0)


def coverage(overlay: pb_table.DataOverlayFile, field_ids: Collection[int], what: str) -> BitMap | None:
    """Return the row offsets for which an overlay contains values of a column.

    Args:
        overlay: one overlay.
        field_ids: ids of the fields that form the column.
        what: name of the fragment, for error messages.

    Returns:
        The offsets; None if the overlay has none of the fields.

    Raises:
        CorruptDataError: a bitmap is damaged, a field has no bitmap, or the fields have different bitmaps.
    """
    places = [place for place, field_id in enumerate(overlay.data_file.fields) if field_id in field_ids]
    if not places:
        return None
    if overlay.WhichOneof("coverage") != "field_coverage":
        return _bitmap(overlay.shared_offset_bitmap, overlay, what)
    bitmaps = overlay.field_coverage.offset_bitmaps
    if len(bitmaps) != len(overlay.data_file.fields):
        raise CorruptDataError(
            f"{what}: overlay {overlay.data_file.path} has {counted(len(bitmaps), 'coverage bitmap')} for "
            f"{counted(len(overlay.data_file.fields), 'field')}",
            path=overlay.data_file.path,
        )
    if len({bitmaps[place] for place in places}) > 1:
        raise CorruptDataError(
            f"{what}: overlay {overlay.data_file.path} covers different rows for fields of the same column",
            path=overlay.data_file.path,
        )
    return _bitmap(bitmaps[places[0]], overlay, what)


def covered_anywhere(overlay: pb_table.DataOverlayFile, what: str) -> BitMap:
    """Return the offsets that an overlay covers for at least one field. Raises the same errors as :func:`coverage`."""
    # Imported on first use: hardly any table has overlays.
    from pyroaring import BitMap

    found = [coverage(overlay, {field_id}, what) for field_id in overlay.data_file.fields if field_id >= 0]
    return BitMap.union(BitMap(), *(each for each in found if each is not None))


def retire_overlaid_fields(
    fragment: pb_table.DataFragment, field_ids: Collection[int], until: int | None = None
) -> None:
    """Mark fields as dead, in place, in a fragment's overlays, because its data files contain newer values for them.

    Args:
        fragment: the fragment to change.
        field_ids: ids of the fields.
        until: the version from which the new values were computed; overlays that were committed later are not changed.
            If None, all overlays are changed.
    """
    for overlay in fragment.overlays:
        if until is not None and overlay.committed_version > until:
            continue
        if not set(field_ids).isdisjoint(overlay.data_file.fields):
            overlay.data_file.CopyFrom(with_dead_fields(overlay.data_file, field_ids))
    drop_dead_overlays(fragment)


def drop_dead_overlays(fragment: pb_table.DataFragment, field_ids: Collection[int] | None = None) -> None:
    """Remove, in place, the overlays of a fragment that no longer contain a live field.

    Args:
        fragment: the fragment to change.
        field_ids: ids of all fields in the schema; if None, only overlays whose fields are all marked as dead are
            removed.
    """
    kept = [
        overlay
        for overlay in fragment.overlays
        if any(
            field_id != DEAD_FIELD_ID and (field_ids is None or field_id in field_ids)
            for field_id in overlay.data_file.fields
        )
    ]
    if len(kept) != len(fragment.overlays):
        del fragment.overlays[:]
        fragment.overlays.extend(kept)


def _bitmap(data: bytes, overlay: pb_table.DataOverlayFile, what: str) -> BitMap:
    from pyroaring import BitMap

    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError, MemoryError) as error:
        raise CorruptDataError(
            f"{what}: the coverage of overlay {overlay.data_file.path} cannot be read: {error}",
            path=overlay.data_file.path,
        ) from error
