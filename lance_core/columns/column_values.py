"""Where the values of added columns come from: SQL expressions, a function, or a stream.

Each source has a schema, which may depend on the version, and returns the values for the rows of one fragment that are
not deleted.

Source: ``normalize_transform`` of pylance 14.0.2.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from lance_core.columns.batch_udf import BatchUDF, BatchUDFCheckpoint
from lance_core.errors import InvalidInputError, InvalidTypeError, LanceError, NotSupportedError
from lance_core.file.read_config import ReadConfig
from lance_core.public.arguments import whole_number
from lance_core.scan.fragment_group import joined_readers
from lance_core.scan.projection import Projection
from lance_core.scan.row_columns import ROW_ADDRESS_NAME, with_row_columns
from lance_core.scan.scan_source import ScanSource
from lance_core.scan.scanner import LanceScanner
from lance_core.scan.shown_columns import BlobHandling, ShownColumns
from lance_core.write.data_input import to_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment

__all__ = ["ColumnValues", "column_values"]

_MAX_RUN_ROWS: Final = 64 * 1024
"""Maximum number of rows for which an expression is evaluated at a time, if no batch size is requested."""

_FIRST_FRAGMENTS: Final = 8
"""Number of fragments in the first group of fragments that are read together."""


class ColumnValues(Protocol):
    """The values of new columns."""

    can_repeat: bool
    """Whether the values can be requested again, for another version, after a conflict."""

    def schema(self, view: TableView) -> pa.Schema:
        """Return the new columns."""
        ...

    def batches(self, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        """Return the values for the rows of a fragment that are not deleted."""
        ...

    def finish(self) -> None:
        """Check that no values are left after those of the last fragment."""
        ...


def column_values(
    transforms: object,
    read_columns: Sequence[str] | None = None,
    reader_schema: pa.Schema | None = None,
    batch_size: int | None = None,
    *,
    of_all_fragments: bool = True,
) -> ColumnValues:
    """Return the source of values that the arguments of ``add_columns`` describe.

    Args:
        transforms: as for ``add_columns``; the same applies to the arguments up to ``batch_size``.
        read_columns: columns that a function receives.
        reader_schema: the schema of an iterable of batches.
        batch_size: maximum number of rows in a batch.
        of_all_fragments: whether the values of all fragments are needed, one after the other, so that several
            fragments may be read together.

    Raises:
        InvalidTypeError: ``transforms`` is not a dict of SQL expressions, a function, or a stream of batches.
        InvalidInputError: ``batch_size`` is less than 1.
    """
    if batch_size is not None and whole_number("batch_size", batch_size) < 1:
        raise InvalidInputError(f"batch_size must be at least 1, found {batch_size}", argument="batch_size")
    if isinstance(transforms, dict):
        for name, expression in transforms.items():
            if not isinstance(name, str) or not isinstance(expression, str):
                raise InvalidTypeError(
                    f"new columns must map names to SQL expressions, found {name!r:.80}: {expression!r:.80}"
                )
        return _Expressions(transforms, batch_size, of_all_fragments=of_all_fragments)
    if isinstance(transforms, BatchUDF) or callable(transforms):
        return _Function(transforms, read_columns, batch_size)
    try:
        return _Stream(to_reader(transforms, reader_schema))
    except InvalidTypeError as error:
        raise InvalidTypeError(
            "new columns must be given as a dict of SQL expressions, a function, or tabular data, found "
            f"{type(transforms).__name__}",
            argument="transforms",
        ) from error


class _Expressions:
    can_repeat = True

    def __init__(self, expressions: Mapping[str, str], batch_size: int | None, *, of_all_fragments: bool) -> None:
        self._of_all_fragments = of_all_fragments
        self._expressions = dict(expressions)
        self._batch_size = batch_size
        self._plan: tuple[Schema, ShownColumns, Projection] | None = None
        self._following: _Following | None = None

    def schema(self, view: TableView) -> pa.Schema:
        return pa.schema(list(self._planned(view.schema)[1].schema)[: len(self._expressions)])

    def batches(self, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        if not self._of_all_fragments:
            return self._computed(view.source_of(fragment))
        if self._following is None or not self._following.is_next(view, fragment):
            self._following = _Following(view, fragment, self._computed)
        return self._following.next()

    def _computed(self, source: ScanSource) -> Iterator[pa.RecordBatch]:
        """Compute the values of fragments that are read together."""
        columns, projection = self._planned(source.schema)
        config = ReadConfig() if self._batch_size is None else ReadConfig(batch_rows=self._batch_size)
        # Rows that were decoded together are evaluated together, because an evaluation has a fixed cost.
        max_rows = config.batch_rows if self._batch_size is not None else _MAX_RUN_ROWS
        readers = map(source.reader, source.fragments)
        for reader in joined_readers(readers, columns.stored.fields, num_first=_FIRST_FRAGMENTS):
            for run in reader.runs(columns.stored, 0, reader.num_live_rows, config, max_rows):
                batch = projection.apply(columns.apply(run, reader))
                yield batch.select(range(len(self._expressions)))

    def _planned(self, schema: Schema) -> tuple[ShownColumns, Projection]:
        """Return the columns to read, and the expressions; they are planned once for all fragments."""
        if self._plan is None or self._plan[0] != schema:
            declared = with_row_columns(schema)
            # Expressions are computed from the binary form of JSON.
            table = ShownColumns.plan(declared, BlobHandling.BLOBS_DESCRIPTIONS, json_as_text=False)
            try:
                projection = Projection.plan(table.shown, self._expressions)
            except NotSupportedError:
                # At least one column is read, even if all expressions are constants: the addresses are not stored.
                projection = Projection.plan(table.shown, {**self._expressions, ROW_ADDRESS_NAME: ROW_ADDRESS_NAME})
            self._plan = schema, table.of(projection.wanted), projection
        return self._plan[1:]

    def finish(self) -> None:
        self._following = None


class _Following:
    """Divides one stream of values for a fragment and all later fragments of the version among these fragments.

    Args:
        view: the version.
        first: the fragment to begin with.
        values: returns the values of some fragments, as one stream.
    """

    def __init__(
        self, view: TableView, first: Fragment, values: Callable[[ScanSource], Iterator[pa.RecordBatch]]
    ) -> None:
        fragments = list(view.fragments)
        start = next(index for index, fragment in enumerate(fragments) if fragment.id == first.id)
        self._view = view
        self._source = ScanSource(view.schema, fragments[start:], view.locator, session=view.session)
        self._fragments = deque(self._source.fragments)
        self._batches = values(self._source)
        self._rest: pa.RecordBatch | None = None

    def is_next(self, view: TableView, fragment: Fragment) -> bool:
        """Return whether the values of this fragment come next."""
        return view is self._view and bool(self._fragments) and self._fragments[0].id == fragment.id

    def next(self) -> Iterator[pa.RecordBatch]:
        """Yield the values of the next fragment."""
        num_left = self._source.reader(self._fragments.popleft()).num_live_rows
        while num_left:
            batch = next(self._batches) if self._rest is None else self._rest
            yield batch.slice(0, num_left)
            self._rest = batch.slice(num_left) if batch.num_rows > num_left else None
            num_left -= min(num_left, batch.num_rows)


class _Function:
    can_repeat = True

    def __init__(self, function: Any, read_columns: Sequence[str] | None, batch_size: int | None) -> None:
        self._is_plain = not isinstance(function, BatchUDF)
        self._udf = function if isinstance(function, BatchUDF) else BatchUDF(function)
        self._read_columns = read_columns
        self._batch_size = batch_size

    def schema(self, view: TableView) -> pa.Schema:
        if self._udf.output_schema is None:
            first = next(LanceScanner(view.source(), columns=self._read_columns, limit=1).to_batches(), None)
            if first is None:
                raise InvalidInputError("the table has no rows, so the function must declare an output_schema")
            try:
                self._udf.output_schema = self._computed(first).schema
            except InvalidInputError as error:
                if not self._is_plain:
                    raise
                raise InvalidTypeError(f"the given function cannot compute columns: {error}") from error
        return self._udf.output_schema

    def batches(self, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        source = view.source_of(fragment)
        scanner = LanceScanner(source, columns=self._read_columns, batch_size=self._batch_size)
        for index, batch in enumerate(scanner.to_batches()):
            yield self._kept(BatchUDFCheckpoint.BatchInfo(fragment.id, index), batch)

    def finish(self) -> None:
        pass

    def _kept(self, info: BatchUDFCheckpoint.BatchInfo, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the result for a batch, from the checkpoint if it contains a valid one."""
        cache = self._udf.cache
        if cache is None:
            return self._computed(batch)
        known = cache.get_batch(info)
        if known is not None and known.num_rows == batch.num_rows and known.schema.equals(self._udf.output_schema):
            return known
        computed = self._computed(batch)
        cache.insert_batch(info, computed)
        return computed

    def _computed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return self._udf.result(batch)
        except LanceError:
            raise
        except Exception as error:
            raise InvalidInputError(f"the function that computes new columns failed: {error!r}") from error


class _Stream:
    can_repeat = False

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self._batches = iter(reader)
        self._rest: pa.RecordBatch | None = None

    def schema(self, view: TableView) -> pa.Schema:
        del view
        return self._reader.schema

    def batches(self, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        del view
        num_left = fragment.num_live_rows
        while num_left and (batch := self._next()) is not None:
            yield batch.slice(0, num_left)
            self._rest = batch.slice(num_left) if batch.num_rows > num_left else None
            num_left -= min(num_left, batch.num_rows)

    def finish(self) -> None:
        if self._next() is not None:
            raise InvalidInputError("the stream of new columns has more rows than the table")

    def _next(self) -> pa.RecordBatch | None:
        batch, self._rest = self._rest, None
        while batch is None or not batch.num_rows:
            try:
                batch = next(self._batches, None)
            except (pa.ArrowException, OSError) as error:
                raise InvalidInputError(f"the stream of new columns failed: {error}") from error
            if batch is None:
                return None
        return batch
