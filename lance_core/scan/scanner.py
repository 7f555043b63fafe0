"""LanceScanner: a planned scan of fragments of one version.

Fragments are read one after another, each as a stream of batches, so that only the current pages are kept in memory.
Without a filter, the rows to read are determined from the row counts of the fragments, and skipped rows are not read.
With a filter, offset and limit count matching rows, and the scan stops after the last requested row;
:mod:`~lance_core.scan.matching` finds the matching rows and reads their columns.
"""

from __future__ import annotations

import os
from copy import copy
from dataclasses import replace
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias

import pyarrow as pa
from pyarrow.dataset import Scanner

from lance_core.absent import PylanceClass
from lance_core.blobs.batch_splitting import blob_pieces
from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.file.read_config import ReadConfig
from lance_core.predicate.predicate import Predicate
from lance_core.public.arguments import checked_number, whole_number
from lance_core.scan.batch_sizes import BatchSizes
from lance_core.scan.early_fetch import with_columns_fetched
from lance_core.scan.fragment_group import joined_readers
from lance_core.scan.matching import (
    RowCut,
    find_rows,
    gathered,
    gathered_values,
    matching_batches,
    read_found,
    split_columns,
)
from lance_core.scan.nearest import NearestRows
from lance_core.scan.nearest_query import NearestQuery
from lance_core.scan.output_schema import batch_without_columns
from lance_core.scan.pandas_frames import read_frame
from lance_core.scan.plan_text import measured, plan_text
from lance_core.scan.projection import Projection
from lance_core.scan.row_columns import ROW_ID_NAME, columns_with_row_names, wants_offsets, with_row_columns
from lance_core.scan.row_mask import RowMask
from lance_core.scan.row_order import RowOrder, read_in_order
from lance_core.scan.row_reader import slices
from lance_core.scan.scan_plan import LiveRange, plan_ranges
from lance_core.scan.scan_statistics import checked_callback, reporting
from lance_core.scan.shown_columns import BlobHandling, ShownColumns
from lance_core.scan.take import PlacedRows
from lance_core.schema.blob_fields import stored_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from lance_core.scan.row_reader import RowReader
    from lance_core.scan.scan_source import ScanSource
    from lance_core.scan.scan_statistics import ScanStatistics
    from lance_core.schema.field import Schema

__all__ = ["LanceScanner"]

_VALUES_BYTES: Final = 64 * 1024 * 1024
"""Maximum total size in bytes of the blobs in a batch, if no batch size is requested. A single row may exceed it."""

_BUFFER_VARIABLE: Final = "LANCE_DEFAULT_IO_BUFFER_SIZE"
"""Environment variable with the default of ``io_buffer_size``, as in pylance."""

_BATCH_BYTES: Final = 64 * 1024 * 1024
"""Approximate maximum size of a batch in bytes, if no batch size is requested. A single row may exceed it."""

_MAX_RUN_ROWS: Final = 1024 * 1024
"""Maximum number of rows in a chunk of a table, if no batch size is requested. Batches are smaller."""

_FIRST_FILTERED: Final = 8
"""Number of fragments in the first group that is read together if there is a filter and no limit: most filters find few
rows, so the first rows come from several fragments."""


