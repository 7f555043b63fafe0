"""FileReader: open a data file and read rows of some columns.

Pages are fetched when their rows are due; what else is in a file is the matter of
:mod:`lance_core.file.metadata_reader`.

**Source:** byte map in :mod:`lance_core.file.layout`; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, RowOutOfRangeError
from lance_core.file.metadata_reader import MetadataReader
from lance_core.file.page_fetch import PageFetcher
from lance_core.file.page_plan import leaf_columns, plan_segments
from lance_core.file.scan import FieldPlan, decode_segment, scan_arrays, scan_batches
from lance_core.schema.extension_types import has_extension, restore_batch, restore_schema
from lance_core.schema.logical_types import arrow_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_core.file.column_metadata import ColumnMetadata
    from lance_core.file.page_plan import LeafColumn, Segment
    from lance_core.io.object_store import ObjectStore
    from lance_core.schema.field import Field, Schema
    from lance_core.versions import LanceFileVersion

__all__ = ["DEFAULT_BATCH_ROWS", "FileReader"]

DEFAULT_BATCH_ROWS: Final = 8192

_MAX_SEGMENT_ROWS: Final = 4 * 1024 * 1024
_MAX_SEGMENT_BYTES: Final = 32 * 1024 * 1024
"""Larger pages are decoded piece by piece."""

_MAX_TAKE_GAP_ROWS: Final = 16 * 1024
"""Wanted rows that are farther apart than this are decoded separately."""


class FileReader:
    """One open data file. Safe for use by several threads.

    Args:
        metadata: the open file; :meth:`open` makes it.
    """

    def __init__(self, metadata: MetadataReader) -> None:
        """See the class."""
        self._metadata = metadata

    @classmethod
    def open(cls, store: ObjectStore, path: str, *, num_bytes: int | None = None) -> Self:
        """Open a file.

        Args:
            store: where it is.
            path: its path in the store.
            num_bytes: its size when known (manifests record it): saves a request.

        Raises:
            NotFoundError: there is no such file.
            CorruptDataError: the file is not a data file, or is damaged.
            UnsupportedVersionError: a version that is not read here.
            NotSupportedError: the schema has a field that is not handled here.
        """
        return cls(MetadataReader(store, path, num_bytes))

    @property
    def path(self) -> str:
        """The file's path in its store."""
        return self._metadata.path

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return self._metadata.descriptor.num_rows

    @property
    def version(self) -> LanceFileVersion:
        """Format version of the file."""
        return self._metadata.footer.version

    @property
    def schema(self) -> Schema:
        """The fields stored in the file, with their table-wide ids, and the schema metadata."""
        return self._metadata.descriptor.schema

    @property
    def metadata(self) -> MetadataReader:
        """Footer, tables, global buffers and column metadata."""
        return self._metadata

    @property
    def column_metadatas(self) -> list[ColumnMetadata]:
        """Pages of every column; read on first use."""
        return self._metadata.columns(range(self._metadata.footer.num_columns))

    def read_batches(
        self,
        fields: Sequence[Field],
        *,
        column_indices: Mapping[int, int] | None = None,
        row_range: tuple[int, int] | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows of some fields.

        Args:
            fields: top-level fields, pruned as wanted (:func:`lance_core.schema.projection.project`). Without fields
                the batches have rows but no columns.
            column_indices: field id → column of this file, for every leaf of ``fields``; by default as the file's own
                schema says.
            row_range: rows ``[start, stop)``; all by default.
            batch_rows: rows of every batch but the last.

        Yields:
            Batches in row order; slices of decoded pages, zero-copy where the pages allow it.

        Raises:
            InvalidInputError: a range outside the file, or a leaf without a column.
            CorruptDataError: metadata or pages are damaged.
            UnsupportedEncodingError: a page uses an encoding that is not read here.
        """
        if batch_rows < 1:
            raise InvalidInputError(f"batch_rows must be positive, it is {batch_rows}")
        start, stop = self._checked_range(row_range)
        plans = self._plan(fields, column_indices, start, stop, batch_rows)
        return self._batches(plans, stop - start, batch_rows)

    def read_table(
        self,
        fields: Sequence[Field],
        *,
        column_indices: Mapping[int, int] | None = None,
        row_range: tuple[int, int] | None = None,
    ) -> pa.Table:
        """Read rows of some fields at once, one chunk per page; see :meth:`read_batches`."""
        start, stop = self._checked_range(row_range)
        plans = self._plan(fields, column_indices, start, stop)
        if not plans:
            return pa.Table.from_batches([_without_columns(stop - start)])
        schema = pa.schema([arrow_field(plan.field) for plan in plans])
        chunks = scan_arrays(plans, self._metadata.read)
        columns = [pa.chunked_array(arrays, column.type) for arrays, column in zip(chunks, schema, strict=True)]
        return _restored(pa.Table.from_arrays(columns, schema=schema), fields)

    def take(
        self,
        fields: Sequence[Field],
        rows: Sequence[int] | np.ndarray,
        *,
        column_indices: Mapping[int, int] | None = None,
    ) -> pa.Table:
        """Read single rows, in the order asked; see :meth:`read_batches`.

        Rows that lie near each other are decoded together; what lies between distant ones is not decoded.

        Args:
            fields: top-level fields, pruned as wanted; at least one.
            rows: row numbers, in any order, repetition allowed.
            column_indices: field id → column of this file.

        Raises:
            RowOutOfRangeError: a row outside the file.
        """
        wanted = np.asarray(rows, np.int64)
        outside = wanted[(wanted < 0) | (wanted >= self.num_rows)]
        if len(outside):
            raise RowOutOfRangeError(f"{self.path}: row {outside[0]} is not one of the file's {self.num_rows} rows")
        order = np.argsort(wanted, kind="stable")
        ascending = wanted[order]
        schema = pa.schema([arrow_field(top) for top in fields])
        columns = [
            pa.chunked_array(self._take_ascending(top, leaves, ascending), column.type)
            for top, leaves, column in zip(fields, self._leaves(fields, column_indices), schema, strict=True)
        ]
        table = _restored(pa.Table.from_arrays(columns, schema=schema), fields)
        return table if np.array_equal(ascending, wanted) else table.take(pa.array(np.argsort(order)))

    def _take_ascending(self, field: Field, leaves: Sequence[LeafColumn], rows: np.ndarray) -> list[pa.Array]:
        chunks = []
        fetcher = PageFetcher(self._metadata.read)
        for near in np.split(rows, np.flatnonzero(np.diff(rows) > _MAX_TAKE_GAP_ROWS) + 1):
            if not len(near):
                continue
            for segment in self._segments(leaves, int(near[0]), int(near[-1]) + 1):
                first, last = np.searchsorted(near, [segment.start, segment.stop])
                array = decode_segment(field, segment, fetcher)
                chunks.append(array.take(pa.array(near[first:last] - segment.start)))
        return chunks

    def _batches(self, plans: Sequence[FieldPlan], num_rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not plans:
            for start in range(0, num_rows, batch_rows):
                yield _without_columns(min(batch_rows, num_rows - start))
            return
        stored = pa.schema([arrow_field(plan.field) for plan in plans])
        restored = restore_schema(stored) if any(has_extension(plan.field) for plan in plans) else stored
        for arrays in scan_batches(plans, num_rows, batch_rows, self._metadata.read):
            batch = pa.RecordBatch.from_arrays(arrays, schema=stored)
            yield batch if restored is stored else restore_batch(batch, restored)

    def _checked_range(self, row_range: tuple[int, int] | None) -> tuple[int, int]:
        start, stop = row_range if row_range is not None else (0, self.num_rows)
        if not 0 <= start <= stop <= self.num_rows:
            raise InvalidInputError(f"{self.path}: rows [{start}, {stop}) of a file with {self.num_rows} rows")
        return start, stop

    def _plan(
        self,
        fields: Sequence[Field],
        column_indices: Mapping[int, int] | None,
        start: int,
        stop: int,
        batch_rows: int | None = None,
    ) -> list[FieldPlan]:
        return [
            FieldPlan(field=top, segments=self._segments(leaves, start, stop, batch_rows))
            for top, leaves in zip(fields, self._leaves(fields, column_indices), strict=True)
        ]

    def _leaves(self, fields: Sequence[Field], column_indices: Mapping[int, int] | None) -> list[list[LeafColumn]]:
        """The columns of every field."""
        if column_indices is None:
            column_indices = {leaf.id: index for index, leaf in enumerate(self.schema.leaves())}
        indices = []
        for top in fields:
            leaves = top.leaves()
            absent = [leaf for leaf in leaves if leaf.id not in column_indices]
            if absent:
                raise InvalidInputError(
                    f"{self.path}: field {absent[0].name!r} (id {absent[0].id}) has no column in this file"
                )
            indices.append([column_indices[leaf.id] for leaf in leaves])
        # One request for the metadata of all columns.
        self._metadata.columns([index for group in indices for index in group])
        return [
            leaf_columns(top, group, self._metadata.columns(group), self.num_rows, self.path)
            for top, group in zip(fields, indices, strict=True)
        ]

    @staticmethod
    def _segments(leaves: Sequence[LeafColumn], start: int, stop: int, batch_rows: int | None = None) -> list[Segment]:
        return plan_segments(
            leaves, start, stop, max_rows=_MAX_SEGMENT_ROWS, max_bytes=_MAX_SEGMENT_BYTES, batch_rows=batch_rows
        )


def _without_columns(num_rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), num_rows, [None]))


def _restored(table: pa.Table, fields: Sequence[Field]) -> pa.Table:
    if not any(has_extension(top) for top in fields):
        return table
    schema = restore_schema(table.schema)
    return pa.Table.from_batches([restore_batch(batch, schema) for batch in table.to_batches()], schema=schema)
