"""``fixed_size_list``: the items of all lists back to back, including their nulls.

Null lists are marked by a surrounding ``nullable``; they have items, too.

Source: ``lance.encodings.FixedSizeList``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.encodings.v2_0.api import Arm, wrong_type
from lance_core.errors import CorruptDataError
from lance_core.proto import pb20
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.encodings.v2_0.api import Decode, PageBuffers, PageBuilder, Steps
    from lance_core.encodings.v2_0.spans import Spans

__all__ = ["ARM", "encode_items", "items_of"]


def items_of(array: pa.FixedSizeListArray) -> pa.Array:
    """Return the items of all lists of an array, including those of null lists; zero-copy."""
    dimension = array.type.list_size
    items = array.values.slice(array.offset * dimension, len(array) * dimension)
    return items.storage if isinstance(items, pa.ExtensionArray) else items


def encode_items(
    array: pa.FixedSizeListArray, page: PageBuilder, encode: Callable[[pa.Array, PageBuilder], pb20.ArrayEncoding]
) -> pb20.ArrayEncoding:
    """Encode the lists of an array, without their own nulls.

    Args:
        array: fixed-size lists.
        page: receives the buffers.
        encode: encodes the items, including nulls.
    """
    items = encode(items_of(array), page)
    return pb20.ArrayEncoding(fixed_size_list=pb20.FixedSizeList(dimension=array.type.list_size, items=items))


def _decode(
    message: pb20.FixedSizeList, dtype: pa.DataType, rows: Spans, page: PageBuffers, decode: Decode
) -> Steps[pa.Array]:
    if not pa.types.is_fixed_size_list(dtype):
        raise wrong_type("fixed_size_list", dtype)
    if message.dimension != dtype.list_size:
        raise CorruptDataError(f"found lists of {counted(message.dimension, 'item')} in a column of type {dtype}")
    items = yield from decode(message.items, dtype.value_type, rows.scaled(message.dimension), page)
    return pa.Array.from_buffers(dtype, rows.total, [None], children=[items])


ARM: Final = Arm(name="fixed_size_list", decode=_decode)
