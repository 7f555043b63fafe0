from __future__ import annotations

import mmap

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import spanning


def test_spanning_array_contains_every_buffer_at_its_start():
    buffers = [pa.py_buffer(bytes([number]) * size) for number, size in enumerate([3, 0, 5_000_000, 1])]
    whole, starts = spanning(buffers)
    for buffer, start in zip(buffers, starts, strict=True):
        assert whole[start : start + buffer.size].tobytes() == buffer.to_pybytes()


def test_spanning_array_keeps_its_buffers():
    whole, starts = spanning([pa.py_buffer(mmap.mmap(-1, 8_192)) for _ in range(3)])
    assert [int(whole[start : start + 8_192].sum()) for start in starts] == [0, 0, 0]


def test_spanning_array_of_empty_buffers_is_empty():
    whole, starts = spanning([pa.py_buffer(b"")] * 2)
    assert (len(whole), starts) == (0, [0, 0])
    assert np.array_equal(spanning([])[0], whole)
