"""Reading many values from one object."""

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file import value_ranges
from lance_core.file.value_ranges import read_values

DATA = np.random.default_rng(5).integers(0, 256, 20_000, np.uint8).tobytes()


class _Reads:
    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def __call__(self, ranges) -> list[pa.Buffer]:
        self.ranges += [(wanted.start, wanted.stop) for wanted in ranges]
        return [pa.py_buffer(DATA[wanted.start : wanted.stop]) for wanted in ranges]


def _checked_reads(starts: list[int], sizes: list[int]) -> _Reads:
    reads = _Reads()
    buffers = read_values(reads, np.array(starts, np.uint64), np.array(sizes, np.uint64))
    expected = [DATA[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    assert b"".join(map(bytes, buffers)) == b"".join(expected)
    assert len(buffers) in (1, len(starts))
    return reads


@pytest.mark.parametrize("seed", range(20))
def test_read_values_returns_the_bytes_of_every_range(seed: int) -> None:
    random = np.random.default_rng(seed)
    gaps, sizes = random.choice([0, 1, 63, 511, 512, 513, 900], 15), random.integers(0, 400, 15)
    starts = np.cumsum(gaps + sizes) - sizes
    _checked_reads(starts.tolist(), sizes.tolist())
    order = random.permutation(15)
    _checked_reads(starts[order].tolist(), sizes[order].tolist())


def test_values_near_each_other_are_read_together() -> None:
    assert _checked_reads([0, 64, 128, 1000, 1064], [10, 64, 3, 5, 5]).ranges == [(0, 131), (1000, 1069)]


def test_read_values_accepts_a_single_value_and_no_values() -> None:
    assert _checked_reads([5], [10]).ranges == [(5, 15)]
    assert read_values(_Reads(), np.empty(0, np.uint64), np.empty(0, np.uint64)) == []


@pytest.mark.parametrize(("starts", "sizes"), [([64, 0], [5, 5]), ([0, 3], [5, 5]), ([0, 0], [5, 5])])
def test_unordered_values_are_read_one_by_one(starts: list[int], sizes: list[int]) -> None:
    assert len(_checked_reads(starts, sizes).ranges) == 2


def test_large_values_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_ranges, "_SMALL_BYTES", 100)
    assert _checked_reads([0, 128], [100, 101]).ranges == [(0, 100), (128, 229)]
    assert _checked_reads([0, 128], [100, 100]).ranges == [(0, 228)]
