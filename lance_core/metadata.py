"""Everything that a pipeline needs besides a table's rows: versions, fragments, stores, and planned changes.

::

    log = open_version_log("/data/points")
    manifest = log.read_latest()
    made_by = read_transaction(log, manifest)

* *Versions*: :func:`open_version_log` lists and reads versions without opening a dataset; a :class:`Manifest` contains
  everything that a version records, including its fragments.
* *Transactions*: :func:`read_transaction` returns the transaction of a version, :data:`MAY_CHANGE_ROWS` lists the
  operations that may change rows, and :func:`commit_transaction` commits a transaction.
* *Fragments and schemas*: :func:`check_storable`, :func:`declared_schema`, :func:`is_older_blob`, and
  :func:`stored_field_ids` help to write data files for a table.
* *Changes*: :func:`commit_replacement` replaces rows with those of fragments that were written elsewhere,
  :func:`commit_upsert` does so by key, and :func:`add_columns` adds columns; all record properties of their
  transaction. :func:`plan_update` divides an update of rows into tasks for several processes, and :func:`commit_update`
  commits their results. :class:`DeleteTasks`, :class:`MergePlanner`, and :class:`ColumnTasks` do the same for a delete,
  a merge by keys, and new columns. :class:`Attempts` plans a change again after a conflict.
* *Scans*: :func:`scan_row_range` reads a range of a fragment's rows, so that several processes can share a fragment.
* *Stores*: :func:`open_store` gives access to the files below a URI; :func:`register_store` adds a user-defined store;
  :func:`recorded_uri` normalizes a URI.
* *Indices*: :func:`index_coverage` tells which rows the indices of a version cover; :func:`branch_indices` moves
  indices that another program built on a branch.
* *Leases*: :func:`lease_version` protects a version from cleanups while somebody reads it.
* *Maintenance*: deletes and cleanups that are planned first, reviewed, and executed later.

Use :class:`~lance_core.LanceDataset` for rows and :mod:`lance_core.optimize` for compaction. For the extent of the
public API, see :mod:`lance_core`.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import pyarrow as pa

from lance_core.cleanup.classification import ClassifiedPath, PathState
from lance_core.cleanup.plan import CleanupPlan, plan_cleanup
from lance_core.cleanup.policy import CleanupPolicy
from lance_core.cleanup.records import CleanupStats, FileKind
from lance_core.columns.add import add_null_columns
from lance_core.columns.column_tasks import ColumnTask, ColumnTasks, WrittenColumns
from lance_core.commit.commit import commit
from lance_core.commit.replanning import Attempts, RetryPolicy
from lance_core.delete import delete
from lance_core.delete.delete_tasks import DeleteSearch, DeleteTasks, FoundRows
from lance_core.delete.plan import DeletePlan, DeletePlanner, FragmentDelete, plan_delete
from lance_core.errors import InvalidInputError
from lance_core.io.byte_range import ByteRange
from lance_core.io.object_store import ObjectInfo, ObjectStore, PutOutcome, StoreCapabilities, WriteStream
from lance_core.io.uri import recorded_uri, register_store, resolve, unregister_store
from lance_core.merge_insert import staged_rows
from lance_core.merge_insert.merge_tasks import (
    CommittedMerge,
    MergePlanner,
    MergeSearch,
    MergeWrite,
    SearchedFragment,
    WrittenRows,
)
from lance_core.merge_insert.rules import MergeRules, key_names
from lance_core.places.location import open_log, uri_text
from lance_core.public import index_coverage as coverage
from lance_core.public.fragment_conversion import fragment_records
from lance_core.public.index_coverage import IndexCoverage
from lance_core.refs.branch_indices import BranchIndices, branch_indices
from lance_core.refs.copy_tasks import CopyTask, commit_copy, plan_copy
from lance_core.refs.leases import VersionLease, lease_version
from lance_core.scan.scanner import LanceScanner
from lance_core.schema import storable
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.declared_columns import declared_column, is_older_blob
from lance_core.schema.projection import check_compatible
from lance_core.table.base_paths import FileLocator
from lance_core.table.branches import list_branches
from lance_core.table.data_file import stored_fields
from lance_core.table.fragment import Fragment
from lance_core.table.leases import TagsInForce
from lance_core.table.manifest import Manifest
from lance_core.table.paths import DATA_DIRECTORY, ManifestName
from lance_core.table.version_log import VersionLog
from lance_core.transactions.operations.parts import RewriteGroup
from lance_core.transactions.options import CommitOptions, CommitProgress
from lance_core.transactions.public_transaction import transaction_to_core
from lance_core.transactions.registry import EXECUTABLE
from lance_core.transactions.transaction import Transaction as TransactionRecord
from lance_core.transactions.transaction import read_transaction
from lance_core.update import replace
from lance_core.update.row_changes import RowChanges
from lance_core.update.update import Updated, UpdatePlan, UpdateTask, commit_update, plan_update
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.scan.table_view import Handle
    from lance_core.schema.field import Schema
    from lance_core.transactions.public_transaction import Transaction

__all__ = [
    "DATA_DIRECTORY",
    "DEFAULT_VERSION",
    "MAY_CHANGE_ROWS",
    "Attempts",
    "BranchIndices",
    "ByteRange",
    "ClassifiedPath",
    "CleanupPlan",
    "CleanupPolicy",
    "CleanupStats",
    "ColumnTask",
    "ColumnTasks",
    "CommitProgress",
    "CommittedDelete",
    "CommittedMerge",
    "CommittedReplacement",
    "CommittedUpsert",
    "CopyTask",
    "DeletePlan",
    "DeletePlanner",
    "DeleteSearch",
    "DeleteTasks",
    "FileKind",
    "FoundRows",
    "Fragment",
    "FragmentDelete",
    "IndexCoverage",
    "Manifest",
    "ManifestName",
    "MergePlanner",
    "MergeRules",
    "MergeSearch",
    "MergeWrite",
    "ObjectInfo",
    "ObjectStore",
    "PathState",
    "PutOutcome",
    "RetryPolicy",
    "RewriteGroup",
    "RowChanges",
    "SearchedFragment",
    "StoreCapabilities",
    "TransactionRecord",
    "UpdatePlan",
    "UpdateTask",
    "Updated",
    "UpsertPlanner",
    "VersionLease",
    "VersionLog",
    "WriteStream",
    "WrittenColumns",
    "WrittenRows",
    "add_columns",
    "branch_indices",
    "check_compatible",
    "check_new_keys",
    "check_storable",
    "commit_copy",
    "commit_delete",
    "commit_replacement",
    "commit_transaction",
    "commit_update",
    "commit_upsert",
    "declared_schema",
    "delete_rows",
    "index_coverage",
    "is_older_blob",
    "key_columns",
    "lease_version",
    "named_versions",
    "open_store",
    "open_version_log",
    "plan_cleanup",
    "plan_copy",
    "plan_delete",
    "plan_update",
    "read_transaction",
    "recorded_uri",
    "register_store",
    "scan_row_range",
    "stored_field_ids",
    "unregister_store",
]

CommittedDelete: TypeAlias = delete.Deleted
"""The result of :func:`delete_rows`."""

CommittedReplacement: TypeAlias = replace.Replaced
"""The result of :func:`commit_replacement`."""

CommittedUpsert: TypeAlias = staged_rows.Upserted
"""The result of :func:`commit_upsert`."""

MAY_CHANGE_ROWS: Final[Mapping[str, bool]] = MappingProxyType(
    {arm: operation.may_change_rows for arm, operation in EXECUTABLE.items()}
)
"""Maps the name of each operation in the transaction message to whether the operation may change what readers see."""


def open_version_log(uri: str | Path, storage_options: Mapping[str, str] | None = None) -> VersionLog:
    """Return the version log of the table at a URI. This reads nothing, and the table need not exist.

    Args:
        uri: location of the table.
        storage_options: credentials and settings for the store.

    Raises:
        InvalidInputError: the URI is malformed.
        UnsupportedSchemeError: the scheme of the URI is not supported.
        NotSupportedError: a package that the scheme requires is not installed.
    """
    return open_log(uri_text(uri), storage_options)


def open_store(uri: str | Path, storage_options: Mapping[str, str] | None = None) -> tuple[ObjectStore, str]:
    """Return the store for a URI, and the path of the table in the store.

    Args:
        uri: location of the table.
        storage_options: credentials and settings for the store.

    Raises:
        InvalidInputError: the URI is empty or malformed, or contains credentials.
        UnsupportedSchemeError: the scheme of the URI is not supported.
    """
    return resolve(uri, storage_options)


def named_versions(log: VersionLog) -> frozenset[int]:
    """Return the versions of the main branch to which tags, leases, or branches refer. A cleanup must not remove them.

    Raises:
        CorruptDataError: the file of a tag or a branch is damaged.
        StorageError: a storage operation failed.
    """
    tags = TagsInForce.read(log.store, log.root, time.time_ns()).all.values()
    branches = list_branches(log.store, log.root).values()
    tagged = {tag.version for tag in tags if tag.is_on_main_line}
    return frozenset(tagged | {branch.forked_from for branch in branches if branch.forked_from is not None})


def index_coverage(dataset: Handle) -> list[IndexCoverage]:
    """Return the fragments and rows that each index of a version covers, except system indices.

    Row counts that are not recorded are read from the data files; otherwise, only the manifest is used.

    Args:
        dataset: a handle to the version.

    Raises:
        CorruptDataError: the index section of the manifest is damaged.
    """
    return coverage.index_coverage(dataset.view.counted_manifest)


def check_storable(schema: pa.Schema, version: LanceFileVersion | None = None) -> None:
    """Check that a table can store every column of a schema.

    Args:
        schema: the Arrow schema.
        version: version of the data files; if None, this checks only that the format has a type for every column.

    Raises:
        UnsupportedVersionError: data files of this version cannot store one of the columns.
        NotSupportedError: no version can store one of the columns.
    """
    fields = schema_from_arrow(schema)
    if version is not None:
        storable.check_storable(fields, version)


def declared_schema(rows: pa.Schema, *, upgrades_blobs: bool) -> pa.Schema:
    """Return the schema with which a table stores rows; for example, JSON strings become binary JSON.

    Args:
        rows: schema of the rows, as they are given to :func:`~lance_core.write_fragments`.
        upgrades_blobs: whether binary columns with ``lance-encoding:blob`` are declared as ``lance.blob.v2``, as all
            writes do in a new table in format 2.2.
    """
    return pa.schema([declared_column(column, upgrades_blobs=upgrades_blobs) for column in rows], rows.metadata)


def stored_field_ids(schema: Schema, columns: Sequence[str], version: LanceFileVersion) -> list[int]:
    """Return the list of field ids that a manifest must contain for a data file with the given columns.

    Args:
        schema: schema of the table.
        columns: names of the top-level columns, in file order.
        version: version of the data file.
    """
    return [field.id for field in stored_fields([schema.field(name) for name in columns], version)]


def scan_row_range(
    dataset: Handle,
    fragment_id: int,
    start: int,
    stop: int,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    batch_size: int | None = None,
    batch_size_bytes: int | None = None,
    blob_handling: str | None = None,
) -> LanceScanner:
    """Plan a scan of a range of the rows of one fragment. Only the pages of these rows are read.

    Args:
        dataset: a handle to the version.
        fragment_id: the fragment.
        start: index of the first row, counted without deleted rows.
        stop: index of the row at which the range ends (exclusive); it may be greater than the number of rows.
        columns: as for ``LanceDataset.scanner``.
        filter: as for ``LanceDataset.scanner``; it applies to the rows of the range.
        batch_size: as for ``LanceDataset.scanner``.
        batch_size_bytes: as for ``LanceDataset.scanner``.
        blob_handling: as for ``LanceDataset.scanner``.

    Raises:
        InvalidInputError: the version has no such fragment, or the range or another argument is invalid.
    """
    record = dataset.view.find_fragment(fragment_id)
    if record is None:
        raise InvalidInputError(
            f"fragment {fragment_id} does not exist in version {dataset.view.version}", fragment_id=fragment_id
        )
    if not 0 <= start <= stop:
        raise InvalidInputError(f"invalid row range [{start}, {stop}); expected 0 <= start <= stop")
    return LanceScanner(
        dataset.view.source_of(record),
        columns=columns,
        filter=filter,
        batch_size=batch_size,
        batch_size_bytes=batch_size_bytes,
        blob_handling=blob_handling,
        row_range=(start, stop),
    )


def commit_transaction(
    base: str | Path | Handle,
    transaction: Transaction,
    *,
    create_only: bool = False,
    data_storage_version: LanceFileVersion | None = None,
    stable_row_ids: bool = False,
    storage_options: Mapping[str, str] | None = None,
    progress: CommitProgress | None = None,
) -> int:
    """Commit a transaction and return its version; if its uuid has already been committed, return the existing version.

    Args:
        base: location of the table, or an open dataset; the manifest of an open dataset is not read again.
        transaction: the transaction to commit.
        create_only: whether to fail if the table already exists.
        data_storage_version: data file version for an Overwrite without data files; if None, the table's version or,
            for a new table, the default version.
        stable_row_ids: whether a new table uses stable row ids.
        storage_options: credentials and settings for the store; ignored for an open dataset, which has its own.
        progress: records the progress of the commit.

    Raises:
        AlreadyExistsError: the table already exists, and ``create_only`` is set.
        LanceError: as for :meth:`lance_core.LanceDataset.commit`.
    """
    known = None
    if isinstance(base, (str, Path)):
        log = open_version_log(base, storage_options)
    else:
        view = base.view
        log, known, storage_options = view.log, view.manifest, view.storage_options
    options = CommitOptions(
        create_only=create_only,
        file_version=data_storage_version,
        stable_row_ids=stable_row_ids,
        storage_options=storage_options,
        progress=progress or CommitProgress(),
    )
    return commit(log, transaction_to_core(transaction), options, known=known).version


def add_columns(dataset: Handle, columns: pa.Schema, *, properties: Mapping[str, str] | None = None) -> None:
    """Add columns of nulls, and move the handle to the new version; see ``LanceDataset.add_columns``.

    Args:
        dataset: a handle to the version on which the first attempt is based.
        columns: the columns, all of which must be nullable.
        properties: properties of the transaction.

    Raises:
        LanceError: as for ``LanceDataset.add_columns``.
    """
    dataset.show(add_null_columns(dataset.view, columns, properties))


def commit_replacement(
    dataset: Handle,
    predicate: str | DeletePlanner | DeleteTasks,
    fragments: Sequence[FragmentMetadata],
    *,
    transaction_uuid: str | None = None,
    properties: Mapping[str, str] | None = None,
    progress: CommitProgress | None = None,
) -> CommittedReplacement:
    """Replace the rows that match a predicate with those of fragments that are already written, in one version.

    The handle is moved to this version.

    The deletion is planned on the version of the handle. A commit can be repeated safely: if a later version was
    created by a transaction with this UUID, the result refers to that version.

    Args:
        dataset: a handle to a version which, like all versions before it, was not created by this transaction.
        predicate: SQL condition that selects the rows to delete; every new row must match it. A
            :class:`DeletePlanner` for the condition, if used for all attempts, searches unchanged fragments only once.
            A :class:`DeleteTasks` object also contains what other processes have found.
        fragments: the new fragments, for example from :func:`lance_core.write_fragments`.
        transaction_uuid: UUID of the transaction; a new one if None.
        properties: properties of the transaction.
        progress: records the progress of the commit.

    Raises:
        InvalidInputError: the predicate is not valid for the table, or does not match a new row.
        SchemaMismatchError: the columns of a fragment differ from those of the table.
        NotFoundError: a file of a fragment is missing.
        RetryableCommitConflictError: another writer has added or changed rows since the version of the handle; try
            again with a handle to the latest version and the same fragments.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    tasks = predicate if isinstance(predicate, DeleteTasks) else None
    if tasks is not None:
        predicate = tasks.planner
    replaced = replace.commit_replacement(
        dataset.view,
        predicate if isinstance(predicate, DeletePlanner) else DeletePlanner(predicate),
        fragment_records(fragments),
        properties=properties or {},
        transaction_uuid=transaction_uuid,
        progress=progress,
        written={} if tasks is None else tasks.take_changed(),
    )
    dataset.show(replaced.view)
    return replaced


