"""Read steps, executed one after another and in parallel."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.file.file_bytes import ReadSteps, run_steps, together
from lance_core.io.byte_range import ByteRange

DATA = pa.py_buffer(bytes(range(100)))


class _Source:
    def __init__(self) -> None:
        self.requests: list[list[ByteRange]] = []

    def __call__(self, ranges: list[ByteRange]) -> list[pa.Buffer]:
        self.requests.append(list(ranges))
        return [DATA.slice(extent.start, extent.num_bytes) for extent in ranges]


def _follow(start: int, num_steps: int) -> ReadSteps[list[int]]:
    """In each step, read two bytes at positions that depend on the previous step."""
    seen = []
    at = start
    for _ in range(num_steps):
        first, second = yield [ByteRange(at, at + 1), ByteRange(at + 1, at + 2)]
        seen += [bytes(first)[0], bytes(second)[0]]
        at = seen[-1] + 10
    return seen


def test_run_steps_makes_one_request_per_step() -> None:
    source = _Source()
    assert run_steps(_follow(5, 3), source) == [5, 6, 16, 17, 27, 28]
    assert len(source.requests) == 3


def test_parallel_read_steps_combine_their_requests() -> None:
    source = _Source()
    readings = [_follow(start, steps) for start, steps in ((0, 1), (50, 3), (20, 0), (30, 2))]
    assert run_steps(together(readings), source) == [
        [0, 1],
        [50, 51, 61, 62, 72, 73],
        [],
        [30, 31, 41, 42],
    ]
    assert [len(ranges) for ranges in source.requests] == [6, 4, 2]


def test_read_steps_without_ranges_make_no_request() -> None:
    source = _Source()

    def idle() -> ReadSteps[str]:
        found = yield []
        return f"{len(found)} ranges"

    assert run_steps(idle(), source) == "0 ranges"
    assert run_steps(together([]), source) == []
    assert source.requests == []


def test_errors_of_a_read_step_reach_the_caller() -> None:
    def failing() -> ReadSteps[int]:
        yield [ByteRange(0, 1)]
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        run_steps(together([_follow(1, 2), failing()]), _Source())
