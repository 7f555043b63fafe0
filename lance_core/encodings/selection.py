"""Write policy: which layout and which encodings a page gets. Pure decisions; the encodings do the work.

In this order, per page of a leaf:

1. nothing but nulls: constant page;
2. one value throughout: constant page with that value, unless it is a long string that compresses to less than that;
3. strings of few distinct values: mini-block of indices into a dictionary;
4. fixed-size lists, values of 256 bytes or more, and strings that are long: full zip;
5. everything else: mini-block. Whatever comes in words is bit-packed where that saves 10 % or more.

Chunks of strings, and of words that are not packed, are compressed when the field's metadata ask for it::

    lance-encoding:compression         zstd | lz4 | none
    lance-encoding:compression-level   for zstd

Long strings are then compressed one by one, with zstd whatever is asked for, as the format has it. Very long ones are
even if nothing is asked for, when a sample of them shrinks.

A full-zip page is also the way out when levels crowd: a mini-block chunk holds at least two values, and with them every
empty list in between.

Chunks aim at 8 KiB of values: a random read decodes one chunk, and larger chunks gain little.

Source: own policy; the limits are those of the format, chunk sizes follow ``benchmarks``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import (
    DataBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES, unpack_bitmap
from lance_core.encodings.kernels.codecs import compress_zstd
from lance_core.encodings.kernels.fastlanes import BLOCK_VALUES
from lance_core.encodings.statistics import common_packed_bits, sampled_distinct_ratio
from lance_core.encodings.structural.level_buffers import MAX_LEVELS_PER_CHUNK
from lance_core.encodings.structural.mini_block import level_bounds
from lance_core.errors import InvalidInputError
from lance_core.proto import pb21

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from lance_core.encodings.levels.build import Levels
    from lance_core.schema.field import Field

__all__ = [
    "COMPRESSION_KEY",
    "COMPRESSION_LEVEL_KEY",
    "MiniBlockChoice",
    "choose_mini_block",
    "common_value",
    "dictionary_pays",
    "may_have_few_distinct",
    "requested_compression",
    "value_level",
    "zipping_pays",
]

COMPRESSION_KEY: Final = "lance-encoding:compression"
"""Field metadata: general-purpose compression of the field's values."""

COMPRESSION_LEVEL_KEY: Final = "lance-encoding:compression-level"
"""Field metadata: effort of that compression."""

_SCHEMES: Final = {b"zstd": pb21.COMPRESSION_ALGORITHM_ZSTD, b"lz4": pb21.COMPRESSION_ALGORITHM_LZ4}
_MAX_LEVEL: Final = 22
_TARGET_CHUNK_BYTES: Final = 8 << 10
_MAX_CHUNK_BYTES: Final = 64 << 10
_MAX_CHUNK_VALUES: Final = 4096
_MIN_CHUNK_VALUES: Final = 2
_MIN_BITMAP_VALUES: Final = 8
_MAX_FIXED_BYTES: Final = 256
_MAX_MEAN_STRING_BYTES: Final = 256
_MIN_STRINGS_PER_CHUNK: Final = 8
_PACKING_GAIN: Final = 0.9
_SAMPLES: Final = 64
_MIN_DICTIONARY_VALUES: Final = 128
_MAX_DISTINCT_RATIO: Final = 0.5
_DICTIONARY_GAIN: Final = 0.7
_VERY_LONG_BYTES: Final = 32 << 10
_SAMPLE_VALUES: Final = 8
_SAMPLE_BYTES: Final = 16 << 10
_COMPRESSION_GAIN: Final = 0.9
_FASTEST_LEVEL: Final = 1
_ZIPPED_VALUE_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class MiniBlockChoice:
    """How to cut and encode the values of a mini-block page.

    Attributes:
        arm: encoding of the values.
        values_per_chunk: a power of two; the last chunk holds the rest.
    """

    arm: str
    values_per_chunk: int


def requested_compression(field: Field, arm: str) -> tuple[pb21.CompressionScheme, int | None] | None:
    """The scheme and level that the field's metadata ask for, or None.

    Args:
        field: the leaf.
        arm: the encoding chosen for its values; packed ones do not compress.

    Raises:
        InvalidInputError: a level that is no number of zstd's range.
    """
    if arm == "inline_bitpacking":
        return None
    scheme = _SCHEMES.get(field.metadata.get(COMPRESSION_KEY, b"").lower())
    level = field.metadata.get(COMPRESSION_LEVEL_KEY, b"").decode("ascii", "replace")
    if scheme is None or not level:
        return None if scheme is None else (scheme, None)
    if not (level.isdecimal() and 1 <= int(level) <= _MAX_LEVEL):
        raise InvalidInputError(
            f"field {field.name!r}: {COMPRESSION_LEVEL_KEY} is {level!r}, expected 1 to {_MAX_LEVEL}", field=field.name
        )
    return scheme, int(level)


