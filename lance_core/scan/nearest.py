"""Finds the rows whose vectors are nearest to query vectors, by comparing the vectors of all rows.

The column of vectors is read as a stream, with the ids and addresses of its rows. Several threads compute the distances
of the batches, and of each batch, only rows that may be among the nearest are kept. Rows at equal distances are ordered
by row id. The other columns are read at the end, only for the rows that are returned.

With ``prefilter``, the search considers only rows that match the filter. Otherwise, the filter is applied to the
nearest rows, so fewer than ``k`` rows may remain; such a filter may also use the columns that the search adds. Sets of
row ids (``row_addr_allowlist``, ``row_addr_blocklist``) always apply before the search. Offset and limit apply to the
rows that remain, after they have been sorted if ``order_by`` is given.

**Source:** plans of pylance 14.0.2 for searches without an index.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lance_core.file.decode_pool import decode_pool
from lance_core.public.column_ordering import column_orderings
from lance_core.scan.distances import distances
from lance_core.scan.fragment_group import joined_readers
from lance_core.scan.matching import RowCut, find_rows, gathered, read_found
from lance_core.scan.nearest_query import DISTANCE_FIELD, QUERY_INDEX_FIELD, SCORE_IDS
from lance_core.scan.output_schema import OutputSchema
from lance_core.scan.projection import Projection
from lance_core.scan.row_columns import ROW_ADDRESS_NAME, ROW_ID_NAME, with_row_columns
from lance_core.scan.shown_columns import BlobHandling, ShownColumns
from lance_core.scan.take import PlacedRows
from lance_core.schema.blob_fields import stored_schema
from lance_core.schema.extension_types import storage_array
from lance_core.schema.field import Schema
from lance_core.table.row_id_index import RowPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    import numpy.typing as npt

    from lance_core.file.read_config import ReadConfig
    from lance_core.predicate.predicate import Predicate
    from lance_core.scan.distances import Metric
    from lance_core.scan.nearest_query import NearestQuery
    from lance_core.scan.scan_source import ScanSource
    from lance_core.table.fragment import Fragment

__all__ = ["NearestRows"]

_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Target size in bytes of the vectors in a batch; a batch is the unit of work of a thread."""

_MAX_BATCH_ROWS: Final = 2**18

_NUM_AHEAD: Final = 8
"""Maximum number of batches whose distances are computed at the same time."""

_LEAST_HELD: Final = 2**16
"""Minimum number of candidates to collect before those that are not among the nearest are dropped."""


_ROW: Final = np.dtype(
    [("query_index", np.int32), ("distance", np.float32), ("row_id", np.uint64), ("address", np.uint64)]
)
"""A row that may be among the nearest: the query it was compared with, its distance, its id, and its address."""

_Rows: TypeAlias = "npt.NDArray[np.void]"
"""Rows, as a structured array with the fields of ``_ROW``."""


