"""Padding arithmetic and the two alignments that the formats require.

Source: data file container (alignment to 64 bytes, pad byte 0x48) and mini-block chunks (8 bytes, 0xFE).
"""

from __future__ import annotations

from typing import Final

__all__ = ["BUFFER_ALIGNMENT", "BUFFER_PAD_BYTE", "CHUNK_ALIGNMENT", "CHUNK_PAD_BYTE", "align_up", "padding_bytes"]

BUFFER_ALIGNMENT: Final = 64
"""Alignment in bytes of every page buffer and global buffer in a 2.x file."""

BUFFER_PAD_BYTE: Final = 0x48
"""Value of every padding byte between buffers ('H')."""

CHUNK_ALIGNMENT: Final = 8
"""Alignment in bytes of every part of a mini-block chunk, relative to the start of the chunk."""

CHUNK_PAD_BYTE: Final = 0xFE
"""Value of every padding byte inside a mini-block chunk."""


def padding_bytes(num_bytes: int, alignment: int) -> int:
    """Return how many padding bytes must follow ``num_bytes`` bytes to align the next part; may be 0."""
    return -num_bytes % alignment


def align_up(num_bytes: int, alignment: int) -> int:
    """Return the smallest multiple of ``alignment`` that is at least ``num_bytes``."""
    return num_bytes + padding_bytes(num_bytes, alignment)
