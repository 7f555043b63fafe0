"""FieldSource: reads one top-level field of an open data file, for all format versions.

::

    fields of a projection  →  one FieldSource each          structural/, v2_0/, v0_1/
    rows of a field         →  segments                      plan(), pure
    segment                 →  bytes, then an array          decode(), take()

Every version has a module that creates the sources of a projection; ``reader.py`` selects it based on the footer. The
scan (``scan.py``) only works with segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from lance_core.file.read_steps import Read, ReadSteps
    from lance_core.io.byte_range import ByteRange
    from lance_core.schema.field import Field

__all__ = ["FieldSource", "Pace", "RowStatistics", "Segment", "SteppedSource"]


class Segment(Protocol):
    """Rows of one field that are fetched and decoded together."""

    @property
    def start(self) -> int:
        """First row, counted from the start of the file."""

    @property
    def stop(self) -> int:
        """End of the rows."""

    @property
    def num_bytes(self) -> int:
        """Approximate number of encoded bytes to read; limits the read-ahead."""


class FieldSource(Protocol):
    """One top-level field of an open file, possibly pruned to some of its members. Safe for use by several threads."""

    @property
    def field(self) -> Field:
        """The field; its arrays have type ``arrow_type(field)``."""

    def plan(self, start: int, stop: int, *, batch_rows: int | None = None) -> Sequence[Segment]:
        """Cut the rows ``[start, stop)`` into segments, in row order and without gaps. Reads nothing.

        Args:
            start: first row.
            stop: end of the rows; if it is not after ``start``, there are no segments.
            batch_rows: number of rows that the consumer requests at a time; None = all at once.
        """

    def memory_of(self, segment: Segment) -> int:
        """Estimate the memory of the decoded rows in bytes without reading; 0 = the segment is never cut."""

    def cut(self, segment: Segment, pace: Pace) -> Sequence[Segment]:
        """Split the rows into segments of the requested size, to the extent that pages can be read in parts.

        This keeps the total memory of several fields within the limit of a stream.
        """

    def first_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return the ranges that decoding the segment reads first, to the extent that they are known in advance."""

    def decode(self, segment: Segment, read: Read) -> pa.Array:
        """Return the rows of one segment.

        Raises:
            CorruptDataError: the data is inconsistent.
            UnsupportedEncodingError: the encoding is not supported.
        """

    def take(self, rows: NDArray[np.int64], read: Read) -> list[pa.Array]:
        """Read individual rows.

        Args:
            rows: ascending, duplicates allowed, all within the file; shape (num_rows,).
            read: reads ranges of the file.

        Returns:
            Arrays that together contain exactly those rows in that order.
        """


@dataclass(frozen=True, slots=True)
class Pace:
    """How much of a field a stream decodes at a time.

    Attributes:
        max_memory: approximate memory of the arrays of one segment in bytes.
        batch_rows: number of rows per batch; a segment is not cut to less than a batch.
        first_row: the row at which the first batch starts; segments end at batch boundaries where possible.
    """

    max_memory: int
    batch_rows: int
    first_row: int


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """Statistics that a file keeps about ranges of its rows.

    Attributes:
        row_starts: first row of each range, then the number of rows in the file, shape (num_ranges + 1,).
        bounds: maps each field id to the minimum and maximum of each range, null if unknown; fields without statistics
            are omitted.
    """

    row_starts: NDArray[np.int64]
    bounds: Mapping[int, tuple[pa.Array, pa.Array]]


@runtime_checkable
class SteppedSource(FieldSource, Protocol):
    """A source that reads rows step by step, so that several fields of a file can share their requests."""

    def take_steps(self, rows: NDArray[np.int64]) -> ReadSteps[list[pa.Array]]:
        """Like :meth:`take`, but the caller reads the yielded ranges."""
