"""Reads full-zip pages: locates the requested rows, and their levels and values.

Fixed-width rows without lists are evenly spaced. All other rows are located through the repetition index, of which only
the entries for the requested rows are read.

Source: page layout in ``full_zip.py``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import FixedRows, VariableWidthBlock
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.segments import Segments
from lance_core.encodings.structural.page_requests import Wanted
from lance_core.encodings.structural.zipped_levels import ZippedForm, find_levels
from lance_core.errors import CorruptDataError
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock, Decoder
    from lance_core.encodings.levels.build import Levels
    from lance_core.encodings.structural.page_requests import Fetched, PageSteps, Rows
    from lance_core.proto import pb21

__all__ = ["FullZipState", "open_page"]

_INDEX_BYTES: Final = (1, 2, 4, 8)


def open_page(
    layout: pb21.FullZipLayout, sizes: Sequence[int], num_rows: int, decoder: Decoder
) -> PageSteps[FullZipState]:
    """Check the metadata of a page before its rows are read. This function does not request any bytes.

    Args:
        layout: description of the page.
        sizes: size of each buffer of the page in bytes.
        num_rows: value of ``Page.length``.
        decoder: decodes child encodings.

    Raises:
        CorruptDataError: the layout is inconsistent.
    """
    form = ZippedForm.parse(layout)
    has_index = form.is_variable or form.layers.max_repetition > 0
    if len(sizes) != 1 + has_index:
        raise CorruptDataError(f"a full-zip page has {counted(len(sizes), 'buffer')}, expected {1 + has_index}")
    index_width = 0
    if has_index:
        index_width, rest = divmod(sizes[1], num_rows + 1)
        if rest or index_width not in _INDEX_BYTES:
            raise CorruptDataError(
                f"the size of a repetition index ({counted(sizes[1], 'byte')}) does not "
                f"match {counted(num_rows, 'row')}"
            )
    elif layout.num_items != num_rows or sizes[0] != num_rows * form.fixed_bytes:
        raise CorruptDataError(
            f"a full-zip page of {counted(num_rows, 'row')} has {counted(layout.num_items, 'item')} in "
            f"{counted(sizes[0], 'byte')}; "
            f"expected {counted(num_rows, 'item')} of {counted(form.fixed_bytes, 'byte')} each"
        )
    yield from ()
    return FullZipState(layout, form, num_rows, sizes[0], index_width, decoder)


@dataclass(frozen=True, slots=True)
class FullZipState:
    """A full-zip page.

    Attributes:
        layout: description of the page.
        form: layout of the entries of the page.
        num_rows: value of ``Page.length``.
        data_bytes: size of page buffer 0.
        index_width: size of an entry of the repetition index in bytes; 0 = there is no index.
        decoder: decodes child encodings.
    """

    layout: pb21.FullZipLayout
    form: ZippedForm
    num_rows: int
    data_bytes: int
    index_width: int
    decoder: Decoder

    @property
    def num_bytes(self) -> int:
        """Approximate memory use in bytes."""
        return 256

    def read(self, rows: Rows) -> PageSteps[tuple[Levels, DataBlock]]:
        """Decode rows. Only the bytes of these rows are requested."""
        num_rows = rows[1] - rows[0] if isinstance(rows, tuple) else len(rows)
        if self.index_width == 0:
            return (yield from self._read_even(rows, num_rows))
        starts, stops = yield from self._row_bounds(rows)
        if isinstance(rows, tuple):
            first, last = int(starts[0]), int(stops[-1])
            [found] = yield [Wanted.span(0, first, last)]
            starts, stops = starts + (int(found.starts[0]) - first), stops + (int(found.starts[0]) - first)
        else:
            [found] = yield [Wanted(0, starts, stops)]
            starts, stops = found.starts, found.starts + (stops - starts)
        if not self.form.is_variable and self.layout.num_items == self.layout.num_visible_items:
            levels, block = self._split_visible(found.data, starts, stops)
        else:
            levels, block = self._split_uneven(found.data, starts, stops)
        _check_rows(levels, block, num_rows)
        return levels, block

    def _read_even(self, rows: Rows, num_rows: int) -> PageSteps[tuple[Levels, DataBlock]]:
        stride = self.form.fixed_bytes
        if isinstance(rows, tuple):
            [found] = yield [Wanted.span(0, rows[0] * stride, rows[1] * stride)]
            zipped = found.only(num_rows * stride).reshape(num_rows, stride)
        else:
            [found] = yield [Wanted(0, rows * stride, rows * stride + stride)]
            zipped = Segments(found.data, found.starts, np.full(num_rows, stride, np.int64)).rows(stride)
        return self._split_even(zipped)

    def _row_bounds(self, rows: Rows) -> PageSteps[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Read the start and stop of the wanted rows in page buffer 0 from the repetition index."""
        width = self.index_width
        if isinstance(rows, tuple):
            first, num_entries = rows[0], rows[1] - rows[0] + 1
            [found] = yield [Wanted.span(1, first * width, (first + num_entries) * width, are_offsets=True)]
            entries = found.only(num_entries * width).view(UNSIGNED_DTYPES[width * 8])
            starts, stops = entries[:-1], entries[1:]
            has_first, has_last = first == 0, rows[1] == self.num_rows
        else:
            [found] = yield [Wanted(1, rows * width, rows * width + 2 * width, are_offsets=True)]
            pairs = _pairs(found, width)
            starts, stops = pairs[:, 0], pairs[:, 1]
            has_first, has_last = int(rows[0]) == 0, int(rows[-1]) == self.num_rows - 1
        is_ordered = bool((stops >= starts).all() and (starts[1:] >= stops[:-1]).all())
        if (
            not is_ordered
            or int(stops[-1]) > self.data_bytes
            or (has_first and int(starts[0]) != 0)
            or (has_last and int(stops[-1]) != self.data_bytes)
        ):
            raise CorruptDataError(
                f"the repetition index does not cover the {counted(self.data_bytes, 'byte')} of the page, "
                "or its entries are not in ascending order"
            )
        return starts.astype(np.int64), stops.astype(np.int64)

    def _split_even(self, zipped: NDArray[np.uint8]) -> tuple[Levels, DataBlock]:
        """Decode levels that all own a value; each level and its value are one row of bytes."""
        word_bytes = self.form.word_bytes
        levels = self.form.levels_of(zipped[:, :word_bytes])
        return levels, self.decoder.per_value(self.layout.value_compression, FixedRows(zipped[:, word_bytes:]))

    def _split_visible(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[Levels, DataBlock]:
        chosen = Segments(data, starts, stops - starts).gather()
        entry = self.form.fixed_bytes
        if entry == 0 or len(chosen) % entry:
            raise CorruptDataError(
                f"rows of {counted(len(chosen), 'byte')} in total cannot be divided into entries of "
                f"{counted(entry, 'byte')}"
            )
        return self._split_even(chosen.reshape(-1, entry))

    def _split_uneven(
        self, data: NDArray[np.uint8], row_starts: NDArray[np.int64], row_stops: NDArray[np.int64]
    ) -> tuple[Levels, DataBlock]:
        form, encoding = self.form, self.layout.value_compression
        has_lists = form.layers.max_repetition > 0
        starts = find_levels(form, data, row_starts, row_stops) if has_lists else row_starts
        stops = _level_stops(starts, row_starts, row_stops) if has_lists else row_stops
        if bool((starts + form.word_bytes > stops).any()):
            raise CorruptDataError("a control word of a full-zip page extends past the end of its row")
        words = Segments(data, starts, np.full(len(starts), form.word_bytes, np.int64)).rows(form.word_bytes)
        levels = form.levels_of(words)
        value_starts = starts + form.word_bytes
        visible = levels.visible()
        if not form.is_variable:
            owners, ends = (value_starts, stops) if visible is None else (value_starts[visible], stops[visible])
            if bool((owners + form.value_bytes > ends).any()):
                raise CorruptDataError("a value of a full-zip page extends past the end of its row")
            values = Segments(data, owners, np.full(len(owners), form.value_bytes, np.int64))
            return levels, self.decoder.per_value(encoding, FixedRows(values.rows(form.value_bytes)))
        valid = form.is_valid(levels)
        if bool((value_starts[valid] + form.length_bytes > stops[valid]).any()):
            raise CorruptDataError("a length prefix in a full-zip page extends past the end of its row")
        lengths = form.value_lengths(data, value_starts, levels)
        value_starts = value_starts + np.where(valid, form.length_bytes, 0)
        if bool((value_starts + lengths != stops).any()):
            raise CorruptDataError("a value of a full-zip page does not end where the next value starts")
        strings = Segments(data, value_starts, lengths).gather()
        offsets = np.zeros((levels.num_levels if visible is None else int(visible.sum())) + 1, np.int64)
        np.cumsum(lengths if visible is None else lengths[visible], out=offsets[1:])
        return levels, self.decoder.per_value(encoding, VariableWidthBlock(offsets, strings))


def _pairs(found: Fetched, width: int) -> NDArray[np.unsignedinteger]:
    """Return the two adjacent entries of the repetition index for each requested row, (num_rows, 2)."""
    picked = found.data[found.starts[:, None] + np.arange(2 * width)]
    pairs: NDArray[np.unsignedinteger] = picked.view(UNSIGNED_DTYPES[width * 8])
    return pairs


def _level_stops(
    starts: NDArray[np.int64], row_starts: NDArray[np.int64], row_stops: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the end of every level: the start of the next level in its row, or the end of the row."""
    stops = np.append(starts[1:], row_stops[-1])
    last_levels = np.append(np.searchsorted(starts, row_starts)[1:], len(starts)) - 1
    stops[last_levels] = row_stops
    return stops


def _check_rows(levels: Levels, block: DataBlock, num_rows: int) -> None:
    visible = levels.visible()
    num_visible = levels.num_levels if visible is None else int(visible.sum())
    if levels.repetition is not None:
        starts = levels.repetition == levels.layers.max_repetition
        if int(starts.sum()) != num_rows or not bool(starts[:1].all()):
            raise CorruptDataError(
                f"the levels of a full-zip page contain {counted(int(starts.sum()), 'row start')}; expected "
                f"{num_rows}, the first of them at the first level"
            )
    if num_visible != block.num_values:
        raise CorruptDataError(
            f"a full-zip page has {counted(block.num_values, 'value')}, but {counted(num_visible, 'visible level')}"
        )
