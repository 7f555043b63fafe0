"""Basis: the version that a commit builds on, and the checks against all versions up to it.

A change was planned on its read version. Every version committed after that is read once, in order, and compared with
the change. If no version conflicts, the change may be committed on top of the latest one. In three cases, the commit
does not start from a read version, but from:

=========================  =======================================================================
no table                   the template of a new table
``read_version`` 0         the latest version; only versions committed from now on are checked
``create_only``            the template of a new table; no table may exist
=========================  =======================================================================

If it is known which rows a delete or update removes, the change is merged with the newer versions each time it reaches
the latest version; from then on, it counts as planned on that version (:mod:`~lance_core.transactions.delete_rebase`).
If a transaction creates an index, the index no longer covers fragments whose values have changed in the meantime.

An earlier commit of the same transaction is recognized by its UUID, so that committing twice creates one version.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError, VersionNotFoundError
from lance_core.io.object_store import has_object
from lance_core.table.paths import ManifestName
from lance_core.transactions.conflicts import Verdict, judge
from lance_core.transactions.delete_rebase import DeleteRebase, NotMergeable
from lance_core.transactions.outcomes import AlreadyCommitted, Conflicted, TableExists
from lance_core.transactions.overtaken import Presence, may_be_built_on
from lance_core.transactions.transaction import is_made_by, read_transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.operation import Operation
    from lance_core.transactions.options import CommitOptions
    from lance_core.transactions.transaction import Transaction

__all__ = ["Basis", "Refusal", "ReusedFields"]

_MAX_LISTINGS: Final = 10
"""Maximum number of times that versions are listed before one commit attempt. A listing is repeated if it found
several new versions."""

Refusal = AlreadyCommitted | Conflicted | TableExists
"""The reason why a commit ends before it attempts to create a version."""


class Basis:
    """The version that one commit builds on.

    Args:
        log: the table's versions.
        transaction: the change.
        options: the options of the commit.
        template: the empty manifest from which a new table starts.
        known: the manifest of the read version, if the caller has already read it.
    """

    def __init__(
        self,
        log: VersionLog,
        transaction: Transaction,
        options: CommitOptions,
        template: Manifest,
        known: Manifest | None,
    ) -> None:
        """Initialize without reading anything."""
        self._log = log
        self._transaction = transaction
        self._options = options
        self._known = known if known is not None and known.version == transaction.read_version else None
        self._started = False
        self._judged_version = 0
        self._num_new = 0
        self._manifest = template
        self._shared: set[int] = set()
        self._last: Manifest | None = None
        self._before_last: Manifest | None = None
        self._read_version_names: list[ManifestName] = []
        self._needs_proof = False
        self._reused = ReusedFields(transaction.operation)
        self._rebase = (
            None if options.affected_rows is None else DeleteRebase(log, options.affected_rows, options.storage_options)
        )

    @property
    def transaction(self) -> Transaction:
        """The change, adapted to :attr:`manifest`."""
        return self._transaction

    @property
    def manifest(self) -> Manifest:
        """The latest version that was checked, or the template of a new table."""
        return self._manifest

    def advance(self, winner: Manifest | None = None) -> Refusal | None:
        """Check all newer versions, and move to the latest version.

        Args:
            winner: the manifest of a newer version, if the caller has already read it.

        Returns:
            None if the change may be committed on top of :attr:`manifest`; otherwise, the reason why the commit ends.
        """
        for _ in range(_MAX_LISTINGS):
            refusal = self._judge_newer(winner)
            if refusal is not None:
                return refusal
            if self._num_new < 2:
                break
            # Checking many versions took time: others may have created newer versions, and the create would fail.
        return self._merge()

    def unsynced_files(self) -> list[str]:
        """Return the files of the change that must be made durable together with its version."""
        operation = self._transaction.operation
        files = list(self._options.unsynced_files)
        if self._rebase is not None and operation.hides_rows:
            files += self._rebase.unsynced_files(operation)
        return files

    def discard(self, kept: Manifest | None = None) -> None:
        """Remove the files written so far, except those to which ``kept`` refers; ignore failures."""
        if self._rebase is not None:
            self._rebase.discard(kept)

    def _judge_newer(self, winner: Manifest | None) -> Refusal | None:
        """Check the versions that are new since the last call, one by one."""
        if self._started:
            newer = self._newer()
        else:
            self._started = True
            started = self._start()
            if isinstance(started, Refusal):
                return started
            newer = started
        self._num_new = len(newer)
        for position, name in enumerate(newer):
            # A directory listing may miss a file that was created while it ran and show a later one.
            while self._judged_version + 1 < name.version:
                hidden = ManifestName(self._judged_version + 1, name.naming)
                refusal = self._step(hidden, newer[position:], winner)
                if refusal is not None:
                    return refusal
            refusal = self._step(name, newer[position:], winner)
            if refusal is not None:
                return refusal
        return None

    def _start(self) -> list[ManifestName] | Refusal:
        """Determine the version to start from, and return the versions that remain to be checked."""
        starts_table = self._options.create_only or self._transaction.operation.is_first_of_its_root
        if starts_table or self._transaction.read_version == 0:
            return self._start_without_read_version()
        return self._start_from_read_version()

    def _start_without_read_version(self) -> list[ManifestName] | Refusal:
        latest = self._log.latest()
        if not self._transaction.operation.is_planned_on_any_version:
            raise InvalidInputError(f"the operation {self._transaction.operation.arm!r} needs a read version")
        if latest is None:
            if not self._transaction.operation.makes_tables:
                raise VersionNotFoundError(
                    f"{self._log.uri} has no versions; only an overwrite can create the first version"
                )
            # The first version of a clone has the number of its source.
            self._judged_version = self._manifest.version
            return []
        if self._has_left_its_file():
            own = self._find_own(self._log.newer_than(self._transaction.read_version))
            if own is not None:
                return own
        if self._options.create_only or self._transaction.operation.is_first_of_its_root:
            return TableExists(latest.version)
        earlier = self._find_earlier_try()
        if earlier is not None:
            return earlier
        latest_manifest = self._log.read_latest()
        if latest_manifest is None:
            raise VersionNotFoundError(f"{self._log.uri} no longer has any versions")
        self._manifest = latest_manifest
        self._judged_version = latest_manifest.version
        return []

    def _start_from_read_version(self) -> list[ManifestName] | Refusal:
        read_version = self._transaction.read_version
        self._judged_version = read_version
        if self._known is not None:
            self._manifest = self._last = self._known
            return self._newer()
        newer = self._newer()
        names = [*self._read_version_names, *newer]
        if not names:
            raise VersionNotFoundError(
                f"{self._log.uri} has no version {read_version}, which is the read version of the change",
                version=read_version,
            )
        if self._transaction.operation.holds_values and not self._read_version_names:
            own = self._find_own(newer)
            if own is not None:
                return own
            raise VersionNotFoundError(
                f"{self._log.uri} no longer has version {read_version}, from which the index was built; the values "
                "that have changed since then cannot be determined",
                version=read_version,
            )
        if self._read_version_names:
            self._manifest = self._last = self._log.read(names[0])
        return newer

    def _newer(self) -> list[ManifestName]:
        """Return the versions after the one checked last.

        If that version or the one before it no longer exists, a cleanup may have removed versions after it as well,
        and a late writer may have created one of them again.
        """
        judged = self._judged_version
        listed = self._log.newer_than(max(judged - 2, 0))
        old = [name for name in listed if name.version <= judged]
        self._read_version_names = [name for name in old if name.version == judged]
        self._needs_proof = len(old) < min(judged, 2)
        return listed[len(old) :]

    def _is_built_on_last(self, manifest: Manifest) -> bool:
        """Return whether a version was built on the last checked version, which may have been committed too late.

        If the versions right before the first checked version are missing, uncertainty counts as "no".
        """
        last = self._last
        if last is None or last.version != manifest.version - 1:
            return True
        # No proof is required for the read version: it was the latest version when the change was planned.
        needs_proof = self._needs_proof and self._before_last is not None
        theirs = read_transaction(self._log, last)
        if theirs is None:
            return not needs_proof
        presence = may_be_built_on(self._log, theirs, last, self._before_last, manifest)
        return presence is Presence.PRESENT or (presence is Presence.UNCERTAIN and not needs_proof)

    def _step(self, name: ManifestName, remaining: Iterable[ManifestName], winner: Manifest | None) -> Refusal | None:
        """Check the next version and move to it."""
        try:
            manifest = winner if winner is not None and winner.version == name.version else self._log.read(name)
        except VersionNotFoundError:
            # If an earlier try committed this change there, planning it again would apply it twice.
            verdict = Verdict.RETRYABLE if self._options.is_first_try else Verdict.INCOMPATIBLE
            reason = f"version {name.version} was removed, so its changes are unknown"
            return self._find_own(remaining) or Conflicted(verdict, name.version, reason, is_removed=True)
        if is_made_by(manifest, self._transaction):
            return AlreadyCommitted(manifest)
        if not self._is_built_on_last(manifest):
            reason = (
                f"version {name.version - 1} was removed, so its changes are unknown; a late writer then created "
                f"another version {name.version - 1}"
            )
            verdict = Verdict.RETRYABLE if self._options.is_first_try else Verdict.INCOMPATIBLE
            return self._find_own(remaining) or Conflicted(verdict, name.version - 1, reason, is_removed=True)
        if self._options.create_only:
            return TableExists(name.version)
        refusal = self._judge(manifest)
        if refusal is None:
            self._follow(manifest)
            self._before_last, self._last = self._last, manifest
            self._manifest = manifest
            self._judged_version = name.version
        return refusal

    def _follow(self, manifest: Manifest) -> None:
        """Adapt the operation to the next version."""
        operation = self._transaction.operation
        if operation.holds_values and self._manifest.version == manifest.version - 1:
            self._transaction = replace(self._transaction, operation=operation.on_top_of(self._manifest, manifest))

    def _judge(self, manifest: Manifest) -> Conflicted | None:
        theirs = read_transaction(self._log, manifest)
        if theirs is None:
            return Conflicted(
                Verdict.RETRYABLE, manifest.version, "that version records no transaction, so its changes are unknown"
            )
        ours = self._transaction.operation
        field_id = self._reused.find(manifest)
        if field_id is not None:
            reason = f"field id {field_id}, used by the new rows or indices, has been reassigned to another column"
            return Conflicted(Verdict.RETRYABLE, manifest.version, reason)
        verdict = judge(ours, theirs.operation)
        may_add_rows = theirs.operation.may_change_rows and not theirs.operation.only_removes_rows
        if self._options.refuses_new_rows and may_add_rows and verdict is not Verdict.INCOMPATIBLE:
            verdict = Verdict.RETRYABLE
        if verdict is Verdict.MERGEABLE and self._rebase is not None:
            self._shared |= (ours.touched_fragments() or set()) & (theirs.operation.touched_fragments() or set())
            return None
        strict = self._options.max_retries == 0 and ours.makes_tables
        if verdict is Verdict.COMPATIBLE and not strict:
            return None
        if verdict is not Verdict.INCOMPATIBLE:
            verdict = Verdict.RETRYABLE
        return Conflicted(
            verdict, manifest.version, f"that version was created by the operation {theirs.operation.arm!r}"
        )

    def _merge(self) -> Conflicted | None:
        """Merge the change with changes by other writers to the same fragments since the last call."""
        operation = self._transaction.operation
        if not self._shared or self._rebase is None or not operation.hides_rows:
            return None
        merged = self._rebase.merge(operation, self._shared, self._manifest)
        if isinstance(merged, NotMergeable):
            return Conflicted(Verdict.RETRYABLE, self._judged_version, merged.reason)
        self._transaction = replace(self._transaction, read_version=self._judged_version, operation=merged)
        self._shared.clear()
        return None

    def _has_left_its_file(self) -> bool:
        """Return whether an earlier commit of this transaction wrote its transaction file."""
        return has_object(self._log.store, self._log.transaction_path(self._transaction.file_name))

    def _find_earlier_try(self) -> Conflicted | None:
        """Return the conflict if an earlier commit of this transaction created a version that has been removed.

        Later versions, which the cleanup kept, may still refer to the data files of that version.
        """
        if self._options.is_first_try:
            return None
        added = self._transaction.operation.added_fragments()
        paths = {file.path for fragment in added for file in fragment.message.files}
        if not paths:
            return None
        names = self._log.newer_than(0)
        is_complete = bool(names) and names[0].version == 1 and names[-1].version == len(names)
        if is_complete:
            return None
        for name in names:
            fragments = self._log.read(name).message.fragments
            if any(file.path in paths for fragment in fragments for file in fragment.files):
                reason = (
                    "that version contains data files of this transaction, so the transaction was already committed"
                )
                return Conflicted(Verdict.INCOMPATIBLE, name.version, reason, is_removed=True)
        return None

    def _find_own(self, names: Iterable[ManifestName]) -> AlreadyCommitted | None:
        for name in names:
            with suppress(VersionNotFoundError):
                manifest = self._log.read(name)
                if is_made_by(manifest, self._transaction):
                    return AlreadyCommitted(manifest)
        return None


class ReusedFields:
    """Finds field ids that were reassigned to other columns while rows were being written or an index was being built.

    A field id is reused once no data file contains it: after a column is dropped, the next new column may get its id.
    Values that were written for the dropped column would be read as values of the new column, or not at all. No single
    transaction reveals this, but the schemas of the intermediate versions do: the id is missing in one of them and
    exists again later. pylance 14.0.2 does not check this for appends and new indices.

    Args:
        operation: the change. Only appends and new indices are checked, because no other operation can be committed
            after columns were dropped or added.
    """

    def __init__(self, operation: Operation) -> None:
        """Initialize before any version is checked."""
        self._ids = operation.held_field_ids()
        self._gone: set[int] = set()

    def find(self, manifest: Manifest) -> int | None:
        """Check the next version.

        Returns:
            A reassigned field id that the new rows or indices use; None if there is none.
        """
        if not self._ids:
            return None
        present = {field.id for field in manifest.message.fields}
        reused = self._gone & present
        self._gone |= self._ids - present
        return min(reused, default=None)
