"""PageReader: reads rows of a field from the pages of many batches at once.

A *run* is a range of rows within one batch. A scan has one run per batch, and a take has one run per range of requested
rows. The runs of a list's items are computed from the list's offsets, so every nesting level takes one more round of
reads.

**Source:** byte map in :mod:`lance_core.file.v0_1.layout`; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import is_variable_width
from lance_core.encodings.v0_1.binary import decode_binary, split_offsets
from lance_core.encodings.v0_1.dictionary import decode_dictionary
from lance_core.encodings.v0_1.list_offsets import decode_lists, offset_dtype, split_list_offsets
from lance_core.encodings.v0_1.plain import PlainLayout, decode_plain, plain_layout
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.file.file_bytes import together
from lance_core.io.byte_range import ByteRange
from lance_core.schema.logical_types import arrow_type
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lance_core.file.file_bytes import ReadSteps
    from lance_core.file.v0_1.extents import Extents
    from lance_core.file.v0_1.page_table import PageTable
    from lance_core.schema.field import Field

__all__ = ["PageReader", "Runs"]

Positions: TypeAlias = "NDArray[np.int64]"

_STRING_OFFSET: Final = np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class Runs:
    """Ranges of rows, each within one batch.

    Attributes:
        batches: index of the batch that contains each run, shape (num_runs,).
        starts: first row of each run, relative to the start of the batch.
        stops: row after the last of each run, relative to the start of the batch.
    """

    batches: Positions
    starts: Positions
    stops: Positions

    @property
    def num_rows(self) -> Positions:
        """Number of rows in each run, shape (num_runs,)."""
        return self.stops - self.starts

    def filled(self) -> Runs:
        """Return the runs that are not empty."""
        keep = self.starts < self.stops
        return self if keep.all() else Runs(self.batches[keep], self.starts[keep], self.stops[keep])


class PageReader:
    """Decodes the pages described by one page table.

    Args:
        table: locations of the pages.
        file_bytes: size of the file in bytes.
        path: the file's path, for messages.
        dictionary: returns the dictionary values of a field; None if no field has a dictionary.
    """

    def __init__(
        self, table: PageTable, file_bytes: int, path: str, dictionary: Callable[[Field], pa.Array] | None = None
    ) -> None:
        """See the class docstring."""
        self._table = table
        self._file_bytes = file_bytes
        self._path = path
        self._dictionary = dictionary

    def decode(self, field: Field, runs: Runs, extents: Extents) -> ReadSteps[pa.Array]:
        """Read the rows of the runs as one array of ``arrow_type(field)``. The members of a struct share read steps.

        Raises:
            CorruptDataError: the pages are inconsistent, or extend past the end of the file.
            NotSupportedError: this format does not support the type.
        """
        runs = runs.filled()
        dtype = arrow_type(field)
        num_rows = int(runs.num_rows.sum())
        if field.is_struct:
            members = yield from together([self.decode(child, runs, extents) for child in field.children])
            return pa.Array.from_buffers(dtype, num_rows, [None], children=members)
        positions, lengths = self._pages(field, runs)
        try:
            if pa.types.is_null(dtype):
                return pa.nulls(num_rows)
            if field.is_list:
                return (yield from self._lists(field, runs, positions, lengths, extents))
            if is_variable_width(dtype):
                return (yield from self._binary(field, runs, positions, extents))
            plain = plain_layout(dtype.index_type if field.is_dictionary else dtype)
            values = yield from self._plain(plain, runs, positions, extents)
            if not field.is_dictionary:
                return values
            if self._dictionary is None:
                raise CorruptDataError("the dictionary is missing")
            return decode_dictionary(dtype, values, self._dictionary(field))
        except (CorruptDataError, NotSupportedError) as error:
            raise type(error)(f"{self._path}: field {field.name!r}: {error.message}", **error.context) from error

    def guessed_offsets(self, field: Field, runs: Runs) -> list[ByteRange]:
        """Return where the offsets of items would be if all lists of a batch had the same length."""
        if field.is_struct:
            return [each for child in field.children for each in self.guessed_offsets(child, runs)]
        if not field.is_list:
            return []
        [item] = field.children
        num_lists, num_items = self._num_rows(field)[runs.batches], self._num_rows(item)[runs.batches]
        starts = np.minimum(runs.starts * (num_items / np.maximum(num_lists, 1)), num_items).astype(np.int64)
        return self._offsets(item, Runs(runs.batches, starts, np.minimum(starts + 1, num_items)).filled())

    def _offsets(self, field: Field, runs: Runs) -> list[ByteRange]:
        """Return the ranges of the offsets of some rows, and the guessed ranges of the offsets of their items."""
        if field.is_struct:
            return [each for child in field.children for each in self._offsets(child, runs)]
        dtype = arrow_type(field)
        if not field.is_list and not is_variable_width(dtype):
            return []
        item_bytes = offset_dtype(dtype).itemsize if field.is_list else _STRING_OFFSET.itemsize
        places = self._table.pages(field.id)[0][runs.batches] + runs.starts * item_bytes
        own = [ByteRange(place, place + 2 * item_bytes) for place in places.tolist()]
        return own + self.guessed_offsets(field, runs)

    def _num_rows(self, field: Field) -> Positions:
        """Return the number of rows of a field in each batch; a struct has as many as its first member."""
        while field.is_struct and field.children:
            field = field.children[0]
        return self._table.pages(field.id)[1] - field.is_list

    def values(self, field: Field, position: int, num_values: int, extents: Extents) -> ReadSteps[pa.Array]:
        """Read the values of a dictionary; the page table does not list them. Empty values are read as null.

        Raises:
            CorruptDataError: the values are not inside the file.
        """
        dtype = arrow_type(field).value_type
        one = Runs(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([num_values], np.int64)).filled()
        if not 0 <= position <= self._file_bytes or not 0 <= num_values <= self._file_bytes:
            raise CorruptDataError(
                f"{self._path}: a dictionary of {counted(num_values, 'value')} at position {position} is "
                "outside the file",
                path=self._path,
            )
        positions = np.full(len(one.batches), position, np.int64)
        if is_variable_width(dtype):
            return (yield from self._binary_values(dtype, True, one, positions, extents))
        return (yield from self._plain(plain_layout(dtype), one, positions, extents))

    def _pages(self, field: Field, runs: Runs) -> tuple[Positions, Positions]:
        """Return the position and length of the page of each run, after checking that each page has enough rows."""
        positions, lengths = self._table.pages(field.id)
        lengths = lengths[runs.batches]
        if bool((runs.stops > lengths - field.is_list).any()):
            raise CorruptDataError(
                f"{self._path}: a page of field {field.name!r} (id {field.id}) has fewer values than its batch "
                "requires",
                path=self._path,
            )
        return positions[runs.batches], lengths

    def _plain(self, layout: PlainLayout, runs: Runs, positions: Positions, extents: Extents) -> ReadSteps[pa.Array]:
        self._check_size(runs.stops, layout.bits_per_row)
        starts, stops = layout.spans(runs.starts, runs.stops)
        starts, stops = self._inside(positions + starts, positions + stops)
        data = yield from extents.gather(starts, stops)
        return decode_plain(layout, data, runs.starts, runs.stops)

    def _binary(self, field: Field, runs: Runs, positions: Positions, extents: Extents) -> ReadSteps[pa.Array]:
        return (yield from self._binary_values(arrow_type(field), field.nullable, runs, positions, extents))

    def _binary_values(
        self, dtype: pa.DataType, nullable: bool, runs: Runs, positions: Positions, extents: Extents
    ) -> ReadSteps[pa.Array]:
        words = yield from self._words(runs, positions, _STRING_OFFSET, extents)
        lengths, starts, stops = split_offsets(words, runs.num_rows, self._file_bytes)
        data = yield from extents.gather(starts, stops)
        return decode_binary(dtype, nullable, lengths, data)

    def _lists(
        self, field: Field, runs: Runs, positions: Positions, lengths: Positions, extents: Extents
    ) -> ReadSteps[pa.Array]:
        dtype = arrow_type(field)
        words = yield from self._words(runs, positions, offset_dtype(dtype), extents)
        num_items, starts, stops = split_list_offsets(words, runs.num_rows)
        items = yield from self.decode(field.children[0], Runs(runs.batches, starts, stops), extents)
        return decode_lists(dtype, num_items, items)

    def _words(
        self, runs: Runs, positions: Positions, dtype: np.dtype[np.signedinteger], extents: Extents
    ) -> ReadSteps[NDArray[np.signedinteger]]:
        """Return the offsets of each run's rows: one more offset than the run has rows."""
        self._check_size(runs.stops + 1, 8 * dtype.itemsize)
        starts = positions + runs.starts * dtype.itemsize
        places = self._inside(starts, positions + (runs.stops + 1) * dtype.itemsize)
        data = yield from extents.gather(*places, are_offsets=True)
        return (data.copy() if data.ctypes.data % dtype.itemsize else data).view(dtype)

    def _check_size(self, num_values: Positions, bits: int) -> None:
        """Check that values of this width and number fit in the file, so that later multiplications cannot overflow."""
        if len(num_values) and int(num_values.max()) * bits > 8 * self._file_bytes:
            raise CorruptDataError(f"a page of {int(num_values.max())} {bits}-bit values is larger than the file")

    def _inside(self, starts: Positions, stops: Positions) -> tuple[Positions, Positions]:
        """Return the spans after checking that they are inside the file and together no larger than the file."""
        if len(stops) and int(stops.max()) > self._file_bytes:
            raise CorruptDataError(
                f"a page ends at byte {int(stops.max())}, but the file has {counted(self._file_bytes, 'byte')}"
            )
        if int((stops - starts).sum()) > self._file_bytes + len(stops):
            raise CorruptDataError("pages of one field overlap: their total size exceeds the size of the file")
        return starts, stops
