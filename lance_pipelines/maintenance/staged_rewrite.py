"""The messages between the steps of a rewriting job: the plan, and the results.

``PlannedRewrite`` contains the version that the plan is based on. Workers read the old fragments at that version, and
the commit is checked for conflicts with all later versions.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.step_messages import StepMessage

__all__ = ["PlannedRewrite", "StagedRewrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRewrite(StepMessage):
    """The message from the plan step to the rewrite step.

    Attributes:
        rewrite_id: a UUID, the same for every attempt to commit this rewrite.
        dataset: the declaration's name.
        uri: the dataset's location.
        op: the operation, ``compact`` or ``materialize_deletions``.
        options: the compaction options; groups that conflict with other writers are planned again with them.
        tasks: the compaction tasks, each serialized by ``CompactionTask.json()``.
        before: statistics of the version that the plan is based on.
        stop_at: time, in seconds since the epoch, from which no further task is started; None for no limit.
        run_id: id of the run that made the plan.
        step_key: the key of the planning step in that run.
    """

    rewrite_id: str
    dataset: str
    uri: str
    op: str
    options: dict[str, Any]
    tasks: tuple[str, ...]
    before: TableHealth
    run_id: str
    step_key: str
    stop_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRewrite(StepMessage):
    """The output of the rewrite step. No version refers to the new files yet.

    Attributes:
        plan: the plan without its tasks, which are not needed: each result contains the fragments that it replaces.
        file_token: the name of every data file written ends in this token.
        results: the results of the tasks, each serialized by ``RewriteResult.json()``.
        left: number of tasks that were not started in time.
    """

    plan: PlannedRewrite
    file_token: str
    results: tuple[str, ...]
    left: int = 0

    @classmethod
    def of(cls, plan: PlannedRewrite, file_token: str, results: tuple[str, ...]) -> Self:
        """Return the message for a plan and its results."""
        left = len(plan.tasks) - len(results)
        return cls(plan=dataclasses.replace(plan, tasks=()), file_token=file_token, results=results, left=left)
