"""What a pipeline needs of a table besides its rows: versions, fragments, stores, and planned changes.

::

    log = open_version_log("/data/points")
    manifest = log.read_latest()
    made_by = read_transaction(log, manifest)

* *Versions*: :func:`open_version_log` lists and reads them without opening a dataset; a :class:`Manifest` holds
  everything that a version records, including its fragments.
* *Transactions*: :func:`read_transaction` returns the transaction of a version, :data:`MAY_CHANGE_ROWS` lists the
  operations that may change rows, and :func:`commit_transaction` commits a transaction.
* *Fragments and schemas*: what a data file must look like to become part of a table.
* *Stores*: :func:`open_store` gives access to the files below a URI.
* *Maintenance*: deletes and cleanups that are planned first, looked at, and carried out later.

:class:`~lance_core.LanceDataset` is for rows, :mod:`lance_core.optimize` for compaction. These modules,
:mod:`lance_core.errors` and the top level are the public surface; everything else is internal.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from lance_core.cleanup.classification import ClassifiedPath, PathState
from lance_core.cleanup.plan import CleanupPlan, plan_cleanup
from lance_core.cleanup.policy import CleanupPolicy
from lance_core.cleanup.records import CleanupStats, FileKind
from lance_core.commit.commit import commit
from lance_core.commit.options import CommitOptions
from lance_core.delete import delete
from lance_core.delete.plan import DeletePlan, plan_delete
from lance_core.io.object_store import ObjectInfo, ObjectStore
from lance_core.io.uri import resolve
from lance_core.places.location import open_log, uri_text
from lance_core.proto import pb_table
from lance_core.schema import storable
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.projection import check_compatible
from lance_core.table.branches import list_branches
from lance_core.table.data_file import stored_fields
from lance_core.table.manifest import Manifest
from lance_core.table.paths import ManifestName
from lance_core.table.refs import list_tags
from lance_core.table.version_log import VersionLog
from lance_core.transactions.history import read_transaction
from lance_core.transactions.operations.parts import RewriteGroup
from lance_core.transactions.public_transaction import transaction_to_core
from lance_core.transactions.registry import EXECUTABLE
from lance_core.transactions.transaction import Transaction as TransactionRecord
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lance_core.scan.table_view import Handle
    from lance_core.schema.field import Schema
    from lance_core.transactions.public_transaction import Transaction

__all__ = [
    "DEFAULT_VERSION",
    "MAY_CHANGE_ROWS",
    "ClassifiedPath",
    "CleanupPlan",
    "CleanupPolicy",
    "CleanupStats",
    "CommittedDelete",
    "DeletePlan",
    "FileKind",
    "FragmentMessage",
    "Manifest",
    "ManifestName",
    "ObjectInfo",
    "ObjectStore",
    "PathState",
    "RewriteGroup",
    "TransactionRecord",
    "VersionLog",
    "check_compatible",
    "check_storable",
    "commit_transaction",
    "delete_rows",
    "named_versions",
    "open_store",
    "open_version_log",
    "plan_cleanup",
    "plan_delete",
    "read_transaction",
    "stored_field_ids",
]

FragmentMessage: TypeAlias = pb_table.DataFragment
"""A fragment as a manifest's protobuf message holds it: data files, deletion file, overlays, and numbers of rows."""

CommittedDelete: TypeAlias = delete.Deleted
"""What :func:`delete_rows` did."""

MAY_CHANGE_ROWS: Final[Mapping[str, bool]] = MappingProxyType(
    {arm: operation.may_change_rows for arm, operation in EXECUTABLE.items()}
)
"""Operation, by its field in the transaction's message -> whether readers may see other rows or columns after it."""


def open_version_log(uri: str | Path, storage_options: Mapping[str, str] | None = None) -> VersionLog:
    """Return the versions of the table at a URI; nothing is read yet, and there may be no table.

    Args:
        uri: where the table is.
        storage_options: credentials and settings of the store.

    Raises:
        InvalidInputError: the URI is malformed.
        UnsupportedSchemeError: no store for its scheme.
        NotSupportedError: a package that the scheme needs is not installed.
    """
    return open_log(uri_text(uri), storage_options)


