"""Performs a compaction in one call: plans, executes, and commits, and repeats these steps for groups with conflicts.

Every round commits the intact groups. Only groups that another writer changed are planned again, based on the latest
version; fragments that other writers have appended in the meantime are left for the next compaction. The number of
rounds is limited: if another writer never pauses, some groups may remain uncompacted.

Committed groups stay committed. If a later round fails while groups remain to be compacted, the error has a note about
the committed groups. If it fails when no groups remain, the compaction has succeeded.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, Final

from lance_core.compaction.commit_rewrites import commit_own_rewrites
from lance_core.compaction.plan import make_plan
from lance_core.compaction.result import CompactionMetrics
from lance_core.errors import CommitOutcomeUnknownError, LanceError, NotFoundError, RetryableCommitConflictError
from lance_core.write.fragment_writer import remove_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_core.compaction.commit_rewrites import RewriteCommit
    from lance_core.compaction.plan import CompactionPlan
    from lance_core.compaction.result import RewriteResult
    from lance_core.scan.table_view import Handle, TableView

__all__ = ["compact", "plan_again"]

_logger: Final = logging.getLogger(__name__)

_MAX_ROUNDS: Final = 10
"""Maximum number of rounds; groups that still conflict after the last round are left for the next compaction."""


def plan_again(dataset: Handle, lost: Iterable[RewriteResult], options: Mapping[str, Any]) -> CompactionPlan:
    """Plan a new compaction of groups that had conflicts, based on the latest version.

    Args:
        dataset: a handle to any version of the dataset.
        lost: the groups that had conflicts; only their fragments that still exist are planned.
        options: the options of the first plan.

    Raises:
        LanceError: as for :meth:`Compaction.plan`.
    """
    ids = {fragment.id for result in lost for fragment in result.original_fragments}
    return _plan_on_latest(dataset.view, options, ids)


def _plan_on_latest(view: TableView, options: Mapping[str, Any], only: set[int] | None = None) -> CompactionPlan:
    return make_plan(view.latest(), options, only=only)


def compact(dataset: Handle, options: Mapping[str, Any], properties: Mapping[str, str] | None) -> CompactionMetrics:
    """Compact a dataset; see :meth:`~lance_core.compaction.optimizer.DatasetOptimizer.compact_files`."""
    done: list[RewriteResult] = []
    lost: list[RewriteResult] = []
    outdated: NotFoundError | None = None
    # The view is obtained before anything is read: a cleanup may remove the version in the meantime.
    view = dataset.view
    _logger.debug("%s: compacting version %d (branch identity: %s)", view.uri, view.version, view.line)
    plan = make_plan(view, options)
    ours = {fragment.id for fragment in view.manifest.message.fragments}
    for _ in range(_MAX_ROUNDS):
        if not plan.tasks:
            outdated = None
            break
        try:
            outcome = _execute_and_commit(dataset, plan, properties)
            done += outcome.committed
            lost = outcome.lost
            ours |= _ids_of_new(dataset.view, outcome)
            if not lost and plan.options.has_budget:
                break
            # If nothing was lost, this plan is usually empty. But only now is the size of the rewritten rows known, and
            # fragments that different indices covered can be merged now. Fragments that others have appended in the
            # meantime are not included.
            plan = plan_again(dataset, lost, options) if lost else make_plan(dataset.view, options, only=ours)
        except NotFoundError as error:
            # A cleanup may have removed the files of the version on which the compaction was planned.
            latest = view.log.latest()
            if latest is None or latest.version <= plan.read_version:
                _pass_on(error, dataset.view, done, lost)
                break
            plan, outdated = _plan_on_latest(dataset.view, options), error
        except LanceError as error:
            _pass_on(error, dataset.view, done, lost)
            break
        else:
            outdated = None
    if (lost or outdated) and not done:
        raise RetryableCommitConflictError(
            f"{view.uri}: nothing was compacted, because other writers changed or removed fragments of every group",
            path=view.uri,
        ) from outdated
    return CompactionMetrics.sum(result.metrics for result in done)


def _pass_on(error: LanceError, view: TableView, done: list[RewriteResult], lost: list[RewriteResult]) -> None:
    """Raise the error of a round, unless everything that was requested has already been committed."""
    if not done:
        raise error
    if lost or isinstance(error, CommitOutcomeUnknownError):
        ids = [fragment.id for result in done for fragment in result.original_fragments]
        error.add_note(
            "part of the compaction was committed before the failure "
            f"(compacted fragments: {len(ids)}, latest version: {view.version}); "
            f"groups that were not compacted because other writers changed them: {len(lost)}"
        )
        raise error
    _logger.warning(
        "%s: the compaction was committed, but its new fragments could not be merged further: %s", view.uri, error
    )


def _ids_of_new(view: TableView, outcome: RewriteCommit) -> set[int]:
    """Return the ids that were assigned to the new fragments of a commit."""
    names = {name for result in outcome.committed for name in result.new_file_names()}
    return {
        fragment.id
        for fragment in view.manifest.message.fragments
        if any(file.path in names for file in fragment.files)
    }


def _execute_and_commit(dataset: Handle, plan: CompactionPlan, properties: Mapping[str, str] | None) -> RewriteCommit:
    view = dataset.view if dataset.view.version == plan.read_version else dataset.view.at(plan.read_version)
    return commit_own_rewrites(dataset, _execute(view, plan), properties)


def _execute(view: TableView, plan: CompactionPlan) -> list[RewriteResult]:
    """Execute all tasks, several at a time if requested; if a task fails, remove the files of all tasks."""
    results: list[RewriteResult] = []
    num_threads = plan.options.num_threads or 1
    try:
        if num_threads == 1:
            for task in plan.tasks:
                results.append(task.run(view))  # noqa: PERF401  # those before a failure are needed
            return results
        with ThreadPoolExecutor(max_workers=num_threads) as executor:
            futures = [executor.submit(task.run, view) for task in plan.tasks]
            try:
                for future in as_completed(futures):
                    results.append(future.result())  # noqa: PERF401  # as above
            except BaseException:
                executor.shutdown(wait=True, cancel_futures=True)
                finished = [future for future in futures if not future.cancelled() and future.exception() is None]
                results = [future.result() for future in finished]
                raise
        return [future.result() for future in futures]
    except BaseException:
        _remove(view, results)
        raise


def _remove(view: TableView, results: Iterable[RewriteResult]) -> None:
    """Remove the new files of tasks that will never be committed."""
    names = [name for result in results for name in result.new_file_names()]
    remove_data_files(view.log.store, view.log.root, names)
