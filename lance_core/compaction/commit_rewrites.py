"""Commits executed tasks: the results that still apply become one version, and the others are reported as lost.

::

    results
      |     a group is intact if all its old fragments are unchanged in the latest version
      v
    split by the latest version -----------------> lost
      | intact                                      |  found in a later version: an earlier call committed it
      v                                             |  otherwise: its new files are removed
    reserve ids (in a separate version, once)       |
      v                                             |
    Rewrite, read_version = the plan's              |
      | conflict: split again; if all are intact -->+
      v
    committed

The Rewrite records the version of the plan as its read version, so that it is checked against every later change. If
rows of a group were deleted after planning, the group is lost; its files, which still contain these rows, never become
visible.

A lost group stays lost, so its files can be removed. First, however, the versions are checked to determine whether the
group was lost or already committed. Files to which a version refers, or may refer, are kept
(:mod:`~lance_core.compaction.lost_groups`). Results may come from other processes and are validated first. Once a
version has been created, the call succeeds: if the lost groups can no longer be checked, their files are kept. After
any error other than a conflict, the call can be repeated. Such an error leaves all files in place, except files that
this process has just written, that no other process knows about, and to which no version can refer; these are removed.

Source: commit sequence of pylance 14.0.2; committing only some of the groups is specific to this library.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Final

from lance_core.commit.checks import check_data_files, check_not_part_of
from lance_core.commit.commit import commit
from lance_core.compaction.lost_groups import sort_lost
from lance_core.compaction.result import CompactionMetrics, RewriteCommit, RewriteResult, content_key
from lance_core.errors import (
    CommitOvertakenError,
    IncompatibleTransactionError,
    InvalidInputError,
    InvalidTypeError,
    LanceError,
    RetryableCommitConflictError,
    VersionNotFoundError,
)
from lance_core.places.references import read_manifest
from lance_core.proto import pb_table
from lance_core.public.arguments import whole_number
from lance_core.public.fragment_conversion import fragment_from_record, fragment_to_record
from lance_core.scan.early_fragments import with_row_counts
from lance_core.table.fragment import Fragment
from lance_core.transactions.operations.parts import RewriteGroup
from lance_core.transactions.operations.reserve_fragments import ReserveFragments
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.options import CommitOptions, CommitProgress
from lance_core.transactions.transaction import Transaction
from lance_core.wording import shown_list
from lance_core.write.fragment_writer import check_data_names, remove_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lance_core.scan.table_view import Handle
    from lance_core.schema.field import Schema
    from lance_core.table.manifest import Manifest


__all__ = [
    "RewriteCommit",
    "commit_all_rewrites",
    "commit_own_rewrites",
    "commit_rewrites",
]

_logger: Final = logging.getLogger(__name__)

_MAX_TRIES: Final = 100
"""Maximum number of commit attempts; each retry means that other writers changed the table in the meantime."""


class _RewritesCommit:
    """Commits the results of executed tasks.

    Args:
        dataset: the handle, which is moved to the new version.
        rewrites: the results of the tasks of a plan.
        properties: transaction properties to record with the Rewrite.
        checks_files: whether to check the new files first.
    """

    def __init__(
        self,
        dataset: Handle,
        rewrites: Iterable[RewriteResult],
        properties: Mapping[str, str] | None,
        *,
        checks_files: bool,
    ) -> None:
        """Check the results; nothing is read yet."""
        self._dataset = dataset
        self._view = dataset.view
        self._log = self._view.log
        self._results = _checked_results(rewrites)
        self._pending = self._results
        self._properties = dict(properties or {})
        self._checks_files = checks_files
        self._options = CommitOptions(
            storage_options=self._view.storage_options,
            checks_files=False,
            is_first_try=True,
        )
        self._line = self._view.line
        self._latest = self._view.manifest
        self._reserved: range | None = None
        self._lost: list[RewriteResult] = []
        self._spared: list[RewriteResult] = []
        self._tries: list[CommitProgress] = []

    def run(self, *, all_or_none: bool = False) -> RewriteCommit:
        """Commit; see :func:`~lance_core.compaction.commit_rewrites.commit_rewrites`."""
        if not self._pending:
            return RewriteCommit(version=None, metrics=CompactionMetrics(), committed=[], lost=[], attempts=0)
        version = self._commit_intact(all_or_none=all_or_none)
        before, lost = self._sort_lost(may_fail=version is None)
        if all_or_none and (lost or self._spared):
            ids = [fragment.id for result in lost for fragment in result.original_fragments]
            planned = min(result.read_version for result in self._lost)
            raise RetryableCommitConflictError(
                f"{self._log.uri}: other writers have changed fragments {shown_list(ids)} since version {planned}, on "
                "which the rewrite is based; plan the rewrite again",
                path=self._log.root,
                fragments=ids,
            )
        committed = [*(result for result, _ in before), *self._pending]
        if committed:
            self._dataset.show(self._view.showing(self._latest))
        return RewriteCommit(
            version=version if version is not None else max((number for _, number in before), default=None),
            metrics=CompactionMetrics.sum(result.metrics for result in committed),
            committed=committed,
            lost=lost,
            attempts=len(self._tries),
        )

    def remove_files(self) -> None:
        """After a failure, remove the new files to which no version refers or can refer in the future."""
        if any(each.may_be_committed for each in self._tries):
            # Lost groups are not part of the last attempt, the only one that may still be committed.
            self._sort_lost(may_fail=False)
        else:
            names = [name for result in self._results for name in result.new_file_names()]
            remove_data_files(self._log.store, self._log.root, names)

    def _sort_lost(self, *, may_fail: bool) -> tuple[list[tuple[RewriteResult, int]], list[RewriteResult]]:
        try:
            return sort_lost(self._log, self._lost)
        except LanceError as error:
            if may_fail:
                raise
            _logger.warning(
                "%s: the files of groups that were not committed are kept, because versions cannot be read: %s",
                self._log.root,
                error,
            )
            return [], self._lost

    def _commit_intact(self, *, all_or_none: bool) -> int | None:
        """Commit the intact groups. Then ``_pending`` contains the committed groups, and ``_lost`` the others."""
        is_refused = False
        for _ in range(_MAX_TRIES):
            self._latest = with_row_counts(
                read_manifest(self._log, None), self._view.locator, session=self._view.session
            )
            _check_planned_versions(self._pending, self._latest.version)
            if not self._drop_touched() and is_refused:
                # The conflict affects all groups, not only some: for example, the schema changed.
                self._lost, self._pending = self._lost + self._pending, []
            if self._lost and all_or_none:
                self._spared, self._pending = self._pending, []
            if not self._pending:
                return None
            num_tries = len(self._tries)
            try:
                self._latest = self._commit()
            except CommitOvertakenError:
                if len(self._tries) > num_tries:
                    # A cleanup may have read the version that was removed again, and may remove its new files.
                    self._lost, self._pending = self._lost + self._pending, []
                continue
            except (RetryableCommitConflictError, IncompatibleTransactionError) as error:
                # If the version on which fragment ids were reserved was cleaned up, reserve them on the latest version.
                if len(self._tries) > num_tries or not error.context.get("is_removed"):
                    is_refused = True
                continue
            return self._latest.version
        self._lost, self._pending = self._lost + self._pending, []
        return None

    def _drop_touched(self) -> bool:
        """Move the groups that are not intact to the lost ones; return whether there were any."""
        wanted = {fragment.id for result in self._pending for fragment in result.original_fragments}
        present = {
            content_key(fragment_from_record(fragment)) for fragment in self._latest.fragments if fragment.id in wanted
        }
        intact: list[RewriteResult] = []
        touched: list[RewriteResult] = []
        for result in self._pending:
            is_intact = all(content_key(fragment) in present for fragment in result.original_fragments)
            (intact if is_intact else touched).append(result)
        self._pending = intact
        self._lost += touched
        return bool(touched)

    def _commit(self) -> Manifest:
        new_fragments = [list(map(fragment_to_record, result.new_fragments)) for result in self._pending]
        written = [fragment for group in new_fragments for fragment in group]
        check_not_part_of(written, self._latest)
        if self._checks_files:
            check_data_files(written, self._view.locator, self._schemas())
            self._checks_files = False
        ids = iter(self._reserve(sum(map(len, new_fragments))))
        present = {fragment.id: fragment for fragment in self._latest.fragments}
        groups = tuple(
            RewriteGroup(
                old_fragments=tuple(present[fragment.id] for fragment in result.original_fragments),
                new_fragments=tuple(_with_id(fragment, next(ids)) for fragment in group),
            )
            for result, group in zip(self._pending, new_fragments, strict=True)
        )
        read_version = min(result.read_version for result in self._pending)
        options = self._new_try()
        self._tries.append(options.progress)
        transaction = Transaction(
            read_version=read_version, operation=Rewrite(groups=groups), properties=self._properties
        )
        return commit(self._log, transaction, options, known=self._view.manifest)

    def _new_try(self) -> CommitOptions:
        return replace(self._options, progress=CommitProgress(line=self._line))

    def _schemas(self) -> list[Schema]:
        """Return the latest schema and the schemas of the new files: columns may have been renamed since."""
        planned = {result.read_version for result in self._pending} - {self._latest.version}
        schemas = [self._latest.schema]
        for version in sorted(planned):
            with suppress(VersionNotFoundError):
                schemas.append(self._log.read_version(version).schema)
        return schemas

    def _reserve(self, num_fragments: int) -> range:
        """Return fragment ids for this call. They are reserved once: conflicts never increase the number needed."""
        if not num_fragments:
            return range(0)
        if self._reserved is None:
            reservation = ReserveFragments(num_fragments=num_fragments)
            transaction = Transaction(read_version=self._latest.version, operation=reservation)
            last = commit(self._log, transaction, self._new_try(), known=self._latest).message.max_fragment_id
            self._reserved = range(last - num_fragments + 1, last + 1)
        return self._reserved


def _with_id(fragment: Fragment, fragment_id: int) -> Fragment:
    message = pb_table.DataFragment()
    message.CopyFrom(fragment.message)
    message.id = fragment_id
    return Fragment(message)


def _checked_results(rewrites: Iterable[RewriteResult]) -> list[RewriteResult]:
    """Check that each result is valid, and that the results are consistent with each other; return them as a list.

    Raises:
        InvalidTypeError: an element is not a result, or a value is not a number.
        InvalidInputError: a result has no original fragments, a fragment is rewritten twice, a new file is not in the
            dataset's ``data/``, or a new file is listed twice.
    """
    results = list(rewrites)
    old: set[int] = set()
    new: set[str] = set()
    for result in results:
        _check_types(result)
        for fragment in result.original_fragments:
            if fragment.id in old:
                raise InvalidInputError(f"fragment {fragment.id} is rewritten twice", fragment=fragment.id)
            old.add(fragment.id)
        for file in (file for fragment in result.new_fragments for file in fragment.files):
            if file.path in new:
                raise InvalidInputError(
                    f"data file {file.path} occurs more than once in the new fragments", path=file.path
                )
            if file.base_id is not None:
                raise InvalidInputError(
                    f"data file {file.path} of a new fragment is in base path {file.base_id}; expected "
                    "the dataset's root",
                    path=file.path,
                )
            new.add(file.path)
    check_data_names(new)
    return results


def _check_planned_versions(results: Sequence[RewriteResult], latest_version: int) -> None:
    """Check that the results are based on versions that exist or existed.

    Raises:
        InvalidInputError: a result is based on a version that never existed.
    """
    for result in results:
        if not 1 <= result.read_version <= latest_version:
            raise InvalidInputError(
                f"a rewrite result is based on version {result.read_version}, but the latest version is "
                f"{latest_version}; the result was planned on a different dataset",
                expected=latest_version,
                found=result.read_version,
            )


def _check_types(result: RewriteResult) -> None:
    if not isinstance(result, RewriteResult):
        raise InvalidTypeError(f"rewrites must be RewriteResult objects, found {type(result).__name__}")
    if not result.original_fragments:
        raise InvalidInputError("a rewrite result has no original fragments")
    if not isinstance(result.metrics, CompactionMetrics):
        raise InvalidTypeError(f"metrics of a rewrite result must be CompactionMetrics, found {result.metrics!r:.80}")
    for number in (result.read_version, *astuple(result.metrics)):
        whole_number("a number in a rewrite result", number)


def commit_rewrites(
    dataset: Handle,
    rewrites: Iterable[RewriteResult],
    *,
    transaction_properties: Mapping[str, str] | None = None,
) -> RewriteCommit:
    """Commit the groups that other writers have not changed since the plan, and move the handle to the new version.

    Repeating a call with the same results is safe: groups that are already committed are not committed again.

    Args:
        dataset: a handle to any version of the dataset.
        rewrites: the results of executed tasks; if they belong to several plans, the oldest of the plans' versions is
            the read version of the Rewrite.
        transaction_properties: transaction properties to record with the Rewrite.

    Raises:
        InvalidInputError: two results rewrite the same fragment or share a new file, a new file already belongs to the
            dataset or does not match its metadata, or a result is based on a version that never existed.
        NotFoundError: a new file is missing.
        NotSupportedError: this library cannot rewrite the table.
        TooMuchWriteContentionError: other writers committed first at every attempt.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed and no version was created.
    """
    return _RewritesCommit(dataset, rewrites, transaction_properties, checks_files=True).run()


def commit_own_rewrites(
    dataset: Handle, rewrites: Iterable[RewriteResult], transaction_properties: Mapping[str, str] | None
) -> RewriteCommit:
    """Commit as :func:`commit_rewrites` does, for results that no other process knows about.

    The new files are not checked. After a failure or an interrupt, the new files are removed, unless a version may
    refer to them.
    """
    whole: _RewritesCommit | None = None
    results = list(rewrites)
    try:
        whole = _RewritesCommit(dataset, results, transaction_properties, checks_files=False)
        return whole.run()
    except BaseException:
        if whole is not None:
            whole.remove_files()
        else:
            names = [name for result in results for name in result.new_file_names()]
            remove_data_files(dataset.view.log.store, dataset.view.log.root, names)
        raise


def commit_all_rewrites(
    dataset: Handle, rewrites: Iterable[RewriteResult], transaction_properties: Mapping[str, str] | None = None
) -> RewriteCommit:
    """Commit all groups or none of them; in other respects, the same as :func:`commit_rewrites`.

    Raises:
        RetryableCommitConflictError: another writer changed a group. The new files of this group are removed; the new
            files of the other groups are kept.
    """
    return _RewritesCommit(dataset, rewrites, transaction_properties, checks_files=True).run(all_or_none=True)