def commit_delete(
    dataset: Handle,
    tasks: DeleteTasks,
    *,
    only_if_found: bool = False,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
    progress: CommitProgress | None = None,
) -> CommittedDelete:
    """Commit a delete whose fragments have been searched by tasks, and move the handle to the new version.

    Args:
        dataset: a handle to the version that was searched; what has not been searched is searched now.
        tasks: the tasks, which contain the rows that were found.
        only_if_found: whether to create no version if no row matches.
        properties: properties of the transaction.
        transaction_uuid: UUID of the transaction; a new one if None.
        progress: records the progress of the commit.

    Raises:
        RetryableCommitConflictError: another writer has changed the same rows; search the latest version.
        CommitOutcomeUnknownError: it could not be determined whether the rows were deleted.
        StorageError: a storage operation failed.
    """
    options = CommitOptions(
        checks_files=False, is_first_try=transaction_uuid is None, progress=progress or CommitProgress()
    )
    deleted = delete.commit_delete(
        dataset.view,
        tasks.planner,
        options,
        properties,
        transaction_uuid,
        only_if_found=only_if_found,
        written=tasks.take_changed(),
    )
    dataset.show(deleted.view)
    return deleted


def key_columns(schema: pa.Schema, on: str | Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the names of the key columns of a table with these columns.

    Args:
        schema: the columns.
        on: a name, or names; if no column has exactly the given name, case is ignored. None for the declared primary
            key.

    Raises:
        InvalidInputError: there is no such column, or no primary key.
    """
    return key_names(schema_from_arrow(schema), on)


def check_new_keys(
    base: str | Path | Handle,
    fragments: Sequence[FragmentMetadata],
    keys: Sequence[str],
    *,
    schema: pa.Schema | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Check that the keys in new fragments contain no nulls and no duplicates.

    Args:
        base: a handle to the dataset to which the fragments will be added, or the location of a new dataset.
        fragments: the fragments, for example from :func:`lance_core.write_fragments`.
        keys: names of the key columns.
        schema: the columns of the fragments of a new dataset; not needed for an existing one.
        storage_options: credentials and settings for the store; ignored for an open dataset, which has its own.

    Raises:
        InvalidMergeError: a key contains a null, or occurs twice.
        StorageError: a storage operation failed.
    """
    if isinstance(base, (str, Path)):
        columns = schema_from_arrow(pa.schema([]) if schema is None else schema)
        locator = FileLocator(*open_store(base, storage_options), storage_options=storage_options)
    else:
        columns, locator = base.view.schema, base.view.locator
    staged_rows.check_new_keys(columns, fragment_records(fragments), locator, keys)


class UpsertPlanner:
    """Finds the rows that an upsert replaces. If used for all attempts, it searches unchanged fragments only once.

    A context manager, which removes temporary files on exit.

    Args:
        fragments: the new fragments, for example from :func:`lance_core.write_fragments`, with all columns.
        keys: names of the key columns; check the keys with :func:`check_new_keys` first.
    """

    def __init__(self, fragments: Sequence[FragmentMetadata], keys: Sequence[str]) -> None:
        """Initialize without reading anything."""
        self.staged: Final = staged_rows.StagedUpsert(fragment_records(fragments), keys)

    def __enter__(self) -> Self:
        """Return the planner."""
        return self

    def __exit__(self, *error: object) -> None:
        """Remove temporary files."""
        self.staged.close()


def commit_upsert(
    dataset: Handle,
    planner: UpsertPlanner,
    *,
    transaction_uuid: str,
    properties: Mapping[str, str] | None = None,
) -> CommittedUpsert:
    """Replace the rows that have the keys of new rows, and add the other new rows, in one version.

    The new rows are in fragments that are already written. The upsert is planned on the version of the handle. A commit
    can be repeated safely: if a later version was created by a transaction with this UUID, the result refers to that
    version. If row ids are stable, new rows take over the ids of the rows that they replace; the new rows are then
    written again, in another order, and nothing refers to the files of the fragments.

    Args:
        dataset: a handle to a version which, like all versions before it, was not created by this transaction.
        planner: the fragments and the keys.
        transaction_uuid: UUID of the transaction.
        properties: properties of the transaction.

    Raises:
        InvalidMergeError: several new rows have the key of the same row of the dataset.
        SchemaMismatchError: the columns of a fragment differ from those of the table.
        NotFoundError: a file of a fragment is missing.
        NotSupportedError: the dataset has both stable row ids and blob columns.
        RetryableCommitConflictError: another writer has added or changed rows since the version of the handle; try
            again with a handle to the latest version and the same planner.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    return planner.staged.commit(dataset.view, properties=properties or {}, transaction_uuid=transaction_uuid)


def delete_rows(
    dataset: Handle,
    predicate: str,
    *,
    properties: Mapping[str, str] | None = None,
    only_if_found: bool = False,
    only_as_planned: bool = False,
) -> CommittedDelete:
    """Delete the rows that match a predicate.

    After a conflict, the delete is planned again. The maximum number of attempts is the same as for
    ``LanceDataset.delete``.

    Args:
        dataset: a handle to the version on which the first attempt is based.
        predicate: SQL condition that selects the rows to delete.
        properties: properties of the transaction.
        only_if_found: whether to create no version if no row matches.
        only_as_planned: whether to delete exactly the rows that match in the version of the handle, and to raise an
            error after a conflict instead of planning the delete again. Changes by other writers to other rows do not
            conflict.

    Raises:
        InvalidInputError: the predicate is not valid for the table.
        TooMuchWriteContentionError: every attempt failed because of a conflict.
        CommitOutcomeUnknownError: it could not be determined whether the rows were deleted.
        StorageError: a storage operation failed.
    """
    policy = RetryPolicy(retries=0) if only_as_planned else RetryPolicy()
    return delete.delete_rows(dataset.view, predicate, policy, properties=properties, only_if_found=only_if_found)
