"""Detached commits: create versions outside the history of a branch.

A detached version is built on its read version like any other, but does not compete with other commits: its number is
random and has bit 63 set, no listing includes it, and the latest version does not change. A detached version can be
opened by its number, restored, or used as the basis of another detached version.

Source: detached commits of pylance 14.0.2.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from lance_core.errors import LanceError, NotSupportedError, StorageError, VersionNotFoundError
from lance_core.io.object_store import PutOutcome
from lance_core.io.removal import remove_objects
from lance_core.proto import pb_table
from lance_core.table.manifest import Manifest
from lance_core.table.paths import FIRST_DETACHED_VERSION, ManifestName, ManifestNaming
from lance_core.table.row_lineage import no_hidden_columns
from lance_core.transactions.outcomes import CommitOutcome, Committed, NotCreated, Unknown
from lance_core.transactions.transaction import is_made_by

if TYPE_CHECKING:
    from lance_core.table.manifest_draft import ManifestDraft
    from lance_core.table.row_lineage import HiddenColumns
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.transaction import Transaction

__all__ = ["DetachedCommit"]


class DetachedCommit:
    """One detached commit in progress, in the steps of an :mod:`~lance_core.transactions.optimistic_commit`.

    Args:
        log: the table's versions.
        transaction: the transaction to commit; its operation must be executable.
        known: the manifest of the read version, if the caller has already read it.

    Attributes:
        current: the version to build on; its number is changed to one less than the number of the new version.

    Raises:
        VersionNotFoundError: the read version, or the table, does not exist.
        NotSupportedError: the table uses V1 manifest names.
    """

    def __init__(self, log: VersionLog, transaction: Transaction, known: Manifest | None = None) -> None:
        """Read the version to build on."""
        self._log = log
        self._transaction = transaction
        version = FIRST_DETACHED_VERSION | secrets.randbits(63)
        read = known if known is not None and known.version == transaction.read_version else None
        if read is None:
            read = log.read_version(transaction.read_version)
        if read.naming is not ManifestNaming.V2:
            raise NotSupportedError(
                f"{log.uri}: a table whose manifests have V1 names cannot have detached versions; use "
                "migrate_manifest_paths_v2 to rename the manifests"
            )
        self.current = _numbered(read, version - 1)

    def build(self, hidden: HiddenColumns = no_hidden_columns) -> ManifestDraft:
        """Return the draft of the version; writes nothing, and may be repeated.

        Args:
            hidden: the hidden columns of the version to build on and of the operation.

        Raises:
            InvalidInputError: the operation is incompatible with the table.
            NotSupportedError: the operation changes the schema, and the table never reuses field ids.
        """
        transaction = self._transaction
        draft = transaction.operation.apply(transaction.context(self.current, self._log, hidden))
        _check_schema(self.current.message, draft.message)
        return draft

    def create(self, draft: ManifestDraft) -> CommitOutcome:
        """Create the version.

        Raises:
            StorageError: a storage operation failed before anything was created.
        """
        log, transaction, version = self._log, self._transaction, self.current.version + 1
        serialized = transaction.serialize()
        record = log.transaction_path(transaction.file_name)
        path = log.path(ManifestName(version, ManifestNaming.V2))
        sealed = draft.seal(transaction=serialized, transaction_file=transaction.file_name, timestamp_ns=time.time_ns())
        try:
            log.record_transaction(transaction.file_name, serialized)
        except BaseException:
            remove_objects(log.store, [record])
            raise
        try:
            if log.create_file(path, sealed.data) is PutOutcome.CREATED:
                return Committed(sealed.manifest)
            cause = None
        except StorageError as error:
            cause = error
        # No other writer uses this random number, so an existing version is ours.
        try:
            found = log.read_version(version)
            if is_made_by(found, transaction):
                return Committed(found)
        except VersionNotFoundError:
            if cause is not None and not cause.in_flight:
                remove_objects(log.store, [record])
                return NotCreated(cause)
        except LanceError as error:
            return Unknown(version, cause or error)
        return Unknown(
            version, cause or StorageError(f"{path} already exists and belongs to another commit", path=path)
        )


def _check_schema(before: pb_table.Manifest, after: pb_table.Manifest) -> None:
    """Reject a schema change if the table never reuses field ids: its counter would not include the new ids."""
    if before.HasField("max_allocated_field_id") and list(before.fields) != list(after.fields):
        raise NotSupportedError("the table never reuses field ids, so a detached version cannot change the schema")


def _numbered(manifest: Manifest, version: int) -> Manifest:
    """Return a copy of the manifest with the given version number."""
    message = pb_table.Manifest()
    message.CopyFrom(manifest.message)
    message.version = version
    return Manifest(
        message=message,
        naming=manifest.naming,
        index_section=manifest.index_section,
        dictionaries=manifest.dictionaries,
    )
