"""Determines, from the statistics, which batches of a 0.1 file a filter can skip.

Statistics describe the rows as they were written. If the file format has no nulls for a type, nulls are read back as
values, and so may be strings under nulls. The bounds of a batch are therefore used only if it had no nulls.

**Source:** behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.file.v0_1.statistics import GREATEST, LEAST, NULL_COUNT, read_statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader

__all__ = ["batch_bounds"]


def batch_bounds(metadata: LegacyMetadataReader, field_ids: Sequence[int]) -> dict[int, tuple[pa.Array, pa.Array]]:
    """Return the minimum and maximum of the values as read back, for every batch.

    Args:
        metadata: the open file.
        field_ids: the relevant fields.

    Returns:
        Maps each field id to two arrays with one entry per batch, null if unknown. Fields without statistics, and
        fields that the table reads from another file, are omitted.

    Raises:
        CorruptDataError: the statistics are damaged.
    """
    found = {}
    own = {metadata.own_ids[field_id]: field_id for field_id in field_ids if field_id in metadata.own_ids}
    for own_id, statistics in read_statistics(metadata, list(own)).items():
        has_nulls = pc.not_equal(statistics.field(NULL_COUNT), 0)
        least, greatest = (
            pc.if_else(has_nulls, pa.scalar(None, bounds.type), bounds)
            for bounds in (statistics.field(LEAST), statistics.field(GREATEST))
        )
        found[own[own_id]] = (least, greatest)
    return found
