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

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from lance_core.commit.commit import commit
from lance_core.delete.plan import plan_rows
from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    InvalidTypeError,
    NotFoundError,
    RetryableCommitConflictError,
    TooMuchWriteContentionError,
)
from lance_core.io.removal import remove_all, remove_objects
from lance_core.public.arguments import whole_number
from lance_core.table.deletion_file import (
    BITMAP_THRESHOLD_ROWS,
    DeletionFileType,
    deletion_file_path,
    write_deletion_file,
)
from lance_core.table.feature_flags import require_writable
from lance_core.transactions.backoff import SlotBackoff
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.options import CommitOptions, CommitProgress
from lance_core.transactions.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from concurrent.futures import Future

    from pyroaring import BitMap

    from lance_core.delete.plan import DeletePlan, FragmentDelete
    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = [
    "DEFAULT_CONFLICT_RETRIES",
    "DEFAULT_RETRY_TIMEOUT",
    "Deleted",
    "RetryPolicy",
    "delete_from_fragment",
    "delete_rows",
]

DEFAULT_CONFLICT_RETRIES: Final = 10
DEFAULT_RETRY_TIMEOUT: Final = timedelta(seconds=30)

_WRITER_THREADS: Final = 16
_MANY_FILES: Final = 8
"""Minimum number of deletion files for which several threads are used; each write waits for a sync or a request."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits how often, and for how long, a delete is planned again after conflicts.

    Attributes:
        retries: the maximum number of times that the delete is planned again.
        timeout: the delete is not planned again once this much time has passed.
    """

    retries: int = DEFAULT_CONFLICT_RETRIES
    timeout: timedelta = DEFAULT_RETRY_TIMEOUT

    def check(self) -> None:
        """Check the values.

        Raises:
            InvalidInputError: ``retries`` or ``timeout`` is negative.
            InvalidTypeError: ``retries`` is not a whole number, or ``timeout`` is not a timedelta.
        """
        if whole_number("conflict_retries", self.retries) < 0:
            raise InvalidInputError(f"conflict_retries must be at least 0, found {self.retries}")
        if not isinstance(self.timeout, timedelta):
            raise InvalidTypeError(f"retry_timeout must be a timedelta, found {type(self.timeout).__name__}")
        if self.timeout < timedelta(0):
            raise InvalidInputError(
                f"retry_timeout must not be negative, found {self.timeout.total_seconds():g} seconds"
            )


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


def delete_rows(
    view: TableView,
    predicate: object,
    policy: RetryPolicy,
    *,
    properties: Mapping[str, str] | None = None,
    only_if_found: bool = False,
) -> Deleted:
    """Delete the rows that match a predicate.

    Args:
        view: the version to base the plan on.
        predicate: the rows to delete, as SQL text or an Arrow expression.
        policy: the limits on planning again after a conflict.
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
    log, line = view.log, view.line
    started = time.monotonic()
    backoff = SlotBackoff(random.Random())
    for attempt in range(policy.retries + 1):
        attempt_started = time.monotonic()
        try:
            deleted = _attempt(view, line, predicate, properties, only_if_found=only_if_found)
            return replace(deleted, attempts=attempt + 1)
        except RetryableCommitConflictError as error:
            conflict: RetryableCommitConflictError | NotFoundError = error
        except NotFoundError as error:
            # A cleanup may have removed the files of the version on which the delete was planned.
            if not _is_outdated(view):
                raise
            conflict = error
        failed = time.monotonic()
        wait_seconds = backoff.next_seconds(failed - attempt_started)
        if attempt == policy.retries or failed - started + wait_seconds >= policy.timeout.total_seconds():
            break
        time.sleep(wait_seconds)
        view = view.showing(_latest(log))
    raise TooMuchWriteContentionError(
        f"{log.root}: the delete failed: every attempt had a conflict (number of attempts: {attempt + 1}); the last "
        f"conflict was: {conflict}",
        path=log.root,
        attempts=attempt + 1,
    ) from conflict


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
        NotSupportedError: a part of the predicate is not supported.
        StorageError: a storage operation failed.
    """
    plan = plan_rows((fragment,), view.schema, view.locator, view.version, predicate)
    if not plan.deletes:
        return fragment
    (delete,) = plan.deletes
    return None if delete.is_dropped else _write_deletion(view.log, view.version, delete)


