"""Statistics in a file in format 0.1: a small file inside the file, with one row per batch.

The statistics of a field are a struct whose name is the field's id, with the members ``null_count``, ``min_value``
and ``max_value``. Both bounds are nullable, even if the field is not nullable. The structs have separate field ids,
which start at 0.

**Source:** ``lance.file.Metadata.StatisticsMetadata``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.leaf_arrays import is_variable_width
from lance_core.encodings.v0_1.binary import OFFSET_BYTES
from lance_core.encodings.v0_1.statistics import decimal_bounds, has_statistics, statistics_arrays
from lance_core.file.field_source import ColumnStatistics
from lance_core.file.file_bytes import run_steps
from lance_core.file.v0_1.extents import Extents
from lance_core.file.v0_1.page_reader import Runs
from lance_core.file.v0_1.page_writer import fields_with_statistics
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.v0_1.statistics import PageStatistics
    from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
    from lance_core.schema.field import Field, Schema


__all__ = ["batch_statistics", "read_statistics", "statistics_record"]

NULL_COUNT: Final = "null_count"
LEAST: Final = "min_value"
GREATEST: Final = "max_value"
_RAW_DECIMAL: Final = "fixed_size_binary:16"


def read_statistics(
    metadata: LegacyMetadataReader, field_ids: Sequence[int] | None = None
) -> dict[int, pa.StructArray]:
    """Read the statistics of the batches of a file.

    Args:
        metadata: the open file.
        field_ids: ids of the fields to return; None for all fields that have statistics.

    Returns:
        A map from each field id to structs of ``null_count``, ``min_value`` and ``max_value``, one per batch; a bound
        that is null is unknown. Fields without statistics are omitted.

    Raises:
        CorruptDataError: the statistics are damaged.
    """
    pages = metadata.statistics_pages()
    if pages is None or metadata.statistics_schema is None:
        return {}
    found = {}
    extents = Extents()
    one_batch = Runs(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([metadata.num_batches], np.int64))
    for top in metadata.statistics_schema.fields:
        # Ignore structs that this reader does not know: their names are not ids.
        field_id = int(top.name) if top.name.isdecimal() and len(top.name) < 10 else -1
        members = {child.name for child in top.children}
        if not {NULL_COUNT, LEAST, GREATEST} <= members or (field_ids is not None and field_id not in field_ids):
            continue
        raw = run_steps(pages.decode(_with_raw_bounds(top), one_batch, extents), metadata.read)
        found[field_id] = _with_decimal_bounds(top, raw)
    return found


def statistics_record(
    schema: Schema, statistics: Mapping[int, Sequence[PageStatistics]]
) -> tuple[Schema, list[pa.StructArray]] | None:
    """Return the fields and columns that contain the statistics of a file; None if the file has no statistics.

    Args:
        schema: schema of the file.
        statistics: maps each field id to the statistics of the field's pages, one entry per batch.
    """
    wanted = [node for top in schema.fields for node in fields_with_statistics(top) if has_statistics(arrow_type(node))]
    if not wanted or not statistics:
        return None
    columns = [
        pa.StructArray.from_arrays(statistics_arrays(arrow_type(node), statistics[node.id]), fields=_members(node))
        for node in sorted(wanted, key=lambda node: node.id)
    ]
    names = [str(node.id) for node in sorted(wanted, key=lambda node: node.id)]
    fields = [pa.field(name, column.type, nullable=False) for name, column in zip(names, columns, strict=True)]
    return schema_from_arrow(pa.schema(fields)), columns


def _with_raw_bounds(top: Field) -> Field:
    """Return the field with decimals as raw bytes: the bounds of a batch of nulls are not valid decimals."""
    return replace(
        top,
        children=tuple(
            replace(child, logical_type=_RAW_DECIMAL) if pa.types.is_decimal128(arrow_type(child)) else child
            for child in top.children
        ),
    )


def _with_decimal_bounds(top: Field, records: pa.StructArray) -> pa.StructArray:
    members = [
        decimal_bounds(arrow_type(child), values) if pa.types.is_decimal128(arrow_type(child)) else values
        for child, values in zip(top.children, records.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(members, names=[child.name for child in top.children])


def _members(field: Field) -> list[pa.Field]:
    dtype = arrow_type(field)
    return [
        pa.field(NULL_COUNT, pa.int64(), nullable=False),
        pa.field(LEAST, dtype),
        pa.field(GREATEST, dtype),
    ]


def batch_statistics(metadata: LegacyMetadataReader, field_ids: Sequence[int]) -> dict[int, ColumnStatistics]:
    """Return what is known about the values in every batch, so that a filter can skip batches.

    The result applies to the values as they are read back from the file. The recorded statistics describe the rows as
    they were written, which may differ: the format cannot store nulls of most types, so a null may be read back as a
    value, and pylance stores the bytes that a null string has in memory, which then become its value. The bounds of a
    batch are therefore used only if the batch was written without nulls.

    Args:
        metadata: the open file.
        field_ids: ids of the fields to return.

    Returns:
        The statistics by field id. Fields without statistics, and fields that the table reads from another file, are
        omitted.

    Raises:
        CorruptDataError: the statistics are damaged.
    """
    found = {}
    own = {metadata.own_ids[field_id]: field_id for field_id in field_ids if field_id in metadata.own_ids}
    for own_id, statistics in read_statistics(metadata, list(own)).items():
        null_counts, least, greatest = (statistics.field(name) for name in (NULL_COUNT, LEAST, GREATEST))
        had_nulls = pc.not_equal(null_counts, 0)
        may_be_null, may_be_valid = _null_masks(metadata, own[own_id], np.asarray(had_nulls), least)
        unknown = pa.scalar(None, least.type)
        found[own[own_id]] = ColumnStatistics(
            pc.if_else(had_nulls, unknown, least), pc.if_else(had_nulls, unknown, greatest), may_be_null, may_be_valid
        )
    return found


def _null_masks(
    metadata: LegacyMetadataReader, field_id: int, had_nulls: NDArray[np.bool_], least: pa.Array
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return two masks: batches in which a value may be read as null, and batches in which one may not be null."""
    if not is_variable_width(least.type):
        return np.zeros(len(least), np.bool_), np.ones(len(least), np.bool_)
    is_empty = np.asarray(pc.equal(pc.binary_length(least), 0).fill_null(True))
    field = next(node for node in metadata.schema.walk() if node.id == field_id)
    if not field.nullable:
        # The table may have made the column nullable since; then, empty values are read as null.
        return had_nulls | is_empty, np.ones(len(least), np.bool_)
    starts, stops = metadata.spans.of(field)
    num_offsets = np.diff(metadata.batch_offsets) + 1
    return had_nulls | is_empty, (stops - starts)[0] > num_offsets * OFFSET_BYTES
