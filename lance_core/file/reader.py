"""FileReader: opens a data file and reads rows of some columns.

The differences between format versions are hidden behind two protocols: one for the metadata of a file
(:mod:`lance_core.file.file_metadata`), and one for reading a field (:mod:`lance_core.file.field_source`).

**Source:** byte map in :mod:`lance_core.file.layout`; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, NotSupportedError, OutOfMemoryError, RowOutOfRangeError
from lance_core.file.families import open_metadata, open_sources, read_statistics
from lance_core.file.fetched_bytes import FetchedBytes
from lance_core.file.file_bytes import FileBytes, run_steps, together
from lance_core.file.metadata_reader import MetadataReader
from lance_core.file.offset_blocks import keeping_offsets
from lance_core.file.projections import Projections
from lance_core.file.read_config import ReadConfig
from lance_core.file.row_numbers import row_number, row_positions
from lance_core.file.scan import FieldPlan, scan_arrays, scan_batches, stream_plans
from lance_core.schema.extension_types import has_extension, restore_batch, restore_schema
from lance_core.schema.logical_types import arrow_field
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.file.column_metadata import ColumnMetadata
    from lance_core.file.field_source import FieldSource, RowStatistics
    from lance_core.file.file_bytes import ReadableBytes
    from lance_core.file.file_metadata import FileMetadata
    from lance_core.file.page_cache import PageCache
    from lance_core.io.byte_range import ByteRange
    from lance_core.io.object_store import ObjectStore
    from lance_core.io.read_costs import ReadCosts
    from lance_core.schema.field import Field, Schema
    from lance_core.versions import LanceFileVersion

__all__ = ["FileReader"]

_OPEN_BYTES: Final = 2200
"""Approximate memory in bytes of an open file, without its metadata."""

_DEFAULT_CONFIG: Final = ReadConfig()


class FileReader:
    """One open data file. Immutable and safe for concurrent use by several threads.

    Some information is loaded on first use (metadata of columns, sources of recent projections); the result does not
    depend on which caller uses it first.

    Args:
        file_bytes: the open file; use :meth:`open` to create a reader from a path.
        metadata: metadata of the file.
        page_states: as for :meth:`open`.
        projections: the cached field sources, shared with other readers of the same files; None for an empty cache.
    """

    def __init__(
        self,
        file_bytes: ReadableBytes,
        metadata: FileMetadata,
        page_states: PageCache[Any] | None = None,
        projections: Projections | None = None,
    ) -> None:
        """See the class docstring."""
        self._bytes = file_bytes
        self._metadata = metadata
        self._page_states = page_states
        self._projections = Projections() if projections is None else projections

    @classmethod
    def open(
        cls,
        store: ObjectStore,
        path: str,
        *,
        num_bytes: int | None = None,
        field_ids: Sequence[int] | None = None,
        page_states: PageCache[Any] | None = None,
    ) -> Self:
        """Open a file of any version.

        Args:
            store: the store that contains the file.
            path: path of the file in the store.
            num_bytes: size of the file in bytes, as recorded in manifests; None if unknown.
            field_ids: ids of the file's fields as recorded in the manifest; required for files in format 0.1 that do
                not contain the first fields of their table.
            page_states: cache for page information found while reading rows; None for a cache used by this reader only.
                If a cache is given, its owner keeps the reader, which therefore keeps no memory mapping of the file.

        Raises:
            NotFoundError: the file does not exist.
            CorruptDataError: the file is not a data file, or is damaged.
            UnsupportedVersionError: the version is not supported.
            NotSupportedError: the schema has a field that this library does not support.
        """
        file_bytes = FileBytes(store, path, num_bytes, keeps_mapping=page_states is None)
        return cls(file_bytes, open_metadata(file_bytes, field_ids, page_states), page_states)

    @property
    def path(self) -> str:
        """The file's path in its store."""
        return self._metadata.path

    @property
    def memory(self) -> int:
        """Approximate memory in bytes that the open file uses at present, without page information."""
        return _OPEN_BYTES + self._bytes.num_bytes_held + self._metadata.memory + self._projections.memory

    @property
    def num_rows(self) -> int:
        """Number of rows in the file."""
        return self._metadata.num_rows

    @property
    def version(self) -> LanceFileVersion:
        """Format version of the file."""
        return self._metadata.version

    @property
    def schema(self) -> Schema:
        """The fields stored in the file, with their table-wide ids, and the schema metadata."""
        return self._metadata.schema

    @property
    def any_metadata(self) -> FileMetadata:
        """The metadata of the file; its type depends on the version."""
        return self._metadata

    @property
    def metadata(self) -> MetadataReader:
        """Metadata of a file in format 2.0 or later: footer, tables, global buffers, and columns.

        Raises:
            NotSupportedError: the file is in format 0.1.
        """
        if not isinstance(self._metadata, MetadataReader):
            raise NotSupportedError(f"{self.path}: files in format {self.version.value} have no global buffers")
        return self._metadata

    @property
    def column_metadatas(self) -> list[ColumnMetadata]:
        """Metadata of every column of a file in format 2.0 or later; read on first use."""
        return self.metadata.columns(range(self.metadata.footer.num_columns))

    @property
    def read_costs(self) -> ReadCosts:
        """Costs of reading from the store that contains the file."""
        return self._bytes.read_costs

    @property
    def _remote(self) -> ReadableBytes | None:
        """The bytes of the file if they are in an object store; None otherwise."""
        return self._bytes if self.read_costs.is_remote else None

    @property
    def is_in_memory(self) -> bool:
        """Whether the whole file is in memory, as a small file is after it has been opened."""
        return self._bytes.is_whole

    def release_rows(self) -> None:
        """Release the bytes of rows that were read together with the metadata, as in small files."""
        if self._bytes.release(self._metadata.metadata_start):
            self._record_memory()

    def check_columns(self, columns: Mapping[int, int]) -> None:
        """Check that the file has all columns that the manifest lists (a map from field ids to columns).

        Raises:
            CorruptDataError: a column is missing.
        """
        self._metadata.check_columns(columns)

    def statistics(self, field_ids: Sequence[int]) -> RowStatistics | None:
        """Return the statistics that the file records for some fields; None if it records no statistics.

        Raises:
            CorruptDataError: the statistics are damaged.
        """
        return read_statistics(self._metadata, field_ids)

    def load_columns(self, fields: Sequence[Field], column_indices: Mapping[int, int]) -> None:
        """Load the metadata of the columns of some fields; arguments as for :meth:`read_batches`."""
        metadata = self._metadata
        if self.version.is_structural and isinstance(metadata, MetadataReader):
            metadata.columns([column_indices[leaf.id] for top in fields for leaf in top.leaves()])

    def has_columns(self, fields: Sequence[Field], column_indices: Mapping[int, int]) -> bool:
        """Return whether :meth:`load_columns` has been called for these columns."""
        metadata = self._metadata
        return isinstance(metadata, MetadataReader) and metadata.has_columns(
            column_indices[leaf.id] for top in fields for leaf in top.leaves()
        )

    def stored_bytes(self, fields: Sequence[Field], column_indices: Mapping[int, int] | None = None) -> int:
        """Return the approximate size of some fields in the file, in bytes; arguments as for :meth:`read_batches`."""
        sources = self._sources(fields, column_indices)
        # The plan is that of a scan, which is kept.
        batch_rows = _DEFAULT_CONFIG.batch_rows
        return sum(
            [each.num_bytes for source in sources for each in source.plan(0, self.num_rows, batch_rows=batch_rows)]
        )

    def page_ranges(
        self, fields: Sequence[Field], column_indices: Mapping[int, int], config: ReadConfig
    ) -> list[ByteRange]:
        """Return the ranges of all pages of some fields, as far as their positions are known before they are read.

        Args:
            fields: as for :meth:`read_batches`.
            column_indices: as for :meth:`read_batches`.
            config: settings of the scan that will read the fields.
        """
        return [
            extent
            for source in self._sources(fields, column_indices)
            for segment in source.plan(0, self.num_rows, batch_rows=config.batch_rows)
            for extent in (*source.first_ranges(segment), *source.guessed_ranges(segment))
        ]

    def fetch(self, ranges: Sequence[ByteRange]) -> FetchedBytes:
        """Begin to fetch ranges of the file; pass the result to :meth:`reading`."""
        return FetchedBytes(self._bytes, ranges)

    def reading(self, file_bytes: ReadableBytes) -> FileReader:
        """Return a reader of the same file that reads its bytes through ``file_bytes``."""
        return FileReader(file_bytes, self._metadata, self._page_states, self._projections)

    def rows_within(
        self, num_bytes: int, fields: Sequence[Field], column_indices: Mapping[int, int] | None = None
    ) -> int | None:
        """Return the approximate number of rows of some fields that take ``num_bytes`` decoded bytes; at least 1.

        The result is None if a batch of the default size is certainly smaller. The other arguments are those of
        :meth:`read_batches`.
        """
        if self._bytes.num_bytes * _DEFAULT_CONFIG.batch_rows <= num_bytes * self.num_rows:
            return None
        segments = [
            (source, each) for source in self._sources(fields, column_indices) for each in source.plan(0, self.num_rows)
        ]
        decoded = sum([max(source.memory_of(segment), segment.num_bytes) for source, segment in segments])
        return max(1, num_bytes * self.num_rows // max(1, decoded))

    def read_batches(
        self,
        fields: Sequence[Field],
        config: ReadConfig = _DEFAULT_CONFIG,
        *,
        column_indices: Mapping[int, int] | None = None,
        row_range: tuple[int, int] | None = None,
        in_runs: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows of some fields.

        Args:
            fields: top-level fields, pruned as needed (:func:`lance_core.schema.projection.project`). Without fields,
                the batches have rows but no columns.
            config: read settings.
            column_indices: maps the field id of every leaf of ``fields`` to its column in this file; by default, the
                file's own schema is used.
            row_range: the rows ``[start, stop)`` to read; by default, all rows.
            in_runs: whether to join batches from the same pages into larger batches, whose sizes are multiples of the
                batch size, except for that of the last; for callers that do not need batches of a fixed size.

        Yields:
            Batches in row order. They are slices of decoded pages, without a copy where possible.

        Raises:
            InvalidInputError: the range extends past the end of the file, or a leaf has no column.
            CorruptDataError: metadata or pages are damaged.
            UnsupportedEncodingError: a page uses an unsupported encoding.
        """
        start, stop = self._checked_range(row_range)
        with _typed_memory_errors(self.path):
            sources = self._sources(fields, column_indices)
            if config.keeps_dictionaries:
                sources = [source.as_dictionary() for source in sources]
            plans = stream_plans(sources, start, stop, config)
        return self._batches(plans, stop - start, config, in_runs=in_runs)

    def read_table(
        self,
        fields: Sequence[Field],
        *,
        column_indices: Mapping[int, int] | None = None,
        row_range: tuple[int, int] | None = None,
    ) -> pa.Table:
        """Read a range of rows of some fields into one table, with one chunk per page; see :meth:`read_batches`."""
        with _typed_memory_errors(self.path):
            start, stop = self._checked_range(row_range)
            sources = self._sources(fields, column_indices)
            plans = [FieldPlan(source, source.plan(start, stop)) for source in sources]
            if not plans:
                return pa.Table.from_batches([_without_columns(stop - start)])
            schema = pa.schema([arrow_field(plan.source.field) for plan in plans])
            chunks = scan_arrays(
                plans, self._bytes.read, _DEFAULT_CONFIG, in_memory=self._bytes.is_whole, remote=self._remote
            )
            columns = [pa.chunked_array(arrays, column.type) for arrays, column in zip(chunks, schema, strict=True)]
            return _restored(pa.Table.from_arrays(columns, schema=schema), fields)

    def take(
        self,
        fields: Sequence[Field],
        rows: Sequence[int] | np.ndarray,
        *,
        column_indices: Mapping[int, int] | None = None,
    ) -> pa.Table:
        """Read individual rows in the requested order; see :meth:`read_batches`.

        Args:
            fields: top-level fields, pruned as needed; at least one.
            rows: row numbers, in any order, possibly with duplicates.
            column_indices: maps field ids to columns in this file; by default, the file's own schema is used.

        Raises:
            RowOutOfRangeError: a row number is negative or too large.
            InvalidTypeError: a row number is not an integer.
        """
        wanted = row_positions(rows)
        outside = wanted[(wanted < 0) | (wanted >= self.num_rows)]
        if len(outside):
            raise RowOutOfRangeError(
                f"{self.path}: row {outside[0]} is out of range; the file has {counted(self.num_rows, 'row')}"
            )
        with _typed_memory_errors(self.path):
            is_ascending = bool((wanted[1:] >= wanted[:-1]).all())
            order = None if is_ascending else np.argsort(wanted, kind="stable")
            ascending = wanted if order is None else wanted[order]
            schema = pa.schema([arrow_field(top) for top in fields])
            taken = self._take_ascending(self._sources(fields, column_indices), ascending)
            columns = [_joined(arrays, column.type) for arrays, column in zip(taken, schema, strict=True)]
            table = _restored(pa.Table.from_arrays(columns, schema=schema), fields)
            return table if order is None else table.take(pa.array(np.argsort(order)))

    def _take_ascending(self, sources: Sequence[FieldSource], rows: NDArray[np.int64]) -> list[list[pa.Array]]:
        """Read rows, given in ascending order, of every source; the sources share their requests."""
        if not len(rows):
            return [[] for _ in sources]
        read = self._bytes.scattered()
        if self._page_states is not None and not self._bytes.is_mapped:
            read = keeping_offsets(
                read,
                self._page_states,
                self._bytes.num_bytes,
                lambda: [each for source in sources for each in source.guessed_offsets(rows)],
            )
        return run_steps(together([source.take_steps(rows) for source in sources]), read)

    def _batches(
        self, plans: Sequence[FieldPlan], num_rows: int, config: ReadConfig, *, in_runs: bool
    ) -> Iterator[pa.RecordBatch]:
        if not plans:
            for start in range(0, num_rows, config.batch_rows):
                yield _without_columns(min(config.batch_rows, num_rows - start))
            return
        stored, has_extensions = _stored_schema(tuple([plan.source.field for plan in plans]))
        restored = restore_schema(stored) if has_extensions else stored

        def finish(batch: pa.RecordBatch) -> pa.RecordBatch:
            return batch if restored is stored else restore_batch(batch, restored)

        with _typed_memory_errors(self.path):
            yield from scan_batches(
                plans,
                stored,
                num_rows,
                config,
                self._bytes.read,
                finish,
                in_runs=in_runs,
                in_memory=self._bytes.is_whole,
                in_many_files=self._bytes.is_many_files,
                remote=self._remote,
            )

    def _checked_range(self, row_range: tuple[int, int] | None) -> tuple[int, int]:
        first, last = row_range if row_range is not None else (0, self.num_rows)
        start, stop = row_number("the first row", first), row_number("the row after the last", last)
        if not 0 <= start <= stop <= self.num_rows:
            raise InvalidInputError(
                f"{self.path}: rows [{start}, {stop}) are out of range; the file has {counted(self.num_rows, 'row')}"
            )
        return start, stop

    def _sources(self, fields: Sequence[Field], column_indices: Mapping[int, int] | None) -> list[FieldSource]:
        """Return the sources of a projection; those of the last few projections are cached."""
        sources = self._projections.find(fields, column_indices)
        if sources is None:
            sources = open_sources(self._metadata, fields, column_indices)
            self._projections.add(fields, column_indices, sources)
            self._record_memory()
        return sources

    def _record_memory(self) -> None:
        """Tell the owner of the cache how much memory the file uses; called whenever this changes."""
        if self._page_states is not None:
            self._page_states.resize_owner(self, self.memory)


@contextmanager
def _typed_memory_errors(path: str) -> Iterator[None]:
    """Convert the out-of-memory errors that Python and Arrow raise to ``OutOfMemoryError``."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(
            f"{path}: the rows do not fit in memory; read fewer rows or columns at a time", path=path
        ) from error


@lru_cache(maxsize=64)
def _stored_schema(fields: tuple[Field, ...]) -> tuple[pa.Schema, bool]:
    """Return the Arrow schema of some fields without extension types, and whether any field has such a type."""
    return pa.schema(list(map(arrow_field, fields))), any(map(has_extension, fields))


def _without_columns(num_rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), num_rows, [None]))


def _joined(arrays: list[pa.Array], dtype: pa.DataType) -> pa.ChunkedArray:
    """Join the arrays of a column into one, unless they do not fit in one array."""
    if len(arrays) > 1:
        with suppress(pa.ArrowInvalid):
            arrays = [pa.concat_arrays(arrays)]
    return pa.chunked_array(arrays, dtype)


def _restored(table: pa.Table, fields: Sequence[Field]) -> pa.Table:
    if not any(has_extension(top) for top in fields):
        return table
    schema = restore_schema(table.schema)
    return pa.Table.from_batches([restore_batch(batch, schema) for batch in table.to_batches()], schema=schema)
