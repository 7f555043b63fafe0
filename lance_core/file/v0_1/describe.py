"""Describes the parts of a file that are specific to format 0.1: batches, pages, dictionaries, and statistics.

**Source:** byte map in :mod:`lance_core.file.v0_1.layout`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from lance_core.file.v0_1.statistics import read_statistics
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
    from lance_core.schema.field import Field

__all__ = ["legacy_lines"]


def legacy_lines(metadata: LegacyMetadataReader) -> Iterator[str]:
    """Yield the lines that describe a file in format 0.1, except for its schema.

    Raises:
        CorruptDataError: a dictionary or the statistics are damaged.
    """
    yield "batches"
    for index, (start, stop) in enumerate(pairwise(metadata.batch_offsets.tolist())):
        yield f"  {index} rows [{start}, {stop})"
    yield "pages"
    statistics = read_statistics(metadata)
    for top in metadata.schema.fields:
        for field in top.walk():
            yield from _field_lines(metadata, field, statistics.get(field.id))


def _field_lines(metadata: LegacyMetadataReader, field: Field, statistics: pa.StructArray | None) -> Iterator[str]:
    title = f"  field {field.id} {field.name!r}"
    if field.is_struct:
        yield f"{title}: no pages of its own"
        return
    values = f", dictionary of {counted(len(metadata.dictionary(field)), 'value')}" if field.is_dictionary else ""
    yield f"{title}: {counted(metadata.num_batches, 'page')}{values}"
    positions, lengths = metadata.page_table.pages(field.id)
    for batch, (position, length) in enumerate(zip(positions.tolist(), lengths.tolist(), strict=True)):
        yield f"    page {batch} at {position}, length {length}"
        if statistics is not None:
            yield f"      statistics {_bounds(statistics[batch])}"


def _bounds(record: pa.StructScalar) -> str:
    return ", ".join(f"{name}={_shown(record[name])}" for name in ("null_count", "min_value", "max_value"))


def _shown(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):
        # The bounds of a page of nulls are those of the type, which Python cannot represent as a date.
        return f"{value.type} value {value.value}"
