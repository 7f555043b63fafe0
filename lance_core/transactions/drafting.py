"""From an operation to the next version: what an operation needs to know besides the version that it is placed on.

=====================  ====================================================
Restore                the version to go back to
Update, DataOverlay    how hidden columns with row ids and versions are read
DataReplacement        the version that it was planned on: overlays since then are newer than its values
all others             nothing
=====================  ====================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.transactions.operations.data_overlay import DataOverlay
from lance_core.transactions.operations.data_replacement import DataReplacement
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.update import Update

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest
    from lance_core.table.manifest_draft import ManifestDraft
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.settings import CommitSettings
    from lance_core.transactions.transaction import Transaction

__all__ = ["draft_of"]


def draft_of(transaction: Transaction, current: Manifest, log: VersionLog, settings: CommitSettings) -> ManifestDraft:
    """The next version.

    Args:
        transaction: what makes it.
        current: the version to build on.
        log: the table's versions.
        settings: of the commit.

    Raises:
        InvalidInputError: the operation does not fit the table.
    """
    operation = transaction.operation
    if isinstance(operation, Restore):
        return operation.apply(current, log.read_version(operation.version))
    if isinstance(operation, (Update, DataOverlay)):
        return operation.apply(current, settings.hidden_columns(current))
    if isinstance(operation, DataReplacement):
        return operation.apply(current, transaction.read_version or None)
    return operation.apply(current)
