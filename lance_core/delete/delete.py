"""Deletes rows: writes deletion files, commits, and plans again after a conflict.

::

    plan      based on the version of the handle; after a conflict, based on the latest version
    write     one deletion file for each fragment that keeps some rows; no version refers to the file yet
    commit    merge with concurrent deletes of other rows; after any other conflict, plan again

A crash before the commit leaves the table unchanged; a later cleanup removes the new deletion files. After a failure or
an interrupt, the files are removed immediately, unless a version may refer to them. A delete that matches no rows also
creates a version, unless ``only_if_found`` is set.

Source: behavior of pylance 14.0.2.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypedDict

import numpy as np

from lance_core.commit.commit import commit_change
from lance_core.commit.replanning import Replanning
from lance_core.delete.plan import DeletePlanner, plan_fragment, plan_rows
from lance_core.errors import InvalidInputError
from lance_core.io.removal import remove_objects
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.table.deletion_file import (
    BITMAP_THRESHOLD_ROWS,
    DeletionFileType,
    write_deletion_file,
)
from lance_core.table.feature_flags import require_writable
from lance_core.table.fragment_files import own_deletion_path
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.options import CommitOptions
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from pyroaring import BitMap

    from lance_core.commit.replanning import RetryPolicy
    from lance_core.delete.plan import DeletePlan, FragmentDelete
    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.operation import Operation

__all__ = [
    "DeleteResult",
    "Deleted",
    "commit_delete",
    "commit_plan",
    "delete_from_fragment",
    "delete_rows",
    "delete_rows_at",
    "write_deletions",
]

_WRITER_THREADS: Final = 16


class DeleteResult(TypedDict):
    """What ``LanceDataset.delete`` returns.

    Attributes:
        num_deleted_rows: the number of rows that matched the predicate.
    """

    num_deleted_rows: int


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a delete: a new version, or none if no row matched and the caller set ``only_if_found``.

    Attributes:
        view: the version that the delete created; if it created none, the version in which no row matched.
        plan: the plan that was executed, including the version that it is based on.
        attempts: the number of times that the delete was planned.
    """

    view: TableView
    plan: DeletePlan
    attempts: int = 1

    @property
    def version(self) -> int:
        """The number of the version that the delete created, or in which no row matched."""
        return self.view.version


