"""mini_block: small values in chunks that can be decoded one by one.

::

    page buffer 0     chunk words                       chunk_directory.py
    page buffer 1     the chunks, back to back
    page buffer 2     dictionary, if the layout has one
    last page buffer  repetition index, if there are lists       repetition_index.py

A chunk holds a power of two of values (the last one holds the rest) together with their levels. Its levels end right
behind the level of its last value; invisible levels that follow belong to the next chunk, and the last chunk takes all
that is left.

Source: ``lance.encodings21.MiniBlockLayout``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import Chunks, DictionaryBlock, EncodedChunks, EncodedPage, FixedWidthBlock
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.levels.layers import Layers
from lance_core.encodings.structural.chunk_directory import (
    ChunkDirectory,
    aligned_sizes,
    chunk_headers,
    chunk_words,
)
from lance_core.encodings.structural.level_buffers import check_levels, decode_levels, encode_levels
from lance_core.encodings.structural.repetition_index import RepetitionIndex, build_repetition_index
from lance_core.encodings.structural.rows import cut_rows
from lance_core.errors import CorruptDataError, InternalError
from lance_core.proto import pb21

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock, Decoder

__all__ = ["decode", "encode", "level_bounds"]


def level_bounds(levels: Levels, num_values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the levels of each chunk start, the end included: (num_chunks + 1,) int64.

    Args:
        levels: of the page.
        num_values: (num_chunks,) values of each chunk.
    """
    value_stops = np.cumsum(num_values)
    visible = levels.visible()
    bounds = np.zeros(len(num_values) + 1, np.int64)
    if visible is None:
        bounds[1:] = value_stops
    else:
        bounds[1:] = np.searchsorted(np.cumsum(visible), value_stops, side="left") + 1
    bounds[-1] = levels.num_levels
    return bounds


def encode(
    levels: Levels,
    values: EncodedChunks,
    *,
    num_rows: int,
    dictionary: tuple[pb21.CompressiveEncoding, pa.Buffer, int] | None = None,
) -> EncodedPage:
    """Lay out one page.

    Args:
        levels: of the page.
        values: its values, or the indices of its values in the dictionary.
        num_rows: value of ``Page.length``.
        dictionary: encoding, bytes and number of items of the dictionary.
    """
    layout = pb21.MiniBlockLayout(
        layers=levels.layers.codes,
        value_compression=values.encoding,
        num_buffers=len(values.buffers),
        num_items=int(values.num_values.sum()),
        has_large_chunk=True,
    )
    num_chunks = len(values.num_values)
    num_levels = np.zeros(num_chunks, np.int64)
    level_segments: list[Segments] = []
    bounds = num_levels
    if levels.repetition is not None or levels.definition is not None:
        bounds = level_bounds(levels, values.num_values)
        num_levels = np.diff(bounds)
    if levels.repetition is not None:
        encoding, segments = encode_levels(levels.repetition, num_levels)
        layout.rep_compression.CopyFrom(encoding)
        level_segments.append(segments)
    if levels.definition is not None:
        encoding, segments = encode_levels(levels.definition, num_levels)
        layout.def_compression.CopyFrom(encoding)
        level_segments.append(segments)
    words, data = _lay_out_chunks(num_levels, level_segments, values)
    buffers = [words, data]
    if dictionary is not None:
        layout.dictionary.CopyFrom(dictionary[0])
        layout.num_dictionary_items = dictionary[2]
        buffers.append(dictionary[1])
    if levels.repetition is not None:
        layout.repetition_index_depth = 1
        index = build_repetition_index(levels.repetition, levels.layers.max_repetition, bounds)
        buffers.append(pa.py_buffer(index))
    return EncodedPage(pb21.PageLayout(mini_block=layout), tuple(buffers), num_rows)


def _lay_out_chunks(
    num_levels: NDArray[np.int64], level_segments: list[Segments], values: EncodedChunks
) -> tuple[pa.Buffer, pa.Buffer]:
    level_sizes = [segments.sizes for segments in level_segments]
    value_sizes = [
        aligned_sizes(np.sum([piece.sizes for piece in pieces], axis=0), values.alignment) for pieces in values.buffers
    ]
    headers = chunk_headers(num_levels, level_sizes, value_sizes)
    columns = [Segments.evenly(headers.reshape(-1), len(headers), headers.shape[1])]
    for buffer in (*((segments,) for segments in level_segments), *values.buffers):
        columns += [piece for piece in buffer if len(piece.data)]
        padding = -np.sum([piece.sizes for piece in buffer], axis=0) % 8
        if bool(padding.any()):
            columns.append(_padding(padding))
    data, bounds = interleave(columns)
    words = chunk_words(np.diff(bounds), values.num_values)
    if words is None:
        raise InternalError("a mini-block chunk is too large; the page should have been full zip")
    return pa.py_buffer(words), pa.py_buffer(data)