class NearestRows:
    """The result of a search for nearest vectors.

    Args:
        source: the fragments to search.
        query: the query.
        before: selects the rows to compare; None selects all rows.
        after: selects rows of the result; None selects all rows.
        columns: the columns of the result, including those that the search adds.
        order_by: the columns to sort the result by, as for :class:`RowOrder`; by default, it is ordered by distance.

    Raises:
        InvalidInputError: a column to sort by does not exist.
        InvalidTypeError: ``order_by`` is not a list of orderings.
    """

    def __init__(
        self,
        source: ScanSource,
        query: NearestQuery,
        before: Predicate | None,
        after: Predicate | None,
        *,
        columns: ShownColumns,
        order_by: Any,
    ) -> None:
        """Plan which columns to read."""
        self._source = source
        self._query = query
        self._before = before
        self._after = after
        self._columns = columns
        self._stored = with_row_columns(stored_schema(source.schema))
        self._compared = Projection.plan(self._stored, [query.column, ROW_ID_NAME, ROW_ADDRESS_NAME])
        self._orderings = column_orderings(order_by)
        names = list(dict.fromkeys(each.column_name for each in self._orderings))
        table = ShownColumns.plan(source.schema, BlobHandling.BLOBS_DESCRIPTIONS)
        self._keys = Projection.plan(table.shown, names)
        self._key_columns = table.of(self._keys.wanted)

    @property
    def description(self) -> str:
        """One line about the search."""
        query = self._query
        return (
            f"NearestRows: column={query.column}, metric={query.metric.value}, k={query.k}, "
            f"queries={len(query.queries)}, postfilter={self._after is not None}, sort={bool(self._orderings)}"
        )

    def batches(self, offset: int | None, limit: int | None, config: ReadConfig) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of their distances, one query vector after another, or sorted by ``order_by``.

        Args:
            offset: number of rows to skip; None means 0.
            limit: maximum number of rows to return; None means no limit.
            config: read settings, including the maximum number of rows in a batch.
        """
        rows = self._sorted(self._found(config), config)
        rows = rows[RowCut(offset, limit).next(len(rows))]
        for part in _parts(rows, config.batch_rows):
            yield self._read(self._columns, part)

    def count(self, offset: int | None, limit: int | None, config: ReadConfig) -> int:
        """Return the number of rows; only the column of vectors and the columns of the filter are read."""
        rows = self._found(config)
        return len(rows[RowCut(offset, limit).next(len(rows))])

    def _found(self, config: ReadConfig) -> _Rows:
        rows = self._nearest(config)
        predicate = self._after
        if predicate is not None:
            wanted = ShownColumns(predicate.wanted, predicate.wanted)
            masks = [predicate.matches(self._read(wanted, part)) for part in _parts(rows, config.batch_rows)]
            rows = rows[np.concatenate([np.empty(0, np.bool_), *masks])]
        return rows

    def _sorted(self, rows: _Rows, config: ReadConfig) -> _Rows:
        """Return the rows sorted by columns of the table; equal rows keep their order."""
        if not self._orderings:
            return rows
        # DataFusion is a large package, so it is loaded only when it is needed.
        from lance_core.predicate.sorting import sorted_rows

        pieces = _parts(rows, config.batch_rows)
        parts = [self._keys.apply(self._read(self._key_columns, piece)) for piece in pieces]
        shown = pa.Table.from_batches(parts, schema=self._keys.schema)
        columns = [storage_array(_one_array(shown.column(each.column_name))) for each in self._orderings]
        names = [*map(str, range(len(columns))), "position"]
        keys = pa.Table.from_arrays([*columns, pa.array(np.arange(len(rows)))], names=names)
        order = sorted_rows(keys, self._orderings, 0, None).column("position").to_numpy()
        result: _Rows = rows[order]
        return result

    def _nearest(self, config: ReadConfig) -> _Rows:
        """Return the rows nearest to each query vector."""
        rankings = [_Ranking(self._query.k) for _ in self._query.queries]
        for parts in _in_threads(partial(self._compare, rankings), self._vectors(config)):
            for ranking, part in zip(rankings, parts, strict=True):
                ranking.add(part)
        return np.concatenate([ranking.nearest() for ranking in rankings])

    def _vectors(self, config: ReadConfig) -> Iterator[pa.RecordBatch]:
        """Yield the vectors, ids, and addresses of the rows to compare."""
        wanted = self._compared.wanted
        vector_bytes = max(1, self._query.queries[0][0].nbytes)
        batch_rows = min(_MAX_BATCH_ROWS, max(1, _BATCH_BYTES // vector_bytes))
        larger = replace(config, batch_rows=batch_rows)
        filtered = () if self._before is None else self._before.wanted.fields
        fragments = map(self._source.reader, self._source.fragments)
        for reader in joined_readers(fragments, (*wanted.fields, *filtered)):
            if self._before is None:
                yield from reader.batches(wanted, 0, reader.num_live_rows, larger)
                continue
            for rows in gathered(find_rows(reader, self._before, config), RowCut(None, None)):
                yield from read_found(reader, wanted, self._stored, rows, larger)

    def _compare(self, rankings: Sequence[_Ranking], batch: pa.RecordBatch) -> list[_Rows]:
        """Return, for each ranking, the rows of a batch that may be among the nearest."""
        vectors, row_ids, addresses = self._compared.apply(batch).columns
        array = storage_array(vectors)
        measure = _list_distances if pa.types.is_list(array.type) else _vector_distances
        parts = []
        for index, (query, ranking) in enumerate(zip(self._query.queries, rankings, strict=True)):
            measured = measure(self._query.metric, array, query)
            kept = self._least(measured, ranking)
            part = np.empty(len(kept), _ROW)
            part["query_index"] = index
            part["distance"] = measured[kept]
            part["row_id"] = np.asarray(row_ids)[kept]
            part["address"] = np.asarray(addresses)[kept]
            parts.append(part)
        return parts

    def _least(self, measured: npt.NDArray[np.float32], ranking: _Ranking) -> npt.NDArray[np.intp]:
        """Return the positions of the distances that may be among the smallest; NaN is never among them."""
        query = self._query
        may_be = measured <= ranking.farthest
        if query.lower is not None:
            may_be &= measured >= query.lower
        if query.upper is not None:
            may_be &= measured < query.upper
        kept = np.flatnonzero(may_be)
        if len(kept) > query.k:
            farthest = np.partition(measured[kept], query.k - 1)[query.k - 1]
            kept = kept[measured[kept] <= farthest]
        return kept

    def _read(self, columns: ShownColumns, rows: _Rows) -> pa.RecordBatch:
        """Read columns of some rows; the columns that the search adds are filled from ``rows``."""
        stored, shown = _without_scores(columns.stored), _without_scores(columns.shown)
        arrays: dict[int, pa.Array] = {
            DISTANCE_FIELD.id: pa.array(rows["distance"]),
            QUERY_INDEX_FIELD.id: pa.array(rows["query_index"]),
        }
        if stored.fields:
            addresses, order = np.unique(rows["address"], return_inverse=True)
            kept = ShownColumns(stored, stored if columns.shown is columns.stored else shown)
            placed = PlacedRows(self._source, self._stored, kept, Projection.plan(kept.shown, None))
            table = placed.table(_places(addresses, self._source.fragments)).take(pa.array(order))
            arrays |= zip((field.id for field in stored.fields), map(_one_array, table.columns), strict=True)
        return OutputSchema(columns.shown).batch([arrays[field.id] for field in columns.shown.fields], len(rows))


class _Ranking:
    """Collects rows, and keeps those nearest to one query vector.

    Args:
        k: maximum number of rows to keep.

    Attributes:
        farthest: rows with a larger distance are not among the nearest.
    """

    def __init__(self, k: int) -> None:
        """Start without rows."""
        self.farthest = np.float32(np.inf)
        self._k = k
        self._parts = [np.empty(0, _ROW)]
        self._num_held = 0

    def add(self, rows: _Rows) -> None:
        """Add rows."""
        self._parts.append(rows)
        self._num_held += len(rows)
        if self._num_held > max(2 * self._k, _LEAST_HELD):
            self.nearest()

    def nearest(self) -> _Rows:
        """Return the nearest rows, in ascending order of distance and row id."""
        rows = np.concatenate(self._parts)
        rows = rows[np.lexsort((rows["row_id"], rows["distance"]))[: self._k]]
        if len(rows) == self._k:
            self.farthest = rows["distance"][-1]
        self._parts, self._num_held = [rows], len(rows)
        return rows


def _vector_distances(metric: Metric, array: pa.FixedSizeListArray, query: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return the distance between each vector and the only query vector; NaN for null vectors."""
    width = array.type.list_size
    values = array.values.slice(array.offset * width, len(array) * width)
    if values.null_count:
        values = values.fill_null(0)
    result = distances(metric, values.to_numpy().reshape(len(array), width), query[0])
    if array.null_count:
        result[np.asarray(array.is_null())] = np.nan
    return result


