"""LanceDataset: a handle to one version of a dataset.

A handle reads one manifest and stays on that version. Commits by other writers become visible after the dataset is
reopened or ``checkout_latest`` is called; a commit through the handle moves the handle to the new version. Names,
arguments, and defaults are the same as in pylance. The error for an unsupported argument contains the argument's name.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict

from lance_core.absent import PylanceClass
from lance_core.api.fragment import LanceFragment
from lance_core.api.merge_insert_builder import MergeInsertBuilder
from lance_core.api.scanner_builder import build_scanner
from lance_core.api.sql_query import SqlQueryBuilder
from lance_core.blobs.files import DEFAULT_BLOB_BUFFER_SIZE, checked_buffer_size
from lance_core.cleanup.drop import drop_dataset
from lance_core.cleanup.file_listings import all_files, tracked_files
from lance_core.cleanup.plan import DEFAULT_MAX_FILES, plan_for
from lance_core.cleanup.policy import CleanupPolicy
from lance_core.columns.add import add_computed_columns, add_null_columns, null_columns
from lance_core.columns.alter import alter_columns
from lance_core.columns.batch_udf import BatchUDF
from lance_core.columns.column_values import column_values
from lance_core.columns.drop import drop_columns
from lance_core.columns.joined_rows import JoinedColumns, JoinedRows
from lance_core.commit.commit import commit_change, commit_requested
from lance_core.commit.replanning import DEFAULT_CONFLICT_RETRIES, DEFAULT_RETRY_TIMEOUT, RetryPolicy
from lance_core.delete.delete import delete_rows
from lance_core.errors import InvalidInputError, InvalidTypeError, SchemaMismatchError
from lance_core.file.lance_session import LanceFileSession
from lance_core.file.session import Session, checked_session
from lance_core.places.location import open_log, uri_text
from lance_core.public.arguments import (
    checked_expression,
    checked_hints,
    checked_text,
    refuse_unsupported,
    whole_number,
)
from lance_core.public.dataset_base_path import base_path_from_proto
from lance_core.public.dataset_base_path import new_bases as new_base_messages
from lance_core.public.index_records import describe_indices, indices_named, list_segments
from lance_core.public.version_info import version_info
from lance_core.refs.branches import Branches, create_branch
from lance_core.refs.clones import deep_clone, shallow_clone
from lance_core.refs.tags import Tags
from lance_core.repair.validation import validate_version
from lance_core.scan.arrow_dataset import ArrowDataset
from lance_core.scan.blob_rows import BlobRows, read_blob_ranges
from lance_core.scan.dataset_statistics import LanceStats
from lance_core.scan.delta import DatasetDelta
from lance_core.scan.output_schema import shown_schema
from lance_core.scan.scanner import LanceScanner
from lance_core.scan.table_view import Destination, Handle, TableView
from lance_core.scan.take import take_rows, take_rows_by_id
from lance_core.table.base_options import with_base_params
from lance_core.table.field_ids import highest_field_id
from lance_core.table.index_metadata import parse_index_section
from lance_core.table.index_rules import decode_index_section
from lance_core.table.migration import migrate_to_v2_names
from lance_core.table.paths import ManifestNaming
from lance_core.table.ref_creation import known_to_exist
from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.operations.map_update import map_update
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.update_bases import UpdateBases
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.options import DEFAULT_COMMIT_TIMEOUT, DEFAULT_MAX_RETRIES, CommitOptions, CommitProgress
from lance_core.transactions.public_transaction import (
    merge_appends,
    read_public_transaction,
    requested_transaction,
)
from lance_core.transactions.transaction import checked_properties
from lance_core.update.replace import replace_rows
from lance_core.update.update import update_rows
from lance_core.write.request import WriteRequest
from lance_core.write.write import write_version

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
    from datetime import timedelta
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.compute as pc
    from pydantic import BaseModel

    from lance_core.blobs.files import BlobFile
    from lance_core.cleanup.records import CleanupExplanation, CleanupStats
    from lance_core.columns.alter import AlterColumn
    from lance_core.compaction.optimizer import DatasetOptimizer
    from lance_core.delete.delete import DeleteResult
    from lance_core.io.io_counters import IOStats
    from lance_core.places.location import CommitLock
    from lance_core.places.references import Reference
    from lance_core.public.bitmap import Bitmap
    from lance_core.public.dataset_base_path import DatasetBasePath
    from lance_core.public.index_records import IndexDescription, IndexInformation
    from lance_core.public.version_info import Version, VersionRef
    from lance_core.scan.scan_statistics import ScanStatistics
    from lance_core.schema.field import Schema
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.operation import Operation
    from lance_core.transactions.public_transaction import LanceOperation, Transaction
    from lance_core.update.update import UpdateResult
    from lance_core.write.data_input import ReaderLike

__all__ = ["BulkCommitResult", "LanceDataset"]


class LanceDataset(Handle, ArrowDataset, PylanceClass):
    """A handle to one version of a dataset. A handle can be used by several threads at once.

    A handle is a ``pyarrow.dataset.Dataset`` and an Arrow stream, so libraries such as DuckDB, Polars, and pandas can
    read it. Libraries that treat it as a Dataset read only the columns that they need, and only the rows that match
    their filters.

    The arguments are those of :func:`dataset`, except ``asof``. ``commit_lock`` is not pickled with the handle.

    Args:
        uri: location of the dataset.
        version: a version number or the name of a tag; if None, the latest version.
        commit_lock: a lock that each commit holds while it creates its version.
        storage_options: credentials and settings of the store.
        default_scan_options: options of all scans through this handle.
        metadata_cache_size_bytes: maximum size of the handle's own session in bytes.
        session: caches information about open files; if None, the handle has its own session.
        base_store_params: maps base paths to the options of their stores.

    Raises:
        DatasetNotFoundError: the dataset does not exist.
        VersionNotFoundError: the version does not exist.
        RefNotFoundError: the tag does not exist.
        UnsupportedFeatureFlagError: the version needs a feature that this library does not support.
        CorruptDataError: the manifest is damaged.
    """

    def __init__(  # the reference's signature; arguments without effect are described with ``dataset``
        self,
        uri: str | Path,
        version: int | str | None = None,
        block_size: int | None = None,
        index_cache_size: int | None = None,
        metadata_cache_size: int | None = None,
        commit_lock: CommitLock | None = None,
        storage_options: dict[str, str] | None = None,
        serialized_manifest: bytes | None = None,
        default_scan_options: dict[str, Any] | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_size_bytes: int | None = None,
        read_params: dict[str, Any] | None = None,
        session: Session | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
    ) -> None:
        """Read one manifest."""
        refuse_unsupported(
            "dataset",
            serialized_manifest=serialized_manifest,
            namespace_client=namespace_client,
            table_id=table_id,
            namespace_client_managed_versioning=namespace_client_managed_versioning,
        )
        checked_hints(read_params=read_params)
        own_session = Session(metadata_cache_size_bytes=metadata_cache_size_bytes)
        options = with_base_params(storage_options, base_store_params)
        view = TableView.open(uri, version, options, commit_lock, checked_session(session) or own_session)
        super().__init__(view)
        self._default_scan_options = default_scan_options

    @classmethod
    def of(cls, view: TableView, default_scan_options: dict[str, Any] | None = None) -> Self:
        """Return a handle to a version whose manifest has already been read."""
        dataset = cls.__new__(cls)
        Handle.__init__(dataset, view)
        dataset._default_scan_options = default_scan_options
        return dataset

    @classmethod
    def from_pydantic_model(
        cls,
        model_class: type[BaseModel],
        data: list[Any],
        uri: str | Path | None = None,
        mode: str = "create",
        **kwargs: Any,
    ) -> Self:
        """Write the instances of a Pydantic model as a new version; see :mod:`lance_core.pydantic`.

        Args:
            model_class: a subclass of ``pydantic.BaseModel``, whose fields determine the schema.
            data: instances of exactly this class, at least one.
            uri: location of the dataset; if None, the name of the class in lower case, with words separated by
                underscores.
            mode: as for :func:`write_dataset`.
            **kwargs: other arguments of :func:`write_dataset`.

        Returns:
            A handle to the new version.

        Raises:
            InvalidTypeError: the class is not a model, ``data`` is not a list of its instances, or a field has a type
                that cannot be converted.
            InvalidInputError: there are no instances, or a value does not fit the schema.
            LanceError: as for :func:`write_dataset`.
        """
        # Imported only when needed: few programs use models.
        from lance_core.write.pydantic_models import location_of, models_to_table

        rows = models_to_table(data, model_class)
        if rows.num_rows == 0:
            raise InvalidInputError("data must contain at least one instance of the model", argument="data")
        return cls.of(write_version(rows, location_of(model_class) if uri is None else uri, mode=mode, **kwargs))

    @classmethod
    def from_manifest(
        cls,
        uri: str,
        log: VersionLog,
        manifest: Manifest,
        storage_options: dict[str, str] | None,
    ) -> Self:
        """Return a handle to the version with this manifest."""
        return cls.of(TableView(uri, log, manifest, storage_options))

    def __repr__(self) -> str:
        """Return the location and the version number as text."""
        return f"LanceDataset(uri={self.uri!r}, version={self.version})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location, version number, storage options, and an empty session; unpickling reads the manifest."""
        view = self._view
        return _reopen, (
            view.uri,
            view.version,
            view.storage_options,
            view.known_line,
            view.session,
            self._default_scan_options,
        )

    # ── The version of the handle ──────────────────────────────────────────────────────────────────────────────────

    @property
    def uri(self) -> str:
        """The location of the dataset."""
        return self._view.uri

    @property
    def version(self) -> int:
        """The version number of this handle."""
        return self._view.version

    def session(self) -> Session:
        """Return the session, which caches information about open files for all versions of this handle."""
        return self._view.session

    def io_stats_snapshot(self) -> IOStats:
        """Return the numbers of requests and bytes since the last call to :meth:`io_stats_incremental`.

        The counters cover the store of the dataset and the stores of its base paths. Handles with the same session
        share the counters of their store.
        """
        return self._view.locator.counters.snapshot()

    def io_stats_incremental(self) -> IOStats:
        """Return the same as :meth:`io_stats_snapshot`, and start from zero for the next call of either method."""
        return self._view.locator.counters.take()

    def new_file_session(self) -> LanceFileSession:
        """Return a session that reads and writes files below the location of the dataset, with its storage options."""
        return LanceFileSession(self.uri, storage_options=self.latest_storage_options())

    @property
    def log(self) -> VersionLog:
        """The version log of the dataset."""
        return self._view.log

    @property
    def line(self) -> Hashable:
        """The identity of this version's branch, which changes if the branch is recreated; None on the main branch."""
        return self._view.line

    @property
    def manifest(self) -> Manifest:
        """The manifest of this version."""
        return self._view.manifest

    @property
    def counted_manifest(self) -> Manifest:
        """The manifest, with the row counts of all fragments; missing counts are read from the data files.

        Raises:
            NotFoundError: a data file is missing.
            CorruptDataError: a data file is damaged.
        """
        return self._view.counted_manifest

    @property
    def locator(self) -> FileLocator:
        """Determines the locations of this version's files."""
        return self._view.locator

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The storage options that the dataset was opened with."""
        return self._view.storage_options

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        """The storage options that the dataset was opened with; the same as :attr:`storage_options`."""
        return self.storage_options

    def latest_storage_options(self) -> dict[str, str] | None:
        """Return the storage options that the dataset was opened with; they are never refreshed."""
        return self.storage_options

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the dataset or, if there are default scan options, of a scan with these options."""
        if self._default_scan_options is not None:
            return self.scanner().projected_schema
        return shown_schema(self._view.schema)

    @property
    def lance_schema(self) -> Schema:
        """The schema of the dataset, including field ids."""
        return self._view.schema

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The schema metadata."""
        return _decoded(self._view.schema.metadata)

    @property
    def stats(self) -> LanceStats:
        """Statistics of this version: numbers of fragments and deleted rows, and bytes per field."""
        return LanceStats(self._view)

    @property
    def max_field_id(self) -> int:
        """The highest field id in the schema, data files, and data overlays.

        If the table records the highest id ever assigned, this is the recorded id.
        """
        return highest_field_id(self._view.manifest.message)

    @property
    def data_storage_version(self) -> str:
        """The data file version that a write uses by default."""
        return self._view.manifest.file_version.value

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows have stable ids."""
        return self._view.manifest.has_stable_row_ids

    @property
    def has_index(self) -> bool:
        """Whether the dataset has an index. Scans do not use indices."""
        return bool(parse_index_section(self._view.manifest.index_section))

    @property
    def metadata(self) -> dict[str, str]:
        """The table metadata."""
        return dict(self._view.manifest.message.table_metadata)

    def config(self) -> dict[str, str]:
        """Return the table config."""
        return dict(self._view.manifest.message.config)

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Return the base paths of the version, keyed by id."""
        return {base.id: base_path_from_proto(base) for base in self._view.manifest.message.base_paths}

    def validate(self) -> None:
        """Check every file of the version against the manifest.

        Raises:
            CorruptDataError: a file does not match the manifest; the message describes the first violation found.
        """
        validate_version(self._view.counted_manifest, self._view.locator)

    # ── Versions ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def latest_version(self) -> int:
        """The number of the latest version of the dataset, which is looked up again at every access."""
        return self._view.latest_version

    def versions(self) -> list[Version]:
        """Return a description of every version, oldest first. This reads every manifest."""
        return self._view.versions()

    def version_refs(self) -> list[VersionRef]:
        """Return the numbers of all versions, oldest first. This reads no manifest."""
        return [{"version": name.version} for name in self._view.log.newer_than(0)]

    def get_version(self) -> Version:
        """Return the description of this version, as in :meth:`versions`. This reads nothing."""
        return version_info(self._view.manifest)

    def checkout_version(self, version: int | str | tuple[str | None, int | None]) -> Self:
        """Return a handle to another version.

        Args:
            version: a version number on the branch of this handle, the name of a tag, or a tuple (branch, number).
                None or "main" as the branch means the main branch; None as the number means the latest version.

        Raises:
            VersionNotFoundError: the version does not exist.
            RefNotFoundError: the tag or branch does not exist.
            InvalidTypeError: ``version`` is neither a number, a string, nor such a tuple.
        """
        return self.of(self._view.at(version), self._default_scan_options)

    def checkout_latest(self) -> None:
        """Move this handle to the latest version.

        If another thread moves the handle to an even newer version in the meantime, the handle stays at that version.
        """
        before = self._view
        latest = before.latest()
        with self._lock:
            if self._view is before or latest.version >= self._view.version:
                self._view = latest

    def restore(self) -> None:
        """Create a new version with the same content as the version of this handle.

        Newer versions are kept. No fragment id or row id is ever assigned twice.

        Raises:
            IncompatibleTransactionError: another writer concurrently changed the metadata of the schema or of a
                field.
            NotFoundError: a file of the version is missing.
            TooMuchWriteContentionError: other writers committed first at every attempt.
        """
        self._change(Restore(version=self.version), read_version=self.latest_version)

    def read_transaction(self, version: int) -> Transaction | None:
        """Return the transaction that created a version, or None if the transaction has been removed."""
        return read_public_transaction(self._view.log, whole_number("version", version))

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """Return the transactions that created this version and the versions before it, newest first.

        Args:
            recent_transactions: maximum number of transactions; the transaction of this version is always included. A
                detached version has no history, so only its own transaction is returned.

        Raises:
            InvalidTypeError: ``recent_transactions`` is not a whole number.
            InvalidInputError: ``recent_transactions`` is negative.
        """
        wanted = whole_number("recent_transactions", recent_transactions)
        if wanted < 0:
            raise InvalidInputError(f"recent_transactions must not be negative, found {wanted}")
        return [self.read_transaction(version) for version in self._view.lineage(max(wanted, 1))]

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """Return what changed between two versions.

        Args:
            compared_against: the version to compare this version with; if given, the other arguments are ignored.
            begin_version: the version to start from; the changes that it made are not part of the difference.
            end_version: the last version; the changes that it made are part of the difference.

        Raises:
            InvalidInputError: the arguments do not specify two versions, or a version is negative.
        """
        return DatasetDelta.between(self._view, compared_against, begin_version, end_version)

    # ── Reading ────────────────────────────────────────────────────────────────────────────────────────────────────

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:
        """Return the fragments in ascending order of id.

        Args:
            filter: an Arrow expression. No statistics of fragments are kept, so any fragment may contain rows that
                match, and all fragments are returned; callers of a ``pyarrow.dataset.Dataset`` then filter the rows.

        Raises:
            InvalidTypeError: the filter is not an Arrow expression.
        """
        checked_expression("filter", filter)
        view = self._view
        return [LanceFragment.of(self, view, message) for message in view.counted_manifest.message.fragments]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """Return the fragment with the given id, or None if it does not exist."""
        view = self._view
        record = view.find_fragment(fragment_id)
        return None if record is None else LanceFragment.of(self, view, record.message)

    def fragment_ids(self) -> Bitmap:
        """Return the ids of all fragments of this version."""
        # Imported only when needed: it loads pyroaring.
        from lance_core.public.bitmap import Bitmap

        return Bitmap(fragment.id for fragment in self._view.manifest.message.fragments)

    def __len__(self) -> int:
        """Return the number of rows that are not deleted."""
        return self.count_rows()

    @property
    def recorded_rows(self) -> int | None:
        """The number of rows that are not deleted; None if the manifest does not record all row counts."""
        return self._view.recorded_rows

    def count_rows(self, filter: Any = None, **kwargs: Any) -> int:
        """Return the number of rows that are not deleted and, if a filter is given, match it.

        Only the columns that the filter uses are read.

        Raises:
            InvalidInputError: the filter is invalid.
            NotSupportedError: part of the filter is not supported.
        """
        refuse_unsupported("count_rows", **kwargs)
        if filter is None and self.recorded_rows is not None:
            return self.recorded_rows
        return LanceScanner(self._view.source(), columns=[], filter=filter).count_rows()

    def scanner(  # noqa: D417  # the reference's signature; arguments without effect are described together
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        index_segments: Any = None,
        full_text_query: Any = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        scan_stats_callback: Callable[[ScanStatistics], None] | None = None,
        strict_batch_size: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
        row_addr_allowlist: bytes | None = None,
        row_addr_blocklist: bytes | None = None,
    ) -> LanceScanner:
        """Plan a scan.

        Args:
            columns: names or dotted paths of columns; if None, all columns of the table. These system columns can also
                be selected: ``_rowid``, ``_rowaddr``, ``_rowoffset``, ``_row_created_at_version``,
                ``_row_last_updated_at_version``. A dict maps the names of the result to SQL expressions.
            filter: a condition that selects rows, as SQL text or an Arrow expression; if None, all rows are selected.
                It may use all system columns except ``_rowoffset``. The limit and the offset count only rows that the
                filter selects.
            limit: maximum number of rows to return; if None, all rows are returned.
            offset: number of rows to skip; None means 0.
            batch_size: maximum number of rows in a batch; None means 8192, or as many as take about 64 MiB if rows are
                large.
            batch_size_bytes: maximum size of a batch in bytes, in addition to ``batch_size``; exceeded only by a batch
                of one row.
            strict_batch_size: whether every batch except the last has exactly ``batch_size`` rows. Otherwise, other
                batches may have fewer rows too.
            fragments: the fragments to scan, in this order; if None, all fragments.
            with_row_id: whether to append the column ``_rowid``.
            with_row_address: whether to append ``_rowaddr`` as the last column.
            include_deleted_rows: whether to return deleted rows too, with null as ``_rowid`` and ``_rowaddr``. Limit,
                offset, and filter apply to deleted rows as to other rows. Possible only if ``_rowid`` is returned.
            io_buffer_size: maximum number of encoded bytes to read ahead of the consumer; None means the value of the
                environment variable ``LANCE_DEFAULT_IO_BUFFER_SIZE``, or 32 MiB (64 MiB in object stores).
            use_stats: whether to skip rows that, according to the statistics of files in format 0.1, cannot match the
                filter; True by default.
            blob_handling: what to return for blob columns: "all_binary" returns the values; "blobs_descriptions" (the
                default) and "all_descriptions" return the descriptors.
            order_by: the columns to sort by, as a list of :class:`ColumnOrdering` or of names, which mean ascending
                order with nulls last. The rows are sorted before the limit and the offset apply. Sorting by system
                columns is not supported. Rows that are equal keep the stored order. If None, rows are in the stored
                order.
            row_addr_allowlist: the ids of the rows to return, in the form that ``serialize_row_addrs`` of
                ``lance_core.dataset`` returns; no other rows are returned. Limit and offset count only these rows.
                Deleted rows are not returned even if they are listed.
            row_addr_blocklist: the row ids of rows not to return.
            nearest: a dictionary that requests the rows with the nearest vectors: the name of the ``column``, the query
                ``q`` or a list of queries, and optionally ``k`` (10 by default), ``metric`` ("l2", "cosine", "dot", or,
                for uint8, "hamming"), and ``distance_range``. The rows are ordered by distance, which is returned as
                ``_distance``. The vectors of all rows are compared, even if the column has an index; the arguments
                that tune the search of an index have no effect.
            prefilter: whether the filter of a search is applied before the search. By default, it is applied to the
                rows that were found.
            disable_scoring_autoprojection: whether ``_distance`` is returned only if ``columns`` contains it.
            scan_stats_callback: a function that receives ``ScanStatistics`` after the last batch; its errors are
                logged. Counting rows does not call it.

        The order of the rows depends only on ``order_by``, and the way columns are read depends only on the number of
        matching rows. ``scan_in_order``, ``late_materialization``, ``batch_readahead``, and ``fragment_readahead`` are
        therefore checked, but have no effect. The arguments for indices have no effect either. All other arguments are
        rejected.

        Raises:
            InvalidInputError: a column is unknown, a number is out of range, or the filter is invalid.
            NotSupportedError: an argument or part of the filter is not supported.
        """
        refuse_unsupported(
            "scanner",
            index_segments=index_segments,
            full_text_query=full_text_query,
        )
        checked_hints(
            batch_readahead=batch_readahead,
            fragment_readahead=fragment_readahead,
            late_materialization=late_materialization,
        )
        return build_scanner(
            self,
            self._default_scan_options,
            columns=columns,
            scan_stats_callback=scan_stats_callback,
            filter=filter,
            limit=limit,
            offset=offset,
            nearest=nearest,
            prefilter=prefilter,
            fast_search=fast_search,
            disable_scoring_autoprojection=disable_scoring_autoprojection,
            batch_size=batch_size,
            batch_size_bytes=batch_size_bytes,
            strict_batch_size=strict_batch_size,
            io_buffer_size=io_buffer_size,
            with_fragments=fragments,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            include_deleted_rows=include_deleted_rows,
            use_stats=use_stats,
            blob_handling=blob_handling,
            row_addr_allowlist=row_addr_allowlist,
            row_addr_blocklist=row_addr_blocklist,
            order_by=order_by,
        )

    def to_table(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
    ) -> pa.Table:
        """Read rows into memory; see :meth:`scanner`."""
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            nearest=nearest,
            batch_size=batch_size,
            batch_size_bytes=batch_size_bytes,
            batch_readahead=batch_readahead,
            fragment_readahead=fragment_readahead,
            scan_in_order=scan_in_order,
            prefilter=prefilter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            use_stats=use_stats,
            fast_search=fast_search,
            full_text_query=full_text_query,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            blob_handling=blob_handling,
            use_scalar_index=use_scalar_index,
            include_deleted_rows=include_deleted_rows,
            order_by=order_by,
            disable_scoring_autoprojection=disable_scoring_autoprojection,
        ).to_table()

    def to_pandas(  # noqa: D417  # the arguments of a scan are described there
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_mode: str = "lazy",
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Read rows into a pandas DataFrame; see :meth:`scanner`, and :meth:`LanceScanner.to_pandas` for blobs.

        Args:
            blob_mode: what the frame contains for blob columns: "lazy", "bytes", or "descriptions".
            **kwargs: arguments for ``pyarrow.Table.to_pandas``.
        """
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            nearest=nearest,
            batch_size=batch_size,
            batch_readahead=batch_readahead,
            fragment_readahead=fragment_readahead,
            scan_in_order=scan_in_order,
            prefilter=prefilter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            use_stats=use_stats,
            fast_search=fast_search,
            full_text_query=full_text_query,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            use_scalar_index=use_scalar_index,
            include_deleted_rows=include_deleted_rows,
            order_by=order_by,
            disable_scoring_autoprojection=disable_scoring_autoprojection,
        ).to_pandas(blob_mode=blob_mode, **kwargs)

    def to_batches(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        strict_batch_size: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows, fragment by fragment; see :meth:`scanner`."""
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            nearest=nearest,
            batch_size=batch_size,
            batch_size_bytes=batch_size_bytes,
            batch_readahead=batch_readahead,
            fragment_readahead=fragment_readahead,
            scan_in_order=scan_in_order,
            prefilter=prefilter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            use_stats=use_stats,
            full_text_query=full_text_query,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            blob_handling=blob_handling,
            use_scalar_index=use_scalar_index,
            strict_batch_size=strict_batch_size,
            order_by=order_by,
            disable_scoring_autoprojection=disable_scoring_autoprojection,
            **kwargs,
        ).to_batches()

    def head(self, num_rows: int, **kwargs: Any) -> pa.Table:
        """Return the first rows; for ``kwargs``, see :meth:`scanner`."""
        return self.scanner(**{**kwargs, "limit": num_rows}).to_table()

    def slice(self, start: int, end: int, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return the rows at positions ``[start, end)``.

        Raises:
            InvalidInputError: the range is invalid.
        """
        if not 0 <= start <= end:
            raise InvalidInputError(f"invalid row range [{start}, {end}); expected 0 <= start <= end")
        return self.scanner(offset=start, limit=end - start, columns=columns).to_table()

    def sample(
        self,
        num_rows: int,
        columns: list[str] | dict[str, str] | None = None,
        randomize_order: bool = True,
        **kwargs: Any,
    ) -> pa.Table:
        """Return random rows, each at most once, chosen by Python's ``random``.

        Args:
            num_rows: number of rows.
            columns: names or dotted paths of columns; if None, all columns of the table.
            randomize_order: whether the rows are in random order; if False, they are in the order of the table.
            **kwargs: further arguments for :meth:`take`.

        Raises:
            InvalidInputError: ``num_rows`` is negative, or the dataset has fewer rows.
        """
        total = self.count_rows()
        if not 0 <= whole_number("num_rows", num_rows) <= total:
            raise InvalidInputError(f"num_rows must be between 0 and {total}, the number of rows; found {num_rows}")
        indices = random.sample(range(total), num_rows)
        return self.take(indices if randomize_order else sorted(indices), columns, **kwargs)

    def take(self, indices: Sequence[int] | pa.Array, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return rows by position, in the requested order; positions may repeat.

        Raises:
            InvalidInputError: a position is out of range.
        """
        return take_rows(self._view.source(), indices, columns)

    def _take_rows(
        self,
        row_ids: Sequence[int] | pa.Array,
        columns: list[str] | dict[str, str] | None = None,
        *,
        ignore_deletions: bool = False,
        **kwargs: Any,
    ) -> pa.Table:
        """Return rows by row id, in the requested order; ids may repeat, and deleted rows are omitted.

        With stable row ids, ids that were never assigned are omitted too. Without stable row ids, a row id is a row
        address, and an address at which no row was ever stored raises an error.

        Args:
            row_ids: the ids of the rows to return.
            columns: names or dotted paths of columns, including row columns; if None, all columns of the table.
            ignore_deletions: whether to return deleted rows too; possible only if row ids are addresses.
            **kwargs: have no effect, as in pylance.

        Raises:
            RowOutOfRangeError: no row was ever stored at an address.
            InvalidInputError: a column is unknown.
            CorruptDataError: two rows have the same id.
        """
        return take_rows_by_id(
            self._view.source(), self._view.row_lookup, row_ids, columns, ignores_deletions=bool(ignore_deletions)
        )

    def sql(self, sql: str) -> SqlQueryBuilder:
        """Prepare a SQL query on the rows of this version.

        The query may be any read-only statement that DataFusion can execute, including self-joins, aggregates, window
        functions, subqueries, ``explain``, and ``describe``. It is executed by
        ``.build().to_batch_records()`` or ``.build().to_stream_reader()``.

        Names that are not quoted are converted to lower case. Sorts, joins, and aggregates may use 1 GiB of memory, or
        the number of bytes in the environment variable ``LANCE_MEM_POOL_SIZE``; beyond that, they use temporary files
        where they can.

        Args:
            sql: the query. The table is called ``dataset``, unless :meth:`SqlQueryBuilder.table_name` renames it.
        """
        return SqlQueryBuilder(self._view.source(), sql)

    def take_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | pa.Array | None = None,
        addresses: Sequence[int] | pa.Array | None = None,
        indices: Sequence[int] | pa.Array | None = None,
        *,
        buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE,
    ) -> list[BlobFile | None]:
        """Return blob values as file objects, in the requested order; values are read only when the objects are read.

        Exactly one of ``ids``, ``addresses``, and ``indices`` must be given.

        Args:
            blob_column: name of the column, or a dotted path into structs.
            ids: row ids.
            addresses: row addresses.
            indices: positions among the rows that are not deleted.
            buffer_size: number of bytes that a sequential read fetches at a time; with 0, only the requested bytes are
                fetched.

        Returns:
            One item per row: a file object, or None if the value is null.

        Raises:
            InvalidInputError: the column is not a blob column, none or several of ``ids``, ``addresses``, and
                ``indices`` are given, or a row does not exist.
            NotSupportedError: an address refers to a deleted row.
        """
        checked_buffer_size(buffer_size)
        return BlobRows.of(self._view, ids, addresses, indices).files(blob_column, buffer_size)

    def read_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | pa.Array | None = None,
        addresses: Sequence[int] | pa.Array | None = None,
        indices: Sequence[int] | pa.Array | None = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Return whole blob values, in the requested order; see :meth:`take_blobs`.

        ``io_buffer_size`` and ``preserve_order`` have no effect.

        Returns:
            One pair per row: the address of the row, and its value (None if the value is null).
        """
        return BlobRows.of(self._view, ids, addresses, indices).values(blob_column)

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Return byte ranges of blob values.

        Args:
            blob_column: name of the column, or a dotted path into structs.
            requests: the byte ranges to read, as tuples (row, offset, length); an offset is relative to the start of a
                value.
            selector: what identifies the rows in ``requests``: "ids", "addresses", or "indices"; see
                :meth:`take_blobs`.
            io_buffer_size: has no effect.
            preserve_order: has no effect.

        Returns:
            One tuple per request: the index of the request, the address of the row, and the bytes (None if the value is
            null).

        Raises:
            InvalidInputError: the selector is unknown, a range extends past the end of its value, the column is not a
                blob column, or a row does not exist.
        """
        return read_blob_ranges(self._view, blob_column, requests, selector)

    # ── Changing rows ──────────────────────────────────────────────────────────────────────────────────────────────

    def delete(
        self,
        predicate: Any,
        *,
        conflict_retries: int = DEFAULT_CONFLICT_RETRIES,
        retry_timeout: timedelta = DEFAULT_RETRY_TIMEOUT,
        transaction_properties: dict[str, str] | None = None,
    ) -> DeleteResult:
        """Delete the rows that match a predicate. Creates a new version and moves this handle to it.

        The rows are marked as deleted; data files are not changed. The predicate is evaluated on the version of this
        handle. If other writers have deleted other rows since that version, their deletions and this one are
        combined. After any other conflict, the predicate is evaluated again on the latest version. A version is created
        even if no row matches.

        Args:
            predicate: a condition that selects the rows to delete, as SQL text or an Arrow expression. A row for which
                it is null is kept.
            conflict_retries: maximum number of times that the predicate is evaluated again after a conflict.
            retry_timeout: once this time has elapsed, the predicate is not evaluated again.
            transaction_properties: properties to record in the transaction.

        Returns:
            ``{"num_deleted_rows": n}``.

        Raises:
            InvalidInputError: the predicate is invalid, or it cannot be evaluated for a row.
            NotSupportedError: the table or part of the predicate is not supported.
            IncompatibleTransactionError: another writer replaced the table in the meantime.
            TooMuchWriteContentionError: every attempt had a conflict.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed.
        """
        deleted = delete_rows(
            self._view,
            predicate,
            RetryPolicy(conflict_retries, retry_timeout),
            properties=checked_properties(transaction_properties),
        )
        self.show(deleted.view)
        return {"num_deleted_rows": deleted.plan.rows_deleted}

    def replace_rows(
        self,
        predicate: Any,
        data_obj: ReaderLike,
        *,
        schema: pa.Schema | None = None,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        conflict_retries: int = DEFAULT_CONFLICT_RETRIES,
        retry_timeout: timedelta = DEFAULT_RETRY_TIMEOUT,
        transaction_properties: dict[str, str] | None = None,
    ) -> dict[str, int]:
        """Replace the rows that match a predicate. Creates one new version and moves this handle to it.

        Readers see either the old rows or the new ones. If other writers have added or changed rows since the version
        of this handle, the predicate is evaluated again on the latest version; the new rows are not written again.
        Concurrent deletes of other rows are merged. Not a method in pylance.

        Args:
            predicate: a condition that selects the rows to replace, as SQL text or an Arrow expression. A row for which
                it is null is kept.
            data_obj: the new rows, as for :func:`write_dataset`. Each new row must match the predicate. If there are no
                new rows, the matching rows are only deleted.
            schema: as for :func:`write_dataset`.
            max_rows_per_file: as for :func:`write_dataset`.
            max_bytes_per_file: as for :func:`write_dataset`.
            conflict_retries: maximum number of times that the predicate is evaluated again after a conflict.
            retry_timeout: once this time has elapsed, the predicate is not evaluated again.
            transaction_properties: properties to record in the transaction.

        Returns:
            ``{"num_deleted_rows": n, "num_inserted_rows": m}``.

        Raises:
            InvalidInputError: the predicate is invalid, cannot be evaluated for a row, or does not match a new row.
            SchemaMismatchError: the schema of the new rows does not match the dataset's.
            NotSupportedError: the table or part of the predicate is not supported.
            IncompatibleTransactionError: another writer replaced the table in the meantime.
            TooMuchWriteContentionError: every attempt had a conflict.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed.
        """
        replaced = replace_rows(
            self._view,
            predicate,
            data_obj,
            schema,
            WriteRequest.of(mode="append", max_rows_per_file=max_rows_per_file, max_bytes_per_file=max_bytes_per_file),
            RetryPolicy(conflict_retries, retry_timeout),
            checked_properties(transaction_properties),
        )
        self.show(replaced.view)
        return {"num_deleted_rows": replaced.rows_deleted, "num_inserted_rows": replaced.rows_added}

    def insert(self, data: ReaderLike, *, mode: str = "append", **kwargs: Any) -> None:
        """Write rows as a new version, and move this handle to it.

        Args:
            data: the rows; see :func:`write_dataset`.
            mode: "append", or "overwrite" to replace all rows.
            **kwargs: other arguments of :func:`write_dataset`, except ``uri``.

        Raises:
            LanceError: as for :func:`write_dataset`.
        """
        self.show(write_version(data, self, mode=mode, **kwargs))

    def update(
        self,
        updates: dict[str, str],
        where: str | pc.Expression | None = None,
        conflict_retries: int = DEFAULT_CONFLICT_RETRIES,
        retry_timeout: timedelta = DEFAULT_RETRY_TIMEOUT,
        data_storage_version: str | None = None,
    ) -> UpdateResult:
        """Set columns to new values in the rows that match a condition. Creates a version and moves this handle to it.

        The rows are rewritten, with all their columns, to new fragments; stable row ids are kept. Concurrent deletes
        of other rows are merged; after other conflicts, the update is planned again on the latest version. A version is
        created even if no row matches.

        Args:
            updates: maps the names of columns to SQL expressions, which are evaluated on the values before the update.
                Results are cast to the types of the columns.
            where: the condition, as SQL text or an Arrow expression; None for all rows. A row for which it is null is
                not updated.
            conflict_retries: maximum number of times that the update is planned again after a conflict.
            retry_timeout: once this time has elapsed, the update is not planned again.
            data_storage_version: version of the new data files; if None, that of the table.

        Returns:
            ``{"num_rows_updated": n}``.

        Raises:
            InvalidTypeError: an argument has the wrong type.
            InvalidInputError: there are no updates; a column does not exist, is not a top-level column, or contains
                blobs; an expression or the condition is invalid, or the condition cannot be evaluated for a row.
            SchemaMismatchError: a new value cannot be computed, or does not fit its column.
            NotSupportedError: the table, or a part of an expression, is not supported.
            IncompatibleTransactionError: another writer replaced the table in the meantime.
            TooMuchWriteContentionError: every attempt had a conflict.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed.
        """
        policy = RetryPolicy(conflict_retries, retry_timeout)
        updated = update_rows(self._view, updates, where, policy, data_storage_version)
        self.show(updated.view)
        return {"num_rows_updated": updated.rows_updated}

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Return a builder for a merge, which inserts, updates, and deletes rows in one version.

        The rows of a source are compared by key with those of the dataset. The methods of the builder determine what
        happens to the rows that match, and to those that do not.

        Args:
            on: the name or names of the key columns; None for the declared primary key.

        Raises:
            InvalidInputError: the dataset has no such column, or no primary key.
            InvalidTypeError: ``on`` is neither a name nor an iterable of names.
        """
        return MergeInsertBuilder(self, on)

    def add_columns(
        self,
        transforms: Any,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Add columns. Creates a new version and moves this handle to it.

        Columns with values are stored in an additional file of each fragment; columns of nulls need no file. If other
        writers have changed the table since the version of this handle, the columns are added to the latest version.

        Args:
            transforms: the new columns. A dict maps names to SQL expressions. A function, which may be decorated with
                ``lance_core.batch_udf``, receives batches of rows and returns batches or pandas frames of the new
                columns. A ``pa.RecordBatchReader``, or other input of :func:`write_dataset`, contains the values in the
                order of the rows. A ``pa.Field``, list of ``pa.Field`` or ``pa.Schema`` describes columns of nulls,
                which must be nullable; metadata of the schema is added to that of the table. If a new struct has the
                name of an existing struct, its members are added to the existing struct.
            read_columns: columns that a function receives, including ``_rowid`` and ``_rowaddr``; None for all columns
                of the table.
            reader_schema: the schema of an iterable of batches; None for that of the first batch.
            batch_size: maximum number of rows in the batches from which values are computed; None for 8192.

        Raises:
            InvalidTypeError: ``transforms`` has an unsupported type, or a function fails for the first row.
            InvalidInputError: a column has an invalid name, or is not nullable and has no values; an expression is
                invalid, a function fails, or the number of values differs from the number of rows.
            SchemaMismatchError: the table already has one of the columns, or a function returns columns that do not
                match its schema.
            NotSupportedError: the table cannot store a type, or has format 0.1.
            TooMuchWriteContentionError: every attempt had a conflict; a stream cannot be read again, so its values are
                committed in a single attempt.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed.
        """
        columns = null_columns(transforms)
        if columns is not None:
            self.show(add_null_columns(self._view, columns))
            return
        values = column_values(transforms, read_columns, reader_schema, batch_size)
        self.show(add_computed_columns(self._view, values))
        if isinstance(transforms, BatchUDF) and transforms.cache is not None:
            transforms.cache.cleanup()

    def merge(
        self, data_obj: ReaderLike, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> None:
        """Add columns by a left join with other rows. Creates a new version and moves this handle to it.

        The columns are stored in an additional file of each fragment. Rows whose key does not occur in ``data_obj``
        get nulls. If other writers have changed the table since the version of this handle, the columns are added to
        the latest version.

        Args:
            data_obj: the values and their keys, which are kept in memory. Of several rows with the same key, the last
                one is used. A null key matches a null key.
            left_on: the column of this table to join on, which may be ``_rowid``, ``_rowaddr``, or a member of a struct
                ("s.x").
            right_on: the column of ``data_obj`` to join on, which is not added; None if it has the same name.
            schema: the schema to which ``data_obj`` is converted; None for its own.

        Raises:
            InvalidTypeError: the type of ``data_obj`` is not supported.
            SchemaMismatchError: a key column does not exist, the types of the keys differ, or the table already has one
                of the columns.
            InvalidInputError: ``data_obj`` has no column besides the key, or a column must not contain nulls, but some
                rows have no value.
            NotSupportedError: keys cannot have this type, or the table cannot store a type or has format 0.1.
            TooMuchWriteContentionError: every attempt conflicted with another writer.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed.
        """
        rows = JoinedRows(data_obj, left_on if right_on is None else right_on, schema)
        self.show(add_computed_columns(self._view, JoinedColumns(rows, left_on)))

    def alter_columns(self, *alterations: AlterColumn) -> None:
        """Rename columns, or change their type or nullability. Creates a new version and moves this handle to it.

        A new name or nullability changes no data file. If types change, a file with the cast values is added to every
        fragment; the old values remain in their files until the fragments are compacted. Indices on columns that are
        cast are removed; all others are kept.

        Args:
            *alterations: each a dictionary with the key ``path`` ("a", "s.x", "l.item.x"), and at least one of
                ``name``, ``nullable``, and ``data_type``. Paths refer to the schema before any of the changes. For the
                possible types, see :mod:`lance_core.columns.casts`.

        Raises:
            InvalidTypeError: a change is not a dictionary, or a value has the wrong type.
            InvalidInputError: a change has no path, changes nothing, or has an unknown key.
            SchemaMismatchError: a column does not exist, contains nulls although it would become non-nullable, cannot
                be cast to a type, or contains a value that does not fit.
            InvalidSchemaError: a new name is repeated, reserved, or contains a dot.
            NotSupportedError: the table cannot store a type, or has format 0.1 and a type would change.
            TooMuchWriteContentionError: every attempt conflicted with another writer.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed.
        """
        self.show(alter_columns(self._view, alterations))

    def drop_columns(self, columns: list[str]) -> None:
        """Drop columns. Creates a new version and moves this handle to it; no data file is read or written.

        The values remain in the data files until the fragments are compacted and old versions are cleaned up. Indices
        on the columns are removed.

        Args:
            columns: names of columns, or paths to members of structs ("s.x") or of the items of lists ("l.item.x"). A
                struct or list that loses all of its members is dropped too.

        Raises:
            InvalidTypeError: ``columns`` is not a sequence of strings.
            SchemaMismatchError: a column does not exist.
            InvalidInputError: no column would remain, or a part of a map would be dropped.
            TooMuchWriteContentionError: every attempt conflicted with another writer.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed.
        """
        self.show(drop_columns(self._view, columns))

    def truncate_table(self) -> None:
        """Create a new version without rows. No data file is read."""
        self.delete("true")

    @staticmethod
    def commit(  # noqa: D417  # the reference's signature; arguments without effect are described together
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

        If a :class:`Transaction` with the same uuid has already been committed, the existing version is returned, so a
        commit can be repeated safely.

        Args:
            base_uri: the location of the dataset, or a handle to it.
            operation: an operation, or a complete transaction.
            read_version: the version that the change is based on; required unless the operation is an Overwrite or a
                Restore.
            commit_lock: as for :func:`dataset`.
            storage_options: credentials and settings of the store.
            enable_v2_manifest_paths: whether a newly created dataset uses the V2 naming scheme for manifests; None
                means True.
            detached: whether to create a detached version, which is not part of the history and can be opened only by
                its number.
            max_retries: maximum number of attempts after the first. With 0, an Overwrite succeeds only if no version
                was created after its read version.
            commit_message: a message to store in the transaction's properties.
            enable_stable_row_ids: whether a newly created dataset uses stable row ids.
            base_store_params: maps base paths to the options of their stores; the other base paths use
                ``storage_options``.
            commit_timeout: once this time has elapsed, no further attempt starts; None means no limit.

        Returns:
            A handle to the new version, or to the version that the transaction created earlier.

        Raises:
            DatasetNotFoundError: the dataset does not exist, and the operation is not an Overwrite.
            VersionNotFoundError: the read version does not exist.
            NotFoundError: a data file of a fragment is missing.
            InvalidInputError: the fragments are not compatible with the dataset.
            RetryableCommitConflictError: the change conflicts with a later version; repeat it based on the latest
                version.
            IncompatibleTransactionError: a later version invalidates the change.
            TooMuchWriteContentionError: other writers committed first at every attempt.
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
        destination = Destination.of(base_uri, storage_options, base_store_params, commit_lock)
        options = CommitOptions(
            max_retries=max_retries,
            timeout=commit_timeout,
            naming=ManifestNaming.V1 if enable_v2_manifest_paths is False else ManifestNaming.V2,
            stable_row_ids=bool(enable_stable_row_ids),
            storage_options=destination.storage_options,
            is_first_try=transaction is not operation,
            progress=CommitProgress(line=destination.line),
        )
        return LanceDataset.of(commit_requested(destination, transaction, options, detached=bool(detached)))

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

        Committing the same batch again creates nothing and returns the existing version.

        Args:
            dest: the location of the dataset, or a handle to it.
            transactions: the appends to commit; see :func:`merge_appends`.
            commit_lock: as for :func:`dataset`.
            storage_options: credentials and settings of the store.
            enable_v2_manifest_paths: has no effect, because the dataset exists.
            detached: as for :meth:`commit`.
            max_retries: maximum number of attempts after the first.
            base_store_params: as for :meth:`commit`.
            commit_timeout: as for :meth:`commit`.

        Returns:
            The new version and the transaction that created it.

        Raises:
            NotSupportedError: a transaction is not an append.
            InvalidInputError: the list of transactions is empty, or the fragments are not compatible with the dataset.
            LanceError: as for :meth:`commit`.
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

    # ── Config, metadata, indices ──────────────────────────────────────────────────────────────────────────────────

    def update_config(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the table config.

        Args:
            values: maps each key to its new value; None removes the key.
            replace: whether to remove all other entries.

        Returns:
            The config of the new version.

        Raises:
            InvalidTypeError: a key is not a string, or a value is neither a string nor None.
            IncompatibleTransactionError: since the version of this handle, another writer has changed one of the keys.
        """
        made = self._change(UpdateConfig(config=map_update("values", values, replace=replace)))
        return dict(made.manifest.message.config)

    def delete_config_keys(self, keys: list[str]) -> None:
        """Remove keys from the table config; missing keys are ignored. For errors, see :meth:`update_config`."""
        given: object = keys
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise InvalidTypeError(f"keys must be a list of strings, found {given!r:.80}", argument="keys")
        self.update_config({checked_text("a key", key): None for key in keys})

    def update_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the table metadata. The arguments, result, and errors are the same as for :meth:`update_config`."""
        made = self._change(UpdateConfig(table_metadata=map_update("values", values, replace=replace)))
        return dict(made.manifest.message.table_metadata)

    def update_schema_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the schema metadata. The arguments and result are the same as for :meth:`update_config`.

        Raises:
            InvalidTypeError: a key is not a string, or a value is neither a string nor None.
            RetryableCommitConflictError: since the version of this handle, another writer has changed the schema.
            IncompatibleTransactionError: another writer changed the schema metadata or replaced the content of the
                table.
        """
        made = self._change(UpdateConfig(schema_metadata=map_update("values", values, replace=replace)))
        return _decoded(made.schema.metadata)

    def update_field_metadata(self, field_updates: dict[str, dict[str, str | None]], *, replace: bool = False) -> None:
        """Change the metadata of fields.

        Args:
            field_updates: maps the path of each field (such as ``"a"`` or ``"s.x"``) to a dictionary with the new value
                of each key; None removes the key.
            replace: whether to remove all other entries of these fields.

        Raises:
            SchemaMismatchError: the field does not exist.
            InvalidSchemaError: a primary or clustering key is already declared, has an invalid value, or contains an
                unsuitable column.
            RetryableCommitConflictError: since the version of this handle, another writer has changed the schema.
            IncompatibleTransactionError: another writer changed the metadata of one of the fields, or replaced the
                content of the table.
        """
        if not isinstance(field_updates, dict):
            raise InvalidTypeError(
                "field_updates must be a dictionary that maps field paths to dictionaries, found "
                f"{type(field_updates).__name__}"
            )
        updates = {
            self._field_id(path): map_update(f"field_updates[{path!r}]", values, replace=replace)
            for path, values in field_updates.items()
        }
        self._change(UpdateConfig(field_metadata=updates))

    def replace_schema_metadata(self, new_metadata: dict[str, str]) -> None:
        """Replace the schema metadata. Deprecated, as in pylance; use :meth:`update_schema_metadata` instead."""
        _warn_deprecated("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self._change(UpdateConfig(schema_metadata=map_update("new_metadata", new_metadata, replace=True)))

    def replace_field_metadata(self, field_name: str, new_metadata: dict[str, str]) -> None:
        """Replace the metadata of a field. Deprecated, as in pylance; use :meth:`update_field_metadata` instead."""
        _warn_deprecated("replace_field_metadata", "update_field_metadata with field paths and replace=True")
        update = map_update("new_metadata", new_metadata, replace=True)
        self._change(UpdateConfig(field_metadata={self._field_id(field_name): update}))

    def describe_indices(self) -> list[IndexDescription]:
        """Return a description of each index, except system indices.

        Raises:
            CorruptDataError: the index section of the manifest is damaged.
        """
        rows = {fragment.id: fragment.num_live_rows for fragment in self._view.fragments}
        return describe_indices(decode_index_section(self._view.manifest.index_section), self._view.schema, rows)

    def list_indices(self) -> list[IndexInformation]:
        """Return a dict for each index segment. Deprecated, as in pylance; use :meth:`describe_indices` instead."""
        warnings.warn("list_indices is deprecated; use describe_indices instead", DeprecationWarning, stacklevel=2)
        return list_segments(self.describe_indices())

    def drop_index(self, name: str) -> None:
        """Drop an index. Creates a new version and moves this handle to it. A later cleanup removes the index files.

        Args:
            name: name of the index, not of its column.

        Raises:
            IndexNotFoundError: the version of this handle has no index with this name.
            IncompatibleTransactionError: another writer replaced the table in the meantime.
            TooMuchWriteContentionError: other writers committed first at every attempt.
        """
        dropped = indices_named(self._view.manifest, name, self._view.log.root)
        self._change(CreateIndex(new_indices=(), removed_indices=dropped))

    # ── Maintenance ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def optimize(self) -> DatasetOptimizer:
        """The optimizer of this dataset, for compaction and automatic cleanup."""
        # Imported only when needed: most handles only read.
        from lance_core.compaction.optimizer import DatasetOptimizer

        return DatasetOptimizer(self)

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        delete_concurrency: int | None = None,
    ) -> CleanupStats:
        """Remove old versions, and the files that no version refers to.

        A version is removed only if it matches all of the given options. The version of this handle, all newer
        versions, tagged versions, and versions that a branch still uses are kept. To clean up a branch, use a handle
        on that branch. Shallow clones are not taken into account. Files that no version has ever referenced are removed
        once they are at least 7 days old.

        Args:
            older_than: remove only versions that were created longer ago than this. If none of ``older_than``,
                ``retain_versions``, and ``versions`` is given, versions older than two weeks are removed.
            retain_versions: remove only versions that are not among the newest ``retain_versions`` versions.
            delete_unverified: whether to remove files that no version has ever referenced, regardless of their age.
                Safe only if no other process writes to the dataset.
            error_if_tagged_old_versions: whether to raise an error if a tagged version matches the options. If False,
                tagged versions are kept without an error.
            delete_rate_limit: maximum number of files to delete per second; None means no limit.
            versions: remove only versions with these numbers.
            delete_concurrency: maximum number of files to delete at the same time.

        Raises:
            InvalidCleanupError: an option is out of range, or a tagged version matches and
                ``error_if_tagged_old_versions`` is True.
            CorruptDataError: a manifest, a tag, or a branch cannot be read; nothing was removed.
            StorageError: a storage operation failed.
        """
        policy = CleanupPolicy.of(
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            delete_rate_limit=delete_rate_limit,
            versions=versions,
            delete_concurrency=delete_concurrency,
        )
        return plan_for(self._view.log, self._view.manifest, policy).execute()

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        include_files: bool = False,
        max_files: int = DEFAULT_MAX_FILES,
    ) -> CleanupExplanation:
        """Return a description of what :meth:`cleanup_old_versions` would remove; nothing is changed.

        Args:
            older_than: see :meth:`cleanup_old_versions`.
            retain_versions: see :meth:`cleanup_old_versions`.
            delete_unverified: see :meth:`cleanup_old_versions`.
            error_if_tagged_old_versions: see :meth:`cleanup_old_versions`.
            delete_rate_limit: has no effect.
            versions: see :meth:`cleanup_old_versions`.
            include_files: whether the description lists the files to remove.
            max_files: maximum number of files in the list.

        Raises:
            InvalidCleanupError: an option is out of range, or a tagged version matches and
                ``error_if_tagged_old_versions`` is True.
            CorruptDataError: a manifest, a tag, or a branch cannot be read.
            StorageError: a storage operation failed.
        """
        policy = CleanupPolicy.of(
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            delete_rate_limit=delete_rate_limit,
            versions=versions,
        )
        plan = plan_for(self._view.log, self._view.manifest, policy)
        return plan.explanation(include_files=include_files, max_files=max_files)

    def all_files(self) -> pa.RecordBatchReader:
        """Return all files below the root of this branch, referenced or not; files in base paths are not included.

        Returns:
            A stream with the columns base_uri, path (relative to base_uri), size_bytes, and last_modified.

        Raises:
            StorageError: a storage operation failed.
        """
        return all_files(self._view.log, self.uri)

    def tracked_files(
        self, *, min_version: int | None = None, progress: Callable[..., Any] | None = None
    ) -> pa.RecordBatchReader:
        """Return the files, in all locations, that versions of this branch refer to: one row per version and file.

        Args:
            min_version: skip older versions.
            progress: called after each manifest with the number of manifests read so far and their total number.

        Returns:
            A stream with the columns version, base_uri, path (relative to base_uri), and type: "manifest", "data file",
            "deletion file", "transaction file", or "index file".

        Raises:
            CorruptDataError: a manifest is damaged.
            StorageError: a storage operation failed.
        """
        lowest = None if min_version is None else whole_number("min_version", min_version)
        return tracked_files(self._view.log, self.uri, self.storage_options, min_version=lowest, progress=progress)

    def migrate_manifest_paths_v2(self) -> None:
        """Rename all manifests of this branch to their V2 names; does nothing if they already have V2 names.

        No other operation may run on the dataset until the migration has finished. If it is interrupted, the dataset
        cannot be opened until the migration is run again, with this method or with the function
        ``lance_core.migrate_manifest_paths_v2``, which takes a URI.

        Raises:
            NotSupportedError: the dataset uses an external manifest store.
            CorruptDataError: a version has two different manifests, one under its V1 name and one under its V2 name.
            StorageError: a storage operation failed.
        """
        migrate_to_v2_names(self._view.log)
        self.show(self._view.showing(self._view.log.read_version(self.version)))

    @staticmethod
    def drop(
        base_uri: str | Path, storage_options: dict[str, str] | None = None, ignore_not_found: bool | None = None
    ) -> None:
        """Remove a dataset and everything below its root, including unrecognized files.

        Args:
            base_uri: root of the dataset, which must have a readable version.
            storage_options: credentials and settings of the store.
            ignore_not_found: if True, do nothing if the dataset does not exist.

        Raises:
            DatasetNotFoundError: the dataset does not exist.
            StorageError: a storage operation failed. If the dataset still exists, ``drop`` can be called again;
                otherwise, all of its versions were removed, but other files may remain.
        """
        drop_dataset(uri_text(base_uri), storage_options, ignore_not_found=bool(ignore_not_found))

    # ── Tags, branches, clones, bases ──────────────────────────────────────────────────────────────────────────────

    @property
    def tags(self) -> Tags:
        """The dataset's tags. A tagged version is never cleaned up."""
        return Tags(self._view.log, self._view.manifest)

    @property
    def branches(self) -> Branches:
        """The dataset's branches."""
        return Branches(self._view.log, self._view.manifest)

    def create_branch(
        self, branch: str, reference: Reference = None, storage_options: dict[str, str] | None = None
    ) -> Self:
        """Create a branch: a separate history of versions that starts from a version of this dataset.

        The branch's first version has the same number as the source version. No file is copied.

        Args:
            branch: name of the new branch: one or more segments of ASCII letters, digits, '.', '-', and '_', separated
                by '/'; must not be "main".
            reference: the version to start from, as for :meth:`checkout_version`; if None, the version of this handle.
            storage_options: credentials and settings of the store; if None, the options of this handle.

        Returns:
            A handle to the branch.

        Raises:
            InvalidRefError: the name is invalid.
            RefAlreadyExistsError: the branch already exists, or a crashed writer left behind an unfinished branch of
                the same name that starts from a different version.
            VersionNotFoundError: the version does not exist, or was removed by a cleanup while the branch was being
                created.
            RefNotFoundError: the tag or branch does not exist.
            StorageError: a storage operation failed.
        """
        return self.of(create_branch(self._view, branch, reference, storage_options), self._default_scan_options)

    def shallow_clone(
        self,
        target_path: str | Path,
        reference: Reference,
        storage_options: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create a table from a version of this table, without copying files: the clone refers to the original files.

        The clone needs the files of this table, but a cleanup of this table does not take the clone into account. The
        clone's first version has the same number as the cloned version.

        Args:
            target_path: location of the clone; no dataset may exist there.
            reference: the version to clone, as for :meth:`checkout_version`; if None, the version of this handle.
            storage_options: storage options for the clone; if None, the options of this handle.
            kwargs: additional arguments for opening the clone, as for ``LanceDataset``.

        Raises:
            AlreadyExistsError: there is already a dataset at the location.
            VersionNotFoundError: the version does not exist.
            RefNotFoundError: the tag or branch does not exist.
            StorageError: a storage operation failed.
        """
        options = self.storage_options if storage_options is None else storage_options
        source = self._view if reference is None else self._view.at(reference)
        target = uri_text(target_path)
        shallow_clone(source, open_log(target, options), options)
        return self._opened(target, options, kwargs)

    def deep_clone(
        self,
        target_path: str | Path,
        reference: Reference,
        storage_options: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create a table from a version of this table, with copies of all files of that version.

        Args:
            target_path: location of the clone; no dataset may exist there.
            reference: the version to clone, as for :meth:`checkout_version`; if None, the version of this handle.
            storage_options: storage options for the clone; if None, the options of this handle.
            kwargs: additional arguments for opening the clone, as for ``LanceDataset``.

        Raises:
            AlreadyExistsError: there is already a dataset at the location.
            VersionNotFoundError: the version does not exist.
            RefNotFoundError: the tag or branch does not exist.
            NotSupportedError: files in different base paths have the same name, or values of a blob column refer to
                files below a base path.
            NotFoundError: a file is missing.
            StorageError: a storage operation failed.
        """
        options = self.storage_options if storage_options is None else storage_options
        source = self._view if reference is None else self._view.at(reference)
        target = uri_text(target_path)
        deep_clone(source, open_log(target, options), options)
        return self._opened(target, options, kwargs)

    def add_bases(self, new_bases: list[DatasetBasePath], transaction_properties: dict[str, str] | None = None) -> Self:
        """Add base paths (additional locations to which files of this table can be written), or change existing ones.

        Args:
            new_bases: the base paths; a base path without an id gets the next id. A base path with the id of an
                existing one replaces it; the files, which must already have been copied to the new location, are then
                read from there. Earlier versions keep the old location.
            transaction_properties: properties to record in the transaction.

        Returns:
            This handle, moved to the new version.

        Raises:
            InvalidInputError: a name or a path is already in use, or an id is given twice.
            NotFoundError: a file of this table does not exist in the new location of its base path.
            IncompatibleTransactionError: another writer added a base path with the same id, name, or path.
            RetryableCommitConflictError: another writer has added files to a base path whose location changes.
        """
        self._change(
            UpdateBases(new_bases=new_base_messages(new_bases)), properties=checked_properties(transaction_properties)
        )
        return self

    def _change(
        self,
        operation: Operation,
        *,
        read_version: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> TableView:
        made = commit_change(self._view, operation, read_version=read_version, properties=properties)
        self.show(made)
        return made

    def _field_id(self, path: object) -> int:
        found = self._view.schema.find(path) if isinstance(path, str) else None
        if found is None:
            raise SchemaMismatchError(
                f"the dataset has no field {path!r}; top-level fields: {self._view.schema.names}", field=path
            )
        return found.id

    def _opened(self, uri: str, storage_options: dict[str, str] | None, kwargs: dict[str, Any]) -> Self:
        with known_to_exist(f"the clone at {uri}"):
            return type(self)(uri, storage_options=storage_options, **kwargs)


class BulkCommitResult(TypedDict):
    """The result of committing a batch.

    Attributes:
        dataset: a handle to the new version.
        merged: the transaction that created the version.
    """

    dataset: LanceDataset
    merged: Transaction


def _decoded(metadata: Mapping[str, bytes]) -> dict[str, str]:
    return {key: value.decode("utf-8", "replace") for key, value in metadata.items()}


def _reopen(
    uri: str,
    version: int,
    storage_options: dict[str, str] | None,
    line: Hashable,
    session: Session,
    default_scan_options: dict[str, Any] | None,
) -> LanceDataset:
    view = TableView.open(uri, version, storage_options, None, session)
    return LanceDataset.of(view if line is None else view.of_line(line), default_scan_options)


def _warn_deprecated(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated; use {instead} instead", DeprecationWarning, stacklevel=3)
