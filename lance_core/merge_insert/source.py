"""SourceRows: the rows of a merge's source, which can be read repeatedly: in order, or individually.

The rows are held in memory up to a limit. Further rows are in a temporary file, which is mapped into memory. The
process releases the parts that it has read; the operating system keeps as much of the file in memory as fits.
"""

from __future__ import annotations

import mmap
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

import numpy as np
import pyarrow as pa

from lance_core.errors import InternalError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    import numpy.typing as npt

__all__ = ["RowSource", "SourceRows", "one_batch"]

_BATCH_ROWS: Final = 1 << 16
"""Minimum number of rows in a batch that is held in memory; rows are found faster in a few large batches."""

_MAPPED_BYTES: Final = 32 * 1024 * 1024
"""Number of bytes that are read from the temporary file before the memory of its mapping is released."""


class RowSource(Protocol):
    """The rows of a source, which can be read repeatedly."""

    schema: pa.Schema
    """The columns."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        ...

    def batches(self, start: int = 0, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield each batch with the number of its first row; the batches contain row ``start`` and all later rows."""
        ...

    def take(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return rows by their numbers, in the given order; rows may repeat."""
        ...


class SourceRows:
    """The rows of a source; a context manager that removes the temporary file.

    Args:
        reader: the rows.
        memory_bytes: maximum size of the rows to hold in memory.

    Attributes:
        schema: the columns.

    Raises:
        InvalidInputError: the source cannot be read.
    """

    def __init__(self, reader: pa.RecordBatchReader, memory_bytes: int) -> None:
        """Read all rows."""
        self.schema: pa.Schema = reader.schema
        self._held: list[pa.RecordBatch] = []
        self._spilled: _SpilledBatches | None = None
        self._stops = [0]
        try:
            self._read(reader, memory_bytes)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the rows."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the temporary file."""
        self.close()

    def close(self) -> None:
        """Remove the temporary file."""
        if self._spilled is not None:
            self._spilled.close()

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._stops[-1]

    @property
    def is_spilled(self) -> bool:
        """Whether some rows are in a temporary file."""
        return self._spilled is not None

    def batches(self, start: int = 0, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield each batch with the number of its first row, beginning with the batch that contains row ``start``.

        Args:
            start: number of a row.
            columns: the columns to return; None for all.
        """
        first = int(np.searchsorted(self._stops, start, side="right")) - 1
        for index, (before, _) in enumerate(pairwise(self._stops[first:]), start=first):
            yield before, self._batch(index, columns)

    def take(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return rows by their numbers, in the given order; rows may repeat.

        Args:
            rows: the numbers.
            columns: the columns to return; None for all.
        """
        owners = np.searchsorted(self._stops, rows, side="right") - 1
        order = np.argsort(owners, kind="stable")
        parts = []
        low = 0
        for index, count in zip(*np.unique(owners, return_counts=True), strict=True):
            here = rows[order[low : low + count]] - self._stops[index]
            parts.append(self._batch(int(index), columns).take(pa.array(here)))
            low += int(count)
        if len(parts) == 1:
            return parts[0]
        table = pa.Table.from_batches(parts, schema=self._columns(columns)).combine_chunks()
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return one_batch(table).take(pa.array(places))

    def _columns(self, columns: Sequence[str] | None) -> pa.Schema:
        if columns is None:
            return self.schema
        return pa.schema([self.schema.field(name) for name in columns])

    def _batch(self, index: int, columns: Sequence[str] | None) -> pa.RecordBatch:
        if self._spilled is None or index < len(self._held):
            batch = self._held[index]
        else:
            batch = self._spilled.batch(index - len(self._held))
        return batch if columns is None else batch.select(list(columns))

    def _read(self, reader: pa.RecordBatchReader, memory_bytes: int) -> None:
        held_bytes = 0
        for batch in _larger(reader):
            held_bytes += batch.nbytes
            if self._spilled is None and held_bytes > memory_bytes:
                self._spilled = _SpilledBatches()
            if self._spilled is None:
                self._held.append(batch)
            else:
                self._spilled.add(batch)
            self._stops.append(self._stops[-1] + batch.num_rows)
        if self._spilled is not None:
            self._spilled.finish()


class _SpilledBatches:
    """Batches in a temporary file: first all are added, then they can be read."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="lance-merge-")
        self._path = str(Path(self._directory.name, "source.arrows"))
        self._file = pa.OSFile(self._path, "wb")
        self._places = [0]
        self._mapping: mmap.mmap | None = None
        self._num_mapped = 0

    def add(self, batch: pa.RecordBatch) -> None:
        # Every batch has a stream of its own, so that each can have other dictionaries.
        with pa.ipc.new_stream(self._file, batch.schema) as stream:
            stream.write_batch(batch)
        self._places.append(self._file.tell())

    def finish(self) -> None:
        self._file.close()
        with Path(self._path).open("rb") as file:
            self._mapping = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def batch(self, index: int) -> pa.RecordBatch:
        if self._mapping is None:
            raise InternalError("rows of the source were requested before all were written to the temporary file")
        start, stop = self._places[index : index + 2]
        self._num_mapped += stop - start
        if self._num_mapped > _MAPPED_BYTES:
            # Batches that are still in use read the file again.
            self._mapping.madvise(mmap.MADV_DONTNEED)
            self._num_mapped = stop - start
        return pa.ipc.open_stream(pa.py_buffer(self._mapping).slice(start, stop - start)).read_next_batch()

    def close(self) -> None:
        # The mapping goes with the last batch that refers to it.
        self._mapping = None
        self._file.close()
        self._directory.cleanup()


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return the rows of a table as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _larger(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield batches of ``_BATCH_ROWS`` rows, or the batches themselves if these are larger."""
    few: list[pa.RecordBatch] = []
    num_few = 0
    try:
        for batch in reader:
            few.append(batch)
            num_few += batch.num_rows
            if num_few >= _BATCH_ROWS:
                yield one_batch(pa.Table.from_batches(few))
                few, num_few = [], 0
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"the source of the merge cannot be read: {error}") from error
    if num_few:
        yield one_batch(pa.Table.from_batches(few))
