"""SQL queries on a version of a dataset, which DataFusion reads as a table.

DataFusion requests the columns that a query needs, and passes on the conditions that can be represented as Arrow
expressions; it evaluates the other conditions itself. The table has one partition, so that the rows of all fragments
are one stream, from which DataFusion takes batches when it needs them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, Final

import datafusion
import pyarrow as pa

from lance_core.errors import InvalidInputError, LanceError, NotSupportedError
from lance_core.predicate.engine import failure, lacks_threads, new_context, reason
from lance_core.scan.arrow_dataset import ArrowDataset
from lance_core.scan.output_schema import shown_schema
from lance_core.scan.scanner import LanceScanner
from lance_core.scan.shown_columns import with_json_text
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import EXTENSION_NAME_KEY
from lance_core.schema.json_columns import LANCE_JSON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_core.scan.scan_source import ScanSource

__all__ = ["SqlTable"]

_MEMORY_VARIABLE: Final = "LANCE_MEM_POOL_SIZE"
_DEFAULT_MEMORY_BYTES: Final = 1 << 30

_SORT_RESERVATION_BYTES: Final = 10 << 20
"""DataFusion's default for the bytes that a sort reserves for merging; too much if the memory limit is low."""

_REFUSED: Final = (
    "Error during planning: DDL not supported",
    "Error during planning: DML not supported",
    "Error during planning: Statement not supported",
)
"""The beginnings of DataFusion's messages about statements that do more than read."""

_ONLY_QUERIES: Final = datafusion.SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


