"""The outcome of the runs that a sensor requested, and when the next run is due.

A requested run may fail, or may end without completing the work. All runs requested for the same work have the same
value of the tag ``lance/work``.

If the first run does not complete the work, the next run is requested after a pause of ten minutes. Each further pause
is twice as long as the previous one, up to one day. Thus, a temporary problem causes little delay, and a permanent one
causes only one run a day.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

import dagster as dg

from lance_pipelines.runs.dead_runs import fail_dead_runs
from lance_pipelines.runs.silent_runs import is_silent

__all__ = ["WORK_TAG", "Attempts"]

WORK_TAG: Final = "lance/work"
"""Run tag: identifies the work for which the run was requested."""

FIRST_PAUSE_SECONDS: Final = 600
MAX_PAUSE_SECONDS: Final = 86_400

_OUTCOMES: Final[Mapping[dg.DagsterRunStatus, str]] = MappingProxyType(
    {
        dg.DagsterRunStatus.SUCCESS: "did not complete the work",
        dg.DagsterRunStatus.FAILURE: "failed",
        dg.DagsterRunStatus.CANCELED: "was canceled",
    }
)
"""Maps the final status of a run to the words that describe it in messages about work that is still due."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """The runs that were requested for the same work.

    Attributes:
        work: identifies the work; the runs' value of the tag :data:`WORK_TAG`.
        number: the number of runs.
        latest: the latest run; None if there is none.
    """

    work: str
    number: int
    latest: dg.RunRecord | None

    @classmethod
    def find(cls, instance: dg.DagsterInstance, work: str) -> "Attempts":
        """Find the runs in the Dagster instance.

        Args:
            instance: the Dagster instance.
            work: the runs' value of the tag :data:`WORK_TAG`.
        """
        filters = dg.RunsFilter(tags={WORK_TAG: work})
        found = instance.get_run_records(filters, limit=1)
        if found and not found[0].dagster_run.is_finished and fail_dead_runs(instance):
            found = instance.get_run_records(filters, limit=1)
        return cls(work, instance.get_runs_count(filters), found[0] if found else None)

    def is_under_way(self, instance: dg.DagsterInstance) -> bool:
        """Return whether the latest run has not ended and has not been silent for too long."""
        if self.latest is None or self.latest.dagster_run.is_finished:
            return False
        return not is_silent(instance, self.latest.dagster_run)

    def pause(self, now: float) -> str | None:
        """Return the reason to wait before the next attempt; None if there was no attempt, or if the pause is over.

        Args:
            now: the current time, in seconds since the epoch.
        """
        if self.latest is None or not self.latest.dagster_run.is_finished:
            return None
        seconds = min(FIRST_PAUSE_SECONDS * 2 ** (self.number - 1), MAX_PAUSE_SECONDS)
        ended_at = self.latest.end_time or self.latest.update_timestamp.timestamp()
        if now >= ended_at + seconds:
            return None
        run = self.latest.dagster_run
        return (
            f"run {run.run_id} {_OUTCOMES[run.status]}, and the next run will be requested after "
            f"{datetime.fromtimestamp(ended_at + seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
        )

    @property
    def run_key(self) -> str:
        """The key of the next run; it changes after each attempt, but not between repeated requests."""
        return self.work if self.latest is None else f"{self.work}:after {self.latest.dagster_run.run_id}"