class LanceScanner(Scanner, PylanceClass):  # type: ignore[misc]  # pyarrow has no types
    """A scan. Each call to a ``to_*`` method reads the data again.

    A scanner is a ``pyarrow.dataset.Scanner`` and an Arrow stream. All inherited methods are overridden, because
    pyarrow implements them only for its own scans.

    Args:
        source: the fragments to scan.
        columns: names or dotted paths, including system columns; None means all columns of the table. A dict maps names
            to SQL expressions, which may use the system columns too.
        filter: SQL text or an Arrow expression that selects rows; None selects all rows. The columns of the filter need
            not be among the returned columns.
        limit: maximum number of rows to return; None means no limit.
        offset: number of rows to skip; None means 0.
        nearest: arguments of a search for the rows with the nearest vectors, as :class:`NearestQuery` checks them; None
            means no search.
        prefilter: whether the filter is applied before the search instead of to its results.
        fast_search: must not be set if ``nearest`` is given, because a search compares the vectors of all fragments.
        disable_scoring_autoprojection: whether ``_distance`` is returned only if it is among ``columns``.
        batch_size: maximum number of rows in a batch; if None, 8192, or as many as take about 64 MiB if rows are large.
        batch_size_bytes: maximum size of a batch in bytes, exceeded only by a batch of one row; None means no limit.
        strict_batch_size: whether every batch except the last has exactly ``batch_size`` rows.
        io_buffer_size: maximum number of bytes to read ahead of the consumer; if None, the value of the environment
            variable ``LANCE_DEFAULT_IO_BUFFER_SIZE``, or 32 MiB (64 MiB in object stores).
        include_deleted_rows: whether to return deleted rows too, with null as their ``_rowid`` and ``_rowaddr``;
            possible only if ``_rowid`` is returned.
        with_row_id: whether to append the column ``_rowid``.
        with_row_address: whether to append the column ``_rowaddr``.
        blob_handling: "all_binary" returns the values of blob columns; by default, descriptors are returned.
        order_by: the columns to sort by, as a list of :class:`ColumnOrdering` or names; None means the stored order.
        use_stats: whether to skip rows that cannot match according to the statistics of files in format 0.1; True by
            default.
        scan_stats_callback: a function that receives :class:`ScanStatistics` after the last batch; None means no
            callback.
        row_addr_allowlist: the ids of the rows to return, in the form that :func:`serialize_row_addrs` produces; None
            means all.
        row_addr_blocklist: the ids of rows that are not returned, in the same form.
        json_as_text: whether JSON columns are returned as text instead of in their binary form.
        row_range: the first row to read, and the row at which to stop, among the live rows of the only fragment; None
            means all rows. Not possible with ``limit``, ``offset``, ``nearest``, or ``order_by``.

    Raises:
        InvalidInputError: a column is unknown, a number is out of range, or the filter or an expression is invalid.
        InvalidTypeError: a numeric argument is not an integer, or ``columns`` is neither a list of names nor a dict.
        NotSupportedError: part of the filter or of an expression is not supported.
    """

    def __init__(
        self,
        source: ScanSource,
        *,
        columns: Sequence[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: Mapping[str, Any] | None = None,
        prefilter: bool | None = None,
        fast_search: bool | None = None,
        disable_scoring_autoprojection: bool | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
        io_buffer_size: int | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        include_deleted_rows: bool | None = None,
        blob_handling: str | None = None,
        order_by: Any = None,
        use_stats: bool | None = None,
        scan_stats_callback: Callable[[ScanStatistics], object] | None = None,
        row_addr_allowlist: bytes | None = None,
        row_addr_blocklist: bytes | None = None,
        json_as_text: bool = True,
        row_range: tuple[int, int] | None = None,
    ) -> None:
        """Plan the scan; nothing is read."""
        # First, so that there are no other local names.
        self._arguments = {name: value for name, value in locals().items() if name not in ("self", "source")}
        self._callback = checked_callback(scan_stats_callback)
        self._source = replace(source, includes_deleted=True) if include_deleted_rows else source
        query = None if nearest is None else NearestQuery.of(source.schema, nearest, limit)
        if query is not None:
            _refuse_with_nearest(
                fast_search=fast_search,
                include_deleted_rows=include_deleted_rows,
            )
            columns = query.columns(source.schema, columns, adds_distance=not disable_scoring_autoprojection)
        columns = columns_with_row_names(
            source.schema, columns, with_id=bool(with_row_id), with_address=bool(with_row_address)
        )
        declared = source.schema if columns is None else with_row_columns(source.schema)
        if query is not None:
            declared = query.with_fields(declared)
        # Expressions are computed from the binary form.
        as_text = json_as_text and not isinstance(columns, dict)
        table = ShownColumns.plan(declared, BlobHandling.parse(blob_handling), json_as_text=as_text)
        self._stored = table.stored
        self._projection = Projection.plan(table.shown, columns)
        self._columns = table.of(self._projection.wanted)
        mask = RowMask.of(row_addr_allowlist, row_addr_blocklist)
        # What is applied to the result of a search is not part of the scan.
        self._predicate = _predicate_of(source.schema, filter if query is None or prefilter else None, mask)
        self._limit = None if limit is None else whole_number("limit", limit)
        self._offset = None if offset is None else whole_number("offset", offset)
        self._row_range = row_range
        if row_range is not None and self._predicate is None:
            self._offset, self._limit = row_range[0], row_range[1] - row_range[0]
        self._sizes = BatchSizes.of(batch_size, batch_size_bytes, strict_batch_size)
        self._config = _read_config(self._sizes.rows, io_buffer_size, use_stats)
        self._run_rows = self._config.batch_rows
        if include_deleted_rows and ROW_ID_NAME not in self._projection.schema.names:
            raise InvalidInputError("include_deleted_rows is set, but the columns do not include _rowid")
        plan_ranges((), offset=self._offset, limit=self._limit)
        self._nearest = None
        if query is not None:
            found = query.with_fields(_filtered_schema(source.schema))
            after = None if filter is None or prefilter else Predicate.plan(found, filter)
            self._nearest = NearestRows(
                source, query, self._predicate, after, columns=self._columns, order_by=order_by or ()
            )
        self._order = None
        if order_by is not None and query is None:
            if include_deleted_rows:
                raise NotSupportedError("include_deleted_rows cannot be combined with order_by")
            self._order = RowOrder.plan(source.schema, order_by, self._scan_of_keys)

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._projection.schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the whole dataset."""
        return Projection.plan(self._source.schema, None).schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the rows."""
        batches = self._unreported()
        return batches if self._callback is None else reporting(batches, self._source, self._callback)

    def scan_batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the rows; the same as :meth:`to_batches`."""
        return self.to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a stream of Arrow's C interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """Return the rows in memory."""
        batches = list(self._in_runs().to_batches())
        if batches and not self.projected_schema.names:
            # A table without columns keeps its number of rows only if it is created from such batches.
            return pa.Table.from_batches(batches)
        return pa.Table.from_batches(batches, schema=self.projected_schema)

    def to_pandas(self, *, blob_mode: str = "lazy", **kwargs: Any) -> Any:
        """Return the rows as a pandas DataFrame.

        Args:
            blob_mode: what the frame contains for blob columns: "lazy" for file objects, "bytes" for values, or
                "descriptions" for what :meth:`to_table` returns.
            **kwargs: arguments for ``pyarrow.Table.to_pandas``.

        Raises:
            InvalidInputError: ``blob_mode`` is unknown.
        """
        columns = self._arguments["columns"]
        paths = columns if isinstance(columns, dict) else {}
        return read_frame(self._source, self.projected_schema, paths, self._read_replanned, blob_mode, **kwargs)

    def count_rows(self) -> int:
        """Return the number of rows that the scan returns.

        Only the columns of the filter are read, if there is one, and the vector column in a search for nearest vectors.
        """
        if self._nearest is not None:
            return self._nearest.count(self._offset, self._limit, self._config)
        if self._predicate is None:
            return sum(rows.stop - rows.start for _, rows in self._ranges())
        return sum(len(rows) for _, rows in self._found())

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        plan_ranges((), offset=None, limit=whole_number("num_rows", num_rows))
        shorter = copy(self)
        shorter._limit = num_rows if self._limit is None else min(num_rows, self._limit)
        return shorter.to_table()

    def explain_plan(self, verbose: bool = False) -> str:
        """Return a description of how the rows are read, one line per step; nothing is read.

        Args:
            verbose: whether to list the fragments and their files.
        """
        columns = self._arguments["columns"]
        _, fetched = split_columns(self._columns.stored, self._predicate)
        scan = plan_text(
            self._source,
            fetched.names,
            computed=columns if isinstance(columns, dict) else None,
            predicate=self._predicate,
            offset=self._offset,
            limit=self._limit,
            verbose=verbose,
        )
        return scan if self._nearest is None else f"{self._nearest.description}\n{indent(scan, '  ')}"

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Perform the scan, and return the description of :meth:`explain_plan` below a line about the result.

        Args:
            count_rows: whether to count the rows, as :meth:`count_rows` does, instead of reading them.
        """
        scan = type(self)(self._source, **{**self._arguments, "columns": []}) if count_rows else self
        result = f"Count: rows={scan.count_rows()}\n" if count_rows else measured(scan._unreported(), self._source)
        return result + indent(scan.explain_plan(), "  ")

    def take(self, indices: object) -> NoReturn:
        """Raise an error, as in pylance.

        Raises:
            NotSupportedError: always; use :meth:`LanceDataset.take` instead.
        """
        raise NotSupportedError("a scanner cannot take rows by position; use LanceDataset.take() instead")

    @staticmethod
    def from_dataset(*args: object, **kwargs: object) -> NoReturn:
        """Raise an error, as in pylance.

        Raises:
            NotSupportedError: always; use :meth:`LanceDataset.scanner` instead.
        """
        raise NotSupportedError("from_dataset is not supported; use LanceDataset.scanner() instead")

    @staticmethod
    def from_fragment(*args: object, **kwargs: object) -> NoReturn:
        """Raise an error, as in pylance.

        Raises:
            NotSupportedError: always; use :meth:`LanceFragment.scanner` instead.
        """
        raise NotSupportedError("from_fragment is not supported; use LanceFragment.scanner() instead")

    @staticmethod
    def from_batches(*args: object, **kwargs: object) -> NoReturn:
        """Raise an error, as in pylance.

        Raises:
            NotSupportedError: always; use ``pyarrow.dataset.Scanner.from_batches`` instead.
        """
        raise NotSupportedError(
            "a LanceScanner cannot read batches in memory; use pyarrow.dataset.Scanner.from_batches"
        )

    def __copy__(self) -> Self:
        """Return a scan with the same plan."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def _in_runs(self) -> Self:
        """Return the same scan, but with all rows that are decoded together in one batch, if no size was requested."""
        if self._sizes != BatchSizes() or self._projection.computed is not None:
            return self
        larger = copy(self)
        larger._run_rows = _MAX_RUN_ROWS
        return larger

    def _read_replanned(self, **arguments: Any) -> pa.Table:
        """Return the rows of a scan in which some arguments are replaced."""
        return type(self)(self._source, **{**self._arguments, **arguments}).to_table()

    def _scan_of_keys(self, names: list[str]) -> Self:
        """Plan a scan of other columns of the same rows, without offset and limit."""
        selecting = ("filter", "use_stats", "row_addr_allowlist", "row_addr_blocklist")
        return type(self)(self._source, columns=names, **{name: self._arguments[name] for name in selecting})

    def _unreported(self) -> Iterator[pa.RecordBatch]:
        """Stream the rows without reporting statistics."""
        return self._sizes.divide(self._shown_batches())

    def _shown_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the form that is returned to callers."""
        if self._nearest is not None:
            yield from map(self._projection.apply, self._nearest.batches(self._offset, self._limit, self._config))
            return
        if self._order is not None and self._projection.schema.names:
            rows = PlacedRows(self._source, self._stored, self._columns, self._projection)
            start = self._offset or 0
            found = self._order.addresses(start, None if self._limit is None else start + self._limit)
            yield from read_in_order(rows, found, self._source.fragments, self._config.batch_rows)
            return
        for reader, batch in self._bounded(
            self._range_batches() if self._predicate is None else self._matching_batches()
        ):
            yield self._projection.apply(self._columns.apply(batch, reader))

    def _bounded(self, batches: Iterator[_Rows]) -> Iterator[_Rows]:
        """Limit the size of batches in bytes if blob values are loaded, unless only a number of rows was requested."""
        limit = self._sizes.num_bytes
        if not self._columns.loads_blobs or (self._sizes.rows is not None and limit is None):
            yield from batches
            return
        num_bytes = _VALUES_BYTES if limit is None else min(limit, _VALUES_BYTES)
        for reader, batch in batches:
            for start, stop in blob_pieces(batch, self._columns.stored, num_bytes):
                yield reader, batch.slice(start, stop - start)

    def _range_batches(self) -> Iterator[_Rows]:
        """Yield the rows of the ranges that offset and limit select."""
        for reader, rows in self._ranges():
            for batch in reader.runs(self._columns.stored, rows.start, rows.stop, self._config, self._run_rows):
                yield reader, batch

    def _matching_batches(self) -> Iterator[_Rows]:
        """Yield the rows that match the filter."""
        shared, fetched = split_columns(self._columns.stored, self._predicate)
        if self._predicate is not None and self._predicate.constant is None and not fetched.fields:
            yield from self._covered_batches(self._predicate)
        elif self._predicate is not None and shared.fields:
            yield from self._joined_batches(self._predicate, shared, fetched)
        else:
            for reader, rows in self._found(fetched):
                for batch in read_found(reader, fetched, self._stored, rows, self._config):
                    yield reader, batch

    def _joined_batches(self, predicate: Predicate, shared: Schema, fetched: Schema) -> Iterator[_Rows]:
        """Yield the rows that match the filter; columns of the filter are not read again for the result."""
        cut = RowCut(self._offset, self._limit)
        is_shared = [top in shared.fields for top in self._columns.stored.fields]
        for reader in self._fetching_readers(predicate, fetched):
            if cut.is_done():
                return
            pieces = matching_batches(reader, predicate, shared, self._config, cut, self._row_range)
            for rows, values in gathered_values(pieces, cut):
                position = 0
                for batch in read_found(reader, fetched, self._stored, rows, self._config):
                    here = values.slice(position, batch.num_rows)
                    position += batch.num_rows
                    yield reader, _merged(here, batch, is_shared)

    def _covered_batches(self, predicate: Predicate) -> Iterator[_Rows]:
        """Yield the rows that match the filter if only its columns are requested; the columns are read once."""
        cut = RowCut(self._offset, self._limit)
        names = self._columns.stored.names
        for reader in self._readers():
            if cut.is_done():
                return
            for rows, batch in matching_batches(
                reader, predicate, self._columns.stored, self._config, cut, self._row_range
            ):
                kept = cut.next(len(rows))
                if kept.start < kept.stop:
                    num_rows = kept.stop - kept.start
                    found = batch.slice(kept.start, num_rows) if names else batch_without_columns(num_rows)
                    for part in slices(found, self._config.batch_rows):
                        yield reader, part
                if cut.is_done():
                    return

    def _found(self, fetched: Schema | None = None) -> Iterator[tuple[RowReader, npt.NDArray[np.int64]]]:
        """Yield the live rows that match the filter, within offset and limit.

        Args:
            fetched: the columns that the caller reads for these rows, if any.
        """
        if self._predicate is None:
            return
        cut = RowCut(self._offset, self._limit)
        for reader in self._readers() if fetched is None else self._fetching_readers(self._predicate, fetched):
            if cut.is_done():
                return
            for rows in gathered(find_rows(reader, self._predicate, self._config, cut, self._row_range), cut):
                yield reader, rows

    def _readers(self) -> Iterator[RowReader]:
        # Readers are created one at a time: each keeps its files open.
        first_rows = self._source.first_rows() if wants_offsets(self._columns.stored.fields) else {}
        fragments = (
            self._source.reader(fragment, first_rows.get(fragment.id, 0)) for fragment in self._source.fragments
        )
        if len(self._source.fragments) == 1:
            return fragments
        filtered = () if self._predicate is None else self._predicate.wanted.fields
        num_first = _FIRST_FILTERED if self._limit is None and self._predicate is not None else 1
        wanted = (*self._columns.stored.fields, *filtered)
        return joined_readers(fragments, wanted, num_first=num_first, has_limit=self._limit is not None)

    def _fetching_readers(self, predicate: Predicate, fetched: Schema) -> Iterator[RowReader]:
        """Yield readers; some have begun to fetch the given columns together with those of the predicate."""
        readers = self._readers()
        if self._limit is not None or self._row_range is not None:
            return readers
        return with_columns_fetched(readers, predicate.wanted, fetched, self._stored, self._config)

    def _ranges(self) -> Iterator[tuple[RowReader, LiveRange]]:
        readers: list[RowReader] = []

        def live_counts() -> Iterator[int]:
            for reader in self._readers():
                readers[:] = [reader]
                yield reader.num_live_rows

        for rows in plan_ranges(live_counts(), offset=self._offset, limit=self._limit):
            yield readers[0], rows


def _refuse_with_nearest(**arguments: object) -> None:
    """Raise an error if an argument is given that cannot be combined with a search."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise NotSupportedError(f"{name} cannot be combined with nearest", argument=name)


def _merged(first: pa.RecordBatch, second: pa.RecordBatch, is_first: Sequence[bool]) -> pa.RecordBatch:
    """Return a batch of the columns of two batches; ``is_first`` tells which of the columns are from ``first``."""
    sides = [zip(batch.schema, batch.columns, strict=True) for batch in (second, first)]
    fields, columns = zip(*(next(sides[each]) for each in is_first), strict=True)
    return pa.RecordBatch.from_arrays(list(columns), schema=pa.schema(fields))


def _filtered_schema(schema: Schema) -> Schema:
    """Return the columns that a filter can use."""
    return with_row_columns(stored_schema(schema), offsets=False)


def _predicate_of(schema: Schema, filter: Any, mask: RowMask | None) -> Predicate | None:
    """Return the condition of a scan; None if all rows are selected."""
    if filter is None and mask is None:
        return None
    filtered = _filtered_schema(schema)
    predicate = None if filter is None else Predicate.plan(filtered, filter)
    if mask is None:
        return predicate
    return Predicate.on_column(filtered, (ROW_ID_NAME, pa.uint64()), mask.selects, "_rowid is selected", predicate)


def _read_config(batch_rows: int | None, io_buffer_size: int | None, use_stats: bool | None) -> ReadConfig:
    """Convert the arguments of a scan; None means the default."""
    config = ReadConfig(use_stats=use_stats is None or bool(use_stats))
    config = replace(config, batch_bytes=_BATCH_BYTES) if batch_rows is None else replace(config, batch_rows=batch_rows)
    if io_buffer_size is None:
        text = os.environ.get(_BUFFER_VARIABLE, "")
        io_buffer_size = int(text) if text.isascii() and text.isdecimal() else None
    if io_buffer_size is not None:
        num_bytes = checked_number("io_buffer_size", io_buffer_size, 0, 2**64)
        config = replace(config, ahead_bytes=num_bytes, remote_ahead_bytes=num_bytes)
    return config


_Rows: TypeAlias = "tuple[RowReader, pa.RecordBatch]"
"""A reader, and a batch of its rows."""
