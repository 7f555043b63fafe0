"""``dictionary``: indices into a table of distinct items; their meaning depends on the column type.

::

    column of type dict:…       index i refers to item i; rows whose item is null are null
    column of any other type    index 0 is null; index i > 0 refers to item i - 1 (the writer created the dictionary)

Only the column's type distinguishes the two cases. An Arrow dictionary keeps its order and its unused items. Null
rows refer to the first null item of the dictionary or, if all its items are valid, to an additional null item.

Source: ``lance.encodings.Dictionary``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.v2_0.api import MAX_INT32, Arm, blank_array, together
from lance_core.encodings.v2_0.flat import encode_fixed_width, unwrapped
from lance_core.encodings.v2_0.nullable import no_nulls
from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb20
from lance_core.wording import counted

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
    """Encode an Arrow dictionary.

    Args:
        array: the rows.
        page: receives the buffers.
        encode: encodes the items, including nulls.

    Raises:
        NotSupportedError: the index type cannot represent the index of the null item.
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
    """Encode strings with few distinct values.

    Args:
        array: the rows; determines the type of the items.
        items: the distinct values, in order of first occurrence.
        indices: (len(array),) index of the value of each row plus one; 0 for nulls.
        page: receives the buffers.
        encode: encodes the items.
    """
    coded = no_nulls(encode_fixed_width(pa.array(indices, pa.uint8()), page))
    if not len(items):
        items = pa.nulls(1, array.type)
    return _message(coded, encode(items, page), len(items))


def _message(indices: pb20.ArrayEncoding, items: pb20.ArrayEncoding, num_items: int) -> pb20.ArrayEncoding:
    return pb20.ArrayEncoding(dictionary=pb20.Dictionary(indices=indices, items=items, num_dictionary_items=num_items))


def _without_nulls(array: pa.DictionaryArray) -> tuple[pa.Array, pa.Array]:
    """Return indices without nulls, and items of which at most one is null."""
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
            f"a dictionary of {counted(null_index, 'item')} has no index left for null: the maximum of type "
            f"{indices.type} is "
            f"{largest}; use a wider index type, or format 2.1 or later",
            arrow_type=str(array.type),
        )
    return pc.if_else(valid, indices, pa.scalar(null_index, indices.type)), items


def _decode(
    message: pb20.Dictionary, dtype: pa.DataType, rows: Spans, page: PageBuffers, decode: Decode
) -> Steps[pa.Array]:
    is_explicit = pa.types.is_dictionary(dtype)
    value_type = dtype.value_type if is_explicit else dtype
    index_array, items = yield from together(
        [_read_indices(message.indices, rows, page, decode), _read_items(message, value_type, page, decode)]
    )
    if not is_explicit:
        return _expanded(items, np.asarray(index_array.fill_null(0)))
    is_null = np.asarray(index_array.is_null()) if index_array.null_count else np.zeros(1, np.bool_)
    return _explicit(dtype, np.asarray(index_array.fill_null(0)), is_null, items)


def _read_indices(encoding: pb20.ArrayEncoding, rows: Spans, page: PageBuffers, decode: Decode) -> Steps[pa.Array]:
    """Read unsigned indices; they are null for null rows if an early release stored the nulls in the indices."""
    inner = encoding
    if encoding.nullable.HasField("some_nulls"):
        inner = encoding.nullable.some_nulls.values
    elif encoding.nullable.HasField("all_nulls"):
        return blank_array(pa.uint8(), rows.total)
    bits = unwrapped(inner, "the indices of a dictionary").bits_per_value
    if bits not in _INDEX_TYPES:
        raise CorruptDataError(f"the indices of a dictionary have {counted(bits, 'bit')}, expected 8, 16, 32, or 64")
    return (yield from decode(encoding, _INDEX_TYPES[bits], rows, page))


def _read_items(
    message: pb20.Dictionary, value_type: pa.DataType, page: PageBuffers, decode: Decode
) -> Steps[pa.Array]:
    if page.items is not None and page.items.type == value_type:
        return page.items
    num_items = message.num_dictionary_items
    if num_items > _MAX_BLANK_ITEMS and message.items.nullable.HasField("all_nulls"):
        raise CorruptDataError(
            f"all {counted(num_items, 'item')} of a dictionary are null; "
            f"such a dictionary may have at most {_MAX_BLANK_ITEMS} items"
        )
    items = yield from decode(message.items, value_type, Spans.single(0, num_items), page)
    page.items = items
    return items


def _explicit(dtype: pa.DictionaryType, indices: NDArray[Any], is_null: NDArray[np.bool_], items: pa.Array) -> pa.Array:
    """Build rows of an Arrow dictionary; ``is_null`` has one entry per row, or a single False."""
    if dtype.index_type.bit_width != indices.dtype.itemsize * 8 and not bool(is_null.all()):
        raise CorruptDataError(
            f"found indices of type {indices.dtype} in a column of type {dtype}", expected=str(dtype)
        )
    largest = min(len(items) - 1, int(np.iinfo(dtype.index_type.to_pandas_dtype()).max))
    _check_indices(indices, largest, is_null)
    words = indices.astype(dtype.index_type.to_pandas_dtype(), copy=False)
    if items.null_count:
        # Null rows become null indices, and the null item is dropped: Arrow cannot unify dictionaries with a null item.
        is_item = np.asarray(items.is_valid())
        before = (np.cumsum(is_item) - is_item).astype(words.dtype)
        is_null = is_null | ~is_item[indices]
        words, items = before[indices], items.drop_null()
    rows = pa.array(words, mask=is_null) if bool(is_null.any()) else pa.array(words)
    return pa.DictionaryArray.from_arrays(rows, items, ordered=dtype.ordered)


def _expanded(items: pa.Array, indices: NDArray[Any]) -> pa.Array:
    """Build rows of an automatic dictionary: index 0 is null, index i is item i - 1."""
    is_null = indices == 0
    # The dictionary may have no items.
    _check_indices(indices, len(items), np.zeros(1, np.bool_))
    if items.type in (pa.string(), pa.binary()):
        lengths = np.concatenate(([0], np.asarray(pc.binary_length(items).fill_null(0), dtype=np.int64)))
        if int(lengths.max()) * len(indices) > MAX_INT32 and int(lengths[indices].sum()) > MAX_INT32:
            raise NotSupportedError(
                f"more than 2 GiB of values do not fit in one array of type {items.type}; read fewer rows at a time"
            )
    moved = indices - indices.dtype.type(1)
    return items.take(pa.array(moved, mask=is_null) if bool(is_null.any()) else pa.array(moved))


def _check_indices(indices: NDArray[Any], largest: int, is_null: NDArray[np.bool_]) -> None:
    found = int(indices.max(initial=0))
    if found > largest and not bool(is_null.all()) and len(indices):
        raise CorruptDataError(
            f"dictionary index {found} is out of range; expected at most {largest}",
            expected=largest,
            found=found,
        )


ARM: Final = Arm(name="dictionary", decode=_decode)
