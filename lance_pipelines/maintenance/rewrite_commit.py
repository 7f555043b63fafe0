"""Commits rewritten fragments; groups of fragments that conflict with other writers are planned and rewritten again.

::

    results of the rewrite step
         |
         v
      commit -- lost groups ------------> plan them again on the latest version
         |  ^                                 |                      |
         |  |    nothing left to do <---------+                      | in Spark, while the
         |  |         |                                              | pool slot is held
         |  +---------|------------------- rewrite <-----------------+
         v            v
        outcome <-----+

A group is lost if another writer has replaced one of its fragments, or deleted or updated rows in it, since the plan
was made. The new files of the group are removed, because they would restore deleted rows. The other groups of the plan
are not affected. Groups that an earlier attempt of the step has committed are recognized.

If a target number of bytes per fragment is set, another round may follow: the size of merged fragments is known only
after they are written, and new fragments may be small enough to be merged again.

If the plan has a time limit, no round starts after it, unless nothing has been committed: the next run plans the rest.

The number of rounds is limited. Groups that still conflict after the last round are not rewritten; the next run tries
again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import lance_core
from lance_core.errors import (
    IncompatibleTransactionError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    NotSupportedError,
    TooMuchWriteContentionError,
    VersionNotFoundError,
)
from lance_core.optimize import RewriteResult, commit_rewrites, plan_again
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.maintenance.rewrite_plan import RewriteOperation, plan_rewrite, task_documents, without_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from lance_core.optimize import CompactionTask
    from lance_pipelines.maintenance.staged_rewrite import PlannedRewrite, StagedRewrite

    Open: TypeAlias = Callable[..., lance_core.LanceDataset]
    """Opens the latest version of the dataset, or the version that is passed as the argument ``version``."""

__all__ = [
    "DiscardFiles",
    "RewriteOutcome",
    "RewriteTasks",
    "Rewritten",
    "RowsLostError",
    "commit_staged_rewrite",
    "verify_row_counts",
]

_MAX_ROUNDS: Final = 8
"""Maximum number of rounds; groups that still conflict after the last round are left for the next run."""

_DEFINITE_FAILURES: Final = (IncompatibleTransactionError, InvalidInputError, NotFoundError, NotSupportedError)
"""Errors that would recur whenever the same files are committed."""


class RowsLostError(InvalidInputError):
    """A rewrite has more or fewer rows than the fragments that it replaces. Nothing was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The output of a plan's tasks.

    Attributes:
        file_token: the name of every data file written ends in this token.
        results: the results of the executed tasks, each serialized by ``RewriteResult.json()``.
    """

    file_token: str
    results: tuple[str, ...]


class RewriteTasks(Protocol):
    """Executes rewrite tasks in parallel: all of them, or those that are started in time, but at least one."""

    def __call__(self, uri: str, tasks: Sequence[str], /) -> Rewritten:
        """Execute the tasks, each serialized by ``CompactionTask.json()``."""


class DiscardFiles(Protocol):
    """Deletes the data files of one write."""

    def __call__(self, uri: str, file_token: str, /, *, keep: Iterable[str]) -> object:
        """Delete the files whose names end in the token, except the files in ``keep``."""


@dataclass(slots=True, kw_only=True)
class RewriteOutcome:
    """The result of a commit step, updated in every round.

    Attributes:
        version: the latest version known to the step.
        committed: results that are part of the dataset, including those of earlier attempts.
        conflicts: number of groups that conflicted with other writers, summed over the rounds.
        attempts: number of commit attempts.
        rounds: number of commit rounds, at least 1.
        unfinished: number of groups that still conflicted after the last round.
        left: number of groups that were not started in time.
    """

    version: int
    committed: list[RewriteResult] = field(default_factory=list)
    conflicts: int = 0
    attempts: int = 0
    rounds: int = 0
    unfinished: int = 0
    left: int = 0


def commit_staged_rewrite(
    staged: StagedRewrite,
    *,
    rewrite: RewriteTasks,
    discard: DiscardFiles,
    storage_options: dict[str, str] | None = None,
) -> RewriteOutcome:
    """Commit rewritten fragments, or find the version that an earlier attempt committed.

    Args:
        staged: the message of the rewrite step.
        rewrite: executes the tasks of another round.
        discard: deletes the files of this rewrite after a failure, if the files can no longer become part of a version.
        storage_options: credentials and settings of the dataset's store.

    Raises:
        TooMuchWriteContentionError: none of the groups could be committed.
        DatasetNotFoundError: the dataset no longer exists.
        CommitOutcomeUnknownError: a commit may have succeeded; nothing was deleted.
        StorageError: a storage operation failed; the files are kept for another attempt.
        LanceError: ``rewrite`` failed.
    """
    plan = staged.plan
    pending = Rewritten(file_token=staged.file_token, results=staged.results)
    outcome = RewriteOutcome(version=plan.before.version, left=staged.left)
    opened = partial(lance_core.dataset, plan.uri, storage_options=storage_options)
    while True:
        lost = _commit_round(plan, opened, pending, outcome, discard)
        tasks = _next_tasks(plan, opened, lost, outcome)
        if not tasks:
            return outcome
        if outcome.rounds == _MAX_ROUNDS:
            return _give_up(plan, outcome, len(tasks) if lost else 0)
        if outcome.committed and plan.stop_at is not None and time.time() >= plan.stop_at:
            outcome.left += len(tasks)
            return outcome
        pending = rewrite(plan.uri, task_documents(tasks))
        outcome.left += len(tasks) - len(pending.results)


def _commit_round(
    plan: PlannedRewrite, opened: Open, pending: Rewritten, outcome: RewriteOutcome, discard: DiscardFiles
) -> list[RewriteResult]:
    """Commit what can be committed, add it to the outcome, and return the results that must be written again."""
    dataset = opened()
    outcome.rounds += 1
    try:
        results = [RewriteResult.from_json(text) for text in pending.results]
        verify_row_counts(plan.uri, results)
        done = commit_rewrites(dataset, results, transaction_properties=_properties(plan))
    except _DEFINITE_FAILURES as error:
        _discard(plan, opened, pending.file_token, discard, error)
        raise
    outcome.version = max(dataset.version, done.version or 0)
    outcome.committed += done.committed
    outcome.attempts += done.attempts
    outcome.conflicts += len(done.lost)
    return done.lost


def verify_row_counts(uri: str, results: Sequence[RewriteResult]) -> None:
    """Check that each group has as many rows as the replaced fragments have live rows.

    Raises:
        RowsLostError: a group has a different number of rows; the message identifies the first such group.
    """
    for result in results:
        expected = sum(fragment.num_rows for fragment in result.original_fragments)
        found = sum(fragment.num_rows for fragment in result.new_fragments)
        if found != expected:
            fragment_ids = [fragment.id for fragment in result.original_fragments]
            raise RowsLostError(
                f"{uri}: fragments {fragment_ids} contain {amount(expected, 'row')}, but the fragments that replace "
                f"them contain {found}; rows were lost or written twice",
                uri=uri,
                expected=expected,
                found=found,
            )


def _next_tasks(
    plan: PlannedRewrite, opened: Open, lost: list[RewriteResult], outcome: RewriteOutcome
) -> list[CompactionTask]:
    """Return the tasks of another round, as of the latest version."""
    if lost:
        # The first plan was within the budget, or had only one task.
        return plan_again(opened(), lost, without_budget(plan.options)).tasks
    if not outcome.committed or "target_bytes_per_fragment" not in plan.options or "max_source_bytes" in plan.options:
        return []
    return _tasks_to_join(plan, opened, outcome)


def _tasks_to_join(plan: PlannedRewrite, opened: Open, outcome: RewriteOutcome) -> list[CompactionTask]:
    """Return the tasks that merge fragments of this rewrite with each other, or with older fragments.

    Older fragments are those that existed when the rewrite was planned. Fragments that other writers appended since
    then are left for the next run; otherwise, this run might never end.
    """
    try:
        planned = opened(version=plan.before.version)
    except VersionNotFoundError:
        return []
    further = plan_rewrite(opened(), RewriteOperation(plan.op), plan.options)
    ours = {file.path for result in outcome.committed for fragment in result.new_fragments for file in fragment.files}
    known = ours | planned.manifest.data_file_paths
    tasks = []
    for task in further.tasks:
        names = {file.path for fragment in task.fragments for file in fragment.files}
        if names <= known and not names.isdisjoint(ours):
            tasks.append(task)
    return tasks


def _give_up(plan: PlannedRewrite, outcome: RewriteOutcome, unfinished: int) -> RewriteOutcome:
    outcome.unfinished = unfinished
    if not outcome.committed:
        raise TooMuchWriteContentionError(
            f"{plan.uri}: giving up after {_MAX_ROUNDS} rounds, because other writers changed the fragments that were "
            "being rewritten; nothing was rewritten",
            uri=plan.uri,
            groups=unfinished,
        )
    return outcome


def _properties(plan: PlannedRewrite) -> dict[str, str]:
    return {
        "dagster.run_id": plan.run_id,
        "dagster.step_key": plan.step_key,
        "lance_pipelines.rewrite_id": plan.rewrite_id,
        "lance_pipelines.dataset": plan.dataset,
        "lance_pipelines.op": plan.op,
    }


def _discard(plan: PlannedRewrite, opened: Open, file_token: str, discard: DiscardFiles, error: LanceError) -> None:
    """Delete the files of one round, unless a version refers to them, or a removed version may have done so."""
    try:
        referenced = _referenced_since(opened(), plan.before.version)
        if referenced is not None:
            discard(plan.uri, file_token, keep=referenced)
    except LanceError as cleanup_error:
        # The commit's failure is the one to report; leftover files are unreferenced and have this token in their names.
        error.add_note(f"the files of this rewrite (file token {file_token}) could not be removed: {cleanup_error}")


def _referenced_since(dataset: lance_core.LanceDataset, version: int) -> frozenset[str] | None:
    """Return the data files of all versions after the given one; None if some of them no longer exist."""
    present = {ref["version"] for ref in dataset.version_refs()}
    versions = range(version + 1, dataset.version + 1)
    if not present.issuperset(versions):
        return None
    return frozenset().union(*(dataset.checkout_version(number).manifest.data_file_paths for number in versions))
