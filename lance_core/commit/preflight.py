"""Selects and performs the checks of a commit that access storage; the selection depends on the operation.

The checks themselves are in :mod:`~lance_core.commit.checks` and :mod:`~lance_core.commit.row_id_checks`. They are
performed once, against the version that the first attempt builds on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.commit.checks import (
    check_data_files,
    check_deletion_files,
    check_fields,
    check_not_part_of,
    check_overlays,
)
from lance_core.commit.row_id_checks import check_row_ids
from lance_core.errors import SchemaMismatchError, VersionNotFoundError
from lance_core.scan.early_fragments import with_row_counts
from lance_core.table.base_paths import BasePath, FileLocator
from lance_core.transactions.restoring import check_restore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.options import CommitOptions
    from lance_core.transactions.transaction import Transaction

__all__ = ["check_storage"]


def check_storage(log: VersionLog, transaction: Transaction, options: CommitOptions, current: Manifest) -> None:
    """Check the files that a transaction adds.

    Args:
        log: the dataset's versions.
        transaction: the transaction to commit.
        options: the options of the commit.
        current: the version to build on.

    Raises:
        InvalidInputError: a fragment or file is incompatible with the dataset.
        NotFoundError: a file is missing.
        CorruptDataError: a file is damaged.
    """
    operation = transaction.operation
    if operation.restored_version is not None:
        check_restore(log, operation.restored_version, options.storage_options)
    bases = current.base_paths
    if operation.makes_tables:
        bases += tuple(map(BasePath.from_proto, operation.added_bases()))
    locator = FileLocator(log.store, log.root, bases, options.storage_options)
    schema, new = operation.new_schema(), operation.added_fragments()
    if schema is not None:
        _check_fragments(new, [schema], locator, options)
    elif new:
        if options.checks_files:
            check_not_part_of(new, current)
        _check_with_older_schema(
            current, log, transaction, lambda schemas: _check_fragments(new, schemas, locator, options)
        )
    if not options.checks_files:
        return
    check_overlays(operation.laid_overlays(), current.schema, locator)
    check_row_ids(operation, current, locator)
    added = operation.added_files(current)
    if schema is not None:
        check_data_files(added, locator, [schema])
    elif added:
        _check_with_older_schema(current, log, transaction, lambda schemas: check_data_files(added, locator, schemas))
    deletions = operation.changed_deletions()
    if deletions and options.affected_rows is None:
        check_deletion_files(deletions, with_row_counts(current, locator), locator)


def _check_with_older_schema(
    current: Manifest, log: VersionLog, transaction: Transaction, check: Callable[[Sequence[Schema]], None]
) -> None:
    """Check new files; columns may have been dropped or renamed since the files were written."""
    try:
        check([current.schema])
    except SchemaMismatchError:
        older = _schema_of(log, transaction.read_version)
        if older is None or transaction.read_version == current.version:
            raise
        check([current.schema, older])


def _check_fragments(
    fragments: Sequence[Fragment], schemas: Sequence[Schema], locator: FileLocator, options: CommitOptions
) -> None:
    check_fields(fragments, schemas)
    if options.checks_files:
        check_data_files(fragments, locator, schemas)


def _schema_of(log: VersionLog, version: int) -> Schema | None:
    """Return the schema of an older version, or None if the version no longer exists."""
    try:
        return log.read_version(version).schema
    except VersionNotFoundError:
        return None
