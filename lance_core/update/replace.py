"""Replaces the rows that match a predicate, in one version.

::

    write     the new rows as fragments; no version refers to them yet
    check     every new row matches the predicate, so that the next replacement finds it
    plan      the rows to delete, on the version of the handle; after a conflict, on the latest version
    commit    Update: removed fragments, fragments with new deletion files, new fragments

Every version that is committed after the deletion was planned and that adds or changes rows, in any fragment, is a
conflict: its rows may match the predicate. Therefore, of two concurrent replacements of the same rows, the later one
deletes what the earlier one added; replacements of different rows are committed one after the other. When the deletion
is planned again, the written fragments are kept, and only fragments that have changed are searched. Concurrent deletes
are merged.

A crash before the commit leaves the table unchanged; a later cleanup removes the new files. After a failure or an
interrupt, the files are removed immediately, unless a version may refer to them.

Source: operation ``Update`` of pylance 14.0.2, which has no method that replaces rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from lance_core.commit.replanning import Replanning
from lance_core.delete.delete import commit_plan
from lance_core.delete.plan import DeletePlanner, planned_predicate
from lance_core.errors import InvalidInputError
from lance_core.table.feature_flags import require_writable
from lance_core.transactions.operations.update import Update
from lance_core.transactions.options import CommitOptions, CommitProgress
from lance_core.wording import counted
from lance_core.write.write import remove_staged, stage_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lance_core.commit.replanning import RetryPolicy
    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment
    from lance_core.write.data_input import ReaderLike
    from lance_core.write.request import WriteRequest

__all__ = ["Replaced", "commit_replacement", "replace_rows"]


@dataclass(frozen=True, slots=True)
class Replaced:
    """The result of a replacement.

    Attributes:
        view: the version that the replacement created.
        rows_deleted: the number of rows that matched the predicate.
        rows_added: the number of new rows.
        attempts: the number of times that the deletion was planned.
    """

    view: TableView
    rows_deleted: int
    rows_added: int
    attempts: int = 1

    @property
    def version(self) -> int:
        """The number of the version that the replacement created."""
        return self.view.version


def replace_rows(
    view: TableView,
    predicate: object,
    data: ReaderLike,
    schema: pa.Schema | None,
    request: WriteRequest,
    policy: RetryPolicy,
    properties: Mapping[str, str],
) -> Replaced:
    """Delete the rows that match a predicate, and add others, in one version.

    Args:
        view: the version to base the first plan on.
        predicate: the rows to delete, as SQL text or an Arrow expression; every new row must match it.
        data: the new rows.
        schema: the schema to which the rows are converted; None to infer it from the rows.
        request: the settings of the write, whose mode is "append".
        policy: the limits on retries after a conflict.
        properties: the properties of the transaction.

    Raises:
        InvalidInputError: the predicate is invalid, or a new row does not match it.
        SchemaMismatchError: the rows are incompatible with the table, or another writer changed its columns.
        IncompatibleTransactionError: the table was replaced in the meantime.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    policy.check()
    require_writable(view.manifest.message)
    view.log.require_commits()
    # A predicate that cannot be evaluated is reported before any row is written.
    planned_predicate(view.schema, predicate)
    staged = stage_rows(view.log, view.manifest, data, schema, request, storage_options=view.storage_options)
    fragments = staged.operation.added_fragments()
    planner = DeletePlanner(predicate)
    attempted: list[CommitOptions] = []
    try:
        _check_new_rows(view, planner, fragments)
        attempts = Replanning(view, "replacement", policy)
        while True:
            with attempts as latest:
                # Other writers may have changed the columns since the files were written.
                options = CommitOptions(checks_files=latest is not view, is_first_try=True)
                attempted.append(options)
                replaced = _commit(latest, planner, fragments, options, properties, None)
                return replace(replaced, attempts=attempts.number)
    except BaseException:
        if not any(options.progress.needs_files for options in attempted):
            remove_staged(view.log, view.manifest, staged, view.storage_options)
        raise


def commit_replacement(
    view: TableView,
    planner: DeletePlanner,
    fragments: Sequence[Fragment],
    *,
    properties: Mapping[str, str],
    transaction_uuid: str | None,
    progress: CommitProgress | None = None,
    written: Mapping[int, Fragment] = MappingProxyType({}),
) -> Replaced:
    """Plan the deletion on a version, and commit it together with fragments that were written before.

    If the transaction with this UUID has already created a version after the given one, that version is the result.

    Args:
        view: the version to base the plan on. Neither it nor an earlier version was created by the transaction.
        planner: plans the deletion; every new row must match its predicate. Keep it for the next attempt.
        fragments: the new fragments, in files of the table.
        properties: the properties of the transaction.
        transaction_uuid: the UUID of the transaction; a new one if None.
        progress: records the progress of the commit.
        written: fragments whose deletion files other processes have already written, keyed by id.

    Raises:
        RetryableCommitConflictError: another writer committed first; plan again on the latest version.
        LanceError: as for :func:`replace_rows`; the files of the fragments are kept.
    """
    require_writable(view.manifest.message)
    _check_new_rows(view, planner, fragments)
    options = CommitOptions(is_first_try=transaction_uuid is None, progress=progress or CommitProgress())
    return _commit(view, planner, fragments, options, properties, transaction_uuid, written)


def _commit(
    view: TableView,
    planner: DeletePlanner,
    fragments: Sequence[Fragment],
    options: CommitOptions,
    properties: Mapping[str, str],
    transaction_uuid: str | None,
    written: Mapping[int, Fragment] = MappingProxyType({}),
) -> Replaced:
    plan = planner.plan(view, view.fragments)
    operation = Update(new_fragments=tuple(fragments))
    options = replace(options, refuses_new_rows=True)
    made = commit_plan(view, plan, operation, options, properties, transaction_uuid, written=written)
    return Replaced(made, plan.rows_deleted, sum(fragment.physical_rows for fragment in fragments))


def _check_new_rows(view: TableView, planner: DeletePlanner, fragments: Sequence[Fragment]) -> None:
    """Check that every new row matches the predicate."""
    found = planner.plan(view, fragments)
    if found.rows_deleted != found.rows_before:
        raise InvalidInputError(
            f"all new rows must match the predicate {found.predicate!r}, so that the next replacement finds them; "
            f"found {counted(found.rows_deleted, 'matching row')} among {counted(found.rows_before, 'new row')}",
            predicate=found.predicate,
            expected=found.rows_before,
            found=found.rows_deleted,
        )
