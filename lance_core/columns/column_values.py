"""Where the values of added columns come from: SQL expressions, a function, or a stream.

Each source has a schema, which may depend on the version, and returns the values for the rows of one fragment that are
not deleted.

Source: ``normalize_transform`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lance_core.columns.batch_udf import BatchUDF, BatchUDFCheckpoint
from lance_core.errors import InvalidInputError, InvalidTypeError, LanceError
from lance_core.public.arguments import whole_number
from lance_core.scan.row_columns import ROW_ADDRESS_NAME
from lance_core.scan.scanner import LanceScanner
from lance_core.write.data_input import to_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_core.scan.scan_source import ScanSource
    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment

__all__ = ["ColumnValues", "column_values"]


class ColumnValues(Protocol):
    """The values of new columns."""

    can_repeat: bool
    """Whether the values can be returned again, for another version."""

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
) -> ColumnValues:
    """Return the source of values that the arguments of ``add_columns`` describe.

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
        return _Expressions(transforms, batch_size)
    if isinstance(transforms, BatchUDF) or callable(transforms):
        return _Function(transforms, read_columns, batch_size)
    try:
        return _Stream(to_reader(transforms, reader_schema))
    except InvalidTypeError as error:
        raise InvalidTypeError(
            f"new columns must be given as a dict of SQL expressions, a function, or a stream of batches, found "
            f"{type(transforms).__name__}",
            argument="transforms",
        ) from error


class _Expressions:
    can_repeat = True

    def __init__(self, expressions: Mapping[str, str], batch_size: int | None) -> None:
        self._expressions = dict(expressions)
        self._batch_size = batch_size

    def schema(self, view: TableView) -> pa.Schema:
        shown = self._scanner(view.source()).projected_schema.remove_metadata()
        return pa.schema(list(shown)[:-1])

    def batches(self, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        for batch in self._scanner(view.source_of(fragment)).to_batches():
            yield batch.select(range(batch.num_columns - 1))

    def _scanner(self, source: ScanSource) -> LanceScanner:
        # A scan reads at least one column, even if all expressions are constants: the addresses, which are not stored.
        columns = {**self._expressions, ROW_ADDRESS_NAME: ROW_ADDRESS_NAME}
        return LanceScanner(source, columns=columns, batch_size=self._batch_size)

    def finish(self) -> None:
        pass


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
        """Return the result for a batch, from the checkpoint if it contains one that fits."""
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
