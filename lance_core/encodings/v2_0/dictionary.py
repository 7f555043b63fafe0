"""``dictionary``: indices into a table of distinct items. Two readings of the same message:

::

    column of type dict:…       index i is item i; nulls are rows whose item is null
    column of any other type    index 0 is null, index i is item i - 1 (the writer made the dictionary by itself)

Only the column's type tells which it is. An Arrow dictionary keeps its order and its unused items. Its null rows get
an item of their own: the first null among the items, or one more.

Source: ``lance.encodings.Dictionary``; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.v2_0.api import MAX_INT32, Arm, is_variable_width, together
from lance_core.encodings.v2_0.flat import encode_fixed_width, fixed_width_array, read_flat, unwrapped
from lance_core.encodings.v2_0.nullable import no_nulls
from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb20

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import Decode, PageBuffers, PageBuilder, Steps

__all__ = ["ARM", "encode_automatic", "encode_dictionary"]

_INDEX_TYPES: Final = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_MAX_BLANK_ITEMS: Final = 1 << 20


def encode_dictionary(
    array: pa.DictionaryArray, page: PageBuilder, encode: Callable[[pa.Array, PageBuilder], pb20.ArrayEncoding]
) -> pb20.ArrayEncoding:
    """An Arrow dictionary.

    Args:
        array: the rows.
        page: takes the buffers.
        encode: encodes the items, nulls included.

    Raises:
        NotSupportedError: the item for null rows has a number that the index type lacks.
    """
    indices, items = _without_nulls(array)
    coded = no_nulls(encode_fixed_width(indices, page))
    return _message(coded, encode(items, page), len(items))


def encode_automatic(
    array: pa.Array,
    items: pa.Array,
    indices: NDArray[np.uint8],
    page: PageBuilder,
    encode: Callable[[pa.Array, PageBuilder], pb20.ArrayEncoding],
) -> pb20.ArrayEncoding:
    """Strings of few distinct values.

    Args:
        array: the rows; gives the type of the items.
        items: the distinct values, in the order in which they are first seen.
        indices: (len(array),) number of each row's value plus one, 0 for nulls.
        page: takes the buffers.
        encode: encodes the items.
    """
    coded = no_nulls(encode_fixed_width(pa.array(indices, pa.uint8()), page))
    if not len(items):
        items = pa.nulls(1, array.type)
    return _message(coded, encode(items, page), len(items))


def _message(indices: pb20.ArrayEncoding, items: pb20.ArrayEncoding, num_items: int) -> pb20.ArrayEncoding:
    return pb20.ArrayEncoding(
        dictionary=pb20.Dictionary(indices=indices, items=items, num_dictionary_items=num_items)
    )


def _without_nulls(array: pa.DictionaryArray) -> tuple[pa.Array, pa.Array]:
    """Indices without nulls, and items of which one may be null."""
    indices, items = array.indices, array.dictionary
    if not indices.null_count and not items.null_count and len(array):
        return indices, items
    valid = indices.is_valid()
    if items.null_count:
        valid = items.is_valid().take(indices).fill_null(False)
    if not pc.any(valid).as_py():
        blank = pa.array(np.zeros(len(array), np.int8)).cast(indices.type)
        return blank, pa.nulls(1, items.type)
    if pc.all(valid).as_py():
        return indices, items
    if items.null_count:
        null_index = int(np.argmax(np.asarray(items.is_null())))
    else:
        null_index = len(items)
        items = pa.concat_arrays([items, pa.nulls(1, items.type)])
    width = indices.type.bit_width
    largest = (1 << (width - pa.types.is_signed_integer(indices.type))) - 1
    if null_index > largest:
        raise NotSupportedError(
            f"a dictionary of {null_index} items has no room for one that stands for null: indices of type "
            f"{indices.type} end at {largest}; use a wider index type, or format 2.1 or later",
            arrow_type=str(array.type),
        )
    return pc.if_else(valid, indices, pa.scalar(null_index, indices.type)), items


def _decode(
    message: pb20.Dictionary, dtype: pa.DataType, rows: Spans, page: PageBuffers, decode: Decode
) -> Steps[pa.Array]:
    is_explicit = pa.types.is_dictionary(dtype)
    value_type = dtype.value_type if is_explicit else dtype
    coded = unwrapped(message.indices, "the indices of a dictionary")
    if coded.bits_per_value not in _INDEX_TYPES:
        raise CorruptDataError(f"the indices of a dictionary have {coded.bits_per_value} bits")
    index_bytes, items = yield from together(
        [read_flat(coded, rows, page), _read_items(message, value_type, page, decode)]
    )
    index_type = _INDEX_TYPES[coded.bits_per_value]
    indices = np.asarray(fixed_width_array(index_type, rows.total, index_bytes))
    # An automatic dictionary may have no items at all, and then has only nulls.
    limit = len(items) + (0 if is_explicit else 1)
    largest = int(indices.max(initial=0))
    if largest >= limit and rows.total:
        raise CorruptDataError(f"index {largest} in a dictionary of {limit}", expected=limit, found=largest)
    if is_explicit:
        return _explicit(dtype, indices, items)
    return _expanded(items, indices)


def _read_items(message: pb20.Dictionary, value_type: pa.DataType, page: PageBuffers, decode: Decode) -> Steps[pa.Array]:
    if page.items is not None and page.items.type == value_type:
        return page.items
    num_items = message.num_dictionary_items
    if message.items.WhichOneof("array_encoding") == "nullable" and num_items > _MAX_BLANK_ITEMS:
        if message.items.nullable.HasField("all_nulls"):
            raise CorruptDataError(f"a dictionary of {num_items} nulls")
    items = yield from decode(message.items, value_type, Spans.single(0, num_items), page)
    page.items = items
    return items


def _explicit(dtype: pa.DictionaryType, indices: NDArray[Any], items: pa.Array) -> pa.Array:
    if dtype.index_type.bit_width != indices.dtype.itemsize * 8:
        found = indices.dtype
        raise CorruptDataError(f"indices of type {found} in a column of type {dtype}", expected=str(dtype))
    words = indices.view(dtype.index_type.to_pandas_dtype())
    if not items.null_count:
        return pa.DictionaryArray.from_arrays(pa.array(words), items, ordered=dtype.ordered)
    is_null = np.asarray(items.is_null())[indices]
    return pa.DictionaryArray.from_arrays(pa.array(words, mask=is_null), items, ordered=dtype.ordered)


def _expanded(items: pa.Array, indices: NDArray[Any]) -> pa.Array:
    if is_variable_width(items.type) and items.type in (pa.string(), pa.binary()):
        lengths = np.concatenate(([0], np.asarray(pc.binary_length(items).fill_null(0), dtype=np.int64)))
        if int(lengths.max()) * len(indices) > MAX_INT32 and int(lengths[indices].sum()) > MAX_INT32:
            raise NotSupportedError(f"more than 2 GiB in one array of type {items.type}: read fewer rows at once")
    is_null = indices == 0
    if bool(is_null.any()):
        return items.take(pa.array(indices - indices.dtype.type(1), mask=is_null))
    return items.take(pa.array(indices - indices.dtype.type(1)))


ARM: Final = Arm(name="dictionary", decode=_decode)
