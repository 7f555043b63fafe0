"""Progress: how much of a long operation is done, and when to report it.

An operation calls :meth:`ProgressLines.report` as often as it likes. A line is written every few seconds; an operation
that is shorter than that writes none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from humanfriendly import format_size, format_timespan  # type: ignore[import-untyped]  # no types

__all__ = ["INTERVAL_SECONDS", "Progress", "ProgressLines", "Report"]

INTERVAL_SECONDS: Final = 5.0
"""Default number of seconds between two progress lines, and before the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How much of an operation is done. A total is None if it is unknown; a count is None if it does not apply.

    Attributes:
        stage: what is being done, for example ``writing fragments``.
        tasks: number of finished tasks, files, or fragments.
        total_tasks: total number of tasks, files, or fragments.
        unit: what ``tasks`` counts, in the plural.
        rows: number of rows processed.
        total_rows: number of rows to process.
        num_bytes: number of bytes processed.
        total_bytes: number of bytes to process.
    """

    stage: str
    tasks: int | None = None
    total_tasks: int | None = None
    unit: str = "tasks"
    rows: int | None = None
    total_rows: int | None = None
    num_bytes: int | None = None
    total_bytes: int | None = None

    @property
    def fraction(self) -> float | None:
        """The finished fraction, from 0 to 1, by the most precise count whose total is known; None if there is none."""
        measures = ((self.num_bytes, self.total_bytes), (self.rows, self.total_rows), (self.tasks, self.total_tasks))
        known = [done / total for done, total in measures if done is not None and total]
        return min(known[0], 1.0) if known else None

    def line(self, seconds: float) -> str:
        """Return one line: the counts, the percentage that is finished, and the estimated remaining time.

        Args:
            seconds: time since the stage began.
        """
        parts = []
        if self.tasks is not None:
            parts.append(_counted(self.tasks, self.total_tasks, self.unit))
        if self.rows is not None:
            parts.append(_counted(self.rows, self.total_rows, "rows"))
        if self.num_bytes is not None:
            parts.append(_of(_size(self.num_bytes), self.total_bytes and _size(self.total_bytes)))
        fraction = self.fraction
        if fraction is not None:
            parts.append(f"{fraction:.0%}")
        if fraction is not None and 0 < fraction < 1:
            parts.append(f"about {_time(max(1, seconds * (1 - fraction) / fraction))} left")
        else:
            parts.append(f"{_time(seconds)} so far")
        return f"{self.stage}: {', '.join(parts)}"


def _counted(done: int, total: int | None, unit: str) -> str:
    noun = unit.removesuffix("s") if (total or done) == 1 else unit
    return f"{_of(f'{done:,}', total and f'{total:,}')} {noun}"


def _of(done: str, total: str | int | None) -> str:
    return f"{done} of {total}" if total else done


def _size(num_bytes: int) -> str:
    return str(format_size(num_bytes, binary=True))


def _time(seconds: float) -> str:
    return str(format_timespan(round(seconds)))


Report = Callable[[Progress], object]
"""Receives the progress of an operation."""


class ProgressLines:
    """Turns reports into lines, at most one every few seconds."""

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start timing the first stage.

        Args:
            write: receives each line.
            interval_seconds: number of seconds between two lines, and before the first one.
            clock: returns the current time, in seconds.
        """
        self._write = write
        self._interval = interval_seconds
        self._clock = clock
        self._stage = ""
        self._stage_began = self._last = clock()

    def report(self, progress: Progress) -> None:
        """Write a line if enough time has passed since the last one."""
        now = self._clock()
        if progress.stage != self._stage:
            self._stage, self._stage_began = progress.stage, now
        if now - self._last >= self._interval:
            self._last = now
            self._write(progress.line(now - self._stage_began))
