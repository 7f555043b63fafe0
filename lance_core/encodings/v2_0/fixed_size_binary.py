"""``fixed_size_binary``: a string or binary column whose values all have the same length; there are no nulls.

::

    bytes    num_rows * byte_width bytes, as flat values of 8 bits or of the whole width

No writer of format 2.0 is known to use this encoding.

Source: ``lance.encodings.FixedSizeBinary``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.api import Arm, is_variable_width
from lance_core.encodings.v2_0.flat import fixed_width_array, read_flat, unwrapped
from lance_core.encodings.v2_0.strings import Strings, array_from_strings
from lance_core.errors import CorruptDataError
from lance_core.wording import counted

if TYPE_CHECKING:
    from lance_core.encodings.v2_0.api import Decode, PageBuffers, Steps
    from lance_core.encodings.v2_0.spans import Spans
    from lance_core.proto import pb20

__all__ = ["ARM"]

_BYTE: Final = 8


def _decode(
    message: pb20.FixedSizeBinary, dtype: pa.DataType, rows: Spans, page: PageBuffers, _decode_child: Decode
) -> Steps[pa.Array]:
    width = message.byte_width
    flat = unwrapped(message.bytes, "the bytes of fixed-size values")
    if flat.bits_per_value not in (_BYTE, _BYTE * width):
        raise CorruptDataError(
            f"values of {counted(width, 'byte')} are stored as words of {counted(flat.bits_per_value, 'bit')}"
        )
    values = yield from read_flat(flat, rows.scaled(width) if flat.bits_per_value == _BYTE else rows, page)
    if not is_variable_width(dtype):
        if not pa.types.is_fixed_size_binary(dtype) or dtype.byte_width != width:
            raise CorruptDataError(f"found values of {counted(width, 'byte')} in a column of type {dtype}")
        return fixed_width_array(dtype, rows.total, values)
    offsets = np.arange(rows.total + 1, dtype=np.int64) * width
    return array_from_strings(Strings(offsets, values, None), dtype, "fixed_size_binary")


ARM: Final = Arm(name="fixed_size_binary", decode=_decode)
