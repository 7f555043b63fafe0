"""Merges the rows of a source into a table, in one version; plans again after a conflict.

::

    read      the source, which is kept for further attempts
    match     the keys of the source with those of the version; after a conflict, in changed fragments only
    plan      the rows to insert, update, and delete
    write     the new rows as fragments, and deletion files; no version refers to them yet
    commit    Update: removed fragments, fragments with new deletion files or columns, new fragments

A version that adds or changes rows after the plan conflicts with a merge that inserts rows: one of the added or changed
rows may have the key of an inserted row. Therefore, two merges never insert rows with the same key. If the primary key
is declared, and the keys of a merge are the primary key, then the transaction records the inserted keys, for other
writers. Concurrent deletes of other rows are merged.

A crash before the commit leaves the table unchanged; a later cleanup removes the new files. After a failure or an
interrupt, the files are removed immediately, unless a version may refer to them.

Source: ``MergeInsertBuilder`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.columns.column_files import ColumnFiles
from lance_core.commit.commit import commit_change
from lance_core.commit.replanning import Replanning
from lance_core.delete.delete import commit_plan, write_deletions
from lance_core.errors import InvalidInputError, InvalidMergeError
from lance_core.merge_insert.changed_columns import changed_columns, updates_in_place, with_changed_columns
from lance_core.merge_insert.changes import plan_changes
from lance_core.merge_insert.key_filter import key_filter
from lance_core.merge_insert.key_types import as_stored, keys_of_table, with_keys_of_table
from lance_core.merge_insert.matching import MatchFinder
from lance_core.merge_insert.merge_plan import merge_plan_text
from lance_core.merge_insert.new_rows import is_complete, row_schema, with_moved_row_ids, write_new_rows
from lance_core.merge_insert.rules import plan_condition
from lance_core.merge_insert.source import SourceRows
from lance_core.schema.blob_fields import stored_schema
from lance_core.table.feature_flags import require_writable
from lance_core.transactions.operations.update import Update, UpdateMode
from lance_core.transactions.options import CommitOptions, CommitProgress
from lance_core.transactions.transaction import Transaction
from lance_core.write.target import Mode, WriteTarget, data_places
from lance_core.write.write import remove_staged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lance_core.commit.replanning import RetryPolicy
    from lance_core.merge_insert.changes import Changes
    from lance_core.merge_insert.rules import MergeRules
    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment
    from lance_core.write.request import WriteRequest

__all__ = [
    "DEFAULT_MEMORY_BYTES",
    "MergeRequest",
    "Merged",
    "analyze_merge",
    "check_merge",
    "explain_merge",
    "merge_rows",
    "merge_staged",
    "stage_merge",
]

DEFAULT_MEMORY_BYTES: Final = 1 << 28
"""Default maximum size in bytes of the source keys held in memory; the source rows take at most half as much."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge.

    Attributes:
        view: the version that the merge created.
        changes: the rows that it inserted, updated, and deleted.
        attempts: the number of times that the merge was planned.
    """

    view: TableView
    changes: Changes
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What to merge, and how to write it.

    Attributes:
        rules: what happens to rows that match, and to those that do not.
        write: the settings of the write, whose mode is "append".
        memory_bytes: maximum memory for the keys of the source rows. The rows themselves take at most half as much.
    """

    rules: MergeRules
    write: WriteRequest
    memory_bytes: int = DEFAULT_MEMORY_BYTES


