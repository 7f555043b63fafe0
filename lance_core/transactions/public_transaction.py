"""Public class for transactions, and conversions between public and internal transactions.

The public class of each operation is defined next to its record in ``lance_core/transactions/operations/``. What users
leave out is looked up in the table: the field ids of an Arrow schema, and the files of rewritten indices.

Source: names, arguments and defaults of pylance 14.0.2.
"""

from __future__ import annotations

import uuid as uuid_module
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from lance_core.errors import (
    InvalidInputError,
    InvalidTypeError,
    LanceError,
    NotFoundError,
    NotSupportedError,
    VersionNotFoundError,
)
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.arguments import checked_number, schema_with_ids, whole_number
from lance_core.table.paths import INDICES_DIRECTORY
from lance_core.transactions.registry import LanceOperation
from lance_core.transactions.transaction import COMMIT_MESSAGE_KEY, checked_properties, read_transaction
from lance_core.transactions.transaction import Transaction as CoreTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.schema.field import Field
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = [
    "LanceOperation",
    "Transaction",
    "merge_appends",
    "read_public_transaction",
    "requested_transaction",
    "transaction_from_core",
    "transaction_to_core",
    "with_index_files",
    "with_known_field_ids",
]

_BATCH: Final = uuid_module.UUID("6e0a41d5-7a35-4b57-9d0c-1f2f6c2f9d3b")
"""The UUID namespace for transactions that merge several appends."""


@dataclass
class Transaction:
    """A change to a dataset, proposed or committed.

    Attributes:
        read_version: the version that the change was planned on.
        operation: the operation.
        uuid: identifies the change; committing the same uuid twice creates only one version.
        transaction_properties: arbitrary properties; ``__lance_commit_message`` contains the commit message.
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuid_module.uuid4()))
    transaction_properties: dict[str, str] | None = field(default_factory=dict)


def transaction_to_core(transaction: Transaction) -> CoreTransaction:
    """Convert a public transaction to its record.

    Raises:
        InvalidInputError: a value is malformed.
        InvalidTypeError: a value has the wrong type.
        NotSupportedError: the operation cannot be committed.
    """
    read_version = checked_number("read_version", transaction.read_version, 0, 2**64)
    operation: object = transaction.operation
    if not isinstance(operation, LanceOperation.BaseOperation):
        name = type(operation).__name__
        raise NotSupportedError(f"committing the operation {name!r} is not supported", operation=name)
    properties = checked_properties(transaction.transaction_properties)
    try:
        record = operation.to_record()
    except (TypeError, AttributeError) as error:
        if isinstance(error, LanceError):
            raise
        raise InvalidTypeError(f"an attribute of {type(operation).__qualname__} has the wrong type: {error}") from error
    return CoreTransaction(read_version=read_version, operation=record, uuid=transaction.uuid, properties=properties)


def with_known_field_ids(transaction: Transaction, log: VersionLog, known: Manifest | None) -> Transaction:
    """Return the transaction, with field ids added to an Arrow schema if the table requires them.

    By default, the fields of an Arrow schema are numbered from 0, which results in the table's ids if no column was
    dropped or moved. If a table never reuses field ids, this cannot be assumed. Instead, a column with the same name
    and type as a column of the table gets the id of that column, and all other columns are new.

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
    known = {each.name: each for each in before}
    result = []
    for each in fields:
        same = known.get(each.name)
        if same is not None and same.logical_type != each.logical_type:
            same = None
        field_id = next(new_ids) if same is None else same.id
        children = _matched(each.children, () if same is None else same.children, new_ids)
        result.append(replace(each, id=field_id, children=children))
    return tuple(result)


