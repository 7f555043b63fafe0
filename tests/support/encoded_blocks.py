"""Blocks of values and descriptions of their encoding, in a short notation."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lance_core.encodings.api import Chunks, EncodedChunks, FixedWidthBlock, VariableWidthBlock
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.proto import pb21

Encoding = pb21.CompressiveEncoding


def as_bytes(data: bytes) -> NDArray[np.uint8]:
    """A view of bytes."""
    return np.frombuffer(data, np.uint8)


def words(values: ArrayLike, bits: int) -> FixedWidthBlock:
    """A block of unsigned integers of so many bits."""
    return FixedWidthBlock(len(values), bits, np.asarray(values, f"<u{bits // 8}").view(np.uint8))


def strings(*values: bytes, dtype: type[np.signedinteger] = np.int32) -> VariableWidthBlock:
    """A block of these strings, with offsets of this type."""
    return VariableWidthBlock(np.cumsum([0, *map(len, values)]).astype(dtype), as_bytes(b"".join(values)))


def strings_of(block: VariableWidthBlock) -> list[bytes]:
    """The strings of a block."""
    return [block.data[start:stop].tobytes() for start, stop in zip(block.offsets, block.offsets[1:], strict=False)]


def flat(bits: int) -> Encoding:
    """Values of so many bits, one after another."""
    return Encoding(flat=pb21.Flat(bits_per_value=bits))


def variable(offset_bits: int = 32) -> Encoding:
    """Strings whose offsets have so many bits."""
    return Encoding(variable=pb21.Variable(offsets=flat(offset_bits)))


def reread(encoded: EncodedChunks) -> Chunks:
    """Encoded chunks as a reader finds them: padded, and one after another."""
    buffers = []
    for pieces in encoded.buffers:
        data, bounds = interleave(pieces)
        sizes = np.diff(bounds)
        padding = -sizes % encoded.alignment
        zeros = Segments.back_to_back(np.zeros(int(padding.sum()), np.uint8), padding)
        data, bounds = interleave([Segments(data, bounds[:-1], sizes), zeros])
        buffers.append(Segments(data, bounds[:-1], np.diff(bounds)))
    return Chunks(encoded.num_values, tuple(buffers))
