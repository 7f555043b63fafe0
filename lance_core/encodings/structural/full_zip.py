"""full_zip: large values, each stored right behind its levels and readable alone.

::

    page buffer 0    per level: control word | value
    page buffer 1    repetition index: where every row starts, and the end; with lists or variable width only

    control word     rep << bits_def | def in 0, 1, 2 or 4 bytes
    fixed width      value bytes behind every visible level; a null's are 0 when written here, anything elsewhere
    variable width   length (4 or 8 bytes) | bytes behind every level 0, nothing behind others

Fixed-width values without levels are the plain array of values: nothing is copied, neither here nor when reading.

Source: ``lance.encodings21.FullZipLayout``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import EncodedPage, FixedRows, VariableWidthBlock
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.encodings.structural.zipped_levels import ZippedForm, find_levels
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb21

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock, Decoder
    from lance_core.encodings.levels.build import Levels

__all__ = ["decode", "encode"]

_MAX_ITEMS: Final = (1 << 32) - 1
_INDEX_BYTES: Final = (1, 2, 4, 8)


def encode(
    levels: Levels,
    encoding: pb21.CompressiveEncoding,
    values: FixedRows | VariableWidthBlock,
    *,
    num_rows: int,
) -> EncodedPage:
    """Lay out one page.

    Args:
        levels: of the page.
        encoding: describes the values.
        values: one per visible level; null ones of variable width are empty.
        num_rows: value of ``Page.length``.
    """
    if levels.num_levels > _MAX_ITEMS:
        raise NotSupportedError(f"a full-zip page of {levels.num_levels} levels: write fewer rows at once")
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
    """(num_levels, width) bytes of the control words."""
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


def decode(
    layout: pb21.FullZipLayout,
    buffers: Sequence[NDArray[np.uint8]],
    num_rows: int,
    rows: tuple[int, int],
    decoder: Decoder,
) -> tuple[Levels, DataBlock]:
    """Decode rows ``[start, stop)`` of a page; bytes of other rows are not touched.

    Raises:
        CorruptDataError: the bytes contradict the layout or themselves.
        UnsupportedEncodingError: an encoding that this library does not decode.
    """
    form = ZippedForm.parse(layout)
    has_index = form.is_variable or form.layers.max_repetition > 0
    if len(buffers) != 1 + has_index:
        raise CorruptDataError(f"a full-zip page has {len(buffers)} buffers, expected {1 + has_index}")
    data, (start, stop) = buffers[0], rows
    if not has_index:
        if layout.num_items != num_rows or len(data) != num_rows * form.fixed_bytes:
            raise CorruptDataError(
                f"a full-zip page of {num_rows} rows has {layout.num_items} items in {len(data)} bytes, "
                f"{form.fixed_bytes} each"
            )
        stride = form.fixed_bytes
        zipped = data[start * stride : stop * stride].reshape(stop - start, stride)
        return _split_even_rows(form, zipped, layout.value_compression, decoder)
    bounds = _row_bounds(buffers[1], num_rows, len(data))[start : stop + 1]
    if not form.is_variable and layout.num_items == layout.num_visible_items:
        chosen = data[int(bounds[0]) : int(bounds[-1])]
        if form.fixed_bytes == 0 or len(chosen) % form.fixed_bytes:
            raise CorruptDataError(f"rows of {len(chosen)} bytes do not hold values of {form.fixed_bytes} bytes")
        zipped = chosen.reshape(-1, form.fixed_bytes)
        levels, block = _split_even_rows(form, zipped, layout.value_compression, decoder)
    else:
        levels, block = _split_uneven_rows(form, data, bounds, layout.value_compression, decoder)
    _check_rows(levels, block, stop - start)
    return levels, block


def _split_even_rows(
    form: ZippedForm, zipped: NDArray[np.uint8], encoding: pb21.CompressiveEncoding, decoder: Decoder
) -> tuple[Levels, DataBlock]:
    """Levels that all own a value: one row of bytes each."""
    levels = form.levels_of(zipped[:, : form.word_bytes])
    return levels, decoder.per_value(encoding, FixedRows(zipped[:, form.word_bytes :]))


def _split_uneven_rows(
    form: ZippedForm,
    data: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    encoding: pb21.CompressiveEncoding,
    decoder: Decoder,
) -> tuple[Levels, DataBlock]:
    starts = bounds[:-1] if form.layers.max_repetition == 0 else find_levels(form, data, bounds)
    if bool((starts + form.word_bytes > bounds[-1]).any()):
        raise CorruptDataError("a control word of a full-zip page leaves its row")
    words = Segments(data, starts, np.full(len(starts), form.word_bytes, np.int64)).rows(form.word_bytes)
    levels = form.levels_of(words)
    value_starts = starts + form.word_bytes
    if not form.is_variable:
        visible = levels.visible()
        owners = value_starts if visible is None else value_starts[visible]
        if bool((owners + form.value_bytes > bounds[-1]).any()):
            raise CorruptDataError("a value of a full-zip page leaves its row")
        values = Segments(data, owners, np.full(len(owners), form.value_bytes, np.int64))
        return levels, decoder.per_value(encoding, FixedRows(values.rows(form.value_bytes)))
    lengths = form.value_lengths(data, value_starts, levels)
    value_starts = value_starts + np.where(form.is_valid(levels), form.length_bytes, 0)
    stops = bounds[1:] if form.layers.max_repetition == 0 else np.append(starts[1:], bounds[-1])
    if bool((value_starts + lengths != stops).any()):
        raise CorruptDataError("a value of a full-zip page does not end where the next one starts")
    strings = Segments(data, value_starts, lengths).gather()
    visible = levels.visible()
    offsets = np.zeros((levels.num_levels if visible is None else int(visible.sum())) + 1, np.int64)
    np.cumsum(lengths if visible is None else lengths[visible], out=offsets[1:])
    return levels, decoder.per_value(encoding, VariableWidthBlock(offsets, strings))


def _row_bounds(index: NDArray[np.uint8], num_rows: int, data_bytes: int) -> NDArray[np.int64]:
    """The repetition index: (num_rows + 1,) ascending positions in the data."""
    width, rest = divmod(len(index), num_rows + 1)
    if rest or width not in _INDEX_BYTES:
        raise CorruptDataError(f"a repetition index of {len(index)} bytes does not fit {num_rows} rows")
    positions = index.view(UNSIGNED_DTYPES[width * 8])
    if bool((positions[1:] < positions[:-1]).any()) or int(positions[-1]) != data_bytes or int(positions[0]) != 0:
        raise CorruptDataError(f"the repetition index does not cover the {data_bytes} bytes of the page in order")
    return positions.astype(np.int64)


def _check_rows(levels: Levels, block: DataBlock, num_rows: int) -> None:
    visible = levels.visible()
    num_visible = levels.num_levels if visible is None else int(visible.sum())
    if levels.repetition is not None:
        starts = levels.repetition == levels.layers.max_repetition
        if int(starts.sum()) != num_rows or not bool(starts[:1].all()):
            raise CorruptDataError(f"a full-zip page starts {int(starts.sum())} rows where {num_rows} are expected")
    if num_visible != block.num_values:
        raise CorruptDataError(f"{block.num_values} values do not match {num_visible} visible levels")
