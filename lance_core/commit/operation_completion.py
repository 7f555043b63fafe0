"""Completes users' operations with information from the table, before the commit.

* Field ids for a merge whose schema is an Arrow schema. By default, its fields are numbered from 0, which results in
  the table's ids if no column was dropped or moved. If a table never reuses field ids, this cannot be assumed. Instead,
  a column with the same name and type as a column of the table gets the id of that column, and all other columns are
  new.
* The files of the new indices in a rewrite, because the public operation has no attribute for them. A new index
  without files is useless and is rejected.

Source: behavior of pylance 14.0.2.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from lance_core.errors import NotFoundError, VersionNotFoundError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.arguments import schema_with_ids
from lance_core.table.paths import INDICES_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core.schema.field import Field
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.public_transaction import Transaction as PublicTransaction
    from lance_core.transactions.transaction import Transaction

__all__ = ["with_index_files", "with_known_field_ids"]


def with_known_field_ids(transaction: PublicTransaction, log: VersionLog, known: Manifest | None) -> PublicTransaction:
    """Return the transaction, with field ids added to an Arrow schema if the table requires them.

    Args:
        transaction: the user's transaction.
        log: the table's versions.
        known: a manifest that has already been read; used if it is the manifest of the read version.
    """
    operation, version = transaction.operation, transaction.read_version
    unnumbered = operation.unnumbered_schema()
    if unnumbered is None:
        return transaction
    before = known if known is not None and known.version == version else None
    # A missing version is reported by the commit.
    with suppress(VersionNotFoundError):
        before = before or log.read_version(version)
    if before is None or not before.message.HasField("max_allocated_field_id"):
        return transaction
    schema = schema_with_ids(unnumbered)
    fields = _matched(schema.fields, before.schema.fields, count(before.message.max_allocated_field_id + 1))
    return replace(transaction, operation=operation.with_schema(replace(schema, fields=fields)))


def _matched(fields: Sequence[Field], before: Sequence[Field], new_ids: Iterator[int]) -> tuple[Field, ...]:
    known = {field.name: field for field in before}
    result = []
    for field in fields:
        same = known.get(field.name)
        if same is not None and same.logical_type != field.logical_type:
            same = None
        field_id = next(new_ids) if same is None else same.id
        children = _matched(field.children, () if same is None else same.children, new_ids)
        result.append(replace(field, id=field_id, children=children))
    return tuple(result)


def with_index_files(log: VersionLog, transaction: Transaction) -> Transaction:
    """Return the transaction, with the files of each rewritten index added.

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
