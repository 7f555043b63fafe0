"""full_zip: large values, each stored directly after its levels and readable on its own.

::

    page buffer 0    per level: control word | value
    page buffer 1    repetition index: start of every row, then end of the last; only for lists or variable width

    control word     rep << bits_def | def in 0, 1, 2 or 4 bytes
    fixed width      value bytes after every visible level; for nulls, arbitrary bytes (this library writes 0)
    variable width   length (4 or 8 bytes) | bytes after every level 0; nothing after other levels

Without levels, fixed-width values form one contiguous array, which is not copied when writing or reading.

Source: ``lance.encodings21.FullZipLayout``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import EncodedPage, FixedRows, VariableWidthBlock
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.encodings.structural.zipped_levels import ZippedForm
from lance_core.errors import NotSupportedError
from lance_core.proto import pb21

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.levels.build import Levels

__all__ = ["encode"]

_MAX_ITEMS: Final = (1 << 32) - 1
_INDEX_BYTES: Final = (1, 2, 4, 8)


def encode(
    levels: Levels,
    encoding: pb21.CompressiveEncoding,
    values: FixedRows | VariableWidthBlock,
    *,
    num_rows: int,
) -> EncodedPage:
    """Encode one page.

    Args:
        levels: levels of the page.
        encoding: description of how the values are encoded.
        values: the values, one per visible level; null values of variable width are empty.
        num_rows: value of ``Page.length``.
    """
    if levels.num_levels > _MAX_ITEMS:
        raise NotSupportedError(
            f"{levels.num_levels} levels are too many for one full-zip page; write fewer rows at a time"
        )
    layout = pb21.FullZipLayout(
        bits_rep=levels.layers.max_repetition.bit_length(),
        bits_def=levels.layers.max_definition.bit_length(),
        num_items=levels.num_levels,
        num_visible_items=len(values.rows) if isinstance(values, FixedRows) else values.num_values,
        value_compression=encoding,
        layers=levels.layers.codes,
    )
    words = _control_words(levels, layout.bits_rep, layout.bits_def)
    if isinstance(values, FixedRows):
        layout.bits_per_value = values.rows.shape[1] * 8
        data, positions = _zip_fixed(levels, words, values.rows)
    else:
        layout.bits_per_offset = values.offsets.itemsize * 8
        data, positions = _zip_variable(levels, words, values)
    buffers = [pa.py_buffer(data)]
    if levels.repetition is not None:
        row_starts = np.flatnonzero(levels.repetition == levels.layers.max_repetition)
        positions = positions[np.append(row_starts, levels.num_levels)]
    if levels.repetition is not None or isinstance(values, VariableWidthBlock):
        buffers.append(pa.py_buffer(_narrowed(positions)))
    return EncodedPage(pb21.PageLayout(full_zip=layout), tuple(buffers), num_rows)


def _control_words(levels: Levels, bits_rep: int, bits_def: int) -> NDArray[np.uint8]:
    """Return the bytes of the control words, (num_levels, width)."""
    width = ZippedForm.control_word_bytes(bits_rep, bits_def)
    words = np.zeros(levels.num_levels, f"<u{width}" if width else "u1")
    if levels.repetition is not None:
        words |= levels.repetition.astype(words.dtype) << words.dtype.type(bits_def)
    if levels.definition is not None:
        words |= levels.definition.astype(words.dtype)
    return words.view(np.uint8).reshape(levels.num_levels, -1)[:, :width]


def _zip_fixed(
    levels: Levels, words: NDArray[np.uint8], rows: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    word_bytes, row_bytes = words.shape[1], rows.shape[1]
    visible = levels.visible()
    if visible is None:
        positions = np.arange(levels.num_levels + 1, dtype=np.int64) * (word_bytes + row_bytes)
        if word_bytes == 0:
            return np.ascontiguousarray(rows).reshape(-1), positions
        zipped = np.empty((levels.num_levels, word_bytes + row_bytes), np.uint8)
        zipped[:, :word_bytes] = words
        zipped[:, word_bytes:] = rows
        if levels.definition is not None:
            zipped[levels.definition > 0, word_bytes:] = 0
        return zipped.reshape(-1), positions
    if levels.definition is not None:
        rows = rows.copy()
        rows[levels.definition[visible] > 0] = 0
    control = Segments.evenly(np.ascontiguousarray(words).reshape(-1), levels.num_levels, word_bytes)
    flat_rows = np.ascontiguousarray(rows).reshape(-1)
    return interleave([control, Segments.back_to_back(flat_rows, np.where(visible, row_bytes, 0))])


def _zip_variable(
    levels: Levels, words: NDArray[np.uint8], values: VariableWidthBlock
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    width = values.offsets.itemsize
    value_sizes = np.diff(values.offsets).astype(np.int64)
    data = values.data[int(values.offsets[0]) : int(values.offsets[-1])]
    if levels.definition is None:
        lengths, length_sizes, sizes = value_sizes, np.full(levels.num_levels, width, np.int64), value_sizes
    else:
        visible = levels.visible()
        sizes = value_sizes
        if visible is not None:
            sizes = np.zeros(levels.num_levels, np.int64)
            sizes[visible] = value_sizes
        valid = levels.definition == 0
        lengths, length_sizes = sizes[valid], np.where(valid, width, 0)
    length_bytes = lengths.astype(f"<u{width}").view(np.uint8)
    columns = [Segments.back_to_back(length_bytes, length_sizes), Segments.back_to_back(data, sizes)]
    if words.shape[1]:
        flat_words = np.ascontiguousarray(words).reshape(-1)
        columns.insert(0, Segments.evenly(flat_words, levels.num_levels, words.shape[1]))
    return interleave(columns)


def _narrowed(positions: NDArray[np.int64]) -> NDArray[Any]:
    last = int(positions[-1])
    width = next(width for width in _INDEX_BYTES if last < 1 << 8 * width)
    return positions.astype(f"<u{width}")