def open_store(uri: str | Path, storage_options: Mapping[str, str] | None = None) -> tuple[ObjectStore, str]:
    """Return the store that a URI names, and the path of the table in it.

    Args:
        uri: where the table is.
        storage_options: credentials and settings of the store.

    Raises:
        InvalidInputError: the URI is empty or malformed, or holds credentials.
        UnsupportedSchemeError: no store for its scheme.
    """
    return resolve(uri, storage_options)


def named_versions(log: VersionLog) -> frozenset[int]:
    """Return the versions of the main line that a tag or a branch refers to, and that no cleanup may remove.

    Raises:
        CorruptDataError: the file of a tag or a branch is damaged.
        StorageError: the storage operation failed.
    """
    tags = list_tags(log.store, log.root).values()
    branches = list_branches(log.store, log.root).values()
    tagged = {tag.version for tag in tags if tag.is_on_main_line}
    return frozenset(tagged | {branch.forked_from for branch in branches if branch.forked_from is not None})


def check_storable(schema: pa.Schema, version: LanceFileVersion | None = None) -> None:
    """Check that a table can hold every column of a schema.

    Args:
        schema: Arrow fields.
        version: of the data files; None checks only that the format has a type for every column.

    Raises:
        UnsupportedVersionError: files of this version cannot hold a column.
        NotSupportedError: no version holds it.
    """
    fields = schema_from_arrow(schema)
    if version is not None:
        storable.check_storable(fields, version)


def stored_field_ids(schema: Schema, columns: Sequence[str], version: LanceFileVersion) -> list[int]:
    """Return the field ids that a data file of some columns lists, in order.

    Args:
        schema: of the table.
        columns: names of top-level columns, in the order of the file.
        version: of the file.
    """
    return [field.id for field in stored_fields([schema.field(name) for name in columns], version)]


def commit_transaction(
    base: str | Path | Handle,
    transaction: Transaction,
    *,
    create_only: bool = False,
    data_storage_version: LanceFileVersion | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Commit a transaction and return its version; the one it made earlier, if its uuid was committed before.

    Args:
        base: where the table is, or an open dataset; the manifest of a dataset is not read again.
        transaction: what to commit.
        create_only: fail when there is a table.
        data_storage_version: of an Overwrite without data files; None for the table's.
        storage_options: credentials and settings of the store; those of an open dataset stay.

    Raises:
        AlreadyExistsError: there is a table, and ``create_only`` is set.
        LanceError: as for :meth:`lance_core.LanceDataset.commit`.
    """
    known = None
    if isinstance(base, (str, Path)):
        log = open_version_log(base, storage_options)
    else:
        view = base.view
        log, known, storage_options = view.log, view.manifest, view.storage_options
    options = CommitOptions(create_only=create_only, file_version=data_storage_version, storage_options=storage_options)
    return commit(log, transaction_to_core(transaction), options, known=known).version


def delete_rows(
    dataset: Handle,
    predicate: str,
    *,
    properties: Mapping[str, str] | None = None,
    only_if_found: bool = False,
) -> CommittedDelete:
    """Delete the rows that match a predicate; planned again after a conflict, as often as ``LanceDataset.delete`` does.

    Args:
        dataset: the version to plan on first.
        predicate: which rows, as SQL text.
        properties: of the transaction.
        only_if_found: make no version when no row matches.

    Raises:
        InvalidInputError: the predicate does not fit the table.
        TooMuchWriteContentionError: every attempt met a conflict.
        CommitOutcomeUnknownError: whether the rows were deleted cannot be told.
        StorageError: the storage operation failed.
    """
    return delete.delete_rows(
        dataset.view, predicate, delete.RetryPolicy(), properties=properties, only_if_found=only_if_found
    )
