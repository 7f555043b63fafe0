"""Joining the buffers of leaf arrays."""

from __future__ import annotations

import mmap

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import joined


def _holds_every_buffer_at_its_start(buffers: list[pa.Buffer]) -> bool:
    whole, starts = joined(buffers)
    return all(
        whole[start : start + buffer.size].tobytes() == buffer.to_pybytes()
        for buffer, start in zip(buffers, starts, strict=True)
    )


def test_joined_buffers_start_at_the_recorded_positions() -> None:
    assert _holds_every_buffer_at_its_start(
        [pa.py_buffer(bytes([number]) * size) for number, size in enumerate([3, 0, 5_000_000, 1])]
    )


def test_buffers_in_one_mapping_are_joined_without_a_copy() -> None:
    mapping = pa.py_buffer(mmap.mmap(-1, 10_000))
    parts = [mapping.slice(start, 1_000).slice(10, 900) for start in (3_000, 1_000, 2_000)]
    whole, starts = joined(parts)
    assert (whole.ctypes.data, len(whole), starts) == (mapping.address + 1_010, 2_900, [2_000, 0, 1_000])


def test_buffers_that_are_far_apart_or_in_different_mappings_are_copied() -> None:
    """The bytes between such buffers may not exist, so that a reader of the entire array must not access them."""
    mapping = pa.py_buffer(mmap.mmap(-1, 1 << 20))
    others = [pa.py_buffer(mmap.mmap(-1, 8_192)) for _ in range(3)]
    for buffers in ([mapping.slice(0, 10), mapping.slice(1 << 19, 10)], others):
        whole, _ = joined(buffers)
        assert len(whole) == sum(buffer.size for buffer in buffers)
        assert _holds_every_buffer_at_its_start(buffers)


def test_array_of_empty_buffers_is_empty() -> None:
    whole, starts = joined([pa.py_buffer(b"")] * 2)
    assert (len(whole), starts) == (0, [0, 0])
    assert np.array_equal(joined([])[0], whole)
