"""``binary``: strings and binaries, as end offsets and bytes.

::

    indices   one u64 per row: its end in the bytes; no leading zero
    bytes     the rows back to back
    null      null_adjustment (number of bytes + 1) is added to the end of a null row

A row whose stored end is at least ``null_adjustment`` is null, but may have bytes. A row starts where the previous row
ends, so reading a row requires two offsets. Offsets have 64 bits for every type.

Source: ``lance.encodings.Binary``; behavior of pylance 14.0.2. Releases 0.14 to 0.16 wrapped ``bytes`` in
``nullable{no_nulls}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.codecs import compress_lz4, compress_zstd
from lance_core.encodings.v2_0.api import Arm, is_variable_width, together, wrong_type
from lance_core.encodings.v2_0.ends import end_offsets, read_ends
from lance_core.encodings.v2_0.flat import is_compressed, read_flat, unwrapped
from lance_core.encodings.v2_0.nullable import no_nulls
from lance_core.encodings.v2_0.spans import Spans
from lance_core.encodings.v2_0.strings import Strings, array_from_strings, strings_from_array
from lance_core.errors import CorruptDataError
from lance_core.proto import pb20
from lance_core.wording import counted

if TYPE_CHECKING:
    from lance_core.encodings.v2_0.api import Decode, PageBuffers, PageBuilder, Steps

__all__ = ["ARM", "encode_binary", "encode_strings", "read_strings"]

_BYTE: Final = 8
_WORD: Final = 8
_DEFAULT_ZSTD_LEVEL: Final = 3
_LEAST_ZSTD_LEVEL: Final = -(1 << 17)
_MOST_ZSTD_LEVEL: Final = 22


def encode_binary(
    array: pa.Array, page: PageBuilder, compression: pb20.Compression | None = None
) -> pb20.ArrayEncoding:
    """Encode the strings of an array; at the top level, the encoding is not wrapped in ``nullable``.

    Args:
        array: strings or binaries with 32-bit or 64-bit offsets.
        page: receives the buffers.
        compression: compression of the bytes: ``zstd``, ``lz4`` or ``none``; None = uncompressed.
    """
    return encode_strings(strings_from_array(array), page, compression)


def encode_strings(
    strings: Strings, page: PageBuilder, compression: pb20.Compression | None = None
) -> pb20.ArrayEncoding:
    """Like :func:`encode_binary`. If all rows are null, no bytes are stored."""
    if strings.validity is not None and not strings.validity.any():
        strings = Strings(np.zeros_like(strings.offsets), pa.py_buffer(b""), strings.validity)
    first, last = int(strings.offsets[0]), int(strings.offsets[-1])
    num_rows = len(strings.offsets) - 1
    adjustment = last - first + 1 if num_rows else 0
    ends = end_offsets(strings.offsets, strings.validity, adjustment)
    indices = pb20.ArrayEncoding(flat=pb20.Flat(bits_per_value=_WORD * _BYTE, buffer=page.add(pa.py_buffer(ends))))
    data = strings.data.slice(first, last - first)
    if compression is not None:
        data = _packed(data, compression)
    values = pb20.Flat(bits_per_value=_BYTE, buffer=page.add(data), compression=compression)
    return pb20.ArrayEncoding(
        binary=pb20.Binary(indices=no_nulls(indices), bytes=pb20.ArrayEncoding(flat=values), null_adjustment=adjustment)
    )


def read_strings(message: pb20.Binary, rows: Spans, page: PageBuffers) -> Steps[Strings]:
    """Read the strings of some rows. This function does not check the order of the offsets; Arrow checks it later.

    Raises:
        CorruptDataError: the offsets are invalid or extend past the end of the bytes.
        UnsupportedEncodingError: the compression is not supported.
    """
    bytes_flat = unwrapped(message.bytes, "the bytes of strings")
    if bytes_flat.bits_per_value != _BYTE:
        raise CorruptDataError(
            f"the bytes of strings are stored as words of {counted(bytes_flat.bits_per_value, 'bit')}, expected 8"
        )
    num_bytes = page.size(bytes_flat.buffer)
    offsets = read_ends(message.indices, message.null_adjustment, rows, page)
    offsets_flat = unwrapped(message.indices, "offsets")
    is_whole = rows.is_single and not rows.start and page.size(offsets_flat.buffer) == rows.total * _WORD
    if is_whole and not is_compressed(bytes_flat):
        whole = Spans.single(0, num_bytes)
        ends, data = yield from together([offsets, read_flat(bytes_flat, whole, page)])
        if ends.wanted.stop > data.size:
            raise CorruptDataError(
                f"strings end at byte {ends.wanted.stop}, but the buffer has {counted(data.size, 'byte')}"
            )
        return Strings(ends.offsets, data, ends.validity)
    ends = yield from offsets
    if not ends.wanted.total:
        return Strings(ends.offsets, pa.py_buffer(b""), ends.validity)
    data = yield from read_flat(bytes_flat, ends.wanted, page)
    return Strings(ends.offsets, data, ends.validity)


def _decode(
    message: pb20.Binary, dtype: pa.DataType, rows: Spans, page: PageBuffers, _decode_child: Decode
) -> Steps[pa.Array]:
    if not is_variable_width(dtype):
        raise wrong_type("binary", dtype)
    strings = yield from read_strings(message, rows, page)
    return array_from_strings(strings, dtype, "binary")


def _packed(data: pa.Buffer, compression: pb20.Compression) -> pa.Buffer:
    if compression.scheme == "none":
        return data
    if compression.scheme == "zstd":
        level = compression.level if compression.HasField("level") else _DEFAULT_ZSTD_LEVEL
        return pa.py_buffer(compress_zstd(memoryview(data), min(max(level, _LEAST_ZSTD_LEVEL), _MOST_ZSTD_LEVEL)))
    return pa.py_buffer(compress_lz4(data.to_pybytes()))


ARM: Final = Arm(name="binary", decode=_decode)
