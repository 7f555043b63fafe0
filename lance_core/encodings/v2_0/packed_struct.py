"""``packed_struct``: the members of a struct, row by row in one buffer, without padding.

::

    row      member 0 | member 1 | …      each a whole number of bytes; a fixed-size list includes all of its items
    inner    the encoding that each member would have as a separate column; redundant: the struct's type implies it

Neither the struct nor its members can be null.

Source: ``lance.encodings.PackedStruct``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.api import Arm, PageBuilder, bits_per_row, wrong_type
from lance_core.encodings.v2_0.fixed_size_list import items_of
from lance_core.encodings.v2_0.flat import fixed_width_array
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb20
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import Decode, PageBuffers, Steps
    from lance_core.encodings.v2_0.spans import Spans

__all__ = ["ARM", "encode_packed", "is_packable"]


def is_packable(dtype: pa.DataType) -> bool:
    """Return whether a member of this type can be packed: values of whole bytes, or fixed-size lists of such values."""
    if pa.types.is_fixed_size_list(dtype):
        return is_packable(dtype.value_type)
    if pa.types.is_boolean(dtype) or pa.types.is_null(dtype) or pa.types.is_dictionary(dtype):
        return False
    return bool(pa.types.is_primitive(dtype) or pa.types.is_decimal(dtype) or pa.types.is_fixed_size_binary(dtype))


def encode_packed(
    array: pa.StructArray, page: PageBuilder, encode: Callable[[pa.Array, PageBuilder], pb20.ArrayEncoding]
) -> pb20.ArrayEncoding:
    """Encode the rows of a struct with packable members.

    Args:
        array: the rows, without nulls at any level.
        page: receives the buffer.
        encode: encodes one member; only the encoding message that it returns is used.

    Raises:
        NotSupportedError: a member has a null.
    """
    members = [array.field(index) for index in range(array.type.num_fields)]
    inner = []
    for index, member in enumerate(members):
        if has_nulls(member):
            raise NotSupportedError(
                f"member {array.type.field(index).name!r} has nulls, which format 2.0 cannot store in a packed struct"
            )
        inner.append(encode(member, PageBuilder()))
    widths = [bits_per_row(member.type) // 8 for member in members]
    rows = np.empty((len(array), sum(widths)), np.uint8)
    start = 0
    for member, width in zip(members, widths, strict=True):
        rows[:, start : start + width] = _bytes_of(member, width)
        start += width
    buffer = page.add(pa.py_buffer(rows.reshape(-1)))
    return pb20.ArrayEncoding(packed_struct=pb20.PackedStruct(inner=inner, buffer=buffer))


def has_nulls(array: pa.Array) -> bool:
    """Return whether there is a null at any level of nested fixed-size lists."""
    if array.null_count:
        return True
    return bool(pa.types.is_fixed_size_list(array.type)) and has_nulls(items_of(array))


def _bytes_of(array: pa.Array, width: int) -> NDArray[np.uint8]:
    num_rows = len(array)
    while pa.types.is_fixed_size_list(array.type):
        array = items_of(array)
    values = array.buffers()[1]
    item_width = array.type.bit_width // 8
    found = np.frombuffer(values, np.uint8) if values is not None and values.size else np.empty(0, np.uint8)
    return found[array.offset * item_width :][: num_rows * width].reshape(num_rows, width)


def _decode(
    message: pb20.PackedStruct, dtype: pa.DataType, rows: Spans, page: PageBuffers, _decode_child: Decode
) -> Steps[pa.Array]:
    if not pa.types.is_struct(dtype):
        raise wrong_type("packed_struct", dtype)
    members = [dtype.field(index) for index in range(dtype.num_fields)]
    if len(message.inner) != len(members):
        raise CorruptDataError(
            f"found {counted(len(message.inner), 'packed member')}, expected {len(members)} for a column of type "
            f"{dtype}"
        )
    if not all(is_packable(member.type) for member in members):
        raise wrong_type("packed_struct", dtype)
    widths = [bits_per_row(member.type) // 8 for member in members]
    [data] = yield [page.bytes(message.buffer, rows.scaled(sum(widths)))]
    table = np.frombuffer(data, np.uint8).reshape(rows.total, sum(widths))
    arrays = []
    start = 0
    for member, width in zip(members, widths, strict=True):
        values = np.ascontiguousarray(table[:, start : start + width]).reshape(-1)
        arrays.append(_member_array(member.type, rows.total, pa.py_buffer(values)))
        start += width
    return pa.Array.from_buffers(dtype, rows.total, [None], children=arrays)


def _member_array(dtype: pa.DataType, num_rows: int, values: pa.Buffer) -> pa.Array:
    if pa.types.is_fixed_size_list(dtype):
        items = _member_array(dtype.value_type, num_rows * dtype.list_size, values)
        return pa.Array.from_buffers(dtype, num_rows, [None], children=[items])
    return fixed_width_array(dtype, num_rows, values)


ARM: Final = Arm(name="packed_struct", decode=_decode)
