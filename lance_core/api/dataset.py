"""LanceDataset: one version of a dataset, opened.

A handle reads one manifest and shows that version. Commits by others become visible by opening the dataset again or by
``checkout_latest``, commits through the handle at once. Names, arguments and defaults follow the reference; arguments
that are not supported yet are refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.api.dataset_batches import merge_appends
from lance_core.api.dataset_blobs import DatasetBlobs
from lance_core.api.dataset_changes import DatasetChanges
from lance_core.api.dataset_files import DatasetFiles
from lance_core.api.dataset_history import DatasetHistory
from lance_core.api.dataset_indices import DatasetIndices
from lance_core.api.dataset_maintenance import DatasetMaintenance
from lance_core.api.dataset_places import DatasetPlaces
from lance_core.api.dataset_scans import DatasetScans
from lance_core.api.dataset_settings import DatasetSettings
from lance_core.api.delta import DatasetDelta
from lance_core.api.fragment import LanceFragment
from lance_core.api.validation import validate_version
from lance_core.commit.commit import commit
from lance_core.commit.detached import commit_outside_lineage
from lance_core.commit.merge_schemas import with_known_field_ids
from lance_core.commit.options import DEFAULT_COMMIT_TIMEOUT, CommitOptions
from lance_core.errors import DatasetNotFoundError
from lance_core.places.location import locked, open_log, uri_text
from lance_core.public.arguments import refuse_unsupported
from lance_core.table.base_options import inherited_options, with_base_params
from lance_core.table.field_ids import highest_field_id
from lance_core.table.index_metadata import parse_index_section
from lance_core.table.paths import ManifestNaming
from lance_core.transactions.public_transaction import (
    LanceOperation,
    Transaction,
    requested_transaction,
    transaction_to_core,
)
from lance_core.transactions.settings import DEFAULT_MAX_RETRIES, CommitProgress

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from datetime import timedelta
    from pathlib import Path

    from lance_core.api.dataset_batches import BulkCommitResult
    from lance_core.places.location import CommitLock
    from lance_core.transactions.public_transaction import LanceOperation

__all__ = ["LanceDataset"]


class LanceDataset(
    DatasetScans,
    DatasetBlobs,
    DatasetChanges,
    DatasetHistory,
    DatasetSettings,
    DatasetMaintenance,
    DatasetIndices,
    DatasetPlaces,
    DatasetFiles,
):
    """One version of a dataset. Safe for use by several threads.

    Args:
        uri: location of the dataset.
        version: a number, or the name of a tag; None for the latest.
        storage_options: credentials and settings of the store.
        commit_lock: held by each commit while it creates its version; not part of a pickled handle.

    Raises:
        DatasetNotFoundError: there is no dataset.
        VersionNotFoundError: there is no such version.
        RefNotFoundError: there is no such tag.
        UnsupportedFeatureFlagError: the version needs a feature that this library does not have.
        CorruptDataError: the manifest is damaged.
    """

    def __repr__(self) -> str:
        """Location and version."""
        return f"LanceDataset(uri={self._uri!r}, version={self.version})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as location and version; the copy reads the manifest again."""
        return _reopen, (self._uri, self.version, self._storage_options, self._known_line)

    @property
    def latest_version(self) -> int:
        """The latest version of the dataset; looked up at each call."""
        latest = self._log.latest()
        if latest is None:
            raise DatasetNotFoundError(f"dataset '{self._uri}' no longer exists", path=self._uri)
        return latest.version

    @property
    def max_field_id(self) -> int:
        """The highest field id of the schema, data files and data overlays.

        If the table records it, the highest id ever assigned.
        """
        return highest_field_id(self._manifest.message)

    @property
    def data_storage_version(self) -> str:
        """The data file version that writes use when none is requested."""
        return self._manifest.file_version.value

    @property
    def has_index(self) -> bool:
        """Whether there is an index. Scans do not use it."""
        return bool(parse_index_section(self._manifest.index_section))

    @property
    def metadata(self) -> dict[str, str]:
        """The table metadata."""
        return dict(self._manifest.message.table_metadata)

    def config(self) -> dict[str, str]:
        """The table config."""
        return dict(self._manifest.message.config)

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:
        """The fragments, ascending by id. A filter is not supported."""
        refuse_unsupported("get_fragments", filter=filter)
        return [LanceFragment.of(self, fragment) for fragment in self._records()]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment of that id; None when there is none."""
        record = self.find_fragment(fragment_id)
        return None if record is None else LanceFragment.of(self, record)

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """What changed between two versions.

        Args:
            compared_against: the version to compare this one with; replaces the two other arguments.
            begin_version: the first version; its own changes are not part of the difference.
            end_version: the last version; its changes are part of the difference.

        Raises:
            InvalidInputError: two versions cannot be determined, or one is negative.
        """
        return DatasetDelta.between(self, compared_against, begin_version, end_version)

    def validate(self) -> None:
        """Compare every file with what the manifest records.

        Raises:
            CorruptDataError: names the first rule that is broken.
        """
        validate_version(self.counted_manifest, self._locator)

    @staticmethod
    def commit(  # noqa: D417  # the reference's signature; arguments without effect are summed up
        base_uri: str | Path | LanceDataset,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: CommitLock | None = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = DEFAULT_MAX_RETRIES,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = DEFAULT_COMMIT_TIMEOUT,
    ) -> LanceDataset:
        """Create a version from fragments that have already been written.

        Committing a :class:`Transaction` whose uuid has already been committed returns that version, so a commit can be
        repeated safely.

        Args:
            base_uri: the dataset.
            operation: what to do, or the whole transaction.
            read_version: the version that the change was planned on; required unless the operation is an Overwrite or
                a Restore.
            commit_lock: as for :func:`dataset`.
            storage_options: credentials and settings of the store.
            enable_v2_manifest_paths: how manifests are named when the dataset is created; None for V2.
            detached: create a version outside the history, which can be opened only by its number.
            max_retries: attempts after the first. With 0, an Overwrite can only create the version after its read
                version.
            commit_message: kept in the transaction's properties.
            enable_stable_row_ids: whether rows get stable ids when the dataset is created.
            base_store_params: path of a base -> options of its store; other bases get ``storage_options``.
            commit_timeout: no attempt starts later than this; None for no limit.

        Returns:
            The new version, or the one that the transaction created earlier.

        Raises:
            DatasetNotFoundError: there is no dataset, and the operation is not an Overwrite.
            VersionNotFoundError: there is no such read version.
            NotFoundError: a data file of a fragment is missing.
            InvalidInputError: the fragments do not fit the dataset.
            RetryableCommitConflictError: it conflicts with a later version; plan the change again.
            IncompatibleTransactionError: a later version invalidates the change.
            TooMuchWriteContentionError: other writers were faster at every attempt.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed and no version was created.
        """
        refuse_unsupported(
            "commit",
            namespace_client=namespace_client,
            table_id=table_id,
            namespace_client_managed_versioning=namespace_client_managed_versioning,
        )
        transaction = requested_transaction(operation, read_version, commit_message)
        known = None
        if isinstance(base_uri, LanceDataset):
            uri, log, known = base_uri.uri, locked(base_uri.log, commit_lock), base_uri.manifest
            storage_options = inherited_options(base_uri.storage_options, storage_options, base_store_params)
        else:
            uri = uri_text(base_uri)
            storage_options = with_base_params(storage_options, base_store_params)
            log = open_log(uri, storage_options, commit_lock)
        options = CommitOptions(
            max_retries=max_retries,
            timeout=commit_timeout,
            naming=ManifestNaming.V1 if enable_v2_manifest_paths is False else ManifestNaming.V2,
            stable_row_ids=bool(enable_stable_row_ids),
            storage_options=storage_options,
            is_first_try=not isinstance(operation, Transaction),
            progress=CommitProgress(line=base_uri.line if isinstance(base_uri, LanceDataset) else None),
        )
        transaction = with_known_field_ids(transaction, log, known)
        make = commit_outside_lineage if detached else commit
        manifest = make(log, transaction_to_core(transaction), options, known=known)
        return LanceDataset.from_manifest(uri, log, manifest, storage_options, options.progress.line)

    @staticmethod
    def commit_batch(
        dest: str | Path | LanceDataset,
        transactions: Sequence[Transaction],
        commit_lock: Any = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = DEFAULT_MAX_RETRIES,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = DEFAULT_COMMIT_TIMEOUT,
    ) -> BulkCommitResult:
        """Commit several appends as one version.

        Committing the same batch again returns the version that it created.

        Args:
            dest: the dataset.
            transactions: the appends; see :func:`merge_appends`.
            commit_lock: as for :func:`dataset`.
            storage_options: credentials and settings of the store.
            enable_v2_manifest_paths: has no effect: the dataset exists.
            detached: as for ``commit``.
            max_retries: attempts after the first.
            base_store_params: as for ``commit``.
            commit_timeout: no attempt starts later than this; None for no limit.

        Raises:
            NotSupportedError: a transaction is not an append.
            InvalidInputError: there are none, or the fragments do not fit.

        Returns:
            The new version and the transaction that made it; raises besides what ``commit`` raises.
        """
        merged = merge_appends(list(transactions))
        dataset = LanceDataset.commit(
            dest,
            merged,
            commit_lock=commit_lock,
            storage_options=storage_options,
            enable_v2_manifest_paths=enable_v2_manifest_paths,
            detached=detached,
            max_retries=max_retries,
            base_store_params=base_store_params,
            commit_timeout=commit_timeout,
        )
        return {"dataset": dataset, "merged": merged}


def _reopen(uri: str, version: int, storage_options: dict[str, str] | None, line: Hashable = None) -> LanceDataset:
    opened = LanceDataset(uri, version, storage_options=storage_options)
    return (
        opened
        if line is None
        else LanceDataset.from_manifest(opened.uri, opened.log, opened.manifest, storage_options, line)
    )
