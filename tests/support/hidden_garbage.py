"""Equal arrays with garbage in all values that are hidden by a null at some level."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

__all__ = ["with_hidden_garbage"]


def with_hidden_garbage(array: pa.Array, hidden: np.ndarray | None = None) -> pa.Array:
    """The array with values that break the rules of its type below nulls: indices outside, no UTF-8, too many digits.

    Offsets stay in order: Arrow takes no array without.

    Args:
        array: of any type that a table can hold.
        hidden: (len(array),) mask of the slots that a null around the array, or no list at all, hides.
    """
    dtype, count = array.type, len(array)
    absent = np.asarray(array.is_null())
    hidden = absent if hidden is None else absent | hidden
    if pa.types.is_null(dtype) or isinstance(dtype, pa.BaseExtensionType) or "view" in str(dtype):
        return array
    if not dtype.num_fields and not hidden.any():
        return array
    if pa.types.is_struct(dtype):
        children = [with_hidden_garbage(array.field(number), hidden) for number in range(dtype.num_fields)]
        return pa.Array.from_buffers(dtype, count, [_bitmap(absent)], children=children)
    if pa.types.is_fixed_size_list(dtype):
        first, stop = array.offset * dtype.list_size, (array.offset + count) * dtype.list_size
        items = with_hidden_garbage(array.values[first:stop], np.repeat(hidden, dtype.list_size))
        return pa.Array.from_buffers(dtype, count, [_bitmap(absent)], children=[items])
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_map(dtype):
        return _list(array, absent, hidden)
    if pa.types.is_dictionary(dtype):
        keys = _fixed(array.indices, absent, hidden)
        return pa.DictionaryArray.from_arrays(keys, array.dictionary, safe=False)
    if pa.types.is_boolean(dtype):
        values = np.asarray(array.fill_null(False)) | hidden
        return pa.Array.from_buffers(dtype, count, [_bitmap(absent), _bits(values)])
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return _text(array, absent, hidden)
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return array
    return _fixed(array, absent, hidden)


def _list(array: pa.Array, absent: np.ndarray, hidden: np.ndarray) -> pa.Array:
    dtype, count = array.type, len(array)
    offsets = _offsets(array)
    values = _entries(array) if pa.types.is_map(dtype) else array.values
    # Items that belong to no list are also hidden.
    changes = np.zeros(len(values) + 1, np.int64)
    np.add.at(changes, offsets[:-1][~hidden], 1)
    np.add.at(changes, offsets[1:][~hidden], -1)
    items_hidden = np.cumsum(changes)[:-1] == 0
    items = with_hidden_garbage(values, items_hidden)
    return pa.Array.from_buffers(dtype, count, [_bitmap(absent), pa.py_buffer(offsets)], children=[items])


def _entries(array: pa.MapArray) -> pa.Array:
    fields = [array.type.key_field, array.type.item_field]
    return pa.StructArray.from_arrays([array.keys, array.items], fields=fields)


def _text(array: pa.Array, absent: np.ndarray, hidden: np.ndarray) -> pa.Array:
    offsets = _offsets(array)
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)[: offsets[-1]].copy()
    lengths = np.where(hidden, np.diff(offsets), 0)
    starts = np.repeat(offsets[:-1] - np.append(0, np.cumsum(lengths))[:-1], lengths)
    data[starts + np.arange(len(starts))] = 0xFF
    buffers = [_bitmap(absent), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(array.type, len(array), buffers)


def _fixed(array: pa.Array, absent: np.ndarray, hidden: np.ndarray) -> pa.Array:
    width, count = array.type.bit_width // 8, len(array)
    values = np.frombuffer(array.buffers()[1] or b"", np.uint8)[array.offset * width : (array.offset + count) * width]
    values = values.reshape(count, width).copy()
    # The largest number, positive if the type is signed.
    values[hidden] = [0xFF] * (width - 1) + [0x7F]
    return pa.Array.from_buffers(array.type, count, [_bitmap(absent), pa.py_buffer(values)])


def _offsets(array: pa.Array) -> np.ndarray:
    is_large = str(array.type).startswith("large_")
    words = np.frombuffer(array.buffers()[1], np.int64 if is_large else np.int32)
    return words[array.offset : array.offset + len(array) + 1].copy()


def _bitmap(absent: np.ndarray) -> pa.Buffer | None:
    return _bits(~absent) if absent.any() else None


def _bits(values: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
