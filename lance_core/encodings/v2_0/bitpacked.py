"""``bitpacked``: integers truncated to fewer bits, packed across byte boundaries, lowest bit first.

::

    value i    bits [i * width, (i + 1) * width) of the buffer
    signed     the highest stored bit is the sign

No current writer of format 2.0 uses this encoding.

Source: ``lance.encodings.Bitpacked``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.api import Arm, bits_per_row, wrong_type
from lance_core.encodings.v2_0.flat import fixed_width_array
from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import Decode, PageBuffers, Steps
    from lance_core.proto import pb20

__all__ = ["ARM", "unpack_words"]

_MAX_BITS: Final = 64


def unpack_words(
    packed: NDArray[np.uint8], first_bit: int, num_values: int, width: int, *, signed: bool
) -> NDArray[np.uint64]:
    """Unpack values of ``width`` bits to 64-bit words, shape (num_values,).

    Args:
        packed: (num_bytes,) uint8; contains all bits of the values.
        first_bit: position of the first bit of the first value.
        num_values: number of values.
        width: 1 to 64 bits.
        signed: whether to copy the highest bit of each value to all higher bits.
    """
    stop = first_bit + num_values * width
    bits = np.unpackbits(packed[: -(-stop // 8)], bitorder="little")[first_bit:stop].reshape(num_values, width)
    wide = np.zeros((num_values, _MAX_BITS), np.uint8)
    wide[:, :width] = bits
    if signed and width < _MAX_BITS:
        wide[:, width:] = bits[:, -1:]
    return np.packbits(wide, axis=1, bitorder="little").reshape(-1).view("<u8")


def _decode(
    message: pb20.Bitpacked, dtype: pa.DataType, rows: Spans, page: PageBuffers, _decode_child: Decode
) -> Steps[pa.Array]:
    width, full = message.compressed_bits_per_value, message.uncompressed_bits_per_value
    if not pa.types.is_primitive(dtype) or pa.types.is_boolean(dtype):
        raise wrong_type("bitpacked", dtype)
    if full != bits_per_row(dtype) or not 1 <= width <= full:
        raise CorruptDataError(
            f"found values of {counted(full, 'bit')}, packed to {counted(width, 'bit')}, in a column of type {dtype}"
        )
    all_rows = Spans.single(rows.start, rows.stop)
    covering = all_rows.scaled(width).covering(8)
    [packed] = yield [page.bytes(message.buffer, covering)]
    first_bit = rows.start * width - covering.start * 8
    words = unpack_words(np.frombuffer(packed, np.uint8), first_bit, all_rows.total, width, signed=message.signed)
    if not rows.is_single:
        words = words[rows.positions() - rows.start]
    values = words.view(np.uint8).reshape(-1, 8)[:, : full // 8]
    return fixed_width_array(dtype, rows.total, pa.py_buffer(np.ascontiguousarray(values).reshape(-1)))


ARM: Final = Arm(name="bitpacked", decode=_decode)
