"""LanceDataset: one version of a dataset, opened.

A handle reads one manifest and shows that version: what others commit is seen by opening anew or by
``checkout_latest``, what is committed through the handle it shows at once. Names, arguments and defaults follow the
reference; what is not supported yet is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from lance_core.api.arguments import refuse_unsupported
from lance_core.api.commit import DEFAULT_COMMIT_TIMEOUT, CommitOptions, commit
from lance_core.api.dataset_batches import DatasetBatches
from lance_core.api.dataset_blobs import DatasetBlobs
from lance_core.api.dataset_changes import DatasetChanges
from lance_core.api.dataset_files import DatasetFiles
from lance_core.api.dataset_history import DatasetHistory
from lance_core.api.dataset_indices import DatasetIndices
from lance_core.api.dataset_maintenance import DatasetMaintenance
from lance_core.api.dataset_places import DatasetPlaces
from lance_core.api.dataset_scans import DatasetScans
from lance_core.api.dataset_settings import DatasetSettings
from lance_core.api.dataset_uris import line_uri
from lance_core.api.delta import DatasetDelta
from lance_core.api.detached_commit import commit_outside_lineage
from lance_core.api.early_fragments import with_row_counts
from lance_core.api.fragment import LanceFragment
from lance_core.api.location import locked, open_log, uri_text
from lance_core.api.merge_schemas import with_known_field_ids
from lance_core.api.operation_conversion import transaction_to_core
from lance_core.api.operations import Transaction
from lance_core.api.output_schema import OutputSchema
from lance_core.api.references import open_version, planned_line, read_manifest
from lance_core.api.requested_transaction import requested_transaction
from lance_core.api.row_id_lookup import RowIdLookup
from lance_core.api.scanner import ScanSource
from lance_core.api.validation import validate_version
from lance_core.errors import DatasetNotFoundError, InvalidInputError, InvalidTypeError
from lance_core.schema.json_columns import shown_json_schema
from lance_core.table.base_options import inherited_options, with_base_params
from lance_core.table.base_paths import FileLocator
from lance_core.table.field_ids import highest_field_id
from lance_core.table.fragment import Fragments
from lance_core.table.fragment_totals import FragmentTotals
from lance_core.table.index_metadata import parse_index_section
from lance_core.table.paths import ManifestNaming
from lance_core.transactions.settings import DEFAULT_MAX_RETRIES, CommitProgress

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from datetime import timedelta
    from pathlib import Path

    import pyarrow as pa

    from lance_core.api.location import CommitLock
    from lance_core.api.operations import LanceOperation
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["LanceDataset"]


_NOT_ASKED: Final = object()
"""In the place of what a line is told by, until a change is planned on it."""


class LanceDataset(
    DatasetScans,
    DatasetBlobs,
    DatasetChanges,
    DatasetHistory,
    DatasetSettings,
    DatasetMaintenance,
    DatasetIndices,
    DatasetBatches,
    DatasetPlaces,
    DatasetFiles,
):
    """One version of a dataset. Safe for use by several threads.

    Args:
        uri: where the dataset is.
        version: a number, or the name of a tag; None for the latest.
        storage_options: credentials and settings of the store.
        commit_lock: held by each commit while it makes its version; a pickled handle does not take it along.

    Raises:
        DatasetNotFoundError: there is no dataset.
        VersionNotFoundError: there is no such version.
        RefNotFoundError: there is no such tag.
        UnsupportedFeatureFlagError: the version needs a feature that this library does not have.
        CorruptDataError: the manifest is damaged.
    """

    def __init__(
        self,
        uri: str | Path,
        version: int | str | None = None,
        *,
        storage_options: dict[str, str] | None = None,
        commit_lock: CommitLock | None = None,
    ) -> None:
        """Read one manifest."""
        text = uri_text(uri)
        opened = open_log(text, storage_options, commit_lock)
        log, manifest = open_version(opened, version)
        self._fill(line_uri(text, of=opened, to=log), log, manifest, storage_options)

    @classmethod
    def from_manifest(
        cls,
        uri: str,
        log: VersionLog,
        manifest: Manifest,
        storage_options: dict[str, str] | None,
        line: Hashable = None,
    ) -> Self:
        """A handle for a manifest that has been read already; ``line`` as for :attr:`line`, where it is known."""
        handle = cls.__new__(cls)
        handle._fill(uri, log, manifest, storage_options, line)
        return handle

    def _fill(
        self,
        uri: str,
        log: VersionLog,
        manifest: Manifest,
        storage_options: dict[str, str] | None,
        line: Hashable = None,
    ) -> None:
        totals = FragmentTotals.of(manifest.message)
        manifest.check_readable(totals)
        self._uri = uri
        self._log = log
        self._locator = FileLocator(log.store, log.root, manifest.base_paths, storage_options)
        self._manifest = manifest
        self._line = _NOT_ASKED if line is None else line
        self._counted = manifest if totals.counts_every_fragment else None
        self._num_live_rows = totals.num_live_rows
        self._storage_options = storage_options
        self._schema = manifest.schema
        self._lookup: RowIdLookup | None = None

    def __repr__(self) -> str:
        """Place and version."""
        return f"LanceDataset(uri={self._uri!r}, version={self.version})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as place and version; the copy reads the manifest again."""
        return _reopen, (self._uri, self.version, self._storage_options, self._known_line)

    @property
    def uri(self) -> str:
        """Where the dataset is."""
        return self._uri

    @property
    def version(self) -> int:
        """The version that this handle shows."""
        return self._manifest.version

    @property
    def latest_version(self) -> int:
        """The latest version there is; looked up at each call."""
        latest = self._log.latest()
        if latest is None:
            raise DatasetNotFoundError(f"there is no dataset at {self._uri} any more", path=self._uri)
        return latest.version

    @property
    def log(self) -> VersionLog:
        """The dataset's versions."""
        return self._log

    @property
    def line(self) -> Hashable:
        """Tells the branch of this version from one that was made again under its name; None on the main line."""
        if self._line is _NOT_ASKED:
            self._line = planned_line(self._log, self._manifest)
        return self._line

    @property
    def _known_line(self) -> Hashable:
        """:attr:`line`, as far as it has been asked for; None where it has not."""
        return None if self._line is _NOT_ASKED else self._line

    @property
    def manifest(self) -> Manifest:
        """The manifest of this version."""
        return self._manifest

    @property
    def counted_manifest(self) -> Manifest:
        """The manifest with the rows of every fragment; data files tell those that it does not record.

        Raises:
            NotFoundError: a data file is missing.
            CorruptDataError: a data file is damaged.
        """
        if self._counted is None:
            self._counted = with_row_counts(self._manifest, self._locator)
        return self._counted

    @property
    def locator(self) -> FileLocator:
        """Finds the files of this version."""
        return self._locator

    @property
    def storage_options(self) -> dict[str, str] | None:
        """As given when it was opened."""
        return self._storage_options

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return OutputSchema(shown_json_schema(self._schema)).schema

    @property
    def lance_schema(self) -> Schema:
        """The schema with field ids."""
        return self._schema

    @property
    def max_field_id(self) -> int:
        """The highest field id that the schema, a data file or a data overlay has.

        Where the table counts them, the highest ever given.
        """
        return highest_field_id(self._manifest.message)

    @property
    def data_storage_version(self) -> str:
        """The data file version that writes use when none is asked for."""
        return self._manifest.file_version.value

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows have stable ids."""
        return self._manifest.has_stable_row_ids

    @property
    def has_index(self) -> bool:
        """Whether there is an index. Scans here do not use it."""
        return bool(parse_index_section(self._manifest.index_section))

    @property
    def metadata(self) -> dict[str, str]:
        """The table metadata."""
        return dict(self._manifest.message.table_metadata)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The schema metadata."""
        return {key: value.decode("utf-8", "replace") for key, value in self._schema.metadata.items()}

    def config(self) -> dict[str, str]:
        """The table config."""
        return dict(self._manifest.message.config)

    @property
    def recorded_rows(self) -> int | None:
        """Rows that are not deleted, if the manifest says so of every fragment; None when files have to be read."""
        return self._num_live_rows

    def checkout_version(self, version: int | str | tuple[str | None, int | None]) -> LanceDataset:
        """A handle for another version.

        Args:
            version: a number of the line of this handle (the main line or a branch), the name of a tag, or (branch,
                number) with None or "main" for the main line and None for the latest.

        Raises:
            VersionNotFoundError: there is no such version.
            RefNotFoundError: there is no such tag or branch.
            InvalidTypeError: none of these.
        """
        if version is None:
            raise InvalidTypeError("version must be a number, a tag or (branch, number), found None")
        log, manifest = open_version(self._log, version, branch=self._manifest.message.branch)
        uri = line_uri(self._uri, of=self._log, to=log)
        line = self._known_line if log.root == self._log.root else None
        return LanceDataset.from_manifest(uri, log, manifest, self._storage_options, line)

    def checkout_latest(self) -> None:
        """Make this handle show the latest version."""
        self._line = _NOT_ASKED
        self.show(read_manifest(self._log, None))

    def show(self, manifest: Manifest) -> None:
        """Make this handle show the version of a manifest, as the reference's handles follow their own commits."""
        self._fill(self._uri, self._log, manifest, self._storage_options, self._known_line)

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:
        """The fragments, ascending by id. A filter is not supported."""
        refuse_unsupported("get_fragments", filter=filter)
        return [LanceFragment.of(self, fragment) for fragment in self._records()]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment of that id; None when there is none."""
        record = self.find_fragment(fragment_id)
        return None if record is None else LanceFragment.of(self, record)

    def find_fragment(self, fragment_id: int) -> Fragment | None:
        """The record of a fragment; None when there is none."""
        return next((fragment for fragment in self._records() if fragment.id == fragment_id), None)

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """What changed between two versions.

        Args:
            compared_against: the version to compare this one with; takes the place of the two others.
            begin_version: what this version did is not part of the difference.
            end_version: what this version did is.

        Raises:
            InvalidInputError: no two versions are named, or one is negative.
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
        """Make a version from fragments that were written before.

        Committing a :class:`Transaction` whose uuid has been committed already returns the version it made then; so a
        step that commits may be repeated safely.

        Args:
            base_uri: the dataset.
            operation: what to do, or the whole transaction.
            read_version: the version that the change was planned on; required unless the operation is an Overwrite or
                a Restore.
            commit_lock: as for :func:`dataset`.
            storage_options: credentials and settings of the store.
            enable_v2_manifest_paths: how manifests are named when the dataset is created; None for V2.
            detached: make a version outside the lineage, which only its number leads to; the latest version stays.
            max_retries: attempts after the first. 0 forbids an Overwrite to land on any version but the next.
            commit_message: kept in the transaction's properties.
            enable_stable_row_ids: whether rows get stable ids when the dataset is created.
            base_store_params: path of a base -> options of its store; other bases get ``storage_options``.
            commit_timeout: no attempt starts later than this; None for no limit.

        Returns:
            The new version, or the one that the transaction made earlier.

        Raises:
            DatasetNotFoundError: there is no dataset, and the operation is not an Overwrite.
            VersionNotFoundError: there is no such read version.
            NotFoundError: a data file of a fragment is missing.
            InvalidInputError: the fragments do not fit the dataset.
            RetryableCommitConflictError: a later version is in the way; plan again on it.
            IncompatibleTransactionError: a later version makes the change senseless.
            TooMuchWriteContentionError: every attempt lost its race.
            CommitOutcomeUnknownError: it could not be found out whether the version was made.
            StorageError: the outside world failed and nothing was made.
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

    def _records(self) -> Sequence[Fragment]:
        return Fragments(self.counted_manifest.message.fragments)

    def _source(self, fragment_ids: list[int] | None = None) -> ScanSource:
        fragments: Sequence[Fragment] = self._records()
        if fragment_ids is not None:
            by_id = {fragment.id: fragment for fragment in fragments}
            missing = [fragment_id for fragment_id in fragment_ids if fragment_id not in by_id]
            if missing:
                raise InvalidInputError(f"version {self.version} has no fragment {missing[0]}")
            fragments = [by_id[fragment_id] for fragment_id in fragment_ids]
        return ScanSource(self._schema, fragments, self._locator, self._records())

    def source_of(self, record: Fragment) -> ScanSource:
        """What is scanned when one fragment is."""
        return ScanSource(self._schema, (record,), self._locator, self._records())

    def _row_lookup(self) -> RowIdLookup:
        if self._lookup is None:
            self._lookup = RowIdLookup(self._records(), self._locator)
        return self._lookup


def _reopen(uri: str, version: int, storage_options: dict[str, str] | None, line: Hashable = None) -> LanceDataset:
    opened = LanceDataset(uri, version, storage_options=storage_options)
    return (
        opened
        if line is None
        else LanceDataset.from_manifest(opened.uri, opened.log, opened.manifest, storage_options, line)
    )
