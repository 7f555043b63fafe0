"""Progress lines in the log: when they are written, and what they contain."""

from __future__ import annotations

import pytest

from lance_pipelines.progress import Progress, ProgressLines


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Lines(ProgressLines):
    """Collects progress lines, and reports at the given second."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.clock = Clock()
        super().__init__(self.lines.append, interval_seconds=5, clock=self.clock)

    def at(self, second: float, stage: str = "writing", tasks: int = 1) -> list[str]:
        self.clock.now = 100.0 + second
        self.report(Progress(stage=stage, tasks=tasks, total_tasks=4))
        return self.lines


def test_operation_shorter_than_the_interval_writes_no_progress_line() -> None:
    lines = Lines()
    for second in (0, 1, 4.9):
        assert lines.at(second) == []


def test_progress_line_is_written_once_per_interval() -> None:
    lines = Lines()
    counts = [len(lines.at(second)) for second in (0, 5, 6, 9.9, 10, 14, 30, 31)]
    assert counts == [0, 1, 1, 1, 2, 2, 3, 3]


def test_remaining_time_is_estimated_from_the_current_stage() -> None:
    lines = Lines()
    lines.at(0)
    assert lines.at(6, tasks=1)[-1] == "writing: 1 of 4 tasks, 25%, about 18 seconds left"
    lines.at(10, stage="verifying", tasks=0)
    assert lines.at(20, stage="verifying", tasks=2)[-1] == "verifying: 2 of 4 tasks, 50%, about 10 seconds left"


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (Progress(stage="a"), "a: 1 minute and 30 seconds so far"),
        (Progress(stage="a", tasks=3), "a: 3 tasks, 1 minute and 30 seconds so far"),
        (Progress(stage="a", tasks=0, total_tasks=8), "a: 0 of 8 tasks, 0%, 1 minute and 30 seconds so far"),
        (Progress(stage="a", tasks=8, total_tasks=8), "a: 8 of 8 tasks, 100%, 1 minute and 30 seconds so far"),
        (
            Progress(stage="a", tasks=1200, total_tasks=4800, unit="files", num_bytes=3 << 20, total_bytes=4 << 20),
            "a: 1,200 of 4,800 files, 3 MiB of 4 MiB, 75%, about 30 seconds left",
        ),
        (
            Progress(stage="a", tasks=1, total_tasks=2, rows=1_200_000, num_bytes=1 << 30),
            "a: 1 of 2 tasks, 1,200,000 rows, 1 GiB, 50%, about 1 minute and 30 seconds left",
        ),
        (
            Progress(stage="a", rows=450, total_rows=1000),
            "a: 450 of 1,000 rows, 45%, about 1 minute and 50 seconds left",
        ),
        (Progress(stage="a", rows=12, total_rows=10), "a: 12 of 10 rows, 100%, 1 minute and 30 seconds so far"),
    ],
)
def test_progress_line_has_counts_percentage_and_time(progress, line) -> None:
    assert progress.line(90) == line


def test_progress_is_measured_in_bytes_if_known_and_otherwise_in_rows_or_tasks() -> None:
    progress = Progress(stage="a", tasks=1, total_tasks=2, rows=1, total_rows=4, num_bytes=1, total_bytes=8)
    assert progress.fraction == 1 / 8