def _list_distances(metric: Metric, array: pa.ListArray, query: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return the distance between each list of vectors and the list of query vectors; NaN for lists without a vector.

    The distance is the sum, over the query vectors, of the smallest distance between the query vector and a vector of
    the list.
    """
    offsets = np.asarray(array.offsets)
    vectors = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    filled = np.flatnonzero(np.diff(offsets))
    starts = offsets[filled] - offsets[0]
    result = np.full(len(array), np.nan, np.float32)
    result[filled] = 0
    for vector in query:
        measured = _vector_distances(metric, vectors, vector[None])
        # fmin ignores NaN unless all values are NaN.
        result[filled] += np.fmin.reduceat(measured, starts) if len(starts) else measured
    if array.null_count:
        result[np.asarray(array.is_null())] = np.nan
    return result


def _in_threads(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Apply a function to items in several threads, and yield the results in the order of the items."""
    pool = decode_pool()
    pending: deque[tuple[_Item, Future[_Result]]] = deque()

    def first() -> _Result:
        item, future = pending.popleft()
        # If no thread has started the task yet, compute here instead of waiting.
        return function(item) if future.cancel() else future.result()

    for item in items:
        pending.append((item, pool.submit(function, item)))
        if len(pending) == _NUM_AHEAD:
            yield first()
    while pending:
        yield first()


def _parts(rows: _Rows, num_rows: int) -> Iterator[_Rows]:
    return (rows[start : start + num_rows] for start in range(0, len(rows), num_rows))


def _places(addresses: npt.NDArray[np.uint64], fragments: Sequence[Fragment]) -> RowPlaces:
    """Return the locations of rows with the given addresses among the fragments."""
    ids = np.array([fragment.id for fragment in fragments], np.int64)
    order = np.argsort(ids)
    owners = order[np.searchsorted(ids[order], (addresses >> np.uint64(32)).astype(np.int64))]
    return RowPlaces(owners, (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64))


def _without_scores(schema: Schema) -> Schema:
    fields = tuple(field for field in schema.fields if field.id not in SCORE_IDS)
    return Schema(fields=fields, metadata=schema.metadata)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
