"""The steps of a commit: from a transaction to a version.

::

      LOAD    list the versions after the one that the change was planned on; read the new ones
        |     one of them has our transaction UUID          -> AlreadyCommitted
        v
      JUDGE   check our operation against each of them      -> Conflicted
        |     a delete whose rows are known is merged with others; it then counts as planned on the latest version
        |
        v
      BUILD   apply the operation to the latest manifest; the caller completes the draft from the data files
        |
        v
      RECORD  put _transactions/{read_version}-{uuid}.txn   (once per commit, and again after a merge)
        |
        v
      CREATE  put the manifest of latest + 1 if absent
        |  created -> CONFIRM
        |  exists, or the store failed: read that version back
        |     ours                 -> CONFIRM (the response was lost)
        |     cannot be read       -> Unknown (nothing is removed)
        |     absent, store failed -> wait and retry if that can help, else NotCreated; but Unknown if the store may
        |                             still execute the unanswered request
        |     another writer's     -> wait, then LOAD again; out of attempts -> Contended
        v
      CONFIRM list the versions after ours
        |     none, or they contain our change     -> Committed
        |     they do not contain it               -> withdraw our manifest: Overtaken
        |     none, but a cleanup removed files that ours restores, or the branch was deleted and recreated
        |                                          -> restore the version before ours as the latest one: Overtaken
        |     it cannot be determined               -> Unknown (nothing is removed)
        v
      HINT    write the version hint; failures are ignored

Callers run the steps in a loop (:class:`OptimisticCommit`), and read data files between the steps if needed.
:class:`~lance_core.transactions.basis.Basis` performs LOAD and JUDGE. Only CREATE makes a change visible, and it
succeeds for exactly one of several concurrent writers. CONFIRM determines whether that writer was too late, because a
cleanup had removed another version with the same number (:mod:`~lance_core.transactions.overtaken`).

Our transaction file is removed when the commit is known to have failed, or when a merge wrote it again under a new
name; it is kept when the outcome is unknown. Merged deletion files that no version refers to are removed once no
further attempt can succeed. An interrupt (Ctrl-C) counts as a failure before CREATE; after that, the outcome is
unknown.

Source: commit protocol of pylance 14.0.2; CONFIRM and the recognition of an earlier commit by its UUID are specific to
this library.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import InternalError, LanceError, RefNotFoundError, StorageError, VersionNotFoundError
from lance_core.io.object_store import PutOutcome
from lance_core.io.removal import remove_objects
from lance_core.table.lines import line_identity
from lance_core.table.paths import ManifestName, ManifestNaming
from lance_core.table.row_lineage import no_hidden_columns
from lance_core.transactions.backoff import SlotBackoff
from lance_core.transactions.basis import Basis
from lance_core.transactions.conflicts import Verdict
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.outcomes import (
    AlreadyCommitted,
    AttemptOutcome,
    CommitOutcome,
    Committed,
    Conflicted,
    Contended,
    LostRace,
    NotCreated,
    Overtaken,
    Unknown,
)
from lance_core.transactions.overtaken import Presence, find_presence
from lance_core.transactions.restoring import check_restore, has_lost_files, held
from lance_core.transactions.transaction import Transaction, is_made_by, read_transaction, withdraw_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from lance_core.table.manifest import Manifest
    from lance_core.table.manifest_draft import ManifestDraft
    from lance_core.table.row_lineage import HiddenColumns
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.basis import Refusal
    from lance_core.transactions.options import CommitOptions

__all__ = ["OptimisticCommit"]

_READ_BACK_WAITS_SECONDS: Final = (0.05, 0.2, 1.0)
_MAX_CONFIRMATIONS: Final = 10
"""Maximum number of listings of versions after the step CREATE; a listing is repeated if a cleanup removes a listed
version."""


_logger: Final = logging.getLogger(__name__)


class OptimisticCommit:
    """One commit in progress: a context manager that removes leftover files after a failure.

    ::

        with OptimisticCommit(log, transaction, options, template, known) as commit:
            while (current := commit.advance()) is not None:
                commit.create(commit.build())
        commit.outcome

    Args:
        log: the table's versions.
        transaction: the transaction to commit; its operation must be executable.
        options: the options of the commit.
        template: the empty manifest from which a new table starts.
        known: the manifest of ``transaction.read_version``, if the caller has already read it.

    """

    def __init__(
        self,
        log: VersionLog,
        transaction: Transaction,
        options: CommitOptions,
        template: Manifest,
        known: Manifest | None = None,
    ) -> None:
        """Initialize without reading anything."""
        self._outcome: CommitOutcome | None = None
        self._log = log
        self._transaction = transaction
        self._options = options
        self._serialized = transaction.serialize()
        self._basis = Basis(log, transaction, options, template, known)
        self._recorded: list[str] = []
        self._progress = options.progress
        self._in_flight: Unknown | None = None
        self._holds = ExitStack()
        self._is_held = False
        self._winner: Manifest | None = None
        self._num_attempts = 0
        self._backoff = SlotBackoff(options.rng)
        self._started = self._attempt_started = time.monotonic()

    def __enter__(self) -> Self:
        """Start the commit and its time limit."""
        self._started = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Remove leftover files. After a failure whose effect is unknown, the outcome is ``Unknown``."""
        with self._holds:
            if error is None:
                self._finish()
            elif isinstance(error, LanceError) and self._in_flight is not None:
                self._outcome = self._in_flight
                return True
            elif isinstance(error, LanceError) or not self._progress.may_be_committed:
                # The interrupt came before anything could be committed; later, the outcome would be unknown.
                self._give_up()
        return False

    @property
    def outcome(self) -> CommitOutcome:
        """The outcome, once :meth:`advance` has returned None. ``Committed`` and ``AlreadyCommitted`` mean success."""
        if self._outcome is None:
            raise InternalError("the outcome was requested before the commit was finished")
        return self._outcome

    def advance(self) -> Manifest | None:
        """LOAD and JUDGE: return the version to build on, or None if the outcome is known.

        Raises:
            VersionNotFoundError: the read version does not exist.
            StorageError: a storage operation failed before anything was created.
            CorruptDataError: the table is damaged.
        """
        if self._outcome is not None:
            return None
        self._attempt_started = time.monotonic()
        refusal = self._basis.advance(self._winner) or self._judge_line() or self._judge_restore()
        if refusal is not None:
            self._outcome = self._refused(refusal)
            return None
        return self._basis.manifest

    def build(self, hidden: HiddenColumns = no_hidden_columns) -> ManifestDraft:
        """BUILD: return the draft of the next version; writes nothing, and may be repeated.

        Args:
            hidden: the hidden columns of the version to build on and of the operation.

        Raises:
            InvalidInputError: the operation is incompatible with the table.
            NotSupportedError: the table or the operation needs a feature that this library does not support.
        """
        transaction = self._basis.transaction
        draft = transaction.operation.apply(transaction.context(self._basis.manifest, self._log, hidden))
        restored = transaction.operation.restored_version
        if restored is not None and not self._is_held:
            self._holds.enter_context(held(self._log, restored, self._options.wait))
            self._is_held = True
        return draft

    def create(self, draft: ManifestDraft) -> None:
        """RECORD, CREATE and CONFIRM: set the outcome, or wait for the next attempt.

        Args:
            draft: the draft of the version after the one that :meth:`advance` returned.

        Raises:
            StorageError: a storage operation failed before anything was created.
        """
        outcome = self._attempt(draft)
        if isinstance(outcome, (Committed, Overtaken, Unknown)):
            self._outcome = outcome
            return
        self._progress.may_be_committed = isinstance(outcome, NotCreated) or outcome.manifest is None
        self._note_in_flight(outcome)
        self._num_attempts += 1
        gives_up = self._num_attempts > self._options.max_retries
        if isinstance(outcome, NotCreated):
            if gives_up or not _is_retryable(outcome.cause):
                self._outcome = outcome
                return
        else:
            self._winner = outcome.manifest
        wait_seconds = self._backoff.next_seconds(time.monotonic() - self._attempt_started)
        if gives_up or not self._wait(wait_seconds):
            self._outcome = outcome if isinstance(outcome, NotCreated) else Contended(self._num_attempts)

    def _finish(self) -> None:
        outcome = self._outcome
        if self._in_flight is not None and isinstance(outcome, (NotCreated, Contended)):
            outcome = self._outcome = self._in_flight
        if isinstance(outcome, (Committed, AlreadyCommitted)):
            self._progress.made = outcome.manifest
            self._basis.discard(kept=outcome.manifest)
            # A merge renames the transaction; the old file was harmless during the race.
            kept = outcome.manifest.message.transaction_file
            self._forget(name for name in self._recorded if name != kept)
        elif not isinstance(outcome, Unknown):
            self._give_up()
        if isinstance(outcome, Committed):
            self._log.write_hint(outcome.manifest.version)
        _logger.debug(
            "%s: the outcome of transaction %s is %s", self._log.root, self._transaction.uuid, type(outcome).__name__
        )

    def _judge_line(self) -> Conflicted | None:
        """Report a conflict if the branch was deleted or recreated since the first try, which removed our files."""
        try:
            line = line_identity(self._log, self._basis.manifest.message.branch)
        except RefNotFoundError:
            reason = "the branch was deleted"
        else:
            if self._progress.line in (None, line):
                self._progress.line = line
                return None
            reason = "the branch was deleted and recreated during this commit"
        return Conflicted(Verdict.INCOMPATIBLE, self._basis.manifest.version, reason)

    def _is_on_line(self, made: Manifest) -> bool:
        """Return whether the branch of a version is still the one that the first try started on."""
        try:
            return line_identity(self._log, made.message.branch) == self._progress.line
        except RefNotFoundError:
            return False

    def _judge_restore(self) -> Conflicted | None:
        """Report a conflict if the basis is a restore of a version that was cleaned up: the restore may be reverted."""
        basis = self._basis.manifest
        # The transaction of a restore is so short that the manifest always contains it.
        if basis.transaction is None or self._transaction.operation.replaces_all_files:
            return None
        try:
            theirs = read_transaction(self._log, basis)
        except LanceError:
            # The transaction is damaged or was written by a later release, which does not matter for our change.
            return None
        restored = None if theirs is None else theirs.operation.restored_version
        if restored is None or not has_lost_files(self._log, basis, self._options.storage_options):
            return None
        reason = f"that version restores version {restored}, whose files are missing"
        return Conflicted(Verdict.RETRYABLE, basis.version, reason)

    def _refused(self, refusal: Refusal) -> CommitOutcome:
        """Return the outcome of a commit that creates no version, after confirming an earlier commit of the change."""
        if isinstance(refusal, Conflicted) and refusal.is_removed:
            # The removed version may be ours, if the store did not respond to the create, or only to a retry.
            if self._in_flight is not None:
                return self._in_flight
            if self._progress.may_be_committed:
                return Unknown(refusal.version, VersionNotFoundError(refusal.reason, version=refusal.version))
        if not isinstance(refusal, AlreadyCommitted):
            return refusal
        confirmed = self._confirm(refusal.manifest, None)
        return refusal if isinstance(confirmed, Committed) else confirmed

    def _note_in_flight(self, outcome: LostRace | NotCreated) -> None:
        """Record whether our version may still appear; it cannot once another writer's version has its number."""
        if isinstance(outcome, NotCreated):
            if isinstance(outcome.cause, StorageError) and outcome.cause.in_flight:
                self._in_flight = Unknown(self._basis.manifest.version + 1, outcome.cause)
        elif outcome.manifest is not None:
            self._in_flight = None
        elif self._newer_than(ManifestName(self._basis.manifest.version + 1, self._basis.manifest.naming)):
            # The version was cleaned up before it could be read, so its writer is unknown.
            version = self._basis.manifest.version + 1
            self._in_flight = Unknown(version, VersionNotFoundError(f"version {version} was removed", version=version))

    def _wait(self, seconds: float) -> bool:
        """Wait; return False if that would exceed the time limit."""
        limit = self._options.timeout
        if limit is not None and time.monotonic() - self._started + seconds >= limit.total_seconds():
            return False
        self._options.wait(seconds)
        return True

    def _attempt(self, draft: ManifestDraft) -> AttemptOutcome:
        """Try to create the version after the basis."""
        transaction = self._basis.transaction
        self._record(transaction)
        sealed = draft.seal(
            transaction=self._serialized, transaction_file=transaction.file_name, timestamp_ns=time.time_ns()
        )
        target = ManifestName(sealed.manifest.version, sealed.manifest.naming)
        self._progress.may_be_committed = True
        self._progress.attempted.append(sealed.manifest)
        try:
            put = self._log.create(target, sealed.data, self._basis.unsynced_files())
        except StorageError as error:
            return self._read_back(target, error)
        if put is PutOutcome.CREATED:
            return self._confirm(sealed.manifest, self._basis.manifest)
        return self._read_back(target, None)

    def _read_back(self, target: ManifestName, cause: StorageError | None) -> AttemptOutcome:
        """Determine who created version ``target``, after a create that did not return "created"."""
        waits = iter(_READ_BACK_WAITS_SECONDS)
        while True:
            try:
                found = self._log.read(target)
                ours = is_made_by(found, self._transaction)
            except VersionNotFoundError:
                if cause is None:
                    return LostRace(None)
                # The failed create may have created the version anyway, and a cleanup may have removed it.
                return NotCreated(cause) if not self._newer_than(target) else Unknown(target.version, cause)
            except LanceError as error:
                wait_seconds = next(waits, None)
                if wait_seconds is None or not _is_retryable(error):
                    return Unknown(target.version, cause or error)
                self._options.wait(wait_seconds)
            else:
                if ours:
                    return self._confirm(found, self._basis.manifest)
                if isinstance(cause, StorageError) and cause.in_flight and self._newer_than(target):
                    # This may not be the version that existed during our create: a cleanup may have removed ours since.
                    return Unknown(target.version, cause)
                return LostRace(found)

    def _newer_than(self, target: ManifestName) -> bool:
        """Return whether there are versions after a missing one; True if this cannot be determined."""
        try:
            return bool(self._log.newer_than(target.version))
        except LanceError:
            return True

    def _confirm(self, made: Manifest, before: Manifest | None) -> Committed | Overtaken | Unknown:
        """Determine whether our version, which exists, is part of the table: it may have been created too late.

        Args:
            made: our version.
            before: the version it was built on; None if an earlier call created ours and this call must not remove it.
        """
        if self._transaction.operation.is_first_of_its_root:
            # This is the first version of a root; if several writers create one, the record of the root decides.
            return Committed(made)
        self._progress.may_be_committed = True
        waits = iter(_READ_BACK_WAITS_SECONDS)
        cause: LanceError | None = None
        for _ in range(_MAX_CONFIRMATIONS):
            try:
                newer = self._log.surely_newer_than(made.version)
                if before is not None and not self._is_on_line(made):
                    reason = f"the branch at {self._log.uri} was deleted or recreated during this commit"
                    return self._undone(made, newer, VersionNotFoundError(reason, version=made.version))
                if not newer:
                    return self._with_its_files(made, before)
                if self._transaction.operation.leaves_no_trace:
                    # It cannot be determined whether others reserved the same ids; reserving new ids costs nothing.
                    return Overtaken(made.version, newer[-1].version)
                presence = find_presence(self._log, self._transaction, made, before, newer)
                if presence is Presence.PRESENT:
                    lost = self._lost_files(made)
                    return Committed(made) if lost is None else Unknown(made.version, lost)
                if presence is Presence.ABSENT and before is not None:
                    self._withdraw(ManifestName(made.version, made.naming))
                    self._progress.may_be_committed = False
                    return Overtaken(made.version, newer[-1].version)
                break
            except VersionNotFoundError as error:
                cause = error
            except LanceError as error:
                cause = error
                if before is not None and self._is_beside_another(made):
                    self._withdraw(ManifestName(made.version, made.naming))
                    self._progress.may_be_committed = False
                    return Overtaken(made.version, made.version)
                # The version exists, so a retry may help regardless of the kind of storage failure.
                wait_seconds = next(waits, None)
                if wait_seconds is None or not isinstance(error, StorageError):
                    break
                self._options.wait(wait_seconds)
        reason = f"it is unknown whether the newer versions were built on version {made.version}"
        return Unknown(made.version, cause or VersionNotFoundError(reason, version=made.version), is_created=True)

    def _is_beside_another(self, made: Manifest) -> bool:
        """Return whether the table was migrated to the other naming scheme and another version has our number."""
        naming = ManifestNaming.V1 if made.naming is ManifestNaming.V2 else ManifestNaming.V2
        try:
            return not is_made_by(self._log.read(ManifestName(made.version, naming)), self._transaction)
        except LanceError:
            return False

    def _with_its_files(self, made: Manifest, before: Manifest | None) -> Committed | Overtaken | Unknown:
        """Confirm our latest version, or undo it if it restores a version whose files a cleanup has removed."""
        lost = self._lost_files(made)
        if lost is None:
            return Committed(made)
        return Unknown(made.version, lost) if before is None else self._undone(made, [], lost)

    def _undone(self, made: Manifest, newer: Sequence[ManifestName], cause: LanceError) -> Overtaken | Unknown:
        """Restore the version before ours as the latest version, unless others have committed on top of ours."""
        before = made.version - 1
        if newer or before not in {name.version for name in self._log.newer_than(before - 1)}:
            return Unknown(made.version, cause)
        try:
            with held(self._log, before, self._options.wait):
                undoing = self._restored(made, before)
        except LanceError as error:
            _logger.warning("%s: could not revert version %d: %s", self._log.root, made.version, error)
            return Unknown(made.version, cause)
        if undoing is None:
            return Unknown(made.version, cause)
        if self._transaction.operation.restored_version is not None:
            # No one can read this version. Any other version may have been tagged or branched while it was the latest.
            self._withdraw(ManifestName(made.version, made.naming))
            self._progress.may_be_committed = False
        return Overtaken(made.version, undoing)

    def _restored(self, made: Manifest, version: int) -> int | None:
        """Restore an earlier version on top of ours; return the new version, or None if another writer was first."""
        transaction = Transaction(read_version=made.version, operation=Restore(version=version))
        serialized = transaction.serialize()
        check_restore(self._log, version, self._options.storage_options)
        draft = transaction.operation.apply(transaction.context(made, self._log))
        sealed = draft.seal(transaction=serialized, transaction_file=transaction.file_name, timestamp_ns=time.time_ns())
        self._log.record_transaction(transaction.file_name, serialized)
        if (
            self._log.create(ManifestName(sealed.manifest.version, sealed.manifest.naming), sealed.data)
            is not PutOutcome.CREATED
        ):
            self._forget([transaction.file_name])
            return None
        return sealed.manifest.version

    def _lost_files(self, made: Manifest) -> VersionNotFoundError | None:
        """Return the reason if our version cannot be read because it restores a version that was cleaned up."""
        restored = self._transaction.operation.restored_version
        if restored is None:
            return None
        if not has_lost_files(self._log, made, self._options.storage_options):
            return None
        reason = f"version {restored} was removed, together with its files, while it was being restored"
        return VersionNotFoundError(reason, version=restored)

    def _withdraw(self, name: ManifestName) -> None:
        """Remove our version if no newer one was built on it and it still exists."""
        if withdraw_version(self._log, name, self._transaction):
            _logger.warning(
                "%s: removed version %d, which this commit had created: another change came first, "
                "so the version never became part of the table",
                self._log.root,
                name.version,
            )

    def _record(self, transaction: Transaction) -> None:
        """Write the transaction file unless it exists."""
        if self._recorded and transaction is self._transaction:
            return
        self._transaction = transaction
        self._serialized = transaction.serialize()
        if transaction.file_name not in self._recorded:
            self._recorded.append(transaction.file_name)
        self._log.record_transaction(transaction.file_name, self._serialized)

    def _give_up(self) -> None:
        """Remove the leftover files of a commit that is known to have failed."""
        try:
            self._forget(self._recorded)
        finally:
            if not self._progress.may_be_committed:
                self._basis.discard()

    def _forget(self, file_names: Iterable[str]) -> None:
        """Remove transaction files; failures are ignored."""
        remove_objects(self._log.store, [self._log.transaction_path(name) for name in file_names])


def _is_retryable(error: LanceError) -> bool:
    return isinstance(error, StorageError) and error.retryable
