"""What became of the runs that a sensor asked for, and when the next one is due.

Whether a run was asked for is not enough to know: it may have failed, or have left work behind. All runs that were
asked for the same work carry one tag. After the first one that did not do it the next is asked for ten minutes later,
and every pause is twice the one before, up to a day: what passes by itself is over soon, what does not costs a run a
day.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

import dagster as dg

from lance_pipelines.dead_runs import fail_dead_runs
from lance_pipelines.silent_runs import is_silent

__all__ = ["WORK_TAG", "Attempts"]

WORK_TAG: Final = "lance/work"
"""Run tag: the work that the run was asked for."""

FIRST_PAUSE_SECONDS: Final = 600
MAX_PAUSE_SECONDS: Final = 86_400

_OUTCOMES: Final[Mapping[dg.DagsterRunStatus, str]] = MappingProxyType(
    {
        dg.DagsterRunStatus.SUCCESS: "left work behind",
        dg.DagsterRunStatus.FAILURE: "failed",
        dg.DagsterRunStatus.CANCELED: "was canceled",
    }
)
"""How a run that ended did, if the work is still there."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """The runs that were asked for one piece of work.

    Attributes:
        work: what they were asked for, the value of their tag.
        number: how many there are.
        latest: the latest; None when there is none.
    """

    work: str
    number: int
    latest: dg.RunRecord | None

    @classmethod
    def find(cls, instance: dg.DagsterInstance, work: str) -> "Attempts":
        """Those that the instance knows.

        Args:
            instance: knows runs.
            work: the value of their tag.
        """
        filters = dg.RunsFilter(tags={WORK_TAG: work})
        found = instance.get_run_records(filters, limit=1)
        if found and not found[0].dagster_run.is_finished and fail_dead_runs(instance):
            found = instance.get_run_records(filters, limit=1)
        return cls(work, instance.get_runs_count(filters), found[0] if found else None)

    def is_under_way(self, instance: dg.DagsterInstance) -> bool:
        """Whether the latest has not ended, and is not silent for so long that it never will."""
        if self.latest is None or self.latest.dagster_run.is_finished:
            return False
        return not is_silent(instance, self.latest.dagster_run)

    def pause(self, now: float) -> str | None:
        """What is waited for before the next attempt; None when there was none, or the pause is over.

        Args:
            now: seconds since the epoch.
        """
        if self.latest is None or not self.latest.dagster_run.is_finished:
            return None
        seconds = min(FIRST_PAUSE_SECONDS * 2 ** (self.number - 1), MAX_PAUSE_SECONDS)
        ended_at = self.latest.end_time or self.latest.update_timestamp.timestamp()
        if now >= ended_at + seconds:
            return None
        run = self.latest.dagster_run
        return (
            f"run {run.run_id} {_OUTCOMES[run.status]}, the next is asked for after "
            f"{datetime.fromtimestamp(ended_at + seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
        )

    @property
    def run_key(self) -> str:
        """The key of the next run: another after each attempt, and the same however often it is asked for."""
        return self.work if self.latest is None else f"{self.work}:after {self.latest.dagster_run.run_id}"
