"""The commit loop: from a transaction to a version.

::

      LOAD    list the versions after the one that the change was planned on; read what is new
        |     one of them carries our transaction uuid      -> AlreadyCommitted
        v
      JUDGE   our operation against each new transaction    -> Conflicted
        |     a delete whose rows are known is merged with others; it is planned on the latest version then
        |
        v
      BUILD   apply the operation to the latest manifest; the first time, run the caller's checks
        |
        v
      RECORD  put _transactions/{read_version}-{uuid}.txn   (once per commit, and again after a merge)
        |
        v
      CREATE  put the manifest of latest + 1 if absent
        |  created -> Committed
        |  exists, or the store failed: read that version back
        |     ours                 -> Committed (the response was lost)
        |     cannot be read       -> Unknown (nothing is removed)
        |     absent, store failed -> wait and retry if that can help, else NotLanded; but Unknown when the store may
        |                             still carry out what it did not answer
        |     another's            -> wait, then LOAD again; out of attempts -> Contended
        v
      HINT    best effort

LOAD and JUDGE are the work of :class:`~lance_core.transactions.basis.Basis`. Only CREATE makes anything visible, and
it has one winner. Our transaction file is removed when the commit is known to have failed, or when a merge gave it
another name; it stays when the outcome is unknown. Merged deletion files that no version refers to are removed when no
attempt can land any more.

Source: commit protocol of pylance 14.0.2; recognising an earlier commit by its uuid is ours.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lance_core.errors import LanceError, StorageError, VersionNotFoundError
from lance_core.io.object_store import PutOutcome
from lance_core.table.paths import ManifestName
from lance_core.table.version_hint import write_version_hint
from lance_core.transactions.backoff import SlotBackoff
from lance_core.transactions.basis import Basis
from lance_core.transactions.drafting import draft_of
from lance_core.transactions.history import is_made_by, record_transaction, transaction_path
from lance_core.transactions.outcomes import (
    AlreadyCommitted,
    AttemptOutcome,
    CommitOutcome,
    Committed,
    Contended,
    LostRace,
    NotLanded,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.settings import CommitSettings
    from lance_core.transactions.transaction import Transaction

__all__ = ["commit_transaction"]

_READ_BACK_WAITS_SECONDS: Final = (0.05, 0.2, 1.0)

_logger: Final = logging.getLogger(__name__)


def commit_transaction(
    log: VersionLog, transaction: Transaction, settings: CommitSettings, *, known: Manifest | None = None
) -> CommitOutcome:
    """Commit a transaction.

    Args:
        log: the table's versions.
        transaction: what to commit; its operation is executable.
        settings: how.
        known: the manifest of ``transaction.read_version``, when the caller has it: saves reading it.

    Returns:
        What became of it. ``Committed`` and ``AlreadyCommitted`` mean success.

    Raises:
        VersionNotFoundError: the read version does not exist.
        InvalidInputError: the operation does not fit the table.
        StorageError: the outside world failed before anything was made.
        CorruptDataError: the table is damaged.
        NotSupportedError: the table or the operation needs what this library does not have.
    """
    return _Commit(log, transaction, settings, known).run()


class _Commit:
    """One commit in progress."""

    def __init__(
        self, log: VersionLog, transaction: Transaction, settings: CommitSettings, known: Manifest | None
    ) -> None:
        self._log = log
        self._transaction = transaction
        self._settings = settings
        self._serialized = transaction.serialize()
        self._basis = Basis(log, transaction, settings, known)
        self._checked = False
        self._recorded: list[str] = []
        self._may_land = False
        self._in_flight: Unknown | None = None

    def run(self) -> CommitOutcome:
        try:
            outcome = self._loop()
        except LanceError:
            if self._in_flight is not None:
                return self._in_flight
            self._give_up()
            raise
        if self._in_flight is not None and isinstance(outcome, (NotLanded, Contended)):
            outcome = self._in_flight
        if isinstance(outcome, (Committed, AlreadyCommitted)):
            self._basis.discard(kept=outcome.manifest)
            # A merge gives the transaction another name; the old file was in nobody's way during the race.
            kept = outcome.manifest.message.transaction_file
            self._forget(name for name in self._recorded if name != kept)
        elif not isinstance(outcome, Unknown):
            self._give_up()
        if isinstance(outcome, Committed):
            write_version_hint(self._log.store, self._log.root, outcome.manifest.version)
        _logger.debug("%s: transaction %s: %s", self._log.root, self._transaction.uuid, type(outcome).__name__)
        return outcome

    def _loop(self) -> CommitOutcome:
        started = time.monotonic()
        backoff = SlotBackoff(self._settings.rng)
        winner: Manifest | None = None
        retries_left = self._settings.max_retries
        while True:
            attempt_started = time.monotonic()
            refusal = self._basis.advance(winner)
            if refusal is not None:
                return refusal
            outcome = self._attempt()
            if isinstance(outcome, (Committed, Unknown)):
                return outcome
            self._may_land = isinstance(outcome, NotLanded) or outcome.manifest is None
            self._note_in_flight(outcome)
            gives_up = retries_left == 0
            if isinstance(outcome, NotLanded):
                if gives_up or not _is_retryable(outcome.cause):
                    return outcome
            else:
                winner = outcome.manifest
            wait_seconds = backoff.next_seconds(time.monotonic() - attempt_started)
            if gives_up or not self._wait(wait_seconds, started):
                return Contended(self._settings.max_retries - retries_left + 1)
            retries_left -= 1

    def _note_in_flight(self, outcome: LostRace | NotLanded) -> None:
        """Keep in mind that a version may still appear; another's version of that number settles it."""
        if isinstance(outcome, NotLanded):
            if isinstance(outcome.cause, StorageError) and outcome.cause.in_flight:
                self._in_flight = Unknown(self._basis.manifest.version + 1, outcome.cause)
        elif outcome.manifest is not None:
            self._in_flight = None

    def _wait(self, seconds: float, started: float) -> bool:
        """Wait; False when the time limit would be passed."""
        limit = self._settings.timeout_seconds
        if limit is not None and time.monotonic() - started + seconds >= limit:
            return False
        self._settings.wait(seconds)
        return True

    def _attempt(self) -> AttemptOutcome:
        """Try to make the version after the basis."""
        transaction = self._basis.transaction
        draft = draft_of(transaction, self._basis.manifest, self._log, self._settings)
        if not self._checked:
            self._settings.check(self._basis.manifest)
            self._checked = True
        self._settings.amend(draft)
        self._record(transaction)
        sealed = draft.seal(
            transaction=self._serialized, transaction_file=transaction.file_name, timestamp_ns=time.time_ns()
        )
        target = ManifestName(sealed.manifest.version, sealed.manifest.naming)
        try:
            put = self._log.create(target, sealed.data, self._basis.unsynced_files())
        except StorageError as error:
            return self._read_back(target, error)
        return Committed(sealed.manifest) if put is PutOutcome.CREATED else self._read_back(target, None)

    def _read_back(self, target: ManifestName, cause: StorageError | None) -> AttemptOutcome:
        """Find out whose version ``target`` is after a create that did not answer "created"."""
        waits = iter(_READ_BACK_WAITS_SECONDS)
        while True:
            try:
                found = self._log.read(target)
                ours = is_made_by(found, self._transaction)
            except VersionNotFoundError:
                return LostRace(None) if cause is None else NotLanded(cause)
            except LanceError as error:
                wait_seconds = next(waits, None)
                if wait_seconds is None or not _is_retryable(error):
                    return Unknown(target.version, cause or error)
                self._settings.wait(wait_seconds)
            else:
                return Committed(found) if ours else LostRace(found)

    def _record(self, transaction: Transaction) -> None:
        """Write the transaction file, unless it is there."""
        if self._recorded and transaction is self._transaction:
            return
        self._transaction = transaction
        self._serialized = transaction.serialize()
        if transaction.file_name not in self._recorded:
            self._recorded.append(transaction.file_name)
        record_transaction(self._log, transaction.file_name, self._serialized)

    def _give_up(self) -> None:
        """Remove what a commit left that is known to have failed."""
        self._forget(self._recorded)
        if not self._may_land:
            self._basis.discard()

    def _forget(self, file_names: Iterable[str]) -> None:
        """Remove transaction files. Best effort."""
        for file_name in file_names:
            with suppress(LanceError):
                self._log.store.delete(transaction_path(self._log, file_name), durable=False)


def _is_retryable(error: LanceError) -> bool:
    return isinstance(error, StorageError) and error.retryable
