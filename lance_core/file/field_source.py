"""FieldSource: reads one top-level field of an open data file, for all format versions.

::

    fields of a projection  →  one FieldSource each          structural/, v2_0/, v0_1/
    rows of a field         →  segments                      plan(), pure
    segment, single rows    →  bytes, then an array          decode(), take_steps()

Each format family has a module that creates the sources of a projection; ``families.py`` selects it based on the file's
version. The scan (``scan.py``) works only with segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from lance_core.file.file_bytes import Read, ReadSteps
    from lance_core.io.byte_range import ByteRange
    from lance_core.schema.field import Field

__all__ = ["ColumnStatistics", "FieldSource", "Pace", "RowStatistics", "Segment"]


class Segment(Protocol):
    """A range of rows of one field that are fetched and decoded together."""

    @property
    def start(self) -> int:
        """Number of the first row, counted from the start of the file."""

    @property
    def stop(self) -> int:
        """Number of the row after the last."""

    @property
    def num_bytes(self) -> int:
        """Approximate number of encoded bytes to read; used to limit the read-ahead."""


class FieldSource(Protocol):
    """Reads one top-level field of an open file, possibly pruned to some of its members. Safe for concurrent use."""

    @property
    def field(self) -> Field:
        """The field that the source reads; its arrays have the type ``arrow_type(field)``."""

    @property
    def memory(self) -> int:
        """Approximate memory in bytes of the source itself, without the metadata of the file."""

    def as_dictionary(self) -> FieldSource:
        """Return a source that reads the field as an Arrow dictionary if all pages have one; otherwise, this source.

        Only strings and binaries are read as dictionaries. A page with the same value in all rows counts as a
        dictionary.
        """

    def plan(self, start: int, stop: int, *, batch_rows: int | None = None) -> Sequence[Segment]:
        """Divide the rows ``[start, stop)`` into segments, in row order and without gaps. Nothing is read.

        Args:
            start: first row.
            stop: row after the last; if ``stop`` is not greater than ``start``, there are no segments.
            batch_rows: number of rows that the consumer requests at a time; None if it requests all rows at once.
        """

    def memory_of(self, segment: Segment) -> int:
        """Estimate the memory of the decoded rows in bytes, without reading; 0 if segments are never split."""

    def cut(self, segment: Segment, pace: Pace) -> Sequence[Segment]:
        """Split a segment into segments of the requested size, if its pages can be read in parts.

        A stream splits segments to limit the total memory of its fields.
        """

    def first_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return the byte ranges that decoding the segment reads first, as far as they are known in advance."""

    def guessed_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return the ranges of the rest of the segment, assuming that all values of a page have the same size.

        Nothing is returned if :meth:`first_ranges` returns everything that decoding the segment reads.
        """

    def decode(self, segment: Segment, read: Read) -> pa.Array:
        """Return the rows of one segment.

        Raises:
            CorruptDataError: the data is inconsistent.
            UnsupportedEncodingError: the encoding is not supported.
        """

    def take_steps(self, rows: NDArray[np.int64]) -> ReadSteps[list[pa.Array]]:
        """Read individual rows, in steps, so that several fields of a file share requests.

        Args:
            rows: row numbers, shape (num_rows,); ascending, possibly with duplicates, all within the file.

        Returns:
            Arrays that together contain exactly the requested rows, in the same order.
        """

    def guessed_offsets(self, rows: NDArray[np.int64]) -> Sequence[ByteRange]:
        """Return where the offsets of list items of some rows would be if all lists had the same length.

        Args:
            rows: row numbers, shape (num_rows,); ascending, possibly with duplicates, all within the file.
        """


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits on how much of one field a stream decodes at a time.

    Attributes:
        max_memory: approximate maximum memory of the arrays of one segment, in bytes.
        batch_rows: number of rows per batch; segments are never split into parts with fewer rows than this.
        first_row: the row at which the first batch starts; segments end at batch boundaries where possible.
    """

    max_memory: int
    batch_rows: int
    first_row: int


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known about the values of a field in each of several ranges of rows, as they are read from the file.

    All arrays have shape (num_ranges,).

    Attributes:
        least: the minimum, not counting nulls and NaN; null = unknown.
        greatest: the maximum, not counting nulls and NaN; null = unknown.
        may_be_null: mask of the ranges in which a value may be null.
        may_be_valid: mask of the ranges in which a value may be other than null.
    """

    least: pa.Array
    greatest: pa.Array
    may_be_null: NDArray[np.bool_]
    may_be_valid: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """Statistics about ranges of rows, as recorded in a file.

    Attributes:
        row_starts: first row of each range, followed by the number of rows in the file; shape (num_ranges + 1,).
        columns: maps each field id to what is known about the field; fields without statistics are omitted.
    """

    row_starts: NDArray[np.int64]
    columns: Mapping[int, ColumnStatistics]
