"""Extents: spans of a file that are fetched with few reads."""

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file.file_bytes import run_steps
from lance_core.file.v0_1.extents import Extents, merged_spans
from lance_core.io.byte_range import ByteRange

DATA = bytes(np.random.default_rng(1).integers(0, 256, 400_000, np.uint8))


class Reads:
    def __init__(self) -> None:
        self.calls: list[list[ByteRange]] = []

    def __call__(self, ranges: list[ByteRange]) -> list[pa.Buffer]:
        self.calls.append(list(ranges))
        return [pa.py_buffer(DATA[each.start : each.stop]) for each in ranges]


def spans(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    starts, stops = np.array(pairs, np.int64).reshape(-1, 2).T
    return starts, stops


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [(5, 5)],
        [(10, 20)],
        [(10, 20), (20, 30)],
        [(0, 100), (500, 600), (1_000, 1_100), (1_500, 1_530)],
        [(0, 100), (500, 600), (1_000, 1_099), (1_500, 1_530)],
        [(300_000, 300_100), (0, 10), (5, 30), (7, 7)],
        [(0, 10), (100_000, 100_010), (200_000, 200_010)],
        [(50, 60), (50, 60), (50, 60)],
    ],
)
def test_extents_gather_spans_in_the_requested_order(pairs: list[tuple[int, int]]) -> None:
    extents, reads = Extents(), Reads()
    expected = b"".join(DATA[start:stop] for start, stop in pairs)
    assert run_steps(extents.gather(*spans(pairs)), reads).tobytes() == expected
    assert run_steps(extents.gather(*spans(pairs)), reads).tobytes() == expected


def test_spans_near_each_other_share_a_read_and_are_read_once() -> None:
    reads = Reads()
    extents = Extents()
    run_steps(extents.load(*spans([(0, 1_000), (2_000, 3_000), (100_000, 100_100)])), reads)
    assert reads.calls == [[ByteRange(0, 3_000), ByteRange(100_000, 100_100)]]
    run_steps(extents.gather(*spans([(1_500, 2_500), (100_010, 100_020)])), reads)
    assert len(reads.calls) == 1
    # This span extends beyond the available bytes, and is read separately.
    found = run_steps(extents.gather(*spans([(2_500, 3_500), (10, 20)])), reads)
    assert found.tobytes() == DATA[2_500:3_500] + DATA[10:20]
    assert reads.calls[1:] == [[ByteRange(2_500, 3_500)]]


def test_overlapping_extents_return_the_correct_bytes() -> None:
    extents, reads = Extents(), Reads()
    run_steps(extents.load(*spans([(0, 100)])), reads)
    run_steps(extents.load(*spans([(50, 200)])), reads)
    found = run_steps(extents.gather(*spans([(20, 90), (60, 150), (55, 99)])), reads)
    assert found.tobytes() == DATA[20:90] + DATA[60:150] + DATA[55:99]


def test_merged_spans_join_spans_near_each_other() -> None:
    starts, stops = merged_spans(*spans([(100_000, 100_001), (0, 50_000), (10, 20), (50_100, 50_200)]))
    assert starts.tolist() == [0, 100_000]
    assert stops.tolist() == [50_200, 100_001]
