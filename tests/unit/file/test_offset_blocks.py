"""Offset blocks: bytes that locate other bytes are read together with their neighbors and cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file.offset_blocks import keeping_offsets
from lance_core.file.page_cache import PageCache
from lance_core.io.byte_range import ByteRange

BLOCK = 32 * 1024
DATA = np.random.default_rng(3).bytes(100 * BLOCK + 17)


class Reads:
    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def __call__(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        self.ranges += [(each.start, each.stop) for each in ranges]
        return [pa.py_buffer(DATA[each.start : each.stop]) for each in ranges]


def _offsets(start: int, stop: int) -> ByteRange:
    return ByteRange(start, stop, holds_offsets=True)


@pytest.mark.parametrize(
    "ranges",
    [
        [_offsets(0, 8)],
        [_offsets(BLOCK - 8, BLOCK + 8)],
        [_offsets(5, 5)],
        [_offsets(99 * BLOCK, len(DATA))],
        [
            ByteRange(7, 9),
            _offsets(3 * BLOCK, 5 * BLOCK),
            ByteRange(50_000, 70_000),
            _offsets(4 * BLOCK, 4 * BLOCK + 1),
        ],
        [_offsets(at * BLOCK, at * BLOCK + 8) for at in range(90)],
    ],
)
def test_offset_blocks_return_the_bytes_of_the_file_with_and_without_a_cache(ranges: list[ByteRange]) -> None:
    cache: PageCache[Any] = PageCache()
    for _ in range(2):
        found = keeping_offsets(Reads(), cache, len(DATA))(ranges)
        assert [each.to_pybytes() for each in found] == [DATA[each.start : each.stop] for each in ranges]


def test_offsets_in_a_block_that_was_already_read_are_not_read_again() -> None:
    reads, cache = Reads(), PageCache[Any]()
    read = keeping_offsets(reads, cache, len(DATA))
    read([_offsets(BLOCK + 16, BLOCK + 32), ByteRange(3, 4)])
    assert reads.ranges == [(BLOCK, 2 * BLOCK), (3, 4)]
    reads.ranges.clear()
    read([_offsets(2 * BLOCK - 8, 2 * BLOCK), ByteRange(3, 4)])
    assert reads.ranges == [(3, 4)]


def test_offsets_scattered_over_the_file_are_read_individually_and_not_cached() -> None:
    reads, cache = Reads(), PageCache[Any]()
    scattered = [_offsets(at * BLOCK, at * BLOCK + 8) for at in range(90)]
    for _ in range(2):
        reads.ranges.clear()
        keeping_offsets(reads, cache, len(DATA))(scattered)
        assert sum(stop - start for start, stop in reads.ranges) == 8 * 90
