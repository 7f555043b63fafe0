"""``nullable``: adds validity to another encoding, in one of three forms.

::

    no_nulls     values
    some_nulls   validity (flat, 1 bit, 1 = valid) | values of every row, with arbitrary content under nulls
    all_nulls    nothing

Source: ``lance.encodings.Nullable``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.bits import slice_bitmap
from lance_core.encodings.v2_0.api import Arm, blank_array, together
from lance_core.encodings.v2_0.flat import encode_bitmap, read_flat, unwrapped
from lance_core.errors import CorruptDataError
from lance_core.proto import pb20
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.encodings.v2_0.api import Decode, PageBuffers, PageBuilder, Steps
    from lance_core.encodings.v2_0.spans import Spans

__all__ = ["ARM", "encode_nullable", "no_nulls", "with_validity"]


def encode_nullable(
    array: pa.Array, page: PageBuilder, encode_values: Callable[[pa.Array, PageBuilder], pb20.ArrayEncoding]
) -> pb20.ArrayEncoding:
    """Wrap the encoding of the values in the form of ``nullable`` for no nulls, some nulls, or only nulls."""
    nullable = pb20.Nullable()
    num_nulls = array.null_count
    if num_nulls == len(array):
        nullable.all_nulls.SetInParent()
        return pb20.ArrayEncoding(nullable=nullable)
    if not num_nulls:
        return no_nulls(encode_values(array, page))
    validity = encode_bitmap(array.buffers()[0], array.offset, len(array), page)
    values = encode_values(array, page)
    return pb20.ArrayEncoding(
        nullable=pb20.Nullable(some_nulls=pb20.Nullable.SomeNull(validity=validity, values=values))
    )


def no_nulls(values: pb20.ArrayEncoding) -> pb20.ArrayEncoding:
    """Wrap an encoding as ``nullable{no_nulls{values}}``."""
    return pb20.ArrayEncoding(nullable=pb20.Nullable(no_nulls=pb20.Nullable.NoNull(values=values)))


def with_validity(array: pa.Array, bitmap: pa.Buffer) -> pa.Array:
    """Make every row whose bit is 0 null, without copying the values.

    Args:
        array: an array with offset 0.
        bitmap: one bit per row, starting at bit 0.
    """
    buffers = array.buffers()
    if array.null_count:
        # Variable-width types encode nulls in their own way.
        both = np.frombuffer(bitmap, np.uint8)[: -(-len(array) // 8)]
        own = slice_bitmap(np.frombuffer(buffers[0], np.uint8), array.offset, len(array))
        bitmap = pa.py_buffer(both & own[: len(both)])
    if pa.types.is_dictionary(array.type):
        indices = with_validity(array.indices, bitmap)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=array.type.ordered)
    if pa.types.is_fixed_size_list(array.type):
        return pa.Array.from_buffers(array.type, len(array), [bitmap], children=[array.values])
    if pa.types.is_struct(array.type):
        children = [array.field(index) for index in range(array.type.num_fields)]
        return pa.Array.from_buffers(array.type, len(array), [bitmap], children=children)
    return pa.Array.from_buffers(array.type, len(array), [bitmap, *buffers[1:]], offset=array.offset)


def _decode(
    message: pb20.Nullable, dtype: pa.DataType, rows: Spans, page: PageBuffers, decode: Decode
) -> Steps[pa.Array]:
    kind = message.WhichOneof("nullability")
    if kind is None:
        raise CorruptDataError("a nullable encoding does not specify whether it contains no, some, or only nulls")
    if kind == "all_nulls" or pa.types.is_null(dtype):
        return blank_array(dtype, rows.total)
    if kind == "no_nulls":
        return (yield from decode(message.no_nulls.values, dtype, rows, page))
    validity = unwrapped(message.some_nulls.validity, "validity bits")
    if validity.bits_per_value != 1:
        raise CorruptDataError(f"the validity bitmap has {counted(validity.bits_per_value, 'bit')} per row, expected 1")
    [bitmap, values] = yield from together(
        [read_flat(validity, rows, page), decode(message.some_nulls.values, dtype, rows, page)]
    )
    return with_validity(values, bitmap)


ARM: Final = Arm(name="nullable", decode=_decode)