class SqlTable(ArrowDataset):
    """The table that one query reads; JSON columns are in their binary form.

    Args:
        source: the fragments of the version.
        arguments: arguments of all scans, such as ``with_row_id``.
    """

    def __init__(self, source: ScanSource, arguments: Mapping[str, Any]) -> None:
        """Plan a scan of all columns; nothing is read."""
        self._source = source
        self._arguments = {**arguments, "json_as_text": False}
        self._schema = LanceScanner(source, **self._arguments).projected_schema
        self._failure: BaseException | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns that a query can use."""
        return self._schema

    def query(self, sql: str, name: str, batch_rows: int) -> pa.RecordBatchReader:
        """Plan a query, and return its result as a stream.

        Args:
            sql: the query.
            name: name of the table in the query; converted to lower case.
            batch_rows: maximum number of rows in a batch.

        Raises:
            InvalidInputError: the query is invalid, or is not read-only. While rows are read: it cannot be evaluated
                for a row, or needs too much memory.
            NotSupportedError: the process was forked from one that used DataFusion.
        """
        if lacks_threads():
            raise NotSupportedError(
                "SQL queries need threads that do not exist in this process, because it was forked from one that used "
                "DataFusion; start the process with the `multiprocessing` start method 'spawn'"
            )
        try:
            context = _new_context(batch_rows)
            context.register_dataset(name, self)
            try:
                found = pa.RecordBatchReader.from_stream(context.sql_with_options(sql, _ONLY_QUERIES))
            except Exception:
                if self._failure is None:
                    raise
                # DataFusion can evaluate the conditions that scans do not support.
                self._failure = None
                context.remove_optimizer_rule("push_down_filter")
                found = pa.RecordBatchReader.from_stream(context.sql_with_options(sql, _ONLY_QUERIES))
        except BaseException as error:  # DataFusion raises nothing narrower
            raise self._refusal(sql, error) from error
        return _with_json_text(found.schema, self._batches(sql, _Result(found)))

    def get_fragments(self, filter: object = None) -> Iterator[SqlTable]:
        """Return the only partition."""
        return iter([self])

    def scanner(self, *args: Any, columns: list[str], filter: Any = None, **kwargs: Any) -> Any:
        """Plan a scan.

        Args:
            args: ignored; DataFusion passes the schema.
            columns: names of the columns to read.
            filter: an Arrow expression; None selects all rows.
            kwargs: ignored; DataFusion passes the batch size of its other operators.
        """
        # The row ids are among the columns if the query uses them.
        arguments = {**self._arguments, "with_row_id": False, "with_row_address": False}
        try:
            return _Scan(self, LanceScanner(self._source, columns=columns, filter=filter, **arguments))
        except LanceError as error:
            self.record(error)
            raise

    def record(self, error: BaseException) -> None:
        """Keep the error of a scan, because DataFusion passes on only the message of the error."""
        self._failure = error

    def _batches(self, sql: str, result: _Result) -> Iterator[pa.RecordBatch]:
        try:
            for batch in result:
                if batch.num_rows:
                    yield batch
        except GeneratorExit:
            raise
        except BaseException as error:  # DataFusion raises nothing narrower
            raise self._refusal(sql, error) from error

    def _refusal(self, sql: str, error: BaseException) -> BaseException:
        """Return the error of a scan, or else an error that describes the one raised by DataFusion."""
        if self._failure is not None:
            return self._failure
        message = reason(failure(error))
        problem = f"only read-only statements are supported: {message}" if message.startswith(_REFUSED) else message
        return InvalidInputError(f"SQL {_shortened(sql)!r}: {problem}")


class _Result:
    """The batches of a result, which are freed by a separate thread.

    The result may be garbage-collected at any point, even while DataFusion runs a scan of another query. At such a
    point, pyarrow would release the global interpreter lock to free the result, and DataFusion would free the Python
    objects of its scan without the lock, because it assumes that the thread still holds it.
    """

    def __init__(self, found: pa.RecordBatchReader) -> None:
        self._found = found

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._found)

    def __del__(self) -> None:
        # Threads cannot be started when the interpreter exits; then nothing else is running either.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=_free, args=(self._found,), name="lance-sql-free").start()


def _free(found: pa.RecordBatchReader) -> None:
    found.close()
    # Any call lets DataFusion free the Python objects that it could not free without the lock of the interpreter.
    datafusion.lit(True)


class _Scan:
    """A scan of a table; errors of the scan are recorded in the :class:`SqlTable`."""

    def __init__(self, table: SqlTable, scan: LanceScanner) -> None:
        self.dataset_schema = table.schema
        self.projected_schema = scan.projected_schema
        self._table = table
        self._scan = scan

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from map(_compact, self._scan.to_batches())
        except GeneratorExit:
            raise
        except BaseException as error:
            self._table.record(error)
            raise


def _compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copy a batch that uses only a small part of its buffers, because DataFusion counts the size of whole buffers."""
    if batch.get_total_buffer_size() <= 2 * batch.nbytes:
        return batch
    return pa.concat_batches([batch, batch.slice(0, 0)])


def _new_context(batch_rows: int) -> datafusion.SessionContext:
    memory = int(os.environ.get(_MEMORY_VARIABLE, _DEFAULT_MEMORY_BYTES))
    options = {
        # With one partition, the thread that reads the result executes the query.
        "datafusion.execution.target_partitions": "1",
        "datafusion.execution.batch_size": str(batch_rows),
        "datafusion.execution.sort_spill_reservation_bytes": str(min(_SORT_RESERVATION_BYTES, memory // 16)),
    }
    return new_context(options, datafusion.RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(memory))


def _with_json_text(found: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Return a stream of batches in which JSON is text."""
    tables = [schema_from_arrow(pa.schema([field])) if _has_json(field) else None for field in found]
    if not any(tables):
        return pa.RecordBatchReader.from_batches(found, batches)
    fields = [
        field if table is None else shown_schema(table).field(0) for field, table in zip(found, tables, strict=True)
    ]
    schema = pa.schema(fields, metadata=found.metadata)

    def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            array if table is None else with_json_text(array, table.fields[0])
            for array, table in zip(batch.columns, tables, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, map(converted, batches))


def _has_json(field: pa.Field) -> bool:
    if (field.metadata or {}).get(EXTENSION_NAME_KEY.encode()) == LANCE_JSON.encode():
        return True
    return any(_has_json(field.type.field(index)) for index in range(field.type.num_fields))


def _shortened(sql: str) -> str:
    return sql if len(sql) <= 200 else f"{sql[:200]} …"
