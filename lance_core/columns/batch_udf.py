"""BatchUDF: a function that computes the values of new columns, and its checkpoint file.

The names follow ``lance.udf``. The checkpoint is an SQLite database with the results for the batches of each fragment.
Unlike pylance's checkpoint, it contains Arrow streams instead of pickled objects, so reading it never executes code.

Source: ``lance.udf`` of pylance 14.0.2.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError, SchemaMismatchError, StorageError
from lance_core.wording import counted
from lance_core.write.data_input import to_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BatchUDF", "BatchUDFCheckpoint", "batch_udf"]


class BatchUDF:
    """A function that computes new columns; see :func:`batch_udf`.

    Attributes:
        func: the function, which receives a ``pa.RecordBatch``.
        output_schema: the schema of the results; None if it is not known yet.
        cache: the checkpoint; None if there is none.
    """

    def __init__(
        self,
        func: Callable[[pa.RecordBatch], Any],
        output_schema: pa.Schema | None = None,
        checkpoint_file: str | Path | None = None,
    ) -> None:
        """Create the checkpoint file, if one is given."""
        self.func = func
        self.output_schema = output_schema
        self.cache = None if checkpoint_file is None else BatchUDFCheckpoint(checkpoint_file)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Call the function directly, for example to test it."""
        return self.func(batch)

    def result(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Compute the new columns of a batch.

        Raises:
            InvalidTypeError: the result is not tabular data, such as a ``pa.RecordBatch`` or a pandas ``DataFrame``.
            SchemaMismatchError: the schema of the result is not ``output_schema``.
            InvalidInputError: the result does not have as many rows as the batch.
        """
        computed = _as_batch(self.func(batch))
        if self.output_schema is not None and not computed.schema.equals(self.output_schema):
            raise SchemaMismatchError(
                f"the schema of the function's result differs from output_schema.\nexpected:\n{self.output_schema}\n"
                f"found:\n{computed.schema}"
            )
        if computed.num_rows != batch.num_rows:
            raise InvalidInputError(
                f"the function returned {counted(computed.num_rows, 'row')} for a batch of "
                f"{counted(batch.num_rows, 'row')}",
                expected=batch.num_rows,
                found=computed.num_rows,
            )
        return computed


def batch_udf(
    output_schema: pa.Schema | None = None, checkpoint_file: str | Path | None = None
) -> Callable[[Callable[[pa.RecordBatch], Any]], BatchUDF]:
    """Return a decorator for functions that compute new columns for :meth:`LanceDataset.add_columns`.

    The function is called with each batch of rows, and returns a ``pa.RecordBatch`` or pandas ``DataFrame`` that has
    the same number of rows and contains only the new columns.

    Args:
        output_schema: the schema of the results; if None, that of the result for the first row.
        checkpoint_file: local file in which results are kept until they are committed. If the process fails, and
            the same columns are added with the same file, these results are not computed again. The file is removed
            after the commit.
    """

    def decorated(func: Callable[[pa.RecordBatch], Any]) -> BatchUDF:
        return BatchUDF(func, output_schema, checkpoint_file)

    return decorated


class BatchUDFCheckpoint:
    """The results of a function that are not committed yet, in an SQLite database.

    Args:
        path: location of the database, which is created if it does not exist.

    Raises:
        StorageError: the file cannot be written, or is not a checkpoint.
    """

    class BatchInfo(NamedTuple):
        """Identifies one batch of a fragment.

        Attributes:
            fragment_id: id of the fragment.
            batch_index: index of the batch in the fragment.
        """

        fragment_id: int
        batch_index: int

    def __init__(self, path: str | Path) -> None:
        """Create the tables, if they do not exist."""
        self.path = path
        with self._connected() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS batches (fragment_id INT, batch_index INT, result BLOB, "
                "PRIMARY KEY (fragment_id, batch_index))"
            )
            connection.execute("CREATE TABLE IF NOT EXISTS fragments (fragment_id INT PRIMARY KEY, data TEXT)")

    def cleanup(self) -> None:
        """Remove the checkpoint file."""
        Path(self.path).unlink(missing_ok=True)

    def get_batch(self, info: BatchInfo) -> pa.RecordBatch | None:
        """Return the result for a batch; None if there is none.

        Raises:
            StorageError: the file cannot be read.
        """
        found = self._found("SELECT result FROM batches WHERE fragment_id = ? AND batch_index = ?", *info)
        if found is None:
            return None
        try:
            with pa.ipc.open_stream(found) as stream:
                return stream.read_next_batch()
        except (pa.ArrowException, StopIteration, TypeError) as error:
            raise StorageError(
                f"checkpoint {self.path} is damaged: the result for batch {info.batch_index} of fragment "
                f"{info.fragment_id} cannot be read"
            ) from error

    def insert_batch(self, info: BatchInfo, batch: pa.RecordBatch) -> None:
        """Store the result for a batch.

        Raises:
            StorageError: the file cannot be written.
        """
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        with self._connected() as connection:
            connection.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?)", (*info, sink.getvalue().to_pybytes()))

    def get_fragment(self, fragment_id: int) -> str | None:
        """Return the text that was stored for a fragment; None if no text was stored."""
        found: str | None = self._found("SELECT data FROM fragments WHERE fragment_id = ?", fragment_id)
        return found

    def insert_fragment(self, fragment_id: int, fragment: str) -> None:
        """Store the text form of a fragment, and delete the results for its batches."""
        with self._connected() as connection:
            connection.execute("INSERT OR REPLACE INTO fragments VALUES (?, ?)", (fragment_id, fragment))
            connection.execute("DELETE FROM batches WHERE fragment_id = ?", (fragment_id,))

    def _found(self, query: str, *values: int) -> Any:
        with self._connected() as connection:
            row = connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Connect for one transaction. Each transaction has its own connection, because threads cannot share one."""
        try:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                yield connection
        except sqlite3.Error as error:
            raise StorageError(f"checkpoint {self.path} cannot be used: {error}") from error


def _as_batch(result: object) -> pa.RecordBatch:
    if isinstance(result, pa.RecordBatch):
        return result
    try:
        table = to_reader(result).read_all()
    except InvalidTypeError as error:
        raise InvalidTypeError(
            "the function must return tabular data, such as a pa.RecordBatch or a pandas DataFrame; found "
            f"{type(result).__name__}"
        ) from error
    return table.combine_chunks().to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)
