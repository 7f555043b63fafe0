"""Committing where no data file has to be looked at: the steps of a commit, one after the other."""

from lance_core.table.manifest import Manifest
from lance_core.table.version_log import VersionLog
from lance_core.transactions.commit_steps import Commit
from lance_core.transactions.outcomes import CommitOutcome
from lance_core.transactions.settings import CommitSettings
from lance_core.transactions.transaction import Transaction


def commit_transaction(
    log: VersionLog, transaction: Transaction, settings: CommitSettings, *, known: Manifest | None = None
) -> CommitOutcome:
    """Commit a transaction; arguments as for :class:`Commit`."""
    with Commit(log, transaction, settings, known) as attempts:
        while attempts.advance() is not None:
            attempts.land(attempts.build())
    return attempts.outcome