def value_level(field: Field, values: VariableWidthBlock) -> int | None:
    """The zstd level at which every value of a full-zip page is compressed alone; None for not at all.

    Raises:
        InvalidInputError: a level that is no number of zstd's range.
    """
    if field.metadata.get(COMPRESSION_KEY):
        requested = requested_compression(field, "variable")
        return None if requested is None else requested[1] or _FASTEST_LEVEL
    sizes = np.diff(values.offsets)
    if not len(sizes) or int(sizes.max()) <= _VERY_LONG_BYTES:
        return None
    chosen = np.argsort(sizes)[-_SAMPLE_VALUES:].tolist()
    samples = [values.data[values.offsets[at] : values.offsets[at + 1]][:_SAMPLE_BYTES].tobytes() for at in chosen]
    shrunk = sum(len(compress_zstd(sample, _FASTEST_LEVEL)) for sample in samples)
    return _FASTEST_LEVEL if shrunk <= _COMPRESSION_GAIN * sum(map(len, samples)) else None


def zipping_pays(field: Field, value: VariableWidthBlock, num_values: int) -> bool:
    """Whether so many compressed copies of a long value take less than the value itself, as a constant page has it."""
    num_bytes = _string_bytes(value)
    if num_bytes < _MAX_MEAN_STRING_BYTES or num_values * _ZIPPED_VALUE_BYTES >= num_bytes:
        return False
    level = value_level(field, value)
    if level is None:
        return False
    start, stop = int(value.offsets[0]), int(value.offsets[1])
    compressed = len(compress_zstd(value.data.data[start:stop], level))
    return num_values * (compressed + _ZIPPED_VALUE_BYTES) < num_bytes


def choose_mini_block(block: DataBlock, levels: Levels) -> MiniBlockChoice | None:
    """The mini-block form of a page, or None if it should be full zip."""
    choice: MiniBlockChoice | None = None
    if isinstance(block, FixedWidthBlock):
        choice = _choose_fixed_width(block)
    elif isinstance(block, VariableWidthBlock):
        choice = _choose_variable_width(block)
    elif isinstance(block, FixedSizeListBlock):
        choice = _choose_bitmap_lists(block)
    return None if choice is None else _with_room_for_levels(choice, block, levels)


def may_have_few_distinct(array: pa.Array) -> bool:
    """Whether a sample lets hope that a dictionary pays; only strings and binaries are asked."""
    return len(array) >= _MIN_DICTIONARY_VALUES and sampled_distinct_ratio(array) <= _MAX_DISTINCT_RATIO


def dictionary_pays(items: VariableWidthBlock, block: VariableWidthBlock) -> bool:
    """Whether distinct items and packed indices are clearly smaller than the strings themselves."""
    offset_bytes = block.offsets.itemsize
    index_bytes = block.num_values * items.num_values.bit_length() // 8
    with_dictionary = _string_bytes(items) + offset_bytes * items.num_values + index_bytes
    return with_dictionary <= _DICTIONARY_GAIN * (_string_bytes(block) + offset_bytes * block.num_values)