def delete_rows(
    view: TableView,
    predicate: object,
    policy: RetryPolicy,
    *,
    properties: Mapping[str, str] | None = None,
    only_if_found: bool = False,
) -> Deleted:
    """Delete the rows that match a predicate.

    A delete that created a version is repeated if it is unknown whether newer versions are based on that version; this
    is safe, because no row can be deleted twice. If the repetition finds no rows, it creates no version, and the result
    contains the plan of the previous attempt.

    Args:
        view: the version to base the plan on.
        predicate: the rows to delete, as SQL text or an Arrow expression.
        policy: the limits on retries after a conflict.
        properties: the properties of the transaction.
        only_if_found: whether to create no version if no row matches; the result then contains the version in which no
            row matched.

    Raises:
        InvalidInputError: the predicate is invalid, or cannot be evaluated for a row.
        NotSupportedError: the table or a part of the predicate is not supported.
        IncompatibleTransactionError: the table was replaced in the meantime.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    policy.check()
    planner = DeletePlanner(predicate)
    attempts = Replanning(view, "delete", policy, is_idempotent=True)
    plan: DeletePlan | None = None
    while True:
        with attempts as latest:
            found = _plan(latest, planner)
            last = plan if attempts.unknown is not None else None
            if not found.rows_deleted and (only_if_found or last is not None):
                return Deleted(latest, last or found, attempts.number)
            plan = found
            options = CommitOptions(checks_files=False, is_first_try=True)
            made = commit_plan(latest, plan, Delete(predicate=plan.predicate), options, properties)
            return Deleted(made, plan, attempts.number)


def _plan(view: TableView, planner: DeletePlanner) -> DeletePlan:
    require_writable(view.manifest.message)
    return planner.plan(view, view.fragments)


def commit_delete(
    view: TableView,
    planner: DeletePlanner,
    options: CommitOptions,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
    *,
    only_if_found: bool = False,
    written: Mapping[int, Fragment] = MappingProxyType({}),
) -> Deleted:
    """Plan a delete on a version, and commit it.

    The arguments are those of :func:`delete_rows` and :func:`commit_plan`.

    Raises:
        RetryableCommitConflictError: another writer has changed the same rows; plan again on the latest version.
    """
    plan = _plan(view, planner)
    if only_if_found and not plan.rows_deleted:
        return Deleted(view, plan)
    made = commit_plan(
        view, plan, Delete(predicate=plan.predicate), options, properties, transaction_uuid, written=written
    )
    return Deleted(made, plan)


def commit_plan(
    view: TableView,
    plan: DeletePlan,
    operation: Operation,
    options: CommitOptions,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
    *,
    written: Mapping[int, Fragment] = MappingProxyType({}),
) -> TableView:
    """Write the deletion files of a plan, and commit them as part of an operation; return the new version.

    After a failure, the deletion files are removed, unless a version may refer to them.

    Args:
        view: the version that the plan is based on.
        plan: the rows to delete.
        operation: the operation, to which the deletions are added.
        options: the options of the commit; those that follow from the view and the plan are added.
        properties: the properties of the transaction.
        transaction_uuid: the UUID of the transaction; a new one if None.
        written: fragments whose deletion files other processes have already written, keyed by id.

    Raises:
        RetryableCommitConflictError: the change must be planned again.
        LanceError: as for :func:`~lance_core.commit.commit.commit`.
    """
    log = view.log
    found = {delete.fragment.id: delete.found for delete in plan.deletes if delete.found is not None}
    updated = tuple(written.values())
    try:
        updated += write_deletions(log, plan, known=written)
        return commit_change(
            view,
            operation.with_hidden_rows(updated, plan.dropped_ids),
            replace(options, affected_rows=found),
            properties=properties,
            transaction_uuid=transaction_uuid,
        )
    finally:
        # If the change was merged with another one, the merge wrote new files.
        progress = options.progress
        if progress.made is not None:
            _remove(log, updated, kept=(progress.made,))
        elif progress.attempted or not progress.may_be_committed:
            _remove(log, updated, kept=progress.attempted if progress.may_be_committed else ())


def _write_deletion(log: VersionLog, read_version: int, delete: FragmentDelete, *, durable: bool = True) -> Fragment:
    """Write the deletion file of a fragment that keeps some of its rows; return the fragment with its new file.

    Args:
        log: the dataset's versions.
        read_version: the version that the delete was planned on.
        delete: the changes to the fragment.
        durable: whether to make the file durable immediately; if not, the commit that refers to the file does so.

    Raises:
        StorageError: a storage operation failed.
    """
    fragment = delete.fragment
    if delete.deleted is None:
        raise InvalidInputError(
            f"fragment {fragment.id} would have no rows left; it must be dropped instead of getting a deletion file"
        )
    message = write_deletion_file(
        log.store,
        log.root,
        fragment_id=fragment.id,
        read_version=read_version,
        offsets=delete.deleted,
        as_bitmap=_stays_bitmap(fragment, delete.deleted),
        durable=durable,
    )
    return fragment.with_deletion(message)


def delete_from_fragment(view: TableView, fragment: Fragment, predicate: object) -> Fragment | None:
    """Delete the rows of one fragment that match a predicate, without creating a version.

    Returns:
        The fragment with its new deletion file; the given fragment if no row matches; None if no rows remain.

    Raises:
        InvalidInputError: the predicate is invalid, or cannot be evaluated for a row.
        NotSupportedError: a part of the predicate, or a feature that writers of the table need, is not supported.
        StorageError: a storage operation failed.
    """
    require_writable(view.manifest.message)
    plan = plan_rows(view, (fragment,), predicate)
    if not plan.deletes:
        return fragment
    (delete,) = plan.deletes
    return None if delete.is_dropped else _write_deletion(view.log, view.version, delete)


def delete_rows_at(view: TableView, fragment: Fragment, positions: Sequence[int]) -> Fragment | None:
    """Delete the rows of one fragment at some physical positions, without creating a version.

    Returns:
        As for :func:`delete_from_fragment`; rows that are already deleted are ignored.

    Raises:
        InvalidInputError: the fragment has no row at a position.
        StorageError: a storage operation failed.
    """
    require_writable(view.manifest.message)
    if positions and not 0 <= min(positions) <= max(positions) < fragment.physical_rows:
        raise InvalidInputError(
            f"fragment {fragment.id} has {counted(fragment.physical_rows, 'row')}; the positions to delete range from "
            f"{min(positions)} to {max(positions)}",
            fragment=fragment.id,
        )
    reader = FragmentReader(fragment, view.locator, session=view.session)
    deleted = reader.deleted_rows()
    found = np.setdiff1d(np.array(positions, np.int64), deleted)
    if not len(found):
        return fragment
    delete = plan_fragment(fragment, reader.num_live_rows, deleted, found)
    return None if delete.is_dropped else _write_deletion(view.log, view.version, delete)


def _stays_bitmap(fragment: Fragment, deleted: BitMap) -> bool | None:
    """Return whether the new file is a bitmap; None if the fragment has no deletion file."""
    before = fragment.deletion_file
    if before is None:
        return None
    return before.file_type is DeletionFileType.BITMAP or len(deleted) > BITMAP_THRESHOLD_ROWS


def write_deletions(log: VersionLog, plan: DeletePlan, *, known: Collection[int] = frozenset()) -> tuple[Fragment, ...]:
    """Write the deletion files of a plan, and return the fragments that keep rows; after a failure, no files remain.

    Args:
        log: the dataset's versions.
        plan: the rows to delete.
        known: the ids of fragments to leave out, whose files exist already.
    """
    changed = [delete for delete in plan.deletes if not delete.is_dropped and delete.fragment.id not in known]
    if len(changed) < 2 or not log.store.capabilities.read_costs.request_seconds:
        return _written_in_turn(log, plan.read_version, changed)
    futures: list[Future[Fragment]] = []
    with ThreadPoolExecutor(max_workers=_WRITER_THREADS) as executor:
        try:
            for delete in changed:
                written = executor.submit(_write_deletion, log, plan.read_version, delete, durable=False)
                futures.append(written)
            return tuple(future.result() for future in futures)
        except BaseException:
            executor.shutdown(wait=True, cancel_futures=True)
            _remove(log, [future.result() for future in futures if not future.cancelled() and not future.exception()])
            raise


def _written_in_turn(log: VersionLog, read_version: int, changed: Iterable[FragmentDelete]) -> tuple[Fragment, ...]:
    """Write the files one after another, because threads are slower if no write waits for a response or a sync."""
    written: list[Fragment] = []
    try:
        for delete in changed:
            # After a failure, the list contains the files to remove.
            written.append(_write_deletion(log, read_version, delete, durable=False))  # noqa: PERF401
    except BaseException:
        _remove(log, written)
        raise
    return tuple(written)


def _remove(log: VersionLog, fragments: Iterable[Fragment], kept: Iterable[Manifest] = ()) -> None:
    """Remove the deletion files of fragments, except those to which versions refer; failures are ignored."""
    needed = {own_deletion_path(log.store, log.root, each) for manifest in kept for each in manifest.fragments}
    paths = [own_deletion_path(log.store, log.root, fragment) for fragment in fragments]
    remove_objects(log.store, [path for path in paths if path is not None and path not in needed])
