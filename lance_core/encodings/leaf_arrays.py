"""Leaf arrays: converts Arrow arrays without nested structure to and from ``DataBlock``.

Validity is not part of a block: for a leaf, it comes from definition levels, which also represent the nulls of the
enclosing structs. Values under nulls are not kept: null strings become empty and null words become 0, so that files
contain no remnants of other data. (Null fixed-size lists are cleared by the encoder of full-zip pages, which copies
them anyway.)

Source: Arrow columnar format.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.buffers.pool_arrays import uninitialized
from lance_core.encodings.api import (
    DataBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.bits import pack_mask, slice_bitmap, unpack_bitmap
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "array_from_block",
    "bitmap_of",
    "block_from_array",
    "bytes_of",
    "is_variable_width",
    "joined",
    "validity_of",
    "with_nulls",
]

_MAX_INT32: Final = (1 << 31) - 1
_MAX_SPREAD: Final = 2
"""Buffers are not copied if the range that contains them is at most this many times as large as their total size."""

_WORD_BYTES: Final = (1, 2, 4, 8)
_VARIABLE_WIDTH: Final = frozenset(
    dtype.id for dtype in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
)
_CHECKED: Final = frozenset(dtype.id for dtype in (pa.string(), pa.large_string(), pa.decimal128(1), pa.decimal256(1)))
"""Ids of the Arrow types whose values must be validated: not every byte string or word is a valid value."""


def bytes_of(buffer: pa.Buffer | None) -> NDArray[np.uint8]:
    """Return a buffer as a (num_bytes,) uint8 view."""
    return np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.empty(0, np.uint8)


def joined(buffers: Sequence[pa.Buffer]) -> tuple[NDArray[np.uint8], list[int]]:
    """Return an array that contains several buffers, and the position of each buffer in the array.

    Nothing is copied if the buffers are close together in one larger buffer, such as a mapping of a file. The array
    never extends beyond the memory that one of the buffers keeps alive, because numpy and compiled kernels may read the
    whole array.
    """
    filled = [buffer for buffer in buffers if buffer.size]
    if not filled:
        return np.empty(0, np.uint8), [0] * len(buffers)
    num_bytes = sum([buffer.size for buffer in filled])
    first = min([buffer.address for buffer in filled])
    stop = max([buffer.address + buffer.size for buffer in filled])
    if stop - first <= _MAX_SPREAD * num_bytes and len({_root(buffer).address for buffer in filled}) == 1:
        root = _root(filled[0])
        whole = bytes_of(root)[first - root.address : stop - root.address]
        return whole, [buffer.address - first if buffer.size else 0 for buffer in buffers]
    copy = np.concatenate(list(map(bytes_of, buffers)), out=uninitialized(num_bytes))
    return copy, list(itertools.accumulate([buffer.size for buffer in buffers[:-1]], initial=0))


def _root(buffer: pa.Buffer) -> pa.Buffer:
    """Return the outermost buffer that contains a buffer; the buffer itself if it is not part of another."""
    while buffer.parent is not None:
        buffer = buffer.parent
    return buffer


def is_variable_width(dtype: pa.DataType) -> bool:
    """Return whether a type is a string or binary type."""
    return dtype.id in _VARIABLE_WIDTH


def validity_of(array: pa.Array) -> NDArray[np.bool_] | None:
    """Return a (len(array),) mask, True = valid, or None if there are no nulls.

    An index that refers to a null item of its dictionary counts as null.
    """
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        named = array.dictionary.is_valid().take(array.indices).fill_null(False)
        return unpack_bitmap(bytes_of(named.buffers()[1]), named.offset, len(named))
    if array.null_count == 0:
        return None
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    return unpack_bitmap(bytes_of(array.buffers()[0]), array.offset, len(array))


def with_nulls(array: pa.Array, validity: NDArray[np.bool_] | None) -> pa.Array:
    """Return the array with nulls wherever ``validity`` is False; these slots must include the array's own nulls."""
    if validity is None or array.null_count == len(array) - int(np.count_nonzero(validity)):
        return array
    return pc.if_else(pa.array(validity), array, pa.scalar(None, array.type))


def bitmap_of(validity: NDArray[np.bool_] | None) -> pa.Buffer | None:
    """Convert a mask to an Arrow validity buffer; return None if all values are valid."""
    return None if validity is None or bool(validity.all()) else pa.py_buffer(pack_mask(validity))


