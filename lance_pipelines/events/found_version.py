"""FoundVersion: one version of a dataset, with its manifest and its transaction."""

from dataclasses import dataclass
from typing import Final, Self

from lance_core.metadata import Manifest, ManifestName, TransactionRecord, VersionLog, read_transaction
from lance_pipelines.events.data_version import CHANGES_ROWS, data_version_of, is_change
from lance_pipelines.maintenance.content import content_digest, content_digest_before

__all__ = ["RUN_ID_PROPERTY", "FoundVersion"]

RUN_ID_PROPERTY: Final = "dagster.run_id"
"""Transaction property that contains the id of the Dagster run that made the commit."""

_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """One version of a dataset.

    Attributes:
        name: the name of the version's manifest.
        manifest: the manifest.
        transaction: the transaction that created the version; None if it is no longer recorded.
        changes_rows: whether the version changed the rows or columns that readers see. False for an operation that
            could have changed them but did not (a delete that matches no rows); True for an unknown operation.
    """

    name: ManifestName
    manifest: Manifest
    transaction: TransactionRecord | None
    changes_rows: bool

    @classmethod
    def read(cls, log: VersionLog, name: ManifestName) -> Self:
        """Read the manifest and the transaction, and the previous manifest if the operation can change rows.

        Raises:
            VersionNotFoundError: the version no longer exists.
            CorruptDataError: the manifest or the transaction is damaged.
            StorageError: a storage operation failed.
        """
        manifest = log.read(name)
        transaction = read_transaction(log, manifest)
        operation = None if transaction is None else transaction.operation_name
        return cls(name, manifest, transaction, is_change(log, manifest, operation))

    @property
    def version(self) -> int:
        """The version's number."""
        return self.manifest.version

    @property
    def operation(self) -> str:
        """The name of the operation, for example ``append``; ``unknown`` if the operation is no longer recorded."""
        return _UNKNOWN if self.transaction is None else self.transaction.operation_name

    @property
    def only_reserves_ids(self) -> bool:
        """Whether the commit only reserved fragment ids for a later commit."""
        return self.transaction is not None and self.transaction.only_reserves_ids

    @property
    def run_id(self) -> str | None:
        """Id of the run that committed the version; None if it was not committed by a Dagster run."""
        return None if self.transaction is None else self.transaction.properties.get(RUN_ID_PROPERTY)

    @property
    def data_version(self) -> str:
        """The data version of this version; meaningful only if the version changed rows."""
        return data_version_of(self.version, None if self.transaction is None else self.transaction.uuid)

    @property
    def content(self) -> str:
        """Digest of the version's content."""
        return content_digest(self.manifest)

    @property
    def content_before(self) -> str:
        """Digest of the previous version's content; correct only if this version changed no row."""
        rewritten = () if self.transaction is None else self.transaction.rewritten_groups
        return content_digest_before(self.manifest, rewritten)

    def repeats(self, content: str) -> bool:
        """Return whether the version's content has this digest.

        The result is False for an unknown operation, because the operation may have changed something that the digest
        does not cover.
        """
        return self.operation in CHANGES_ROWS and self.content == content

    def follows(self, version: int, content: str) -> bool:
        """Return whether this version directly follows the version with the given number and content.

        This is the case if its number is the next one, or if the content before its commit was the given content. The
        result is meaningful only for a version that changed no row.
        """
        return self.version == version + 1 or self.content_before == content

    def facts(self) -> dict[str, int | str]:
        """Return metadata about the transaction, for an event."""
        if self.transaction is None:
            return {}
        run = {} if self.run_id is None else {"run_id": self.run_id}
        return {"read_version": self.transaction.read_version, "transaction": self.transaction.uuid, **run}
