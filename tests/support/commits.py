"""Commits transactions that need no data from data files: runs the steps of a commit, one after the other."""

from lance_core.table.manifest import Manifest
from lance_core.table.version_log import VersionLog
from lance_core.transactions.optimistic_commit import OptimisticCommit
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.outcomes import CommitOutcome
from lance_core.transactions.transaction import Transaction


def commit_transaction(
    log: VersionLog,
    transaction: Transaction,
    options: CommitOptions,
    *,
    template: Manifest | None = None,
    known: Manifest | None = None,
) -> CommitOutcome:
    """Commit a transaction; arguments as for :class:`OptimisticCommit`, with an empty table as the default template."""
    with OptimisticCommit(log, transaction, options, template or Manifest.empty(), known) as attempts:
        while attempts.advance() is not None:
            attempts.create(attempts.build())
    return attempts.outcome
