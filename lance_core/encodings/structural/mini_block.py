"""mini_block: small values in chunks that can be decoded independently.

::

    page buffer 0     chunk words                       chunk_directory.py
    page buffer 1     the chunks, back to back
    page buffer 2     dictionary, if the layout has one
    last page buffer  repetition index, if there are lists       repetition_index.py

The number of values in a chunk is a power of two, except in the last chunk, which contains the remaining values. The
levels of a chunk end directly after the level of its last value; invisible levels that follow belong to the next chunk,
and the last chunk contains all remaining levels.

Source: ``lance.encodings21.MiniBlockLayout``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import EncodedChunks, EncodedPage
from lance_core.encodings.kernels.level_runs import value_bounds
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.encodings.structural.chunk_directory import (
    aligned_sizes,
    chunk_headers,
    chunk_words,
)
from lance_core.encodings.structural.level_buffers import encode_levels
from lance_core.encodings.structural.repetition_index import build_repetition_index
from lance_core.proto import pb21

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.levels.build import Levels


__all__ = ["encode", "level_bounds"]


def level_bounds(levels: Levels, num_values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the first level of each chunk, followed by num_levels: (num_chunks + 1,) int64.

    Args:
        levels: levels of the page.
        num_values: (num_chunks,) number of values in each chunk.
    """
    value_stops = np.cumsum(num_values)
    if levels.definition is not None and levels.layers.has_invisible:
        bounds = value_bounds(levels.definition, levels.layers.max_visible, value_stops)
    else:
        bounds = np.append(0, value_stops)
    bounds[-1] = levels.num_levels
    return bounds


def encode(
    levels: Levels,
    values: EncodedChunks,
    *,
    num_rows: int,
    dictionary: tuple[pb21.CompressiveEncoding, pa.Buffer, int] | None = None,
    is_large: bool = True,
    run_levels: bool = True,
) -> EncodedPage | None:
    """Encode one page; return None if a chunk is too large for the width of its size fields.

    Args:
        levels: levels of the page.
        values: the values of the page, or their indices in the dictionary.
        num_rows: value of ``Page.length``.
        dictionary: encoding, bytes, and number of items of the dictionary.
        is_large: whether chunk words and value sizes have 32 bits, as in 2.2, instead of 16.
        run_levels: whether levels may be run-length encoded, as in 2.2.
    """
    layout = pb21.MiniBlockLayout(
        layers=levels.layers.codes,
        value_compression=values.encoding,
        num_buffers=len(values.buffers),
        num_items=int(values.num_values.sum()),
        has_large_chunk=is_large,
    )
    num_chunks = len(values.num_values)
    num_levels = np.zeros(num_chunks, np.int64)
    level_segments: list[Segments] = []
    bounds = num_levels
    if levels.repetition is not None or levels.definition is not None:
        bounds = level_bounds(levels, values.num_values)
        num_levels = np.diff(bounds)
    if levels.repetition is not None:
        encoding, segments = encode_levels(levels.repetition, num_levels, allow_runs=run_levels)
        layout.rep_compression.CopyFrom(encoding)
        level_segments.append(segments)
    if levels.definition is not None:
        encoding, segments = encode_levels(levels.definition, num_levels, allow_runs=run_levels)
        layout.def_compression.CopyFrom(encoding)
        level_segments.append(segments)
    chunks = _lay_out_chunks(num_levels, level_segments, values, is_large=is_large)
    if chunks is None:
        return None
    buffers = list(chunks)
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
    num_levels: NDArray[np.int64], level_segments: list[Segments], values: EncodedChunks, *, is_large: bool
) -> tuple[pa.Buffer, pa.Buffer] | None:
    """Build the chunk words and the chunks; return None if a chunk is too large."""
    level_sizes = [segments.sizes for segments in level_segments]
    value_sizes = [aligned_sizes(_sizes(pieces), values.alignment) for pieces in values.buffers]
    headers = chunk_headers(num_levels, level_sizes, value_sizes, is_large=is_large)
    if headers is None:
        return None
    columns = [Segments.evenly(headers.reshape(-1), len(headers), headers.shape[1])]
    for buffer in (*((segments,) for segments in level_segments), *values.buffers):
        columns += [piece for piece in buffer if len(piece.data)]
        padding = -_sizes(buffer) % 8
        if bool(padding.any()):
            columns.append(_padding(padding))
    data, bounds = interleave(columns)
    words = chunk_words(np.diff(bounds), values.num_values, is_large=is_large)
    if words is None:
        return None
    return pa.py_buffer(words), pa.py_buffer(data)


def _sizes(pieces: Sequence[Segments]) -> NDArray[np.int64]:
    """Return the total size of the pieces of each chunk."""
    sizes = pieces[0].sizes
    for piece in pieces[1:]:
        sizes = sizes + piece.sizes
    return sizes


def _padding(sizes: NDArray[np.int64]) -> Segments:
    return Segments.back_to_back(np.zeros(int(sizes.sum()), np.uint8), sizes)
