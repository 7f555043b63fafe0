"""Builds indices on a branch of the dataset, and commits them exactly once.

::

    plan (version r)
         |
         v
    create a branch from version r  <---------------------------+
         |                                                      | plan again on
    pylance builds and updates indices on the branch            | the latest version
         |                                                      |
    check what they cover; copy their files to the dataset      |
         |                                                      |
    commit, read version r ------------ retryable conflict -----+
         |
    delete the branch

pylance itself commits every index that it builds, even if its column was dropped in the meantime, and without
properties that identify the run. On a branch, these commits affect nobody else. The branch also protects version r from
cleanups. The branch is created and deleted by the same run; if the run is killed, a later run deletes the branch.

A commit of an index conflicts only with rewrites of the fragments that it covers, with other changes of the same
indices, and with changes that replace the table. Rows that others append in the meantime are not covered, and rows that
others delete require no change to an index.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import lance_core
from lance_core import LanceOperation, Transaction
from lance_core.errors import (
    CommitConflictError,
    InvalidInputError,
    LanceError,
    RefNotFoundError,
    RetryableCommitConflictError,
    StorageError,
    TooMuchWriteContentionError,
    VersionNotFoundError,
)
from lance_core.metadata import branch_indices, commit_transaction, index_coverage
from lance_pipelines.maintenance.index_plan import (
    IndexAction,
    IndexForecast,
    IndexOperation,
    IndexWork,
    PlannedIndices,
    StagedIndices,
)
from lance_pipelines.maintenance.index_report import IndexReport
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.maintenance.pylance_indices import PylanceBranch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from lance_pipelines.maintenance.index_declaration import IndexDeclaration

    Open: TypeAlias = Callable[..., lance_core.LanceDataset]
    """Opens the latest version of the dataset, or the version that is passed as the argument ``version``."""

__all__ = ["commit_staged_indices", "remove_leftover_branches", "stage_indices"]

_MAX_ROUNDS: Final = 4
"""Maximum number of attempts to change the indices; after the last conflict, the step fails, and may be retried."""

_PREFIX: Final = "lance-pipelines-index-"
"""Prefix of the branches on which indices are staged; the id of the run and the number of the round follow."""

_ID_PROPERTY: Final = "lance_pipelines.update_id"


def stage_indices(
    plan: PlannedIndices,
    declared: Sequence[IndexDeclaration],
    *,
    storage_options: dict[str, str] | None = None,
    number: int = 0,
) -> StagedIndices:
    """Build and update the indices of a plan on a branch, and copy their files to the dataset.

    Args:
        plan: the plan.
        declared: the declared indices.
        storage_options: credentials and settings of the dataset's store.
        number: number of times that the work has been done before.

    Raises:
        NotSupportedError: pylance is not installed.
        InvalidInputError: pylance rejects an index or a parameter.
        VersionNotFoundError: the version of the plan has been removed.
        StorageError: a storage operation failed, or an index does not cover all rows afterward.
    """
    origin = lance_core.dataset(plan.uri, version=plan.version, storage_options=storage_options)
    branch = f"{_PREFIX}{plan.run_id}.{number}"
    _remove_branch(origin, branch)  # of an earlier attempt of the step
    origin.create_branch(branch)
    began = time.monotonic()
    try:
        _work_on(PylanceBranch(plan.uri, branch, storage_options), plan, declared)
        on_branch = origin.checkout_version((branch, None))
        _verify_coverage(plan, on_branch)
        built = branch_indices(origin, on_branch)
        if not built.new:
            raise StorageError(f"{plan.uri}: pylance changed no index; its log may contain the reason")
        built.copy_files()
    except BaseException:
        with suppress(LanceError):
            _remove_branch(origin, branch)
        raise
    return StagedIndices(plan=plan, branch=branch, seconds=time.monotonic() - began)


def commit_staged_indices(
    staged: StagedIndices, declared: Sequence[IndexDeclaration], *, storage_options: dict[str, str] | None = None
) -> IndexReport:
    """Commit indices that were built on a branch, or find the version that an earlier attempt committed.

    After a conflict, the work is planned again on the latest version and repeated.

    Args:
        staged: the message of the build step.
        declared: the declared indices.
        storage_options: credentials and settings of the dataset's store.

    Raises:
        TooMuchWriteContentionError: other writers changed the same fragments or indices in every round.
        IncompatibleTransactionError: another writer replaced the table.
        SchemaMismatchError: an indexed column no longer exists.
        DatasetNotFoundError: the dataset no longer exists.
        CommitOutcomeUnknownError: the indices may have been committed; nothing was deleted.
        LanceError: as for :func:`stage_indices`, if the work is repeated.
    """
    opened = partial(lance_core.dataset, staged.plan.uri, storage_options=storage_options)
    for number in range(1, _MAX_ROUNDS + 1):
        latest = opened()
        earlier = _find_commit(staged.plan, latest)
        if earlier is not None:
            _remove_branch(latest, staged.branch)
            return _report(staged, opened(version=earlier), conflicts=number - 1, repeated=True)
        try:
            version = _commit(staged, latest, number)
        except RetryableCommitConflictError:
            _remove_branch(latest, staged.branch)
            if number == _MAX_ROUNDS:
                break
        except (CommitConflictError, InvalidInputError):
            _remove_branch(latest, staged.branch)
            raise
        else:
            _remove_branch(latest, staged.branch)
            return _report(staged, opened(version=version), conflicts=number - 1, repeated=False)
        plan = _plan_again(staged.plan, declared, opened())
        if not plan.works:
            return IndexReport(
                uri=plan.uri, op=plan.op.value, read_version=staged.plan.version, version=plan.version, conflicts=number
            )
        again = stage_indices(plan, declared, storage_options=storage_options, number=number)
        staged = replace(again, seconds=staged.seconds + again.seconds)
    raise TooMuchWriteContentionError(
        f"{staged.plan.uri}: other writers rewrote the indexed fragments or changed the indices {_MAX_ROUNDS} times in "
        "a row; no index was changed",
        uri=staged.plan.uri,
    )


def remove_leftover_branches(
    uri: str, is_over: Callable[[str, int], bool], *, storage_options: dict[str, str] | None = None
) -> list[str]:
    """Delete the branches of runs that were killed while they worked on indices; return their names.

    Args:
        uri: the dataset's location.
        is_over: called with the id of a run and the time at which its branch was created, in seconds since the epoch;
            returns whether the run has ended.
        storage_options: credentials and settings of the dataset's store.
    """
    dataset = lance_core.dataset(uri, storage_options=storage_options)
    removed = []
    for name, branch in dataset.branches.list().items():
        if name.startswith(_PREFIX):
            run_id = name.removeprefix(_PREFIX).rpartition(".")[0]
            if is_over(run_id, branch["create_at"]):
                _remove_branch(dataset, name)
                removed.append(name)
    return removed


def _work_on(branch: PylanceBranch, plan: PlannedIndices, declared: Sequence[IndexDeclaration]) -> None:
    wanted = {index.name: index for index in declared}
    for work in plan.works:
        if work.action in (IndexAction.BUILD, IndexAction.REPLACE):
            if work.name not in wanted:
                raise InvalidInputError(
                    f"{plan.uri}: index {work.name!r} is planned, but no longer declared; start a new run"
                )
            branch.build(wanted[work.name])
    for action in (IndexAction.UPDATE, IndexAction.RETRAIN):
        names = [work.name for work in plan.works if work.action is action]
        if names:
            branch.update(names, retrain=action is IndexAction.RETRAIN)


def _verify_coverage(plan: PlannedIndices, branch: lance_core.LanceDataset) -> None:
    """Check that the changed indices cover all rows: pylance skips an index that it cannot read."""
    built = {index.name: index for index in index_coverage(branch)}
    for work in plan.works:
        index = built.get(work.name)
        if index is None or index.unindexed_fragments:
            num_left = 0 if index is None else len(index.unindexed_fragments)
            left = "it does not exist" if index is None else f"{amount(num_left, 'fragment')} not indexed"
            raise StorageError(
                f"{plan.uri}: pylance did not {work.action} index {work.name!r} ({left}); its log may contain the "
                "reason. To rebuild a damaged index, run build_index with replace",
                index=work.name,
            )


def _commit(staged: StagedIndices, latest: lance_core.LanceDataset, number: int) -> int:
    plan = staged.plan
    origin = latest.checkout_version(plan.version)
    built = branch_indices(origin, latest.checkout_version((staged.branch, None)))
    transaction = Transaction(
        read_version=plan.version,
        operation=built.operation,
        uuid=str(uuid.uuid5(uuid.UUID(plan.update_id), str(number))),
        transaction_properties={
            "dagster.run_id": plan.run_id,
            "dagster.step_key": plan.step_key,
            "lance_pipelines.dataset": plan.dataset,
            "lance_pipelines.op": plan.op.value,
            _ID_PROPERTY: plan.update_id,
        },
    )
    return commit_transaction(latest, transaction)


def _find_commit(plan: PlannedIndices, latest: lance_core.LanceDataset) -> int | None:
    for version in range(latest.version, plan.version, -1):
        try:
            transaction = latest.read_transaction(version)
        except VersionNotFoundError:
            return None
        properties = None if transaction is None else transaction.transaction_properties
        if properties and properties.get(_ID_PROPERTY) == plan.update_id:
            return version
    return None


def _plan_again(
    plan: PlannedIndices, declared: Sequence[IndexDeclaration], latest: lance_core.LanceDataset
) -> PlannedIndices:
    """Return the plan for the same indices on the latest version; an index that was dropped is left out."""
    existing = {index.name for index in index_coverage(latest)} | {index.name for index in declared}
    works: list[IndexWork] = []
    for work in plan.works:
        if work.name in existing:
            anew = work.action is IndexAction.RETRAIN or plan.op is IndexOperation.BUILD
            again = IndexForecast.of(latest, declared, plan.op, names=[work.name], anew=anew)
            works += again.works
    return replace(plan, version=latest.version, works=tuple(works))


def _report(staged: StagedIndices, dataset: lance_core.LanceDataset, *, conflicts: int, repeated: bool) -> IndexReport:
    transaction = dataset.read_transaction(dataset.version)
    operation = None if transaction is None else transaction.operation
    new = operation.new_indices if isinstance(operation, LanceOperation.CreateIndex) else []
    return IndexReport.of(
        staged.plan,
        dataset,
        bytes_written=sum(file.size_bytes for index in new for file in index.files or []),
        seconds=staged.seconds,
        conflicts=conflicts,
        repeated=repeated,
    )


def _remove_branch(dataset: lance_core.LanceDataset, branch: str) -> None:
    with suppress(RefNotFoundError):
        dataset.branches.delete(branch)
