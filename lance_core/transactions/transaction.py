"""Transaction: an operation, and the version that it was planned on.

The transaction of a version is stored in the manifest, in the file ``_transactions/{read_version}-{uuid}.txn``, or in
both; writers whose changes were planned on an older version read the transaction to check for conflicts. The file
contains only the message, without framing.

The UUID identifies a change. If a version with the same UUID exists, the transaction has already been committed; the
manifest contains the UUID in the inline transaction and in the name of the transaction file.

Source: ``lance.table.Transaction``; files of pylance 14.0.2.
"""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from google.protobuf.message import DecodeError

from lance_core.errors import (
    CorruptDataError,
    InvalidInputError,
    InvalidTypeError,
    NotFoundError,
    VersionNotFoundError,
)
from lance_core.proto import pb_transaction
from lance_core.public.arguments import checked_text
from lance_core.table.paths import transaction_file_name
from lance_core.table.row_lineage import no_hidden_columns
from lance_core.transactions.operations.operation import ApplyContext, Operation
from lance_core.transactions.registry import operation_from_proto, operation_into_proto

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.table.manifest import Manifest
    from lance_core.table.paths import ManifestName
    from lance_core.table.row_lineage import HiddenColumns
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.parts import RewriteGroup

__all__ = [
    "COMMIT_MESSAGE_KEY",
    "Transaction",
    "checked_properties",
    "is_made_by",
    "new_uuid",
    "read_transaction",
    "withdraw_version",
]

COMMIT_MESSAGE_KEY: Final = "__lance_commit_message"
"""The transaction property that contains the commit message."""


def new_uuid() -> str:
    """Return a new transaction UUID."""
    return str(uuid_module.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One change to a table, proposed or committed.

    Attributes:
        read_version: the version that the change was planned on; 0 means no version or the latest version.
        operation: the operation.
        uuid: the UUID of the change, hyphenated and in lowercase.
        properties: arbitrary properties; ``COMMIT_MESSAGE_KEY`` is reserved.
    """

    read_version: int
    operation: Operation
    uuid: str = field(default_factory=new_uuid)
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def operation_name(self) -> str:
        """The name of the operation in the transaction message, for example ``append``."""
        return self.operation.arm

    @property
    def only_reserves_ids(self) -> bool:
        """Whether the change only reserves fragment ids for a later commit."""
        return self.operation.only_reserves_ids

    @property
    def rewritten_groups(self) -> tuple[RewriteGroup, ...]:
        """The groups of fragments that the change replaced without changing rows, with their replacements."""
        return self.operation.rewritten_groups()

    @property
    def file_name(self) -> str:
        """The name of the transaction's file below ``_transactions/``."""
        return transaction_file_name(self.read_version, self.uuid)

    @classmethod
    def parse(cls, data: pa.Buffer | bytes, what: str) -> Self:
        """Parse a serialized message, which has no length prefix.

        Args:
            data: the serialized message.
            what: description of the transaction's location, for error messages.

        Raises:
            CorruptDataError: the bytes are not a transaction.
        """
        try:
            message = pb_transaction.Transaction.FromString(bytes(data))
        except DecodeError as error:
            raise CorruptDataError(f"{what}: the transaction cannot be decoded: {error}", path=what) from error
        return cls(
            read_version=message.read_version,
            operation=operation_from_proto(message),
            uuid=message.uuid,
            properties=dict(message.transaction_properties),
        )

    def context(self, current: Manifest, log: VersionLog, hidden: HiddenColumns = no_hidden_columns) -> ApplyContext:
        """Return the context that is required to apply the operation to a version.

        Args:
            current: the version to build on.
            log: the table's versions, for reading a version to restore.
            hidden: reads hidden columns.

        Raises:
            VersionNotFoundError: the version to restore no longer exists.
        """
        restored = self.operation.restored_version
        return ApplyContext(
            current=current,
            read_version=self.read_version,
            restored=None if restored is None else log.read_version(restored),
            hidden=hidden,
        )

    def serialize(self) -> bytes:
        """Return the serialized message, without framing.

        Raises:
            NotSupportedError: the operation cannot be executed by this library.
            InvalidInputError: the UUID is malformed.
        """
        message = pb_transaction.Transaction(
            read_version=self.read_version, uuid=checked_uuid(self.uuid), transaction_properties=dict(self.properties)
        )
        operation_into_proto(self.operation, message)
        return message.SerializeToString()


def checked_uuid(text: str) -> str:
    """Return the UUID after checking that it is in canonical form, which other writers require.

    Raises:
        InvalidInputError: the text is not a canonical UUID.
    """
    try:
        canonical = str(uuid_module.UUID(text))
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInputError(f"malformed transaction UUID {text!r}") from error
    if canonical != text:
        raise InvalidInputError(f"transaction UUID {text!r} must be in canonical form, {canonical!r}")
    return canonical


def checked_properties(properties: object, commit_message: object = None) -> dict[str, str]:
    """Return the properties of a transaction, including its commit message.

    Raises:
        InvalidTypeError: the properties do not map strings to strings, or the message is not a string.
        InvalidInputError: a string is not valid Unicode.
    """
    if properties is None:
        properties = {}
    if not isinstance(properties, Mapping):
        raise InvalidTypeError(
            f"transaction_properties must map strings to strings, found {properties!r:.80}",
            argument="transaction_properties",
        )
    name = "transaction_properties"
    checked = {
        checked_text(f"a key of {name}", key): checked_text(f"{name}[{key!r:.40}]", value)
        for key, value in properties.items()
    }
    if commit_message is not None:
        checked[COMMIT_MESSAGE_KEY] = checked_text("commit_message", commit_message)
    return checked


def read_transaction(log: VersionLog, manifest: Manifest) -> Transaction | None:
    """Return the transaction that created a version; None if it is not recorded or its file was removed.

    Raises:
        CorruptDataError: the transaction cannot be decoded.
    """
    what = f"transaction of version {manifest.version} of {log.uri}"
    if manifest.transaction is not None:
        return Transaction.parse(manifest.transaction, what)
    if not manifest.message.transaction_file:
        return None
    try:
        data = log.store.get(log.transaction_path(manifest.message.transaction_file))
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
