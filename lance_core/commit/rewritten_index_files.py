"""The files of indices that a rewrite replaces: looked up if the operation does not list them.

Public operations have no field for them. A new index without files is useless, so it is rejected.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from lance_core.errors import NotFoundError
from lance_core.proto import pb_table, pb_transaction
from lance_core.table.paths import INDICES_DIRECTORY

if TYPE_CHECKING:
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.transaction import Transaction

__all__ = ["with_index_files"]


def with_index_files(log: VersionLog, transaction: Transaction) -> Transaction:
    """Return the transaction, with the files of each rewritten index.

    Raises:
        NotFoundError: an index has no files.
    """
    operation = transaction.operation
    rebuilt = operation.rebuilt_indices()
    if all(index.new_index_files for index in rebuilt):
        return transaction
    listed = tuple(index if index.new_index_files else _with_files(log, index) for index in rebuilt)
    return replace(transaction, operation=operation.with_rebuilt_indices(listed))


def _with_files(
    log: VersionLog, index: pb_transaction.Transaction.Rewrite.RewrittenIndex
) -> pb_transaction.Transaction.Rewrite.RewrittenIndex:
    directory = log.store.join(log.root, INDICES_DIRECTORY, str(uuid.UUID(bytes=index.new_id.uuid)))
    found = sorted(log.store.list(directory), key=lambda info: info.path)
    if not found:
        raise NotFoundError(f"the rewritten index at {directory} has no files", path=directory)
    result = pb_transaction.Transaction.Rewrite.RewrittenIndex()
    result.CopyFrom(index)
    result.new_index_files.extend(
        pb_table.IndexFile(path=info.path.removeprefix(f"{directory}/"), size_bytes=info.num_bytes) for info in found
    )
    return result
