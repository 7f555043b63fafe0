"""Reads the transactions of committed versions, and recognizes the writer's own transaction.

A transaction is read from the manifest if it is stored inline, otherwise from the file that the manifest refers to. A
version is the writer's own if the transaction UUID matches; the manifest contains the UUID in the inline transaction
and in the name of the transaction file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import NotFoundError, VersionNotFoundError
from lance_core.table.manifest_file import is_kept_inline
from lance_core.table.paths import TRANSACTIONS_DIRECTORY
from lance_core.transactions.transaction import Transaction

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest
    from lance_core.table.paths import ManifestName
    from lance_core.table.version_log import VersionLog

__all__ = ["is_made_by", "read_transaction", "record_transaction", "transaction_path", "withdraw_version"]


def transaction_path(log: VersionLog, file_name: str) -> str:
    """Return the path of a transaction file."""
    return log.store.join(log.root, TRANSACTIONS_DIRECTORY, file_name)


def record_transaction(log: VersionLog, file_name: str, serialized: bytes) -> None:
    """Write a transaction file.

    The file is made durable only if the manifest does not contain the transaction; otherwise, nothing depends on the
    file.

    Raises:
        StorageError: a storage operation failed.
    """
    durable = not is_kept_inline(serialized)
    log.store.put(transaction_path(log, file_name), serialized, durable=durable)


def read_transaction(log: VersionLog, manifest: Manifest) -> Transaction | None:
    """Return the transaction that created a version; None if it is not recorded or its file was removed.

    Raises:
        CorruptDataError: the transaction cannot be decoded.
    """
    what = f"transaction of version {manifest.version} of {log.root}"
    if manifest.transaction is not None:
        return Transaction.parse(manifest.transaction, what)
    if not manifest.message.transaction_file:
        return None
    try:
        data = log.store.get(transaction_path(log, manifest.message.transaction_file))
    except NotFoundError:
        return None
    return Transaction.parse(data, what)


def is_made_by(manifest: Manifest, transaction: Transaction) -> bool:
    """Return whether a version was created by the given transaction.

    Raises:
        CorruptDataError: the version's transaction cannot be decoded.
    """
    if manifest.message.transaction_file:
        # The same change may have been planned again on another version.
        _, _, name = manifest.message.transaction_file.partition("-")
        return name == f"{transaction.uuid}.txn"
    if manifest.transaction is None:
        return False
    return Transaction.parse(manifest.transaction, f"version {manifest.version}").uuid == transaction.uuid


def withdraw_version(log: VersionLog, name: ManifestName, transaction: Transaction) -> bool:
    """Remove the writer's own version, which is not part of the table, unless another version now has its number.

    Returns:
        Whether this call removed the version.

    Raises:
        CorruptDataError: the version's transaction cannot be decoded.
        StorageError: a storage operation failed.
    """
    try:
        is_own = is_made_by(log.read(name), transaction)
    except VersionNotFoundError:
        return False
    if is_own:
        log.withdraw(name)
    return is_own
