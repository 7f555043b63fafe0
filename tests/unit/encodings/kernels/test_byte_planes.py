"""Splitting values into byte planes."""

from __future__ import annotations

import numpy as np

from lance_core.encodings.kernels.byte_planes import merge_planes, split_planes


def test_byte_planes_contain_bytes_of_equal_significance():
    values = np.frombuffer(b"abcdABCD", np.uint8).reshape(1, 8)
    assert split_planes(values, 4).tobytes() == b"aAbBcCdD"
    assert merge_planes(split_planes(values, 4), 4).tobytes() == values.tobytes()


def test_byte_planes_of_chunks_are_independent():
    values = np.arange(48, dtype=np.uint8).reshape(2, 24)
    assert (merge_planes(split_planes(values, 8), 8) == values).all()
