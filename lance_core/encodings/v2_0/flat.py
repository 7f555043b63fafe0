"""``flat``: values of equal width, stored contiguously.

::

    bits_per_value 1        a bitmap, least significant bit first
    bits_per_value 8 * k    k bytes each, little-endian
    compression             the whole buffer is compressed: zstd, lz4 (see kernels/codecs.py)

Rows of an uncompressed buffer are read individually. A compressed buffer is read as a whole, but decompressed only up
to the last requested row.

Source: ``lance.encodings.Flat``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.bits import bitmap_bytes, pack_mask, slice_bitmap, unpack_bitmap
from lance_core.encodings.kernels.codecs import lz4_head, zstd_head
from lance_core.encodings.v2_0.api import Arm, bits_per_row, wrong_type
from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError, NotSupportedError, UnsupportedEncodingError
from lance_core.proto import pb20
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import Decode, PageBuffers, PageBuilder, Steps

__all__ = [
    "ARM",
    "encode_bitmap",
    "encode_fixed_width",
    "fixed_width_array",
    "is_compressed",
    "read_flat",
    "read_offsets",
    "unwrapped",
]

_OFFSET_BITS: Final = 64

_LOCATING_BYTES: Final = 64 * 1024
"""Reads of more than this many bytes of offsets are not cached: they belong to scans, which read the offsets together
with other values."""

_SMALL_BITMAP_BYTES: Final = 256 * 1024


def encode_fixed_width(array: pa.Array, page: PageBuilder) -> pb20.ArrayEncoding:
    """Encode the values of a fixed-width array, including values under nulls; zero-copy for whole bytes.

    Raises:
        NotSupportedError: the type does not have a fixed width.
    """
    if pa.types.is_boolean(array.type):
        return encode_bitmap(array.buffers()[1], array.offset, len(array), page)
    try:
        bits = int(array.type.bit_width)
    except ValueError as error:
        raise NotSupportedError(f"values of type {array.type} cannot be written in format 2.0") from error
    width = bits // 8
    values = array.buffers()[1]
    if values is None:
        values = pa.py_buffer(b"")
    return _flat(bits, values.slice(array.offset * width, len(array) * width), page)


def encode_bitmap(bitmap: pa.Buffer | None, bit_offset: int, num_bits: int, page: PageBuilder) -> pb20.ArrayEncoding:
    """Encode the bits of an Arrow bitmap; the unused bits of the last byte become 0."""
    source = np.frombuffer(bitmap, np.uint8) if bitmap is not None and bitmap.size else np.empty(0, np.uint8)
    bits = slice_bitmap(source, bit_offset, num_bits)
    if num_bits % 8 and bits[-1] >> num_bits % 8:
        bits = bits.copy()
        bits[-1] &= (1 << num_bits % 8) - 1
    return _flat(1, pa.py_buffer(bits), page)


def is_compressed(message: pb20.Flat) -> bool:
    """Return whether the buffer must be decompressed as a whole."""
    return message.compression.scheme not in ("", "none")


def read_flat(message: pb20.Flat, rows: Spans, page: PageBuffers) -> Steps[pa.Buffer]:
    """Read the values of some rows, joined back to back; a bitmap starts at bit 0.

    Raises:
        CorruptDataError: the buffer is too short or cannot be decompressed.
        UnsupportedEncodingError: the width is neither 1 nor whole bytes, or the compression is unknown.
    """
    bits = message.bits_per_value
    if bits != 1 and (bits % 8 or not bits):
        raise UnsupportedEncodingError(f"reading flat values of {counted(bits, 'bit')} is not supported")
    if is_compressed(message):
        whole = Spans.single(0, page.size(message.buffer))
        [packed] = yield [page.bytes(message.buffer, whole)]
        needed = bitmap_bytes(rows.stop * bits)
        return _rows_of(_unpacked(message.compression.scheme, packed, needed), bits, rows)
    if bits != 1:
        [values] = yield [page.bytes(message.buffer, rows.scaled(bits // 8))]
        return values
    covering = rows.covering(8)
    if covering.stop - covering.start <= _SMALL_BITMAP_BYTES:
        # Joining single bytes takes longer than reading the bytes between them.
        covering = Spans.single(covering.start, covering.stop)
    [bytes_found] = yield [page.bytes(message.buffer, covering)]
    found = np.frombuffer(bytes_found, np.uint8)
    if rows.is_single:
        return pa.py_buffer(slice_bitmap(found, rows.start - covering.start * 8, rows.total))
    positions = rows.positions()
    mask = (found[covering.index_of(positions >> 3)] >> (positions & 7).astype(np.uint8)) & 1
    return pa.py_buffer(pack_mask(mask.view(np.bool_)))


def read_offsets(encoding: pb20.ArrayEncoding, rows: Spans, page: PageBuffers) -> Steps[NDArray[np.uint64]]:
    """Read 64-bit numbers without nulls: the offsets of strings and lists, shape (rows.total,).

    Raises:
        CorruptDataError: the numbers are not encoded as flat, or do not have 64 bits.
    """
    message = unwrapped(encoding, "offsets")
    if message.bits_per_value != _OFFSET_BITS:
        raise CorruptDataError(f"offsets have {counted(message.bits_per_value, 'bit')}, expected {_OFFSET_BITS}")
    if is_compressed(message):
        values = yield from read_flat(message, rows, page)
    else:
        places = page.bytes(message.buffer, rows.scaled(_OFFSET_BITS // 8))
        [values] = yield [replace(places, are_offsets=places.total <= _LOCATING_BYTES)]
    return np.frombuffer(values, "<u8", rows.total)


def unwrapped(encoding: pb20.ArrayEncoding, what: str) -> pb20.Flat:
    """Return the flat encoding of values without nulls, which may be wrapped in ``nullable{no_nulls}``.

    Raises:
        CorruptDataError: the values are not encoded as flat.
    """
    arm = encoding.WhichOneof("array_encoding")
    if arm == "nullable" and encoding.nullable.WhichOneof("nullability") == "no_nulls":
        encoding = encoding.nullable.no_nulls.values
        arm = encoding.WhichOneof("array_encoding")
    if arm != "flat":
        raise CorruptDataError(f"{what} are encoded as {arm or 'an unknown encoding'}, expected flat")
    return encoding.flat


def fixed_width_array(dtype: pa.DataType, num_rows: int, values: pa.Buffer) -> pa.Array:
    """Build an array without nulls from the bytes of its values. Bytes are copied only if Arrow needs aligned words.

    Raises:
        CorruptDataError: there are fewer bytes than the rows need.
    """
    bits = bits_per_row(dtype)
    if values.size < bitmap_bytes(num_rows * bits):
        raise CorruptDataError(
            f"found {counted(values.size, 'byte')}, too few for {counted(num_rows, 'value')} of type {dtype}"
        )
    word = min(8, bits // 8 & -(bits // 8))
    if word > 1 and values.address % word:
        # Buffers in files of early releases are not aligned.
        values = pa.py_buffer(np.frombuffer(values, np.uint8).copy())
    return pa.Array.from_buffers(dtype, num_rows, [None, values])


def _decode(
    message: pb20.Flat, dtype: pa.DataType, rows: Spans, page: PageBuffers, _decode_child: Decode
) -> Steps[pa.Array]:
    if not (pa.types.is_primitive(dtype) or pa.types.is_decimal(dtype) or pa.types.is_fixed_size_binary(dtype)):
        raise wrong_type("flat", dtype)
    if message.bits_per_value != bits_per_row(dtype):
        raise CorruptDataError(
            f"found flat values of {counted(message.bits_per_value, 'bit')} in a column of type {dtype}"
        )
    values = yield from read_flat(message, rows, page)
    return fixed_width_array(dtype, rows.total, values)


def _flat(bits: int, values: pa.Buffer, page: PageBuilder) -> pb20.ArrayEncoding:
    return pb20.ArrayEncoding(flat=pb20.Flat(bits_per_value=bits, buffer=page.add(values)))


def _unpacked(scheme: str, packed: pa.Buffer, num_bytes: int) -> NDArray[np.uint8]:
    """Decompress the first bytes of a buffer, at least ``num_bytes`` if the buffer has that many."""
    if scheme == "zstd":
        raw = zstd_head(packed.to_pybytes(), num_bytes)
    elif scheme == "lz4":
        raw = lz4_head(packed.to_pybytes(), num_bytes)
    else:
        raise UnsupportedEncodingError(f"buffer compression {scheme!r} is not supported", scheme=scheme)
    if raw is None:
        raise CorruptDataError(f"a buffer of {counted(packed.size, 'byte')} does not contain valid {scheme} data")
    return np.frombuffer(raw, np.uint8)


def _rows_of(data: NDArray[Any], bits: int, rows: Spans) -> pa.Buffer:
    """Extract rows from values that are in memory."""
    if len(data) < bitmap_bytes(rows.stop * bits):
        raise CorruptDataError(
            f"the unpacked values have {counted(len(data), 'byte')}, expected at least "
            f"{bitmap_bytes(rows.stop * bits)} for {counted(rows.stop, 'row')} of {counted(bits, 'bit')}"
        )
    if bits == 1:
        mask = unpack_bitmap(data, 0, rows.stop)
        return pa.py_buffer(pack_mask(mask[rows.positions()]))
    width = bits // 8
    if rows.is_single:
        return pa.py_buffer(data[rows.start * width : rows.stop * width])
    table = data[: rows.stop * width].reshape(rows.stop, width)
    return pa.py_buffer(np.ascontiguousarray(table[rows.positions()]).reshape(-1))


ARM: Final = Arm(name="flat", decode=_decode)