def _padding(sizes: NDArray[np.int64]) -> Segments:
    return Segments.back_to_back(np.zeros(int(sizes.sum()), np.uint8), sizes)


def decode(
    layout: pb21.MiniBlockLayout,
    buffers: Sequence[NDArray[np.uint8]],
    num_rows: int,
    rows: tuple[int, int],
    decoder: Decoder,
) -> tuple[Levels, DataBlock]:
    """Decode rows ``[start, stop)`` of a page, and no more chunks than they need.

    Raises:
        CorruptDataError: the bytes contradict the layout or themselves.
        UnsupportedEncodingError: an encoding that this library does not decode.
    """
    layers = Layers.parse(layout.layers, "mini-block page")
    has_dictionary = layout.HasField("dictionary")
    has_index = layout.repetition_index_depth > 0
    num_expected = 2 + has_dictionary + has_index
    if len(buffers) != num_expected:
        raise CorruptDataError(f"a mini-block page has {len(buffers)} buffers, expected {num_expected}")
    directory = ChunkDirectory.parse(layout, buffers[0], buffers[1])
    has_lists = layers.max_repetition > 0
    if has_lists != layout.HasField("rep_compression"):
        raise CorruptDataError(f"repetition levels do not match layers {list(layers.codes)}")
    if not has_lists and layout.num_items != num_rows:
        raise CorruptDataError(f"the page has {num_rows} rows but {layout.num_items} items, without any list")
    if has_lists and has_index:
        index = RepetitionIndex.parse(buffers[-1], directory.num_chunks, num_rows)
        first, stop, first_row = index.chunks_of(*rows)
    elif has_lists:
        first, stop, first_row = 0, directory.num_chunks, 0
    else:
        value_stops = np.cumsum(directory.num_values)
        first = int(np.searchsorted(value_stops, rows[0], side="right"))
        stop = int(np.searchsorted(value_stops, rows[1], side="left")) + 1
        first_row = int(value_stops[first - 1]) if first else 0
    chosen = directory.select(first, stop)
    levels, block = _decode_chunks(layout, layers, chosen, decoder)
    if has_dictionary:
        block = _with_dictionary(layout, buffers[2], block, decoder)
    is_whole = (first, stop) == (0, directory.num_chunks)
    return cut_rows(levels, block, rows[0] - first_row, rows[1] - first_row, num_rows if is_whole else None)


def _decode_chunks(
    layout: pb21.MiniBlockLayout, layers: Layers, chunks: ChunkDirectory, decoder: Decoder
) -> tuple[Levels, DataBlock]:
    repetition = definition = None
    if chunks.repetition is not None:
        repetition = decode_levels(layout.rep_compression, chunks.repetition, chunks.num_levels, decoder)
    if chunks.definition is not None:
        definition = decode_levels(layout.def_compression, chunks.definition, chunks.num_levels, decoder)
    check_levels(layers, repetition, definition)
    block = decoder.mini_block(layout.value_compression, Chunks(chunks.num_values, chunks.values))
    num_values = int(chunks.num_values.sum())
    has_levels = repetition is not None or definition is not None
    levels = Levels(layers, repetition, definition, int(chunks.num_levels.sum()) if has_levels else num_values)
    if block.num_values != num_values:
        raise CorruptDataError(f"chunks of {num_values} values decode to {block.num_values}")
    return levels, block


def _with_dictionary(
    layout: pb21.MiniBlockLayout, data: NDArray[np.uint8], block: DataBlock, decoder: Decoder
) -> DictionaryBlock:
    num_items = layout.num_dictionary_items
    if num_items > len(data) * 256:
        raise CorruptDataError(f"a dictionary of {num_items} items in {len(data)} bytes")
    items = decoder.block(layout.dictionary, Chunks.single(data, num_items))
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value not in UNSIGNED_DTYPES:
        raise CorruptDataError("dictionary indices are not whole words")
    indices = block.data.view(UNSIGNED_DTYPES[block.bits_per_value])
    if len(indices) and int(indices.max()) >= num_items:
        raise CorruptDataError(f"dictionary index {int(indices.max())}, the dictionary has {num_items} items")
    return DictionaryBlock(block, items)