def block_from_array(array: pa.Array, validity: NDArray[np.bool_] | None) -> DataBlock:
    """Convert a leaf array to a block; a view of the array's memory if no values have to be cleared.

    Args:
        array: an array without nested structure, and not a dictionary.
        validity: (len(array),) mask of the slots to keep; it must be False for the array's own nulls, and may be False
            for other slots.

    Raises:
        NotSupportedError: the type cannot be stored as a leaf.
    """
    dtype = array.type
    if pa.types.is_null(dtype):
        return NullBlock(len(array))
    if pa.types.is_fixed_size_list(dtype):
        return _fixed_size_list_block(array, validity)
    if is_variable_width(dtype):
        return _variable_width_block(array, validity)
    if pa.types.is_boolean(dtype):
        data = slice_bitmap(bytes_of(array.buffers()[1]), array.offset, len(array))
        return FixedWidthBlock(len(array), 1, data)
    try:
        width = dtype.bit_width // 8
    except ValueError as error:
        raise NotSupportedError(f"values of type {dtype} cannot be written", arrow_type=str(dtype)) from error
    data = bytes_of(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width]
    if validity is not None:
        data = _blanked(data, width, validity)
    return FixedWidthBlock(len(array), width * 8, data)


def array_from_block(dtype: pa.DataType, block: DataBlock, validity: NDArray[np.bool_] | None) -> pa.Array:
    """Build the array of a leaf; the array uses the buffers of the block where possible.

    Args:
        dtype: Arrow type of the leaf.
        block: one value per slot.
        validity: (num_values,) mask; None = all valid.

    Raises:
        CorruptDataError: the block does not match the type.
        NotSupportedError: a type with 32-bit offsets would need more than 2 GiB.
    """
    num_values = block.num_values
    if validity is not None and len(validity) != num_values:
        raise CorruptDataError(
            f"found {counted(num_values, 'value')}, but {counted(len(validity), 'definition level')}"
        )
    if isinstance(block, NullBlock) or pa.types.is_null(dtype):
        return pa.nulls(num_values, dtype)
    bitmap = bitmap_of(validity)
    if isinstance(block, DictionaryBlock):
        return _array_from_dictionary(dtype, block, bitmap)
    if pa.types.is_fixed_size_list(dtype):
        if not isinstance(block, FixedSizeListBlock) or block.dimension != dtype.list_size:
            raise _mismatch(dtype, block)
        items = array_from_block(dtype.value_type, block.items, block.validity)
        return pa.Array.from_buffers(dtype, num_values, [bitmap], children=[items])
    if is_variable_width(dtype):
        if not isinstance(block, VariableWidthBlock):
            raise _mismatch(dtype, block)
        offsets, data = _arrow_offsets(dtype, block)
        array = pa.Array.from_buffers(dtype, num_values, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])
        return _checked_values(array)
    if not isinstance(block, FixedWidthBlock):
        raise _mismatch(dtype, block)
    data = _arrow_words(dtype, block)
    return _checked_values(pa.Array.from_buffers(dtype, num_values, [bitmap, pa.py_buffer(data)]))


