"""BatchSizes: the limits on the batches of a scan, and the division of rows into batches within these limits.

Source: ``batch_size``, ``batch_size_bytes``, and ``strict_batch_size`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.file.read_config import ReadConfig
from lance_core.public.arguments import whole_number
from lance_core.scan.output_schema import batch_without_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BatchSizes"]

_MAX_BATCH_ROWS: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """The limits on the batches of a scan.

    Attributes:
        rows: maximum number of rows in a batch; None if no limit is requested.
        num_bytes: maximum size of a batch in bytes; exceeded only by a batch of one row. None means no limit.
        is_strict: whether every batch except the last has the maximum number of rows.
    """

    rows: int | None = None
    num_bytes: int | None = None
    is_strict: bool = False

    @classmethod
    def of(cls, batch_size: Any, batch_size_bytes: Any, strict_batch_size: Any) -> Self:
        """Check the arguments of a scan; None means the default.

        Raises:
            InvalidInputError: a number is out of range, or a limit in bytes is combined with ``strict_batch_size``.
            InvalidTypeError: a value is not a whole number.
        """
        rows = None if batch_size is None else whole_number("batch_size", batch_size)
        if rows is not None and not 1 <= rows <= _MAX_BATCH_ROWS:
            raise InvalidInputError(f"batch_size must be between 1 and {_MAX_BATCH_ROWS}, found {batch_size}")
        num_bytes = None if batch_size_bytes is None else whole_number("batch_size_bytes", batch_size_bytes)
        if num_bytes is not None and num_bytes < 0:
            raise InvalidInputError(f"batch_size_bytes must be non-negative, found {num_bytes}")
        if strict_batch_size and num_bytes is not None:
            raise InvalidInputError("strict_batch_size cannot be combined with batch_size_bytes")
        return cls(rows, num_bytes, bool(strict_batch_size))

    def divide(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Divide batches, which must not exceed :attr:`rows`, into batches that are within all limits."""
        if self.num_bytes is not None:
            return _of_bytes(batches, self.num_bytes)
        if self.is_strict:
            return _of_rows(batches, self.rows or ReadConfig().batch_rows)
        return batches


def _of_bytes(batches: Iterator[pa.RecordBatch], num_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split batches of more than ``num_bytes`` into pieces with equal numbers of rows, repeatedly if necessary."""
    for batch in batches:
        pending = [batch]
        while pending:
            piece = pending.pop()
            if piece.num_rows <= 1 or piece.nbytes <= num_bytes:
                yield piece
                continue
            # At least two pieces; the sizes of the rows may differ, so each is checked again.
            num_rows = max(1, min(piece.num_rows * num_bytes // piece.nbytes, piece.num_rows // 2))
            starts = range(0, piece.num_rows, num_rows)
            pending.extend(piece.slice(start, num_rows) for start in reversed(starts))


def _of_rows(batches: Iterator[pa.RecordBatch], num_rows: int) -> Iterator[pa.RecordBatch]:
    """Join and split batches so that every batch except the last has exactly ``num_rows`` rows."""
    held: list[pa.RecordBatch] = []
    num_held = 0
    for batch in batches:
        start = 0
        while batch.num_rows - start >= num_rows - num_held:
            stop = start + num_rows - num_held
            yield _joined([*held, batch.slice(start, stop - start)])
            held, num_held, start = [], 0, stop
        if start < batch.num_rows:
            held.append(batch.slice(start))
            num_held += batch.num_rows - start
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    first = batches[0]
    if len(batches) == 1:
        return first
    if not first.num_columns:
        return batch_without_columns(sum(batch.num_rows for batch in batches))
    columns = [pa.concat_arrays([batch.column(index) for batch in batches]) for index in range(first.num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=first.schema)
