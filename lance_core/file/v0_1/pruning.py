"""Which batches of a 0.1 file a filter can skip, according to the statistics.

Statistics describe the rows as they were written. A null of a type without a null in the file reads back as a value,
and a string that lies under a null may; so the bounds of a batch count only when it had no nulls.

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
    """Least and greatest value that reading gives, for every batch.

    Args:
        metadata: the open file.
        field_ids: the fields that matter.

    Returns:
        Field id → two arrays with an entry for each batch, null where nothing is known. Fields without statistics, and
        those that the table reads from another file, are left out.

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