def _blanked(data: NDArray[np.uint8], width: int, validity: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return a copy with zeros in the slots that are not valid."""
    if width in _WORD_BYTES:
        # A multiplication has no branch to mispredict, unlike a selection.
        words: NDArray[Any] = np.multiply(data.view(f"<u{width}"), validity, dtype=f"<u{width}")
        return words.view(np.uint8)
    blanked = data.copy()
    blanked.reshape(len(validity), width)[~validity] = 0
    return blanked


def _variable_width_block(array: pa.Array, validity: NDArray[np.bool_] | None) -> VariableWidthBlock:
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offset_dtype = np.dtype("<i8" if is_large else "<i4")
    _, offset_buffer, data_buffer = array.buffers()
    offsets = _words_of(offset_buffer, offset_dtype, array.offset, len(array) + 1)
    data = bytes_of(data_buffer)
    if validity is not None:
        lengths = np.diff(offsets)
        if bool(lengths[~validity].any()):
            dense = array.filter(pa.array(validity))
            kept = np.zeros(len(array) + 1, offset_dtype)
            np.cumsum(np.where(validity, lengths, 0), out=kept[1:])
            first = _words_of(dense.buffers()[1], offset_dtype, dense.offset, 1)
            return VariableWidthBlock(kept, bytes_of(dense.buffers()[2])[int(first[0]) :])
    return VariableWidthBlock(offsets, data)


def _words_of(buffer: pa.Buffer | None, dtype: np.dtype[Any], start: int, num_words: int) -> NDArray[Any]:
    # In Arrow, the offsets buffer of an empty array may be empty.
    if buffer is None or buffer.size == 0:
        return np.zeros(num_words, dtype)
    return np.frombuffer(buffer, dtype, num_words, start * dtype.itemsize)


def _fixed_size_list_block(array: pa.FixedSizeListArray, validity: NDArray[np.bool_] | None) -> FixedSizeListBlock:
    dimension = array.type.list_size
    items = array.values.slice(array.offset * dimension, len(array) * dimension)
    if isinstance(items, pa.ExtensionArray):
        items = items.storage
    item_validity = validity_of(items)
    if validity is not None and item_validity is not None:
        # Items of a null list are neither valid nor null; treating them as valid often leaves no null items.
        item_validity = item_validity | np.repeat(~validity, dimension)
        item_validity = None if bool(item_validity.all()) else item_validity
    return FixedSizeListBlock(len(array), dimension, block_from_array(items, item_validity), item_validity)


def _arrow_offsets(dtype: pa.DataType, block: VariableWidthBlock) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    offsets, data = block.offsets, block.data
    if pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype):
        return offsets.astype(np.int64, copy=False), data
    first, last = int(offsets[0]), int(offsets[-1])
    if last > _MAX_INT32:
        if last - first > _MAX_INT32:
            raise NotSupportedError(
                f"{last - first} bytes are too many for one array of type {dtype}; read fewer rows at a time"
            )
        return (offsets - first).astype(np.int32), data[first:last]
    return offsets.astype(np.int32, copy=False), data


def _checked_values(array: pa.Array) -> pa.Array:
    """Return the array after checking that its bytes are valid for its type."""
    if array.type.id not in _CHECKED:
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptDataError(f"a column of type {array.type} contains invalid bytes: {error}") from error
    return array


def _arrow_words(dtype: pa.DataType, block: FixedWidthBlock) -> NDArray[np.uint8]:
    if pa.types.is_boolean(dtype):
        if block.bits_per_value == 8:
            return pack_mask(block.data != 0)
        if block.bits_per_value == 1:
            return block.data
    elif dtype.bit_width == block.bits_per_value:
        return block.data
    raise _mismatch(dtype, block)


def _array_from_dictionary(dtype: pa.DataType, block: DictionaryBlock, bitmap: pa.Buffer | None) -> pa.Array:
    num_values, bits = block.num_values, block.indices.bits_per_value
    value_type = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    items = array_from_block(value_type, block.items, None)
    if (
        bitmap is None
        and num_values == len(items) == 1
        and not pa.types.is_dictionary(dtype)
        and not any(block.indices.data.tobytes())
    ):
        return items
    index_type = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[bits]
    indices = pa.Array.from_buffers(index_type, num_values, [bitmap, pa.py_buffer(block.indices.data)])
    if pa.types.is_dictionary(dtype):
        if len(items) > 1 << (dtype.index_type.bit_width - pa.types.is_signed_integer(dtype.index_type)):
            raise CorruptDataError(f"{len(items)} dictionary items are too many for indices of type {dtype.index_type}")
        # Null slots may contain any index, even one that is out of range for the type.
        return pa.DictionaryArray.from_arrays(indices.cast(dtype.index_type, safe=False), items, ordered=dtype.ordered)
    if isinstance(block.items, VariableWidthBlock):
        _check_expanded_bytes(dtype, block.items, indices)
    return items.take(indices)


def _check_expanded_bytes(dtype: pa.DataType, items: VariableWidthBlock, indices: pa.Array) -> None:
    longest = int(np.diff(items.offsets).max(initial=0))
    if longest * len(indices) <= _MAX_INT32:
        return
    lengths = pa.array(np.diff(items.offsets).astype(np.int64))
    num_bytes = pc.sum(lengths.take(indices)).as_py() or 0
    if num_bytes > _MAX_INT32:
        raise NotSupportedError(
            f"{num_bytes} bytes are too many for one array of type {dtype}; read fewer rows at a time"
        )


def _mismatch(dtype: pa.DataType, block: DataBlock) -> CorruptDataError:
    found = type(block).__name__
    if isinstance(block, FixedWidthBlock):
        found += f" of {counted(block.bits_per_value, 'bit')}"
    return CorruptDataError(f"cannot decode a column of type {dtype} from a {found}", expected=str(dtype), found=found)