def _stays_bitmap(fragment: Fragment, deleted: BitMap) -> bool | None:
    """Return whether the new file is a bitmap; None if the fragment has no deletion file."""
    before = fragment.deletion_file
    if before is None:
        return None
    return before.file_type is DeletionFileType.BITMAP or len(deleted) > BITMAP_THRESHOLD_ROWS


def _attempt(
    view: TableView,
    line: Hashable,
    predicate: object,
    properties: Mapping[str, str] | None,
    *,
    only_if_found: bool,
) -> Deleted:
    """Plan, write and commit once."""
    require_writable(view.manifest.message)
    log = view.log
    plan = plan_rows(view.fragments, view.schema, view.locator, view.version, predicate)
    if only_if_found and not plan.rows_deleted:
        return Deleted(view, plan)
    options = CommitOptions(
        storage_options=view.storage_options,
        affected_rows=_affected_rows(plan),
        checks_files=False,
        is_first_try=True,
        progress=CommitProgress(line=line),
    )
    updated: tuple[Fragment, ...] = ()
    try:
        updated = _written(log, plan)
        operation = Delete(
            updated_fragments=updated,
            deleted_fragment_ids=tuple(delete.fragment.id for delete in plan.deletes if delete.is_dropped),
            predicate=plan.predicate,
        )
        transaction = Transaction(read_version=view.version, operation=operation, properties=dict(properties or {}))
        return Deleted(view.showing(commit(log, transaction, options, known=view.counted_manifest)), plan)
    finally:
        # If the delete was merged with another one, the merge wrote new files.
        made = options.progress.made
        if made is not None or not options.progress.may_be_committed:
            remove_all([partial(_remove, log, updated, kept=made)])


def _written(log: VersionLog, plan: DeletePlan) -> tuple[Fragment, ...]:
    """Return the fragments that keep rows, with their new deletion files; after a failure, no new files remain."""
    changed = [delete for delete in plan.deletes if not delete.is_dropped]
    if len(changed) < 2:
        # Starting a thread would take longer than writing the file.
        return tuple(_write_deletion(log, plan.read_version, delete, durable=False) for delete in changed)
    num_threads = _WRITER_THREADS if len(changed) >= _MANY_FILES else 1
    futures: list[Future[Fragment]] = []
    with ThreadPoolExecutor(max_workers=num_threads) as executor:
        try:
            for delete in changed:
                written = executor.submit(_write_deletion, log, plan.read_version, delete, durable=False)
                futures.append(written)
            return tuple(future.result() for future in futures)
        except BaseException:
            executor.shutdown(wait=True, cancel_futures=True)
            _remove(log, [future.result() for future in futures if not future.cancelled() and not future.exception()])
            raise


def _affected_rows(plan: DeletePlan) -> dict[int, BitMap]:
    return {delete.fragment.id: delete.found for delete in plan.deletes if delete.found is not None}


def _remove(log: VersionLog, fragments: Iterable[Fragment], kept: Manifest | None = None) -> None:
    """Remove the deletion files of fragments, except those to which a version refers. Best effort."""
    needed = set() if kept is None else {_path(log, fragment) for fragment in kept.fragments}
    paths = [_path(log, fragment) for fragment in fragments]
    remove_objects(log.store, [path for path in paths if path is not None and path not in needed])


def _path(log: VersionLog, fragment: Fragment) -> str | None:
    deletion = fragment.deletion_file
    if deletion is None or deletion.base_id is not None:
        return None
    return deletion_file_path(log.store, log.root, fragment.id, deletion)


def _is_outdated(view: TableView) -> bool:
    latest = view.log.latest()
    return latest is not None and latest.version > view.version


def _latest(log: VersionLog) -> Manifest:
    latest = log.read_latest()
    if latest is None:
        raise DatasetNotFoundError(f"dataset '{log.root}' no longer exists", path=log.root)
    return latest
