"""MergeInsertBuilder: inserts, updates, and deletes rows by comparing the keys of a source with those of a dataset.

Names, arguments, and defaults are the same as in pylance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self, TypedDict

from lance_core.absent import PylanceClass
from lance_core.commit.replanning import DEFAULT_CONFLICT_RETRIES, DEFAULT_RETRY_TIMEOUT, RetryPolicy
from lance_core.delete.plan import planned_predicate
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.merge_insert.merge import MergeRequest, analyze_merge, explain_merge, merge_rows, stage_merge
from lance_core.merge_insert.rules import MergeRules, WhenMatched, WriteMode, key_names
from lance_core.public.arguments import checked_text
from lance_core.scan.output_schema import shown_schema
from lance_core.transactions.public_transaction import transaction_from_core
from lance_core.write.data_input import to_reader
from lance_core.write.request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    import pyarrow as pa

    from lance_core.merge_insert.changes import Changes
    from lance_core.scan.table_view import Handle
    from lance_core.transactions.public_transaction import Transaction
    from lance_core.write.data_input import ReaderLike

__all__ = ["ExecuteResult", "MergeInsertBuilder"]


class ExecuteResult(TypedDict):
    """The result of a merge.

    Attributes:
        num_inserted_rows: the number of inserted rows.
        num_updated_rows: the number of updated rows.
        num_deleted_rows: the number of rows that were deleted without being updated.
    """

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


class MergeInsertBuilder(PylanceClass):
    """Defines a merge, and executes it. Each method that changes the builder returns the builder itself.

    A row of the dataset and a row of the source match if they have the same keys. A null matches nothing.

    Args:
        dataset: a handle to the version on which the first attempt is based.
        on: the key columns: a name or names; None for the declared primary key.

    Raises:
        InvalidInputError: the dataset has no such column, or no primary key.
        InvalidTypeError: ``on`` is neither a name nor an iterable of names.
    """

    def __init__(self, dataset: Handle, on: str | Iterable[str] | None = None) -> None:
        """Begin with a merge that does nothing."""
        self._dataset = dataset
        self._rules = MergeRules(keys=key_names(dataset.view.schema, on))
        self._policy = RetryPolicy(DEFAULT_CONFLICT_RETRIES, DEFAULT_RETRY_TIMEOUT)
        self._data_storage_version: str | None = None
        self._target_bases: list[str] | None = None
        self._target_all_bases: bool | None = None

    def when_matched_update_all(self, condition: str | None = None) -> Self:
        """Update rows of the dataset that match a row of the source, with the values of that row.

        The updated rows are moved to the end of the dataset.

        Args:
            condition: SQL text; only rows for which it is true are updated. Columns of the dataset have the prefix
                ``target.``, and columns of the source the prefix ``source.``. Rows for which it is not true still
                count as matched, and are not inserted.
        """
        if condition is not None:
            checked_text("condition", condition)
        self._rules = replace(self._rules, when_matched=WhenMatched.UPDATE, condition=condition)
        return self

    def when_matched_delete(self) -> Self:
        """Delete rows of the dataset that match a row of the source.

        If the merge only deletes, only the key columns of the source are used; its other columns need not match the
        dataset.
        """
        self._rules = replace(self._rules, when_matched=WhenMatched.DELETE, condition=None)
        return self

    def when_matched_fail(self) -> Self:
        """Raise an error, and change nothing, if a row of the dataset matches a row of the source."""
        self._rules = replace(self._rules, when_matched=WhenMatched.FAIL, condition=None)
        return self

    def when_not_matched_insert_all(self) -> Self:
        """Insert rows of the source that match no row of the dataset. Columns that the source lacks are null."""
        self._rules = replace(self._rules, inserts=True)
        return self

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> Self:
        """Delete rows of the dataset that match no row of the source.

        Args:
            expr: SQL text; only rows for which it is true are deleted.

        Raises:
            InvalidInputError: the expression is invalid.
        """
        if expr is not None:
            planned_predicate(self._dataset.view.schema, checked_text("expr", expr))
        self._rules = replace(self._rules, deletes_unmatched=True, deleted_if=expr)
        return self

    def conflict_retries(self, max_retries: int) -> Self:
        """Set the maximum number of times that the merge is planned again after a conflict; the default is 10.

        Raises:
            InvalidInputError: the number is negative.
            InvalidTypeError: the number is not a whole number.
        """
        self._policy = RetryPolicy(max_retries, self._policy.timeout)
        self._policy.check()
        return self

    def retry_timeout(self, timeout: timedelta) -> Self:
        """Set the time after which the merge is not planned again; the default is 30 seconds.

        Raises:
            InvalidInputError: the time is negative.
            InvalidTypeError: the time is not a timedelta.
        """
        self._policy = RetryPolicy(self._policy.retries, timeout)
        self._policy.check()
        return self

    def data_storage_version(self, version: str) -> Self:
        """Set the format of the new data files, such as "2.2"; the default is that of the dataset.

        Raises:
            InvalidInputError: the format is unknown.
            InvalidTypeError: the format is not a string.
        """
        self._data_storage_version = version
        self._write_request()
        return self

    def use_index(self, use_index: bool) -> Self:  # the reference's signature
        """Set whether an index on the key column influences how updated rows are written; see :meth:`write_mode`.

        The index is not read: the key columns are always scanned.
        """
        if not isinstance(use_index, bool):
            raise InvalidTypeError(f"use_index must be a bool, found {use_index!r:.80}", argument="use_index")
        self._rules = replace(self._rules, uses_index=use_index)
        return self

    def write_mode(self, mode: Literal["auto", "rewrite_rows", "rewrite_columns"]) -> Self:
        """Set how updated rows are written.

        Args:
            mode: "rewrite_rows" moves whole rows to new fragments. "rewrite_columns" rewrites only the columns that the
                source contains, for all rows of the fragments with updated rows; it is possible only if the merge
                neither inserts nor deletes rows, and the source lacks a column. "auto" rewrites columns if the source
                lacks some, and there is a scalar index on the key column, and moves rows otherwise. Columns are always
                rewritten if the source lacks members of a struct.

        Raises:
            InvalidInputError: the mode is unknown.
        """
        try:
            self._rules = replace(self._rules, write_mode=WriteMode(mode))
        except ValueError as error:
            raise InvalidInputError(
                f"write_mode must be one of {[each.value for each in WriteMode]}, found {mode!r:.80}"
            ) from error
        return self

    def target_bases(self, bases: list[str]) -> Self:
        """Write new fragments to these bases in turn.

        Args:
            bases: names or paths of bases of the dataset.

        Raises:
            InvalidInputError: the bases were already chosen by :meth:`target_all_bases`.
        """
        self._target_bases = bases
        self._check_bases()
        return self

    def target_all_bases(self, include_primary: bool = True) -> Self:  # the reference's signature
        """Write new fragments to all bases of the dataset in turn, and to its own directory.

        Args:
            include_primary: whether to include the dataset's own directory.

        Raises:
            InvalidInputError: the bases were already chosen by :meth:`target_bases`.
        """
        self._target_all_bases = include_primary
        self._check_bases()
        return self

    def execute(self, data_obj: ReaderLike, *, schema: pa.Schema | None = None) -> ExecuteResult:
        """Merge a source. Creates a new version, even if no row changes, and moves the handle to it.

        If another writer commits first, the merge is planned again on the latest version. A merge that inserts rows is
        also planned again if other writers have added rows, whatever their keys, so that no key is inserted twice.

        Args:
            data_obj: the rows of the source, as for :func:`write_dataset`. They are read once, and kept in memory or in
                a temporary file.
            schema: as for :func:`write_dataset`.

        Returns:
            ``{"num_inserted_rows": i, "num_updated_rows": u, "num_deleted_rows": d}``.

        Raises:
            InvalidInputError: no method of the builder specifies what the merge changes, or the source cannot be read.
            InvalidMergeError: a condition is invalid, a row matches although :meth:`when_matched_fail` was called,
                or several rows of the source match the same row of the dataset.
            SchemaMismatchError: the source lacks a key column, or is incompatible with the dataset.
            NotSupportedError: the dataset or part of a condition is not supported.
            IncompatibleTransactionError: another writer replaced the dataset in the meantime.
            TooMuchWriteContentionError: every attempt had a conflict.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed.
        """
        merged = merge_rows(self._dataset.view, self._request(), to_reader(data_obj, schema), self._policy)
        self._dataset.show(merged.view)
        return _result(merged.changes)

    def execute_uncommitted(
        self, data_obj: ReaderLike, *, schema: pa.Schema | None = None
    ) -> tuple[Transaction, ExecuteResult]:
        """Write the files of a merge without creating a version; arguments and errors as for :meth:`execute`.

        Returns:
            A transaction for :meth:`LanceDataset.commit`, and the numbers of rows that committing it changes, as in
            :meth:`execute`.
        """
        staged, changes = stage_merge(self._dataset.view, self._request(), to_reader(data_obj, schema))
        return transaction_from_core(staged), _result(changes)

    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """Return a description of how a source would be merged, one line per step; nothing is read.

        Args:
            schema: the columns of the source; None for those of the dataset.
            verbose: whether to list the fragments and their files.

        Raises:
            LanceError: as for :meth:`execute`, if the merge cannot succeed with such a source.
        """
        view = self._dataset.view
        return explain_merge(
            view, self._request(), shown_schema(view.schema) if schema is None else schema, verbose=verbose
        )

    def analyze_plan(self, data_obj: ReaderLike, *, schema: pa.Schema | None = None) -> str:
        """Merge a source without creating a version, and return the plan of :meth:`explain_plan` with statistics.

        The new files are removed afterward. Arguments and errors are those of :meth:`execute`.
        """
        return analyze_merge(self._dataset.view, self._request(), to_reader(data_obj, schema))

    def _request(self) -> MergeRequest:
        return MergeRequest(rules=self._rules, write=self._write_request())

    def _write_request(self) -> WriteRequest:
        return WriteRequest.of(
            mode="append",
            data_storage_version=self._data_storage_version,
            target_bases=self._other_bases() if self._target_all_bases is False else self._target_bases,
            target_all_bases=self._target_all_bases,
        )

    def _other_bases(self) -> list[str]:
        """Return the paths of all bases of the dataset, which do not include its own directory."""
        return [base.path for base in self._dataset.view.manifest.base_paths]

    def _check_bases(self) -> None:
        if self._target_bases is not None and self._target_all_bases is not None:
            raise InvalidInputError("target_all_bases cannot be used together with target_bases")


def _result(changes: Changes) -> ExecuteResult:
    return ExecuteResult(
        num_inserted_rows=changes.num_inserted,
        num_updated_rows=changes.num_updated,
        num_deleted_rows=changes.num_deleted,
    )