def merge_rows(
    view: TableView,
    request: MergeRequest,
    data: pa.RecordBatchReader,
    policy: RetryPolicy,
    properties: Mapping[str, str] | None = None,
) -> Merged:
    """Merge the rows of a source into a table.

    Args:
        view: the version to base the first plan on.
        request: what to merge, and how to write it.
        data: the rows of the source.
        policy: the limits on retries after a conflict.
        properties: the properties of the transaction.

    Raises:
        InvalidInputError: the rules request no changes, or the source cannot be read.
        InvalidMergeError: a condition is invalid, a row matches although it must not, or several rows of the source
            match the same row of the table.
        SchemaMismatchError: the source is incompatible with the table.
        IncompatibleTransactionError: the table was replaced in the meantime.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    policy.check()
    data = _needed_columns(view, request.rules, data)
    check_merge(view, request, data.schema)
    with SourceRows(data, request.memory_bytes // 2) as source:
        merge = _Merge(request, source)
        attempts = Replanning(view, "merge", policy)
        try:
            while True:
                with attempts as latest:
                    made, changes = merge.commit(latest, properties)
                    return Merged(made, changes, attempts.number)
        finally:
            merge.remove_unused()


def stage_merge(
    view: TableView, request: MergeRequest, data: pa.RecordBatchReader, properties: Mapping[str, str] | None = None
) -> tuple[Transaction, Changes]:
    """Write all files of a merge, and return the transaction that would commit it; errors as for :func:`merge_rows`."""
    data = _needed_columns(view, request.rules, data)
    check_merge(view, request, data.schema)
    with SourceRows(data, request.memory_bytes // 2) as source:
        merge = _Merge(request, source)
        try:
            changes, operation = merge.plan(view)
            if not changes.in_place:
                updated = write_deletions(view.log, changes.deletes)
                operation = operation.with_hidden_rows(updated, changes.deletes.dropped_ids)
        except BaseException:
            merge.remove_unused()
            raise
        return Transaction(read_version=view.version, operation=operation, properties=dict(properties or {})), changes


def explain_merge(view: TableView, request: MergeRequest, source: pa.Schema, *, verbose: bool = False) -> str:
    """Return a description of how a source would be merged, one line per step; nothing is read.

    Args:
        view: the version to plan on.
        request: what to merge.
        source: the columns of the source.
        verbose: whether to list the fragments and their files.

    Raises:
        LanceError: as for :func:`merge_rows`, if the merge cannot succeed with such a source.
    """
    rules = request.rules
    source = keys_of_table(source, view.schema, rules.keys) if rules.only_deletes else source
    check_merge(view, request, source)
    return merge_plan_text(view, rules, source, verbose=verbose)


def analyze_merge(view: TableView, request: MergeRequest, data: pa.RecordBatchReader) -> str:
    """Merge a source without a commit, remove the new files, and return the description with statistics.

    Raises:
        LanceError: as for :func:`merge_rows`.
    """
    data = _needed_columns(view, request.rules, data)
    check_merge(view, request, data.schema)
    counters = view.locator.counters
    before, started = counters.total(), perf_counter()
    with SourceRows(data, request.memory_bytes // 2) as source:
        merge = _Merge(request, source)
        try:
            changes, _ = merge.plan(view)
        finally:
            merge.remove_unused()
    elapsed = perf_counter() - started
    figures = {
        "num_inserted_rows": changes.num_inserted,
        "num_updated_rows": changes.num_updated,
        "num_deleted_rows": changes.num_deleted,
    }
    return merge_plan_text(
        view, request.rules, data.schema, elapsed=elapsed, figures=figures, stats=counters.total().since(before)
    )


def merge_staged(
    view: TableView, request: MergeRequest, source: SourceRows, properties: Mapping[str, str], transaction_uuid: str
) -> Merged:
    """Merge rows whose types match the table, in one attempt to commit the transaction with this UUID.

    Raises:
        RetryableCommitConflictError: another writer committed first; plan again on the latest version.
        LanceError: as for :func:`merge_rows`.
    """
    view.log.require_commits()
    merge = _Merge(request, source)
    try:
        made, changes = merge.commit(view, properties, transaction_uuid)
        return Merged(made, changes, attempts=1)
    finally:
        merge.remove_unused()


def _needed_columns(view: TableView, rules: MergeRules, data: pa.RecordBatchReader) -> pa.RecordBatchReader:
    return with_keys_of_table(data, view.schema, rules.keys) if rules.only_deletes else data


def check_merge(view: TableView, request: MergeRequest, source: pa.Schema) -> None:
    """Reject a merge that cannot succeed, before its source is read; errors as for :func:`merge_rows`."""
    rules = request.rules
    rules.check()
    require_writable(view.manifest.message)
    view.log.require_commits()
    rules.check_source(view.schema, source)
    _check_bases(view, request.write)
    updates_in_place(view, rules, source)
    rows = row_schema(view.schema, as_stored(source, view.schema) if rules.only_deletes else source)
    WriteTarget.plan(view.manifest, Mode.APPEND, rows, request.write.file_version)
    if rules.condition is not None:
        plan_condition(stored_schema(view.schema), source, rules.condition)


def _check_bases(view: TableView, write: WriteRequest) -> None:
    try:
        places = data_places(view.locator, write.target_bases, target_all_bases=write.target_all_bases)
    except InvalidInputError as error:
        raise InvalidMergeError(str(error)) from error
    if write.target_bases is not None and not places:
        raise InvalidMergeError("target_bases must contain at least one base, found none")


class _Merge:
    """The attempts of one merge, which use the files of earlier attempts if these contain the same rows.

    Args:
        request: what to merge, and how to write it.
        source: the rows of the source.
    """

    def __init__(self, request: MergeRequest, source: SourceRows) -> None:
        self._request = request
        self._source = source
        self._finder = MatchFinder(request.rules, source, request.memory_bytes)
        self._staged: _Staged | None = None
        self._columns = ColumnFiles()
        self._progress = CommitProgress()
        self._updated: Sequence[Fragment] = ()

    def plan(self, view: TableView) -> tuple[Changes, Update]:
        """Plan the changes to a version, and write the new values; return the update without its deletions."""
        require_writable(view.manifest.message)
        rules, source = self._request.rules, self._source
        in_place = updates_in_place(view, rules, source.schema)
        fragments = view.fragments
        matches = self._finder.find(view, fragments)
        changes = plan_changes(view, fragments, matches, rules, source, in_place=in_place)
        new = self._new_fragments(view, changes) if rules.writes_rows else ()
        inserted = key_filter(view.schema, rules, source, changes.inserted) if rules.writes_rows else None
        update = Update(new_fragments=tuple(new), inserted_rows=inserted)
        if not in_place:
            return changes, replace(update, fields_for_preserving=tuple(view.schema.field_ids()))
        columns = changed_columns(view.schema, rules, source.schema)
        changed = with_changed_columns(view, fragments, source, changes, columns, self._columns)
        return changes, replace(
            update,
            updated_fragments=tuple(changed.values()),
            fields_modified=tuple(columns.field_ids()) if changed else (),
            mode=UpdateMode.COLUMNS,
            updated_offsets=changes.offsets(fragments) if view.manifest.has_stable_row_ids else {},
        )

    def commit(
        self, view: TableView, properties: Mapping[str, str] | None, transaction_uuid: str | None = None
    ) -> tuple[TableView, Changes]:
        """Plan the changes to a version, write, and commit; a transaction with this UUID may already exist."""
        changes, operation = self.plan(view)
        self._progress, self._updated = CommitProgress(), operation.updated_fragments
        options = CommitOptions(
            # Other writers may have changed the columns since the files were written.
            checks_files=self._staged is not None and self._staged.view is not view,
            is_first_try=transaction_uuid is None,
            refuses_new_rows=self._request.rules.inserts,
            progress=self._progress,
        )
        if changes.in_place:
            made = commit_change(view, operation, options, properties=properties, transaction_uuid=transaction_uuid)
            return made, changes
        return commit_plan(view, changes.deletes, operation, options, properties, transaction_uuid), changes

    def remove_unused(self) -> None:
        """Remove the files that were written, except for those to which a version may refer."""
        if self._progress.needs_files:
            self._columns.remove(kept=self._updated)
        else:
            self._columns.remove()
            self._remove_rows()

    def _new_fragments(self, view: TableView, changes: Changes) -> Sequence[Fragment]:
        """Return the fragments with the new rows, which are written unless those of an earlier attempt can be used."""
        if self._staged is None or not self._staged.fits(view, changes, self._source):
            self._remove_rows()
            self._staged = _Staged(view, write_new_rows(view, self._source, changes, self._request.write), changes)
        return with_moved_row_ids(view, self._source, changes, self._staged.rows.operation.added_fragments())

    def _remove_rows(self) -> None:
        staged, self._staged = self._staged, None
        if staged is not None:
            remove_staged(staged.view.log, staged.view.manifest, staged.rows, staged.view.storage_options)


@dataclass(frozen=True, slots=True)
class _Staged:
    """New rows that an attempt has written.

    Attributes:
        view: the version that the attempt was planned on.
        rows: a transaction that appends the fragments.
        changes: the changes.
    """

    view: TableView
    rows: Transaction
    changes: Changes

    def fits(self, view: TableView, changes: Changes, source: SourceRows) -> bool:
        """Return whether another plan needs the same rows."""
        return (
            (changes.in_place or is_complete(view.schema, source))
            and changes.in_place == self.changes.in_place
            and view.schema == self.view.schema
            and view.manifest.file_version == self.view.manifest.file_version
            and np.array_equal(changes.inserted, self.changes.inserted)
            and np.array_equal(np.sort(changes.updated), np.sort(self.changes.updated))
        )
