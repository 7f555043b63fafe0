"""Reads mini-block pages: locates the chunks of the requested rows, and their levels and values.

For a range of rows, all chunks that contain the rows are decoded, and then the range is extracted. For scattered rows,
the repetition levels of the chunks are decoded completely; definition levels and values are decoded only for the
requested rows.

Source: page layout in ``mini_block.py``; checked against pylance 14.0.2.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lance_core.encodings.api import (
    Chunks,
    DictionaryBlock,
    EncodedPages,
    FixedWidthBlock,
    Picks,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.ranges import expand_ranges
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.levels.layers import Layers
from lance_core.encodings.structural.chunk_directory import ChunkDirectory, ChunkTable, word_bytes_of
from lance_core.encodings.structural.level_buffers import check_levels, decode_levels, pick_levels
from lance_core.encodings.structural.page_requests import Wanted
from lance_core.encodings.structural.repetition_index import RepetitionIndex
from lance_core.encodings.structural.rows import cut_rows
from lance_core.encodings.structural.wrapped_counts import unwrapped_counts
from lance_core.errors import CorruptDataError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock, Decoder
    from lance_core.encodings.structural.page_requests import PageSteps, Rows

__all__ = ["MiniBlockState", "merge_key", "merged", "open_page", "open_pages", "open_pages_apart", "opens_as_one"]


def open_page(
    layout: pb21.MiniBlockLayout, sizes: Sequence[int], num_rows: int, decoder: Decoder
) -> PageSteps[MiniBlockState]:
    """Read the metadata of a page before its rows.

    Args:
        layout: description of the page.
        sizes: size of each buffer of the page in bytes.
        num_rows: value of ``Page.length``.
        decoder: decodes child encodings.

    Raises:
        CorruptDataError: the bytes are inconsistent or do not match the layout.
        UnsupportedEncodingError: this library does not decode the encoding.
    """
    layers = _checked_layers(layout)
    has_dictionary = layout.HasField("dictionary")
    has_index = layout.repetition_index_depth > 0
    has_lists = layers.max_repetition > 0
    num_expected = 2 + has_dictionary + has_index
    _check_counts(len(sizes), num_expected, layout.num_items, num_rows, has_lists=has_lists)
    wanted = [0, *range(2, num_expected)]
    found = yield [Wanted.span(buffer, 0, sizes[buffer]) for buffer in wanted]
    parts = [fetched.only(sizes[buffer]) for fetched, buffer in zip(found, wanted, strict=True)]
    table = ChunkTable.parse(layout, parts[0], sizes[1])
    index = RepetitionIndex.parse(parts[-1], table.num_chunks, num_rows) if has_index else None
    items = _dictionary_items(layout, parts[1], decoder) if has_dictionary else None
    encoded_bytes = sum(sizes) - sizes[1] - (sizes[2] if has_dictionary else 0)
    index = index if has_lists else None
    encodings = [layout.value_compression]
    return MiniBlockState(layout, layers, num_rows, table, index, items, encoded_bytes, decoder, encodings)


def opens_as_one(layout: pb21.MiniBlockLayout) -> bool:
    """Return whether :func:`open_pages` can open several pages of this kind: they have no lists and no dictionary."""
    has_lists = layout.HasField("rep_compression") or layout.repetition_index_depth > 0
    return not has_lists and not layout.HasField("dictionary")


def open_pages(
    layouts: Sequence[pb21.MiniBlockLayout],
    words: Sequence[NDArray[np.uint8]],
    sizes: Sequence[Sequence[int]],
    num_rows: Sequence[int],
    data_starts: Sequence[int],
    decoder: Decoder,
) -> MiniBlockState:
    """Open several pages of a column as one; this costs little more than opening one page.

    Args:
        layouts: descriptions of the pages, which have the same :func:`merge_key`, and for which :func:`opens_as_one`
            is True.
        words: page buffer 0 of each page.
        sizes: size of each buffer of each page in bytes.
        num_rows: value of ``Page.length`` of each page.
        data_starts: see :func:`merged`.
        decoder: decodes child encodings.

    Raises:
        CorruptDataError: the bytes of a page are inconsistent or do not match its layout.
    """
    first = layouts[0]
    layers = _checked_layers(first)
    for layout, of_page, rows in zip(layouts, sizes, num_rows, strict=True):
        _check_counts(len(of_page), 2, layout.num_items, rows, has_lists=False)
    table = ChunkTable.parse_pages(first, words, [of_page[1] for of_page in sizes], num_rows, data_starts)
    encodings = _encodings(layouts, decoder)
    return MiniBlockState(first, layers, sum(num_rows), table, None, None, sum(map(len, words)), decoder, encodings)


def open_pages_apart(
    layouts: Sequence[pb21.MiniBlockLayout],
    words: Sequence[NDArray[np.uint8]],
    sizes: Sequence[Sequence[int]],
    num_rows: Sequence[int],
    decoder: Decoder,
) -> list[MiniBlockState]:
    """Like :func:`open_pages`, but return a state for each page, which can be cached."""
    state = open_pages(layouts, words, sizes, num_rows, [0] * len(layouts), decoder)
    tables = state.table.split([len(of_page) // word_bytes_of(layouts[0]) for of_page in words])
    return [
        MiniBlockState(layout, state.layers, rows, table, None, None, len(of_page), decoder, [layout.value_compression])
        for layout, rows, table, of_page in zip(layouts, num_rows, tables, words, strict=True)
    ]


def merge_key(layout: pb21.MiniBlockLayout, decoder: Decoder) -> bytes | None:
    """Return the merge key of a page; pages of a column with equal keys can be read as one. None = never merge."""
    if layout.HasField("dictionary"):
        return None
    key = pb21.MiniBlockLayout()
    key.CopyFrom(layout)
    key.num_items = 0
    common = decoder.common(layout.value_compression)
    if common is not None:
        key.value_compression.CopyFrom(common)
    return key.SerializeToString(deterministic=True)


def merged(states: Sequence[MiniBlockState], data_starts: Sequence[int]) -> MiniBlockState:
    """Combine several pages of a column into one, so that the values for scattered rows are decoded in one step.

    Args:
        states: the pages, in row order, with the same :func:`merge_key`. Their rows are numbered consecutively.
        data_starts: start of page buffer 1 of each page, relative to any common origin; requests for buffer 1 are
            relative to the same origin.
    """
    first = states[0]
    table = ChunkTable.joined([state.table for state in states], data_starts)
    indexes = [state.index for state in states if state.index is not None]
    index = None
    if indexes:
        rows_before = itertools.accumulate((state.num_rows for state in states), initial=0)
        ended = [each.rows_ended + before for each, before in zip(indexes, rows_before, strict=False)]
        index = RepetitionIndex(np.concatenate(ended), np.concatenate([each.continues for each in indexes]))
    num_rows = sum(state.num_rows for state in states)
    encoded_bytes = sum(state.encoded_bytes for state in states)
    encodings = _encodings([state.layout for state in states], first.decoder)
    return MiniBlockState(
        first.layout, first.layers, num_rows, table, index, None, encoded_bytes, first.decoder, encodings
    )


def _encodings(layouts: Sequence[pb21.MiniBlockLayout], decoder: Decoder) -> list[pb21.CompressiveEncoding]:
    """Return the encoding of the values of each page, or the only one if it is the same for all pages."""
    is_same = decoder.common(layouts[0].value_compression) is None
    return [layout.value_compression for layout in (layouts[:1] if is_same else layouts)]


def _checked_layers(layout: pb21.MiniBlockLayout) -> Layers:
    layers = Layers.parse(layout.layers, "mini-block page")
    layers.check_repetition(is_present=layout.HasField("rep_compression"))
    return layers


def _check_counts(num_buffers: int, num_expected: int, num_items: int, num_rows: int, *, has_lists: bool) -> None:
    if num_buffers != num_expected:
        raise CorruptDataError(f"a mini-block page has {counted(num_buffers, 'buffer')}, expected {num_expected}")
    if not has_lists and num_items != num_rows:
        raise CorruptDataError(
            f"the page has {counted(num_rows, 'row')} but {counted(num_items, 'item')}, although it has no lists"
        )


def _dictionary_items(layout: pb21.MiniBlockLayout, data: NDArray[np.uint8], decoder: Decoder) -> DataBlock:
    num_items = layout.num_dictionary_items
    if num_items > len(data) * 256:
        raise CorruptDataError(
            f"a dictionary declares {counted(num_items, 'item')}, too many for its buffer "
            f"({counted(len(data), 'byte')})"
        )
    return decoder.block(layout.dictionary, Chunks.single(data, num_items))


@dataclass(frozen=True, slots=True)
class MiniBlockState:
    """A mini-block page whose chunk table, repetition index and dictionary have been read.

    Attributes:
        layout: description of the page.
        layers: layers of the page.
        num_rows: value of ``Page.length``.
        table: locations of the chunks.
        index: the rows in each chunk; None if each value slot is a row, or if the page has no index.
        items: the dictionary items; None if the page has no dictionary.
        encoded_bytes: total size of the chunk words and the repetition index in bytes.
        decoder: decodes child encodings.
        encodings: the encoding of the values; several if pages that are read as one have different encodings.
    """

    layout: pb21.MiniBlockLayout
    layers: Layers
    num_rows: int
    table: ChunkTable
    index: RepetitionIndex | None
    items: DataBlock | None
    encoded_bytes: int
    decoder: Decoder
    encodings: Sequence[pb21.CompressiveEncoding]

    @property
    def num_bytes(self) -> int:
        """Approximate memory use in bytes, including the dictionary items. Chunk words of 2 bytes take 16 in memory."""
        items_bytes = 0
        if isinstance(self.items, FixedWidthBlock | VariableWidthBlock):
            items_bytes = self.items.data.nbytes
        if isinstance(self.items, VariableWidthBlock):
            items_bytes += self.items.offsets.nbytes
        return 8 * self.encoded_bytes + items_bytes + 900

    def read(self, rows: Rows) -> PageSteps[tuple[Levels, DataBlock]]:
        """Decode rows. Only the chunks that contain these rows are decoded."""
        if isinstance(rows, tuple):
            return (yield from self._read_range(*rows))
        if self.layers.max_repetition == 0:
            return (yield from self._pick_values(rows))
        if self.index is None:
            return (yield from self._pick_without_index(rows))
        return (yield from self._pick_lists(rows, self.index))

    def _read_range(self, start: int, stop: int) -> PageSteps[tuple[Levels, DataBlock]]:
        table = self.table
        if self.index is not None:
            first, last, first_row = self.index.chunks_of(start, stop)
        elif self.layers.max_repetition:
            first, last, first_row = 0, table.num_chunks, 0
        else:
            first = int(np.searchsorted(table.value_stops, start, side="right"))
            last = int(np.searchsorted(table.value_stops, stop, side="left")) + 1
            first_row = int(table.value_stops[first - 1]) if first else 0
        directory = yield from self._chunks(np.arange(first, last))
        levels, block = self._decode(directory)
        is_whole = (first, last) == (0, table.num_chunks)
        return cut_rows(levels, block, start - first_row, stop - first_row, self.num_rows if is_whole else None)

    def _decode(self, chunks: ChunkDirectory) -> tuple[Levels, DataBlock]:
        repetition = definition = None
        if chunks.repetition is not None:
            repetition = decode_levels(self.layout.rep_compression, chunks.repetition, chunks.num_levels, self.decoder)
        if chunks.definition is not None:
            definition = decode_levels(self.layout.def_compression, chunks.definition, chunks.num_levels, self.decoder)
        check_levels(self.layers, repetition, definition)
        block = self._values(chunks)
        num_values = int(chunks.num_values.sum())
        has_levels = repetition is not None or definition is not None
        num_levels = int(chunks.num_levels.sum()) if has_levels else num_values
        if block.num_values != num_values:
            raise CorruptDataError(
                f"chunks of {counted(num_values, 'value')} decode to {counted(block.num_values, 'value')}"
            )
        return Levels(self.layers, repetition, definition, num_levels), self._resolved(block)

    def _resolved(self, block: DataBlock) -> DataBlock:
        """Return the values, or the dictionary items if the block holds indices."""
        if self.items is None:
            return block
        if not isinstance(block, FixedWidthBlock) or block.bits_per_value not in UNSIGNED_DTYPES:
            raise CorruptDataError("dictionary indices are not words of 8, 16, 32, or 64 bits")
        indices = block.data.view(UNSIGNED_DTYPES[block.bits_per_value])
        num_items = self.layout.num_dictionary_items
        if len(indices) and int(indices.max()) >= num_items:
            raise CorruptDataError(
                f"dictionary index {int(indices.max())} is out of range: the dictionary has "
                f"{counted(num_items, 'item')}"
            )
        return DictionaryBlock(block, self.items)

    def _chunks(self, chosen: NDArray[np.int64]) -> PageSteps[ChunkDirectory]:
        """Read some chunks, given in ascending order."""
        table = self.table
        [found] = yield [Wanted(1, table.starts[chosen], table.stops[chosen])]
        directory = ChunkDirectory.parse(self.layout, table, chosen, found.data, found.starts)
        if directory.repetition is None:
            return directory
        counts = unwrapped_counts(self.layout.rep_compression, directory.repetition, directory.num_levels)
        return directory if counts is directory.num_levels else replace(directory, num_levels=counts)

    def _pick_values(self, rows: NDArray[np.int64]) -> PageSteps[tuple[Levels, DataBlock]]:
        """Read rows of a page without lists, in which each row is one value slot."""
        table = self.table
        chunks = np.searchsorted(table.value_stops, rows, side="right")
        slots = rows - (table.value_stops - table.num_values)[chunks]
        is_new = np.ones(len(rows), np.bool_)
        np.not_equal(chunks[1:], chunks[:-1], out=is_new[1:])
        directory = yield from self._chunks(chunks[is_new])
        picks = Picks(np.cumsum(is_new) - 1, slots)
        definition = None
        if directory.definition is not None:
            if not np.array_equal(directory.num_levels, directory.num_values):
                raise CorruptDataError("a mini-block chunk without lists has different numbers of levels and values")
            definition = pick_levels(
                self.layout.def_compression, directory.definition, directory.num_levels, picks, self.decoder
            )
        check_levels(self.layers, None, definition)
        levels = Levels(self.layers, None, definition, len(rows))
        return levels, self._picked(directory, picks)

    def _picked(self, directory: ChunkDirectory, picks: Picks) -> DataBlock:
        block = self._values(directory, picks)
        if block.num_values != len(picks.slots):
            raise CorruptDataError(
                f"expected {counted(len(picks.slots), 'requested value')} in the chunks, found {block.num_values}"
            )
        return self._resolved(block)

    def _values(self, directory: ChunkDirectory, picks: Picks | None = None) -> DataBlock:
        chunks = Chunks(directory.num_values, directory.values)
        if len(self.encodings) > 1 and directory.pages is not None:
            return self.decoder.pages(EncodedPages(self.encodings, directory.pages), chunks, picks)
        if picks is None:
            return self.decoder.mini_block(self.encodings[0], chunks)
        return self.decoder.pick(self.encodings[0], chunks, picks)

    def _pick_without_index(self, rows: NDArray[np.int64]) -> PageSteps[tuple[Levels, DataBlock]]:
        """Read rows of a page with lists but without an index: only the first chunk is known to begin with a row."""
        directory = yield from self._chunks(np.arange(self.table.num_chunks, dtype=np.int64))
        starts_before = np.zeros(1, np.int64)
        return self._pick_rows(directory, rows, np.zeros_like(rows), starts_before, None)

    def _pick_lists(self, rows: NDArray[np.int64], index: RepetitionIndex) -> PageSteps[tuple[Levels, DataBlock]]:
        first, last = index.chunks_of_rows(rows)
        bounds = np.zeros(self.table.num_chunks + 1, np.int64)
        np.add.at(bounds, first, 1)
        np.add.at(bounds, last + 1, -1)
        chosen = np.flatnonzero(np.cumsum(bounds[:-1]))
        directory = yield from self._chunks(chosen)
        started = index.rows_started
        starts_before = np.where(chosen > 0, started[chosen - 1], 0)
        first_at, last_at = np.searchsorted(chosen, first), np.searchsorted(chosen, last)
        return self._pick_rows(directory, rows, first_at, starts_before, last_at, started[chosen])

    def _pick_rows(
        self,
        directory: ChunkDirectory,
        rows: NDArray[np.int64],
        first: NDArray[np.int64],
        starts_before: NDArray[np.int64],
        last: NDArray[np.int64] | None,
        starts_after: NDArray[np.int64] | None = None,
    ) -> tuple[Levels, DataBlock]:
        """Pick whole rows from some chunks.

        Args:
            directory: the chunks.
            rows: the wanted rows.
            first: the chunk, among those in the directory, in which each row starts.
            starts_before: number of rows that start before each chunk.
            last: the chunk in which each row ends; None = unknown.
            starts_after: expected number of rows that start before the end of each chunk, for a check; None = unknown.
        """
        layout, layers, decoder = self.layout, self.layers, self.decoder
        if directory.repetition is None:
            raise CorruptDataError("a mini-block page with lists has no repetition levels")
        repetition = decode_levels(layout.rep_compression, directory.repetition, directory.num_levels, decoder)
        level_stops = np.cumsum(directory.num_levels)
        row_starts = np.flatnonzero(repetition == layers.max_repetition)
        found_after = np.searchsorted(row_starts, level_stops, side="left")
        found_before = np.append(0, found_after[:-1])
        if starts_after is not None and not np.array_equal(found_after - found_before, starts_after - starts_before):
            raise CorruptDataError("the repetition index does not match the rows that start in the chunks")
        numbers = found_before[first] + rows - starts_before[first]
        if len(numbers) and int(numbers[-1]) >= len(row_starts):
            raise CorruptDataError(f"row {int(rows[-1])} of the page does not start in the expected chunk")
        starts = row_starts[numbers]
        stops = np.append(row_starts, len(repetition))[numbers + 1]
        if last is not None:
            stops = np.minimum(stops, level_stops[last])
        wanted = expand_ranges(starts, stops - starts)
        level_chunks = np.searchsorted(level_stops, wanted, side="right")
        level_slots = wanted - (level_stops - directory.num_levels)[level_chunks]
        definition = None
        if directory.definition is not None and layers.has_invisible:
            every = decode_levels(layout.def_compression, directory.definition, directory.num_levels, decoder)
            check_levels(layers, repetition, every)
            definition = every[wanted]
            invisible = np.flatnonzero(every > layers.max_visible)
            picks = _visible_picks(
                invisible, wanted, definition <= layers.max_visible, directory.num_values, level_stops
            )
        else:
            if not np.array_equal(directory.num_levels, directory.num_values):
                raise CorruptDataError("a mini-block chunk has different numbers of values and visible levels")
            picks = Picks(level_chunks, level_slots)
            if directory.definition is not None:
                definition = pick_levels(
                    layout.def_compression, directory.definition, directory.num_levels, picks, decoder
                )
        levels = Levels(layers, repetition[wanted], definition, len(wanted))
        check_levels(layers, levels.repetition, definition)
        return levels, self._picked(directory, picks)


def _visible_picks(
    invisible: NDArray[np.int64],
    wanted: NDArray[np.int64],
    is_visible: NDArray[np.bool_],
    num_values: NDArray[np.int64],
    level_stops: NDArray[np.int64],
) -> Picks:
    """Return the positions of the values of the wanted levels; invisible levels have no value.

    Args:
        invisible: (num_invisible,) positions of the invisible levels, ascending.
        wanted: (num_wanted,) levels.
        is_visible: (num_wanted,) mask.
        num_values: (num_chunks,) number of values in each chunk.
        level_stops: (num_chunks,) level at which each chunk ends.
    """
    value_stops = np.cumsum(num_values)
    if not np.array_equal(level_stops - np.searchsorted(invisible, level_stops), value_stops):
        raise CorruptDataError("a mini-block chunk has different numbers of values and visible levels")
    shown = wanted[is_visible]
    values = shown - np.searchsorted(invisible, shown)
    chunks = np.searchsorted(value_stops, values, side="right")
    return Picks(chunks, values - (value_stops - num_values)[chunks])
