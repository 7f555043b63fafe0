"""Level buffers: encodes and decodes the repetition or definition levels of one or many chunks.

Levels are 16-bit words, encoded like any block of values. The writer packs them to the width of the page's largest
level, or run-length encodes them if the version allows it; if all levels of a page are 0, they take no bytes.

Source: ``MiniBlockLayout.rep_compression`` and ``def_compression``, and the same fields of ``ConstantLayout``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import Chunks, FixedWidthBlock
from lance_core.encodings.compressive.out_of_line_bitpacking import encode_blocks
from lance_core.encodings.compressive.rle import encode_runs
from lance_core.encodings.kernels.fastlanes import BLOCK_VALUES
from lance_core.errors import CorruptDataError
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.api import Decoder, Picks
    from lance_core.encodings.kernels.segments import Segments
    from lance_core.encodings.levels.layers import Layers
    from lance_core.proto import pb21

__all__ = ["MAX_LEVELS_PER_CHUNK", "check_levels", "decode_levels", "encode_levels", "pick_levels"]

MAX_LEVELS_PER_CHUNK: Final = 1 << 15
"""Maximum number of levels that a writer puts in a mini-block chunk: the number of levels and the sizes of their
buffers are stored in 16 bits each."""

_LEVEL_BITS: Final = 16
_RUN_BYTES: Final = 3
_BLOCK_HEADER_BYTES: Final = 8
_RUNS_GAIN: Final = 0.8


def encode_levels(
    levels: NDArray[np.uint16], num_levels: NDArray[np.int64], *, allow_runs: bool = False
) -> tuple[pb21.CompressiveEncoding, Segments]:
    """Encode the levels of a page.

    Args:
        levels: (sum of num_levels,) levels.
        num_levels: (num_chunks,) number of levels in each chunk.
        allow_runs: whether to run-length encode levels if that is clearly smaller.

    Returns:
        The encoding, and one segment of encoded bytes for each chunk.
    """
    packed_bits = int(levels.max(initial=0)).bit_length()
    packed_bytes = len(levels) * packed_bits // 8
    if len(levels) < BLOCK_VALUES:
        # A short block is either packed like a full block or left unpacked.
        packed_bytes = min(len(levels) * _LEVEL_BITS // 8, BLOCK_VALUES * packed_bits // 8)
    if allow_runs and _estimated_run_bytes(levels) < packed_bytes:
        encoding, segments = encode_runs(levels, num_levels)
        if segments.num_bytes < _RUNS_GAIN * packed_bytes:
            return encoding, segments
    return encode_blocks(levels, num_levels, packed_bits)


def _estimated_run_bytes(levels: NDArray[np.uint16]) -> int:
    """Return a lower bound of the encoded size in bytes, ignoring chunk boundaries."""
    return _BLOCK_HEADER_BYTES + _RUN_BYTES * int(np.count_nonzero(levels[1:] != levels[:-1]))


def decode_levels(
    encoding: pb21.CompressiveEncoding, buffer: Segments, num_levels: NDArray[np.int64], decoder: Decoder
) -> NDArray[np.uint16]:
    """Decode the levels of many chunks: (sum of num_levels,) levels.

    Raises:
        CorruptDataError: the bytes do not contain the expected number of levels.
        UnsupportedEncodingError: the encoding is not allowed for levels.
    """
    block = decoder.block(encoding, Chunks(num_levels, (buffer,)))
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value != _LEVEL_BITS:
        raise CorruptDataError("levels are not encoded as 16-bit words")
    return block.data.view(np.uint16)


def pick_levels(
    encoding: pb21.CompressiveEncoding, buffer: Segments, num_levels: NDArray[np.int64], picks: Picks, decoder: Decoder
) -> NDArray[np.uint16]:
    """Decode individual levels of many chunks, as an array of shape (num_picks,).

    For errors, see :func:`decode_levels`.
    """
    block = decoder.pick_blocks(encoding, Chunks(num_levels, (buffer,)), picks)
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value != _LEVEL_BITS:
        raise CorruptDataError("levels are not encoded as 16-bit words")
    return block.data.view(np.uint16)


def check_levels(layers: Layers, repetition: NDArray[np.uint16] | None, definition: NDArray[np.uint16] | None) -> None:
    """Check that levels are valid for the layers of their page.

    Raises:
        CorruptDataError: a level is too high, repetition levels are missing or unexpected, or the numbers of
            repetition and definition levels differ.
    """
    layers.check_repetition(is_present=repetition is not None)
    if repetition is not None and int(repetition.max(initial=0)) > layers.max_repetition:
        raise CorruptDataError(f"a repetition level is greater than {layers.max_repetition}, the number of list layers")
    if definition is not None and int(definition.max(initial=0)) > layers.max_definition:
        raise CorruptDataError(
            f"a definition level is greater than {layers.max_definition}, the maximum for the layers"
        )
    if repetition is not None and definition is not None and len(repetition) != len(definition):
        raise CorruptDataError(
            f"found {counted(len(repetition), 'repetition level')}, but {counted(len(definition), 'definition level')}"
        )
