"""The limit on actions per second, tested with a simulated clock."""

import pytest

from lance_core.cleanup.pacing import Pace, Stride


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_cleanup_pace_without_a_limit_never_waits() -> None:
    clock = Clock()
    pace = Pace(None, clock=clock.read, sleep=clock.sleep)
    for _ in range(10):
        pace.wait()
    assert clock.now == 0


def test_cleanup_pace_allows_one_action_per_interval() -> None:
    clock = Clock()
    pace = Pace(4, clock=clock.read, sleep=clock.sleep)
    moments = []
    for _ in range(5):
        pace.wait()
        moments.append(clock.now)
    assert moments == [0, 0.25, 0.5, 0.75, 1.0]


def test_cleanup_pace_does_not_accumulate_unused_time() -> None:
    clock = Clock()
    pace = Pace(2, clock=clock.read, sleep=clock.sleep)
    pace.wait()
    clock.now = 10
    moments = []
    for _ in range(3):
        pace.wait()
        moments.append(clock.now)
    assert moments == [10, 10.5, 11]


def _stride_after(stride: Stride, clock: Clock, *, pause: float, actions: int, seconds: float) -> int:
    stride.pause()
    clock.now += pause
    stride.start()
    clock.now += seconds
    stride.finish(actions)
    return stride.length


@pytest.mark.parametrize(("per_second", "first"), [(1, 1), (40, 4), (80, 8), (1000, 8), (None, 8)])
def test_first_batch_of_a_rate_limited_cleanup_is_short(per_second: int | None, first: int) -> None:
    assert Stride(per_second, 8, clock=Clock().read).length == first


@pytest.mark.parametrize(
    ("per_second", "pause", "actions", "seconds", "length"),
    [
        (None, 0.0, 32, 0.0, 512),
        (None, 0.25, 32, 0.03125, 512),
        (None, 0.25, 32, 0.5, 64),
        (None, 0.125, 32, 0.5, 32),
        (None, 60.0, 32, 0.5, 64),
        (None, 0.25, 64, 4.0, 16),
        (None, 0.25, 8, 60.0, 8),
        (8, 0.0, 8, 0.0, 1),
        (8, 0.125, 8, 0.0, 4),
        (8, 0.25, 8, 0.0, 8),
        (16, 0.25, 16, 2.0, 8),
        (2, 0.25, 2, 4.0, 2),
        (None, 5.0, 0, 5.0, 8),
    ],
)
def test_batch_of_a_rate_limited_cleanup_lasts_at_most_four_pauses_and_one_second(
    per_second: int | None, pause: float, actions: int, seconds: float, length: int
) -> None:
    clock = Clock()
    stride = Stride(per_second, 8, clock=clock.read)
    assert _stride_after(stride, clock, pause=pause, actions=actions, seconds=seconds) == length


def test_batch_of_a_rate_limited_cleanup_grows_again_after_a_slow_batch() -> None:
    clock = Clock()
    stride = Stride(None, 1, clock=clock.read)
    assert _stride_after(stride, clock, pause=0.25, actions=32, seconds=64) == 1
    assert _stride_after(stride, clock, pause=0.25, actions=1, seconds=0.25) == 4
