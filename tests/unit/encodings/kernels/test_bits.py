"""Bitmaps and bit lengths."""

from __future__ import annotations

import numpy as np

from lance_core.encodings.kernels.bits import bit_lengths, pack_mask, slice_bitmap, unpack_bitmap


def test_bitmap_is_least_significant_bit_first():
    assert pack_mask(np.array([1, 0, 1, 1, 0, 0, 0, 0, 1], bool)).tolist() == [0b1101, 1]


def test_unpack_bitmap_starts_at_any_bit_offset():
    mask = np.random.default_rng(0).random(50) < 0.5
    bitmap = pack_mask(mask)
    for start in range(20):
        assert (unpack_bitmap(bitmap, start, 17) == mask[start : start + 17]).all()


def test_slice_bitmap_returns_a_view_only_at_whole_bytes():
    bitmap = pack_mask(np.arange(40) % 3 == 0)
    assert np.shares_memory(slice_bitmap(bitmap, 8, 10), bitmap)
    shifted = slice_bitmap(bitmap, 3, 10)
    assert (unpack_bitmap(shifted, 0, 10) == unpack_bitmap(bitmap, 3, 10)).all()


def test_bit_lengths_are_exact_at_powers_of_two():
    values = np.array([0, 1, 2, 3, 4, 255, 256, 2**53 - 1, 2**53 + 1, 2**63, 2**64 - 1], np.uint64)
    assert bit_lengths(values).tolist() == [int(value).bit_length() for value in values.tolist()]
