"""Fetching byte ranges of files in format 2.0 from mapped and remote files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.encodings.v2_0.api import Steps
from lance_core.encodings.v2_0.spans import Spans
from lance_core.file.file_bytes import run_steps
from lance_core.file.v2_0.fetch import first_ranges, on_file
from lance_core.io.byte_range import ByteRange

FILE = np.random.default_rng(1).integers(0, 256, 1_000_000).astype(np.uint8)


class _Reads:
    """Answers and counts read requests."""

    def __init__(self) -> None:
        self.rounds: list[list[ByteRange]] = []

    def __call__(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        self.rounds.append(list(ranges))
        return [pa.py_buffer(FILE[part.start : part.stop]) for part in ranges]


def _wants(spans: list[Spans]) -> Steps[list[bytes]]:
    buffers = yield spans
    return [buffer.to_pybytes() for buffer in buffers]


@given(
    st.lists(st.tuples(st.integers(0, 150_000), st.integers(0, 300)), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_fetched_runs_are_joined_regardless_of_how_they_are_read(
    steps: list[tuple[int, int]], is_mapped: bool, equal: bool
) -> None:
    starts, stops, position = [], [], 0
    for gap, size in steps:
        position += gap + 1
        starts.append(position)
        position += 5 if equal else size
        stops.append(position)
    inside = [index for index, stop in enumerate(stops) if stop <= len(FILE)] or [0]
    spans = Spans.of(np.array(starts)[inside], np.array(stops)[inside])
    read = _Reads()
    [found] = run_steps(on_file(_wants([spans]), is_mapped=is_mapped), read)
    assert found == FILE[spans.positions()].tobytes()


def test_mapped_file_is_read_once_and_wide_gaps_of_a_remote_file_are_skipped() -> None:
    spans = Spans.of(np.array([0, 100, 500_000]), np.array([10, 110, 500_010]))
    mapped, remote = _Reads(), _Reads()
    run_steps(on_file(_wants([spans]), is_mapped=True), mapped)
    run_steps(on_file(_wants([spans]), is_mapped=False), remote)
    assert mapped.rounds == [[ByteRange(0, 500_010)]]
    assert remote.rounds == [[ByteRange(0, 110), ByteRange(500_000, 500_010)]]


def test_single_fetched_run_is_not_copied() -> None:
    buffer = pa.py_buffer(FILE)

    def step() -> Steps[pa.Buffer]:
        [found] = yield [Spans.single(100, 200)]
        return found

    found = run_steps(
        on_file(step(), is_mapped=True),
        lambda ranges: [buffer.slice(part.start, part.num_bytes) for part in ranges],
    )
    assert found.address == buffer.address + 100


def test_first_fetch_ranges_are_known_without_reading() -> None:
    def two_rounds() -> Steps[None]:
        yield [Spans.single(0, 8), Spans.single(64, 72)]
        yield [Spans.single(100, 200)]

    assert first_ranges(two_rounds(), is_mapped=False) == [ByteRange(0, 8), ByteRange(64, 72)]


def test_fetch_raises_errors_of_the_store_unchanged() -> None:
    def broken(ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        run_steps(on_file(_wants([Spans.single(0, 1)]), is_mapped=False), broken)