def common_value(block: DataBlock, validity: NDArray[np.bool_] | None) -> FixedWidthBlock | VariableWidthBlock | None:
    """The value that all valid slots hold bit for bit, as a block of one, or None. Bools become a byte.

    Args:
        block: the values of a page.
        validity: (num_values,) mask with at least one True; None = all valid.
    """
    valid = np.arange(block.num_values) if validity is None else np.flatnonzero(validity)
    first = int(valid[0])
    if isinstance(block, FixedWidthBlock):
        if block.bits_per_value == 1:
            return _common_bit(block, validity)
        rows = block.data.reshape(block.num_values, block.bits_per_value // 8)
        if not _all_rows_equal(rows, first, valid):
            return None
        return FixedWidthBlock(1, block.bits_per_value, rows[first])
    if isinstance(block, VariableWidthBlock):
        return _common_string(block, first, valid)
    return None


def _string_bytes(block: VariableWidthBlock) -> int:
    return int(block.offsets[-1] - block.offsets[0])


def _common_bit(block: FixedWidthBlock, validity: NDArray[np.bool_] | None) -> FixedWidthBlock | None:
    bits = unpack_bitmap(block.data, 0, block.num_values)
    if validity is not None:
        bits = bits[validity]
    num_set = int(np.count_nonzero(bits))
    if num_set not in (0, len(bits)):
        return None
    return FixedWidthBlock(1, 8, np.array([num_set > 0], np.uint8))


def _common_string(block: VariableWidthBlock, first: int, valid: NDArray[np.int64]) -> VariableWidthBlock | None:
    sample = valid[:: max(1, len(valid) // _SAMPLES)]
    length = int(block.offsets[first + 1] - block.offsets[first])
    for chosen in (sample, valid):
        if bool((block.offsets[chosen + 1] - block.offsets[chosen] != length).any()):
            return None
    # Null slots are empty, so the valid strings lie back to back.
    start = int(block.offsets[0])
    rows = block.data[start : start + length * len(valid)].reshape(len(valid), length)
    if not _all_rows_equal(rows, 0, np.arange(len(valid))):
        return None
    return block.slice(first, first + 1)


def _all_rows_equal(rows: NDArray[np.uint8], first: int, chosen: NDArray[np.int64]) -> bool:
    """Whether the chosen rows equal row ``first``; a sample settles most cases."""
    sample = chosen[:: max(1, len(chosen) // _SAMPLES)]
    if not bool((rows[sample] == rows[first]).all()):
        return False
    return bool(((rows if len(chosen) == len(rows) else rows[chosen]) == rows[first]).all())


def _choose_fixed_width(block: FixedWidthBlock) -> MiniBlockChoice | None:
    if block.bits_per_value >= _MAX_FIXED_BYTES * 8:
        return None
    if block.bits_per_value in UNSIGNED_DTYPES and _packing_pays(block):
        return MiniBlockChoice("inline_bitpacking", BLOCK_VALUES)
    largest = _TARGET_CHUNK_BYTES * 8 // block.bits_per_value
    return MiniBlockChoice("flat", min(_MAX_CHUNK_VALUES, _power_of_two(largest)))


def _choose_variable_width(block: VariableWidthBlock) -> MiniBlockChoice | None:
    mean_bytes = _string_bytes(block) / block.num_values
    if mean_bytes >= _MAX_MEAN_STRING_BYTES:
        return None
    largest = int(_TARGET_CHUNK_BYTES / (mean_bytes + block.offsets.itemsize))
    values_per_chunk = min(_MAX_CHUNK_VALUES, _power_of_two(largest))
    while values_per_chunk >= _MIN_STRINGS_PER_CHUNK:
        bounds = np.append(block.offsets[:-1:values_per_chunk], block.offsets[-1])
        if int(np.diff(bounds).max()) <= _MAX_CHUNK_BYTES:
            return MiniBlockChoice("variable", values_per_chunk)
        values_per_chunk //= 2
    return None


def _choose_bitmap_lists(block: FixedSizeListBlock) -> MiniBlockChoice | None:
    """Lists of bools have no whole bytes to zip; lists of anything else are better off full zip."""
    num_bits, items = block.dimension, block.items
    while isinstance(items, FixedSizeListBlock):
        num_bits *= items.dimension
        items = items.items
    if not isinstance(items, FixedWidthBlock) or items.bits_per_value != 1:
        return None
    largest = _power_of_two(_TARGET_CHUNK_BYTES * 8 // num_bits)
    return MiniBlockChoice("fixed_size_list", min(_MAX_CHUNK_VALUES, max(_MIN_BITMAP_VALUES, largest)))


def _packing_pays(block: FixedWidthBlock) -> bool:
    """Estimate from evenly spaced blocks of 1024 values whether packing saves enough."""
    values = block.data.view(UNSIGNED_DTYPES[block.bits_per_value])
    num_blocks = len(values) // BLOCK_VALUES
    if num_blocks == 0:
        return (1 + int(values.max()).bit_length() * BLOCK_VALUES // 8) < _PACKING_GAIN * values.nbytes
    blocks = values[: num_blocks * BLOCK_VALUES].reshape(num_blocks, BLOCK_VALUES)
    return common_packed_bits(blocks) < _PACKING_GAIN * block.bits_per_value


def _with_room_for_levels(choice: MiniBlockChoice, block: DataBlock, levels: Levels) -> MiniBlockChoice | None:
    """The choice with chunks small enough for their levels, or None if there are none."""
    if levels.num_levels <= MAX_LEVELS_PER_CHUNK:
        return choice
    arm, values_per_chunk = choice.arm, choice.values_per_chunk
    smallest = _MIN_CHUNK_VALUES
    if _is_bitmap(block):
        smallest = _MIN_BITMAP_VALUES
    while values_per_chunk >= smallest:
        num_values = np.full(-(-block.num_values // values_per_chunk), values_per_chunk, np.int64)
        num_values[-1] = block.num_values - (len(num_values) - 1) * values_per_chunk
        if int(np.diff(level_bounds(levels, num_values)).max()) <= MAX_LEVELS_PER_CHUNK:
            return MiniBlockChoice(arm, values_per_chunk)
        # Packed chunks are of one size; smaller ones are flat.
        arm = "flat" if arm == "inline_bitpacking" else arm
        values_per_chunk //= 2
    return None


def _is_bitmap(block: DataBlock) -> bool:
    return isinstance(block, FixedSizeListBlock) or (isinstance(block, FixedWidthBlock) and block.bits_per_value == 1)


def _power_of_two(limit: int) -> int:
    """The largest power of two up to ``limit``, at least the fewest values of a chunk."""
    return max(_MIN_CHUNK_VALUES, 1 << max(limit, 1).bit_length() - 1)
