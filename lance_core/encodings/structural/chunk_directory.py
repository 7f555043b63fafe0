"""The directory of a mini-block page: where every chunk, and every buffer in a chunk, starts and ends.

::

    page buffer 0    one word per chunk: (chunk_bytes / 8 - 1) << 4 | log2(num_values); the last chunk's log2 is 0
    chunk            u16 num_levels | u16 rep_bytes? | u16 def_bytes? | value buffer sizes | pad to 8
                     rep levels, pad to 8 | def levels, pad to 8 | each value buffer, pad to 8

Words and value buffer sizes are u32 in 2.2 and u16 in 2.1, as indicated by a flag of the layout. The last chunk
contains the remaining values.

Source: ``lance.encodings21.MiniBlockLayout``; checked against pylance 14.0.2.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.buffers.alignment import CHUNK_ALIGNMENT, align_up
from lance_core.encodings.kernels.segments import Segments
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.proto import pb21

__all__ = ["ChunkDirectory", "ChunkTable", "aligned_sizes", "chunk_headers", "chunk_words", "word_bytes_of"]

_LOG2_BITS: Final = 4
_MAX_VALUE_BUFFERS: Final = 64
_MAX_CHUNK_VALUES: Final = 1 << 32
_MAX_CHUNK_BYTES: Final = 1 << (32 - _LOG2_BITS + 3)
_MAX_SMALL_CHUNK_BYTES: Final = 1 << (16 - _LOG2_BITS + 3)


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Locations of the chunks of a page, derived from the chunk words alone.

    Attributes:
        starts: (num_chunks,) int64, in bytes from the start of page buffer 1.
        stops: (num_chunks,) int64, end of each chunk.
        num_values: (num_chunks,) int64 number of value slots in each chunk.
        value_stops: (num_chunks,) int64 number of value slots up to the end of each chunk.
        pages: (num_chunks,) int64 number of the page of each chunk, if several pages are read as one.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    num_values: NDArray[np.int64]
    value_stops: NDArray[np.int64]
    pages: NDArray[np.int64] | None = None

    @classmethod
    def parse(cls, layout: pb21.MiniBlockLayout, words: NDArray[np.uint8], data_bytes: int) -> ChunkTable:
        """Read page buffer 0.

        Args:
            layout: description of the page.
            words: page buffer 0.
            data_bytes: size of page buffer 1.

        Raises:
            CorruptDataError: the sizes are inconsistent.
        """
        return cls.parse_pages(layout, [words], [data_bytes], [layout.num_items], [0])

    @classmethod
    def parse_pages(
        cls,
        layout: pb21.MiniBlockLayout,
        words: Sequence[NDArray[np.uint8]],
        data_bytes: Sequence[int],
        num_items: Sequence[int],
        data_starts: Sequence[int],
    ) -> ChunkTable:
        """Read page buffer 0 of several pages at once; the chunks of all pages are numbered consecutively.

        Args:
            layout: description of the pages, which differ only in their number of items.
            words: page buffer 0 of each page.
            data_bytes: size of page buffer 1 of each page.
            num_items: number of items in each page.
            data_starts: position of page buffer 1 of each page, to which the positions of its chunks are relative.

        Raises:
            CorruptDataError: the sizes of a page are inconsistent.
        """
        word_bytes = word_bytes_of(layout)
        for each in words:
            if len(each) == 0 or len(each) % word_bytes:
                raise CorruptDataError(
                    f"the chunk words take {counted(len(each), 'byte')}, expected a positive multiple of {word_bytes}"
                )
        num_chunks = np.array(list(map(len, words)), np.int64) // word_bytes
        page_stops = np.cumsum(num_chunks)
        firsts, lasts = page_stops - num_chunks, page_stops - 1
        joined = words[0] if len(words) == 1 else np.concatenate(words)
        numbers = joined.view(f"<u{word_bytes}").astype(np.int64)
        chunk_bytes = ((numbers >> _LOG2_BITS) + 1) * CHUNK_ALIGNMENT
        _check_bytes(np.add.reduceat(chunk_bytes, firsts), data_bytes)
        num_values = np.left_shift(1, numbers & ((1 << _LOG2_BITS) - 1))
        num_values[lasts] = 0
        num_values[lasts] = _last_values(np.add.reduceat(num_values, firsts), num_items)
        before = np.cumsum(chunk_bytes) - chunk_bytes
        starts = before + np.repeat(np.array(data_starts, np.int64) - before[firsts], num_chunks)
        pages = np.repeat(np.arange(len(words)), num_chunks) if len(words) > 1 else None
        return cls(starts, starts + chunk_bytes, num_values, np.cumsum(num_values), pages)

    @classmethod
    def joined(cls, tables: Sequence[ChunkTable], data_starts: Sequence[int]) -> ChunkTable:
        """Return a table of the chunks of several pages, which are numbered consecutively.

        Args:
            tables: a table for each page.
            data_starts: position of page buffer 1 of each page, to which the positions of its chunks are relative.
        """
        num_chunks = [table.num_chunks for table in tables]
        shifts = np.repeat(np.array(data_starts, np.int64), num_chunks)
        num_values = np.concatenate([table.num_values for table in tables])
        return cls(
            np.concatenate([table.starts for table in tables]) + shifts,
            np.concatenate([table.stops for table in tables]) + shifts,
            num_values,
            np.cumsum(num_values),
            np.repeat(np.arange(len(tables)), num_chunks),
        )

    @property
    def num_chunks(self) -> int:
        """Number of chunks in the page."""
        return len(self.starts)

    def split(self, num_chunks: Sequence[int]) -> list[ChunkTable]:
        """Return a table for each of several pages that :meth:`parse_pages` has parsed; the tables own their memory.

        Args:
            num_chunks: number of chunks in each page.
        """
        stops = list(itertools.accumulate(num_chunks))
        parts = [slice(stop - count, stop) for stop, count in zip(stops, num_chunks, strict=True)]
        return [
            ChunkTable(self.starts[part].copy(), self.stops[part].copy(), values, np.cumsum(values))
            for part in parts
            for values in [self.num_values[part].copy()]
        ]


@dataclass(frozen=True, slots=True)
class ChunkDirectory:
    """Parsed headers of some chunks of a page.

    Attributes:
        num_values: (num_chunks,) int64 number of value slots in each chunk.
        num_levels: (num_chunks,) int64 number of levels in each chunk; 0 in pages without levels.
        repetition: repetition level buffers; None if the page has none.
        definition: definition level buffers; None if the page has none.
        values: value buffers, each with one segment per chunk.
        pages: the number of the page of each chunk; see :class:`ChunkTable`.
    """

    num_values: NDArray[np.int64]
    num_levels: NDArray[np.int64]
    repetition: Segments | None
    definition: Segments | None
    values: tuple[Segments, ...]
    pages: NDArray[np.int64] | None = None

    @classmethod
    def parse(
        cls,
        layout: pb21.MiniBlockLayout,
        table: ChunkTable,
        chosen: slice | NDArray[np.int64],
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
    ) -> ChunkDirectory:
        """Read the headers of chunks, and check all sizes and positions.

        Args:
            layout: description of the page.
            table: all chunks of the page.
            chosen: indices of the chunks that ``data`` contains, ascending.
            data: the bytes that contain the chosen chunks.
            starts: (num_chosen,) int64, start of each chosen chunk in ``data``.

        Raises:
            CorruptDataError: the sizes are inconsistent.
            UnsupportedEncodingError: there are more value buffers than any known encoding has.
        """
        num_values = table.num_values[chosen]
        chunk_bytes = table.stops[chosen] - table.starts[chosen]
        num_buffers = layout.num_buffers
        if num_buffers > _MAX_VALUE_BUFFERS:
            raise UnsupportedEncodingError(f"mini-block chunks with {num_buffers} value buffers are not supported")
        widths = [2] * (1 + layout.HasField("rep_compression") + layout.HasField("def_compression"))
        num_level_fields = len(widths)
        widths += [word_bytes_of(layout)] * num_buffers
        header_bytes = align_up(sum(widths), CHUNK_ALIGNMENT)
        if bool((chunk_bytes < header_bytes).any()):
            raise CorruptDataError(f"a mini-block chunk is shorter than its header ({counted(header_bytes, 'byte')})")
        headers = Segments(data, starts, chunk_bytes).rows(header_bytes)
        fields = _header_fields(headers, widths)
        buffers = _lay_out(data, starts, header_bytes, chunk_bytes, fields[1:])
        levels = buffers[: num_level_fields - 1]
        return cls(
            num_values,
            fields[0],
            levels[0] if layout.HasField("rep_compression") else None,
            levels[-1] if layout.HasField("def_compression") else None,
            tuple(buffers[num_level_fields - 1 :]),
            None if table.pages is None else table.pages[chosen],
        )


def word_bytes_of(layout: pb21.MiniBlockLayout) -> int:
    """Return the size of a chunk word in bytes."""
    return 4 if layout.has_large_chunk else 2


def chunk_words(
    chunk_bytes: NDArray[np.int64], num_values: NDArray[np.int64], *, is_large: bool
) -> NDArray[np.unsignedinteger] | None:
    """Build page buffer 0; return None if a chunk is too large for its word. ``is_large`` selects 32-bit words."""
    if int(chunk_bytes.max(initial=0)) > (_MAX_CHUNK_BYTES if is_large else _MAX_SMALL_CHUNK_BYTES):
        return None
    words = (chunk_bytes // CHUNK_ALIGNMENT - 1) << _LOG2_BITS
    words[:-1] |= int(num_values[0]).bit_length() - 1
    return words.astype("<u4" if is_large else "<u2")


def chunk_headers(
    num_levels: NDArray[np.int64],
    level_sizes: list[NDArray[np.int64]],
    value_sizes: list[NDArray[np.int64]],
    *,
    is_large: bool,
) -> NDArray[np.uint8] | None:
    """Build the padded chunk headers, (num_chunks, header_bytes) uint8; return None if a number is too large."""
    limit = (1 << 16) - 1
    if any(int(numbers.max(initial=0)) > limit for numbers in (num_levels, *level_sizes)):
        return None
    if not is_large and any(int(sizes.max(initial=0)) > limit for sizes in value_sizes):
        return None
    fields = [(num_levels, "<u2")]
    fields += [(sizes, "<u2") for sizes in level_sizes]
    fields += [(sizes, "<u4" if is_large else "<u2") for sizes in value_sizes]
    num_bytes = sum(np.dtype(dtype).itemsize for _, dtype in fields)
    headers = np.zeros((len(num_levels), align_up(num_bytes, CHUNK_ALIGNMENT)), np.uint8)
    at = 0
    for numbers, dtype in fields:
        width = np.dtype(dtype).itemsize
        headers[:, at : at + width] = numbers.astype(dtype).view(np.uint8).reshape(-1, width)
        at += width
    return headers


def aligned_sizes(sizes: NDArray[np.int64], alignment: int = CHUNK_ALIGNMENT) -> NDArray[np.int64]:
    """Return the sizes rounded up to the alignment inside chunks."""
    return sizes + -sizes % alignment


def _check_bytes(found: NDArray[np.int64], expected: Sequence[int]) -> None:
    for chunk_bytes, data_bytes in zip(found.tolist(), expected, strict=True):
        if chunk_bytes != data_bytes:
            raise CorruptDataError(
                f"the mini-block chunks take {counted(chunk_bytes, 'byte')}, but their buffer has "
                f"{counted(data_bytes, 'byte')}"
            )


def _last_values(found: NDArray[np.int64], num_items: Sequence[int]) -> list[int]:
    """Return the number of values in the last chunk of each page; ``found`` counts those in the chunks before it."""
    counts = [declared - before for declared, before in zip(num_items, found.tolist(), strict=True)]
    for count, declared in zip(counts, num_items, strict=True):
        if not 0 <= count <= _MAX_CHUNK_VALUES:
            raise CorruptDataError(
                f"the page declares {counted(declared, 'item')}, so its last mini-block chunk would have "
                f"{counted(count, 'item')}; "
                f"expected 0 to {_MAX_CHUNK_VALUES}"
            )
    return counts


def _header_fields(headers: NDArray[np.uint8], widths: list[int]) -> list[NDArray[np.int64]]:
    fields = []
    at = 0
    for width in widths:
        column = np.ascontiguousarray(headers[:, at : at + width])
        fields.append(column.view(f"<u{width}").reshape(-1).astype(np.int64))
        at += width
    return fields


def _lay_out(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    header_bytes: int,
    chunk_bytes: NDArray[np.int64],
    sizes: list[NDArray[np.int64]],
) -> list[Segments]:
    at = starts + header_bytes
    buffers = []
    for buffer_sizes in sizes:
        buffers.append(Segments(data, at, buffer_sizes))
        at = at + aligned_sizes(buffer_sizes)
    if not bool((at == starts + chunk_bytes).all()):
        raise CorruptDataError("the buffers of a mini-block chunk do not fill the chunk exactly")
    return buffers
