"""Words in mini-block pages: choice of the encoding and of the number of values per chunk.

For words of 8, 16, 32, or 64 bits, the first rule that applies determines the encoding:

1. ``compression`` = ``none``: flat;
2. ``compression`` = ``zstd`` or ``lz4``: the form with the smallest compressed sample among flat, split by bytes, runs,
   and bit-packed; ``bss`` = ``on`` or ``off`` determines whether bytes are split;
3. runs, if they are smaller than packed words and at least 4.5% smaller than flat words;
4. bit-packed, if that saves at least 4.5%: reading flat words is a copy, but reading packed words requires computation;
5. flat.

Words of other widths are flat. Estimates are based on samples.

Source: our own policy; the thresholds ensure that no file is more than 5% larger than the file of
pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.api import FixedSizeListBlock, FixedWidthBlock, NullBlock
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.byte_planes import split_planes
from lance_core.encodings.kernels.codecs import compress_zstd
from lance_core.encodings.kernels.fastlanes import BLOCK_VALUES
from lance_core.encodings.kernels.runs import find_runs
from lance_core.encodings.policy.choices import (
    MAX_CHUNK_VALUES,
    TARGET_CHUNK_BYTES,
    Compression,
    MiniBlockChoice,
    asked_compression,
    power_of_two,
)
from lance_core.encodings.statistics import common_packed_bits, runs_per_value, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.policy.field_options import FieldOptions

__all__ = ["MAX_FIXED_BYTES", "bits_per_word", "choose_lists", "choose_rows", "choose_words", "plain_bytes"]

MAX_FIXED_BYTES: Final = 256
"""Values of at least this size in bytes are stored in full-zip pages, because only a few would fit in a chunk."""

_MAX_MINICHUNK_BYTES: Final = 16 << 10
_GAIN: Final = 0.955
_RUN_LENGTH_BITS: Final = 8
_SPLIT_BITS: Final = (32, 64)
_PIECE_VALUES: Final = 1024
_NUM_PIECES: Final = 4
_MIN_BITMAP_VALUES: Final = 8


def choose_words(block: FixedWidthBlock, options: FieldOptions) -> MiniBlockChoice | None:
    """Choose how to encode a page; return None for full zip (values are too wide, or the metadata requests it)."""
    if not fits_mini_block(block.bits_per_value // 8, options):
        return None
    bits = block.bits_per_value
    compression = asked_compression(options)
    values_per_chunk = _flat_values(bits, options)
    if bits not in UNSIGNED_DTYPES or options.compression == "none":
        return MiniBlockChoice("flat", values_per_chunk, compression)
    words = block.data.view(UNSIGNED_DTYPES[bits])
    packed_bits = bits_per_word(words)
    if compression is not None:
        arm = _smallest_compressed(words, packed_bits, options)
    elif _runs_pay(words, min(_GAIN * bits, packed_bits), options):
        arm = "rle"
    else:
        arm = "inline_bitpacking" if packed_bits < _GAIN * bits else "flat"
    num_values = {"rle": MAX_CHUNK_VALUES, "inline_bitpacking": BLOCK_VALUES}.get(arm, values_per_chunk)
    return MiniBlockChoice(arm, num_values, compression)


def bits_per_word(words: NDArray[Any]) -> float:
    """Estimate the number of bits that a packed word takes, including headers."""
    num_blocks, num_rest = divmod(len(words), BLOCK_VALUES)
    # A short block is packed like a full block.
    last_bits = int(words[len(words) - num_rest :].max(initial=0)).bit_length()
    packed = float(last_bits * BLOCK_VALUES)
    if num_blocks:
        blocks = words[: num_blocks * BLOCK_VALUES].reshape(num_blocks, BLOCK_VALUES)
        packed += common_packed_bits(blocks) * BLOCK_VALUES * num_blocks
    headers = (num_blocks + (num_rest > 0)) * words.itemsize * 8
    return (packed + headers) / max(1, len(words))


def choose_rows(row_bytes: int, options: FieldOptions) -> MiniBlockChoice | None:
    """Choose how to encode fixed-width packed structs; return None if a row is too wide for a chunk."""
    if row_bytes >= MAX_FIXED_BYTES:
        return None
    return MiniBlockChoice("packed_struct", _flat_values(row_bytes * 8, options))


def choose_lists(block: FixedSizeListBlock, options: FieldOptions, *, has_levels: bool) -> MiniBlockChoice | None:
    """Choose how to encode fixed-size lists of primitives; return None for full zip.

    In a full-zip page, lists without nulls are a view of the column's own memory. Lists with nulls take less space in
    chunks. Lists that contain only nulls are stored in full-zip pages, as in the reference implementation.
    """
    num_items, items, has_nulls = block.dimension, block.items, block.validity is not None
    while isinstance(items, FixedSizeListBlock):
        num_items *= items.dimension
        has_nulls = has_nulls or items.validity is not None
        items = items.items
    if isinstance(items, NullBlock):
        return None
    item_bits = items.bits_per_value if isinstance(items, FixedWidthBlock) else 0
    # The validity of the items is also a bitmap.
    bits = num_items * max(item_bits, 1)
    is_bitmap = item_bits == 1
    compresses = options.general is not None
    wants_chunks = is_bitmap or has_levels or has_nulls or compresses or options.structure == "miniblock"
    if not wants_chunks or not fits_mini_block(-(-bits // 8), options):
        return None
    values_per_chunk = max(_MIN_BITMAP_VALUES, _flat_values(bits, options))
    return MiniBlockChoice("fixed_size_list", values_per_chunk, _lists_compression(options, has_nulls=has_nulls))


def fits_mini_block(value_bytes: int, options: FieldOptions) -> bool:
    """Return whether values of this width are stored in chunks."""
    return value_bytes < MAX_FIXED_BYTES and options.structure != "fullzip"


def _lists_compression(options: FieldOptions, *, has_nulls: bool) -> Compression | None:
    # Only the first buffer of a chunk is compressed; if there are nulls, this buffer is the validity of the items.
    return None if has_nulls else asked_compression(options)


def _flat_values(bits: int, options: FieldOptions) -> int:
    target = min(options.minichunk_bytes or TARGET_CHUNK_BYTES, _MAX_MINICHUNK_BYTES)
    if bits == 0:
        return MAX_CHUNK_VALUES
    smallest = _MIN_BITMAP_VALUES if bits == 1 else 1
    return max(smallest, power_of_two(target * 8 // bits))


def _runs_pay(words: NDArray[Any], best_bits: float, options: FieldOptions) -> bool:
    most = 1.0 if options.rle_threshold is None else options.rle_threshold
    run_bits = words.itemsize * 8 + _RUN_LENGTH_BITS
    limit = min(most, best_bits / run_bits)
    return limit > 0 and runs_per_value(words, limit) < limit


def _smallest_compressed(words: NDArray[Any], packed_bits: float, options: FieldOptions) -> str:
    """Return the encoding with the smallest compressed size, measured on samples that are as large as a chunk."""
    can_split = words.itemsize * 8 in _SPLIT_BITS
    if options.bss and can_split:
        return "byte_stream_split"
    most = 1.0 if options.rle_threshold is None else options.rle_threshold
    sizes = dict.fromkeys(("flat", "byte_stream_split", "rle", "inline_bitpacking"), 0.0)
    for start in spread(max(1, len(words) - _PIECE_VALUES + 1), _NUM_PIECES).tolist():
        piece = words[start : start + _PIECE_VALUES]
        planes = split_planes(piece.view(np.uint8).reshape(1, -1), words.itemsize)
        run_values, run_lengths, _ = find_runs(piece, np.array([0, len(piece)]))
        sizes["flat"] += len(compress_zstd(piece.tobytes(), 1))
        sizes["byte_stream_split"] += len(compress_zstd(planes.tobytes(), 1))
        sizes["rle"] += len(compress_zstd(run_values.tobytes(), 1)) + len(run_lengths)
        sizes["inline_bitpacking"] += len(piece) * packed_bits / 8
        if len(run_values) >= most * len(piece):
            sizes["rle"] = np.inf
    if options.bss is False or not can_split:
        del sizes["byte_stream_split"]
    return min(sizes, key=lambda arm: sizes[arm])


def plain_bytes(block: FixedWidthBlock, choice: MiniBlockChoice) -> float:
    """Estimate the size in bytes of a page with this choice, before compression."""
    num_bytes = float(len(block.data))
    if choice.arm == "inline_bitpacking":
        return num_bytes * bits_per_word(block.data.view(UNSIGNED_DTYPES[block.bits_per_value])) / block.bits_per_value
    if choice.arm == "rle":
        words = block.data.view(UNSIGNED_DTYPES[block.bits_per_value])
        return (num_bytes + block.num_values) * runs_per_value(words, 1.0)
    return num_bytes
