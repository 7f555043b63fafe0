"""Blocks of values and descriptions of their encoding, in a short notation."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lance_core.encodings.api import Chunks, EncodedChunks, FixedWidthBlock, VariableWidthBlock
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.proto import pb21

Encoding = pb21.CompressiveEncoding


def as_bytes(data: bytes) -> NDArray[np.uint8]:
    """Return a view of bytes."""
    return np.frombuffer(data, np.uint8)


def words(values: ArrayLike, bits: int) -> FixedWidthBlock:
    """Return a block of unsigned integers with this many bits."""
    return FixedWidthBlock(len(values), bits, np.asarray(values, f"<u{bits // 8}").view(np.uint8))


def strings(*values: bytes, dtype: type[np.signedinteger] = np.int32) -> VariableWidthBlock:
    """Return a block of these strings, with offsets of this type."""
    return VariableWidthBlock(np.cumsum([0, *map(len, values)]).astype(dtype), as_bytes(b"".join(values)))


def strings_of(block: VariableWidthBlock) -> list[bytes]:
    """Return the strings of a block."""
    return [block.data[start:stop].tobytes() for start, stop in zip(block.offsets, block.offsets[1:], strict=False)]


def flat(bits: int) -> Encoding:
    """Return the flat encoding of values with this many bits."""
    return Encoding(flat=pb21.Flat(bits_per_value=bits))


def variable(offset_bits: int = 32) -> Encoding:
    """Return the variable encoding of strings whose offsets have this many bits."""
    return Encoding(variable=pb21.Variable(offsets=flat(offset_bits)))


def reread(encoded: EncodedChunks) -> Chunks:
    """Return encoded chunks as a reader finds them: padded and consecutive."""
    buffers = []
    for pieces in encoded.buffers:
        data, bounds = interleave(pieces)
        sizes = np.diff(bounds)
        padding = -sizes % encoded.alignment
        zeros = Segments.back_to_back(np.zeros(int(padding.sum()), np.uint8), padding)
        data, bounds = interleave([Segments(data, bounds[:-1], sizes), zeros])
        buffers.append(Segments(data, bounds[:-1], np.diff(bounds)))
    return Chunks(encoded.num_values, tuple(buffers))
