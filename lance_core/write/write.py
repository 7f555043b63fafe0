"""Writes rows, either as fragments to commit later, or directly as a new version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lance_core.cleanup.automatic import initial_entries
from lance_core.commit.commit import commit
from lance_core.errors import (
    AlreadyExistsError,
    InvalidInputError,
    RetryableCommitConflictError,
    TooMuchWriteContentionError,
)
from lance_core.file.external_values import ExternalValues
from lance_core.places.references import read_manifest
from lance_core.public.dataset_base_path import numbered_bases
from lance_core.scan.table_view import Destination
from lance_core.schema.convert import schema_to_arrow
from lance_core.schema.projection import check_compatible, has_same_columns
from lance_core.table.base_paths import BasePath, FileLocator, reference_directories
from lance_core.table.inner_bases import refuse_inner_bases
from lance_core.table.paths import ManifestNaming
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.options import CommitOptions, CommitProgress
from lance_core.transactions.transaction import Transaction, checked_properties
from lance_core.write.data_input import to_reader
from lance_core.write.fragment_writer import data_paths, remove_placed_files, write_data_files
from lance_core.write.request import WriteRequest, requested_version
from lance_core.write.target import Mode, WriteTarget, data_places, known_dictionaries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from lance_core.cleanup.automatic import AutoCleanupConfig
    from lance_core.file.session import Session
    from lance_core.places.location import CommitLock
    from lance_core.scan.table_view import Handle, TableView
    from lance_core.schema.field import Schema
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.write.data_input import ReaderLike

__all__ = ["remove_staged", "stage_rows", "write_version"]

_MAX_PLACEMENTS: Final = 10
"""Maximum number of attempts to commit an append. The append is planned again if another writer has created the table,
or if a version that the append must be checked against has been removed."""


def write_version(
    data: ReaderLike,
    uri: str | Path | Handle | None,
    schema: pa.Schema | None = None,
    mode: str = "create",
    *,
    storage_options: dict[str, str] | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    commit_lock: CommitLock | None = None,
    session: Session | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: AutoCleanupConfig | None = None,
    commit_message: str | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    **settings: Any,
) -> TableView:
    """Write rows as a new version, and return a view of it.

    The arguments and errors are those of ``write_dataset``; ``settings`` are the arguments of ``WriteRequest.of``.
    """
    if uri is None:
        raise InvalidInputError("uri must be given")
    properties = checked_properties(transaction_properties, commit_message)
    destination = Destination.of(uri, storage_options, base_store_params, commit_lock, session).with_latest()
    request = WriteRequest.of(
        mode=mode,
        # The warning is for the caller of the public function that calls this one.
        data_storage_version=requested_version(data_storage_version, use_legacy_format, stacklevel=4),
        new_table_config=initial_entries(auto_cleanup_options),
        **settings,
    )
    options = CommitOptions(
        naming=ManifestNaming.V2 if enable_v2_manifest_paths else ManifestNaming.V1,
        stable_row_ids=enable_stable_row_ids,
        storage_options=destination.storage_options,
        progress=CommitProgress(line=destination.line),
    )
    made = _write_rows(destination.log, destination.manifest, data, schema, request, options, properties)
    return destination.showing(made, destination.line)


def stage_rows(
    log: VersionLog,
    manifest: Manifest | None,
    data: ReaderLike,
    schema: pa.Schema | None,
    request: WriteRequest,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    durable: bool = True,
) -> Transaction:
    """Write rows as fragments and return an uncommitted transaction that adds them.

    Args:
        log: the dataset's versions.
        manifest: the version that the write is based on; None if the dataset does not exist.
        data: the rows.
        schema: the schema to which the rows are converted; None to infer it from the rows.
        request: the settings of the write.
        properties: the properties of the transaction.
        storage_options: options for the stores of base paths and blob URIs.
        durable: whether the files must be durable; see :func:`~lance_core.write.fragment_writer.write_data_files`.
    """
    reader = to_reader(data, schema)
    target = WriteTarget.plan(manifest, request.mode, reader.schema, request.file_version)
    if request.initial_bases and manifest is not None:
        raise InvalidInputError("initial_bases can only be given when the table is created")
    bases = numbered_bases(request.initial_bases or ())
    refuse_inner_bases(log.root, [base.path for base in bases])
    known = tuple(map(BasePath.from_proto, bases)) if manifest is None else manifest.base_paths
    locator = FileLocator(log.store, log.root, known, storage_options)
    places = data_places(locator, request.target_bases, target_all_bases=request.target_all_bases)
    config = replace(request.files, version=target.file_version)
    fragments = write_data_files(
        target.prepared.reader(reader),
        places or [locator.data_place(None)],
        target.file_schema,
        config,
        dictionaries=known_dictionaries(manifest) if manifest is not None and target.appends else None,
        external=ExternalValues(
            reference_directories(known),
            ingest=config.ingests_external_blobs,
            allow_outside=config.allows_outside_blobs,
            storage_options=storage_options,
        ),
        progress=request.progress,
        durable=durable,
    )
    operation = (
        Append(fragments=tuple(fragments))
        if target.appends
        else Overwrite(
            schema=target.table_schema,
            fragments=tuple(fragments),
            config_upserts=request.new_table_config if manifest is None else {},
            initial_bases=bases,
        )
    )
    return Transaction(read_version=target.read_version, operation=operation, properties=dict(properties or {}))


def _write_rows(
    log: VersionLog,
    manifest: Manifest | None,
    data: ReaderLike,
    schema: pa.Schema | None,
    request: WriteRequest,
    commit_options: CommitOptions,
    properties: Mapping[str, str],
) -> Manifest:
    """Write rows, commit them, and return the manifest of the new version.

    If there is no dataset, an append creates it. If another writer creates the dataset first, the fragments are
    appended to that dataset, provided that their field ids refer to the same columns there.

    After a failure or an interrupt, the data files are removed, unless a version may refer to them. In that case, they
    are kept, and a later cleanup removes them if no version needs them.

    Raises:
        AlreadyExistsError: the mode is "create", and the dataset already exists.
        SchemaMismatchError: the mode is "append", and the rows are incompatible with the dataset.
        RetryableCommitConflictError: the mode is "append", and another writer has just created the dataset with
            different field ids, a different nullability of columns, or a different data file version; write the rows
            again.
    """
    mode = request.mode
    if mode is Mode.CREATE and manifest is not None:
        raise AlreadyExistsError(
            f"a dataset already exists at {log.uri} (version {manifest.version}); choose mode 'append' or 'overwrite'",
            path=log.root,
        )
    log.require_commits()
    progress = CommitProgress(line=commit_options.progress.line)
    transaction: Transaction | None = None
    try:
        transaction = stage_rows(
            log, manifest, data, schema, request, properties, commit_options.storage_options, durable=False
        )
        paths = data_paths(log.store, log.root, transaction.operation.added_fragments())
        here = replace(
            commit_options,
            create_only=transaction.operation.makes_tables and mode is not Mode.OVERWRITE,
            unsynced_files=tuple(paths),
            checks_files=False,
            file_version=request.file_version,
            is_first_try=True,
            progress=progress,
        )
        return _commit_rows(log, transaction, here, manifest, mode)
    except BaseException:
        if transaction is not None and not progress.needs_files:
            remove_staged(log, manifest, transaction, commit_options.storage_options)
        raise


def _commit_rows(
    log: VersionLog, transaction: Transaction, options: CommitOptions, manifest: Manifest | None, mode: Mode
) -> Manifest:
    """Commit written rows; plan an append again if it conflicts only with removed versions."""
    known = manifest
    written = transaction.operation.new_schema()
    if written is None:
        written = (manifest or read_manifest(log, None)).schema
    for _ in range(_MAX_PLACEMENTS):
        try:
            return commit(log, transaction, options, known=known)
        except AlreadyExistsError:
            if mode is not Mode.APPEND:
                raise
        except RetryableCommitConflictError as error:
            is_unmade = not transaction.operation.makes_tables and not options.progress.may_be_committed
            if not is_unmade or not error.context.get("is_removed"):
                raise
        transaction, known = _planned_on_latest(log, transaction, written)
        options = replace(options, create_only=False)
    raise TooMuchWriteContentionError(
        f"{log.uri}: append failed after {_MAX_PLACEMENTS} attempts; in the last attempt, a version that the append "
        "must be checked against no longer existed",
        path=log.root,
        attempts=_MAX_PLACEMENTS,
    )


def remove_staged(
    log: VersionLog, manifest: Manifest | None, staged: Transaction, storage_options: Mapping[str, str] | None
) -> None:
    """Remove the data files of a transaction of :func:`stage_rows` that was never committed."""
    operation = staged.operation
    known = tuple(map(BasePath.from_proto, operation.added_bases())) if manifest is None else manifest.base_paths
    locator = FileLocator(log.store, log.root, known, storage_options)
    files = [file for fragment in operation.added_fragments() for file in fragment.files]
    remove_placed_files([(locator.data_place(file.base_id), file.path) for file in files])


def _planned_on_latest(log: VersionLog, planned: Transaction, schema: Schema) -> tuple[Transaction, Manifest]:
    """Return an append, based on the latest version, of rows that were written for another version or for none."""
    fragments = planned.operation.added_fragments()
    latest = read_manifest(log, None)
    check_compatible(latest.schema, schema_to_arrow(schema))
    versions = {file.file_version for fragment in fragments for file in fragment.files}
    fits = has_same_columns(latest.schema, schema) and not versions - {latest.file_version}
    if not fits or planned.operation.added_bases():
        reason = (
            "another writer created the dataset first, without the base paths of this write; write the rows again "
            "without initial_bases, and with target_bases only if the dataset has those base paths"
            if fits
            else "other writers have changed the dataset's field ids, column nullability, or data file version; write "
            "the rows again"
        )
        raise RetryableCommitConflictError(
            f"{log.uri}: cannot append to version {latest.version}: {reason}",
            path=log.root,
            version=latest.version,
        )
    return replace(planned, read_version=latest.version, operation=Append(fragments=fragments)), latest
