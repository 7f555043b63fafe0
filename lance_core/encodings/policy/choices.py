"""Records for the decisions of the policy, and the constants shared by all decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import FixedSizeListBlock, FixedWidthBlock
from lance_core.encodings.structural.level_buffers import MAX_LEVELS_PER_CHUNK
from lance_core.encodings.structural.mini_block import level_bounds

if TYPE_CHECKING:
    from lance_core.encodings.api import DataBlock
    from lance_core.encodings.levels.build import Levels
    from lance_core.encodings.policy.field_options import FieldOptions

__all__ = [
    "MAX_CHUNK_VALUES",
    "MIN_CHUNK_VALUES",
    "TARGET_CHUNK_BYTES",
    "Compression",
    "MiniBlockChoice",
    "asked_compression",
    "power_of_two",
    "with_room_for_levels",
]

TARGET_CHUNK_BYTES: Final = 8 << 10
"""Target size in bytes of a chunk's values. Random reads decode whole chunks, and larger chunks save little space."""

MAX_CHUNK_VALUES: Final = 4096
"""Maximum number of values in a chunk, as in the reference implementation."""

MIN_CHUNK_VALUES: Final = 2
"""Minimum number of values in every chunk except the last."""

_MIN_BITMAP_VALUES: Final = 8
_ASKED_LEVEL: Final = 3
"""Zstd level if compression is requested without a level; also the default of zstd and the reference implementation."""


@dataclass(frozen=True, slots=True)
class Compression:
    """General-purpose compression: the scheme and its level.

    Attributes:
        scheme: ``zstd`` or ``lz4``.
        level: zstd level; None = the fastest.
    """

    scheme: str
    level: int | None = None


@dataclass(frozen=True, slots=True)
class MiniBlockChoice:
    """How to divide the values of a mini-block page into chunks and encode them.

    Attributes:
        arm: encoding of the values.
        values_per_chunk: number of values in each chunk, a power of two; the last chunk contains the remaining values.
        compression: general-purpose compression of the encoded buffers; None = no compression.
    """

    arm: str
    values_per_chunk: int
    compression: Compression | None = None

    def smaller(self, block: DataBlock) -> MiniBlockChoice | None:
        """Return the choice with half as many values per chunk; None if chunks cannot be smaller."""
        if self.values_per_chunk // 2 < (_MIN_BITMAP_VALUES if _is_bitmap(block) else MIN_CHUNK_VALUES):
            return None
        # Packed chunks have a fixed number of values; smaller chunks use flat.
        arm = "flat" if self.arm == "inline_bitpacking" else self.arm
        return replace(self, arm=arm, values_per_chunk=self.values_per_chunk // 2)


def with_room_for_levels(choice: MiniBlockChoice, block: DataBlock, levels: Levels) -> MiniBlockChoice | None:
    """Return the choice with chunks small enough for their levels; None if that is not possible."""
    has_levels = levels.repetition is not None or levels.definition is not None
    if not has_levels or levels.num_levels <= MAX_LEVELS_PER_CHUNK:
        return choice
    found: MiniBlockChoice | None = choice
    while found is not None:
        num_values = np.full(-(-block.num_values // found.values_per_chunk), found.values_per_chunk, np.int64)
        num_values[-1] = block.num_values - (len(num_values) - 1) * found.values_per_chunk
        if int(np.diff(level_bounds(levels, num_values)).max()) <= MAX_LEVELS_PER_CHUNK:
            return found
        found = found.smaller(block)
    return None


def asked_compression(options: FieldOptions) -> Compression | None:
    """Return the compression that the metadata requests, with the default level if the metadata specifies none."""
    if options.general is None:
        return None
    level = options.compression_level or _ASKED_LEVEL
    return Compression(options.general, level if options.general == "zstd" else None)


def power_of_two(limit: int) -> int:
    """Return the largest power of two up to ``limit``, clamped to the allowed numbers of values in a chunk."""
    return min(MAX_CHUNK_VALUES, max(MIN_CHUNK_VALUES, 1 << max(limit, 1).bit_length() - 1))


def _is_bitmap(block: DataBlock) -> bool:
    return isinstance(block, FixedSizeListBlock) or (isinstance(block, FixedWidthBlock) and block.bits_per_value == 1)