def with_index_files(log: VersionLog, transaction: CoreTransaction) -> CoreTransaction:
    """Return the transaction, with the files of each rewritten index added.

    The public operation has no attribute for these files. A new index without files is useless and is rejected.

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
    directory = log.store.join(log.root, INDICES_DIRECTORY, str(uuid_module.UUID(bytes=index.new_id.uuid)))
    found = sorted(log.store.list(directory), key=lambda info: info.path)
    if not found:
        raise NotFoundError(f"the rewritten index at {directory} has no files", path=directory)
    result = pb_transaction.Transaction.Rewrite.RewrittenIndex()
    result.CopyFrom(index)
    result.new_index_files.extend(
        pb_table.IndexFile(path=info.path.removeprefix(f"{directory}/"), size_bytes=info.num_bytes) for info in found
    )
    return result


def transaction_from_core(transaction: CoreTransaction) -> Transaction:
    """Return the public form of a committed transaction."""
    return Transaction(
        read_version=transaction.read_version,
        operation=transaction.operation.to_public(),
        uuid=transaction.uuid,
        transaction_properties=dict(transaction.properties),
    )


def read_public_transaction(log: VersionLog, version: int) -> Transaction | None:
    """Return the transaction that created a version, or None if the transaction has been removed.

    Raises:
        VersionNotFoundError: the version does not exist.
        CorruptDataError: the transaction is damaged.
    """
    transaction = read_transaction(log, log.read_version(version))
    return None if transaction is None else transaction_from_core(transaction)


def requested_transaction(
    operation: LanceOperation.BaseOperation | Transaction, read_version: int | None, commit_message: str | None
) -> Transaction:
    """Return the given transaction, or a new transaction for the given operation.

    Raises:
        InvalidInputError: an operation lacks a required read version, or a commit message is given together with a
            transaction.
        InvalidTypeError: the argument is neither an operation nor a transaction.
    """
    if isinstance(operation, Transaction):
        if commit_message is not None:
            raise InvalidInputError(
                f"commit_message cannot be given with a Transaction; set its property {COMMIT_MESSAGE_KEY!r}"
            )
        return operation
    if not isinstance(operation, LanceOperation.BaseOperation):
        raise InvalidTypeError(
            f"operation must be a LanceOperation.BaseOperation or Transaction, found {type(operation).__name__}"
        )
    if read_version is None and operation.needs_read_version:
        raise InvalidInputError("read_version is required for all operations except Overwrite and Restore")
    properties = {} if commit_message is None else {COMMIT_MESSAGE_KEY: commit_message}
    planned_on = 0 if read_version is None else whole_number("read_version", read_version)
    return Transaction(planned_on, operation, transaction_properties=properties)


def merge_appends(transactions: Sequence[Transaction]) -> Transaction:
    """Merge several appends into one transaction, which adds all their fragments in one version.

    The uuid of the result is derived from the uuids of the appends, so that committing the same batch again finds the
    existing version. The result has the earliest read version and the properties of all appends; if a property has
    several values, the last one is used.

    Args:
        transactions: the appends, in the order of their rows.

    Raises:
        InvalidInputError: the list of transactions is empty.
        InvalidTypeError: an item is not a transaction.
        NotSupportedError: a transaction is not an append.
    """
    if not transactions:
        raise InvalidInputError("transactions is empty; expected at least one")
    fragments: list[FragmentMetadata] = []
    properties: dict[str, str] = {}
    for transaction in transactions:
        if not isinstance(transaction, Transaction):
            raise InvalidTypeError(
                f"transactions must contain only Transaction objects, found {type(transaction).__name__}"
            )
        appended = transaction.operation.appended_fragments()
        if appended is None:
            name = type(transaction.operation).__name__
            raise NotSupportedError(f"only appends can be committed as a batch, found {name}", operation=name)
        fragments.extend(appended)
        properties.update(checked_properties(transaction.transaction_properties))
    return Transaction(
        min(transaction.read_version for transaction in transactions),
        LanceOperation.Append(fragments),
        uuid=str(uuid_module.uuid5(_BATCH, " ".join(transaction.uuid for transaction in transactions))),
        transaction_properties=properties,
    )
