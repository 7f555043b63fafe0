"""write_dataset and write_fragments: write rows as a new version, or as fragments that are committed later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.api.dataset import LanceDataset
from lance_core.errors import InvalidInputError
from lance_core.file.write_config import DEFAULT_MAX_BYTES_PER_FILE, DEFAULT_MAX_ROWS_PER_FILE
from lance_core.public.arguments import refuse_unsupported
from lance_core.public.fragment_conversion import shown_fragments
from lance_core.scan.table_view import Destination
from lance_core.transactions.public_transaction import transaction_from_core
from lance_core.write.request import REFERENCE, WriteRequest, requested_version
from lance_core.write.write import stage_rows, write_version

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from lance_core.cleanup.automatic import AutoCleanupConfig
    from lance_core.file.session import Session
    from lance_core.places.location import CommitLock
    from lance_core.public.dataset_base_path import DatasetBasePath
    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.transactions.public_transaction import Transaction
    from lance_core.write.data_input import ReaderLike
    from lance_core.write.progress import FragmentWriteProgress

__all__ = ["DEFAULT_MAX_BYTES_PER_FILE", "DEFAULT_MAX_ROWS_PER_FILE", "write_dataset", "write_fragments"]


def write_dataset(  # noqa: D417  # the reference's signature; arguments without effect are described together
    data_obj: ReaderLike,
    uri: str | Path | LanceDataset | None = None,
    schema: pa.Schema | None = None,
    mode: str = "create",
    *,
    max_rows_per_file: int | None = DEFAULT_MAX_ROWS_PER_FILE,
    max_rows_per_group: int = 1024,
    max_bytes_per_file: int | None = DEFAULT_MAX_BYTES_PER_FILE,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    commit_lock: CommitLock | None = None,
    progress: FragmentWriteProgress | None = None,
    storage_options: dict[str, str] | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: AutoCleanupConfig | None = None,
    commit_message: str | None = None,
    transaction_properties: dict[str, str] | None = None,
    initial_bases: list[DatasetBasePath] | None = None,
    target_bases: list[str] | None = None,
    target_all_bases: bool | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    external_blob_mode: str = REFERENCE,
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
    session: Session | None = None,
) -> LanceDataset:
    """Write rows as a new version.

    Args:
        data_obj: a table, batch, reader, data frame, dictionary of columns, list of dictionaries, or iterable of
            batches.
        uri: location of the dataset, or a :class:`LanceDataset`, whose version then becomes the read version.
        schema: schema to which Python values are converted; required for an iterable of batches that may be empty.
        mode: "create" (the dataset must not exist), or "append" or "overwrite" (which create the dataset if necessary).
        max_rows_per_file: maximum number of rows in a data file; None means the default.
        max_bytes_per_file: size in bytes at which a data file is closed; None means the default.
        data_cache_bytes: number of bytes to buffer, for all columns together, before pages are written; by default 8
            MiB per column, or less with more than 24 leaf columns.
        max_page_bytes: maximum size of a page in bytes.
        commit_lock: as for :func:`dataset`.
        progress: an object that is notified of every fragment that is started or completed.
        storage_options: credentials and settings of the store.
        max_rows_per_group: number of rows in each batch of a data file in format 0.1; has no effect in other formats.
        data_storage_version: version of the data files: "0.1" ("legacy"), "2.0" ("0.3"), "2.1" or "2.2" ("stable").
            If None, the version that the dataset uses, or "2.2" for a new dataset. An append may use a different
            version from the existing files, except that 0.1 cannot be mixed with other versions.
        use_legacy_format: deprecated; True means "legacy", and False means "stable"; overrides
            ``data_storage_version``.
        enable_v2_manifest_paths: whether a newly created dataset uses the V2 naming scheme for manifests.
        enable_stable_row_ids: whether a newly created dataset uses stable row ids.
        auto_cleanup_options: settings for the automatic cleanup of a new dataset: after every ``interval`` versions (20
            by default), versions older than ``older_than_seconds`` (14 days by default) are removed. The settings are
            stored in the table config, and every writer follows them. None disables automatic cleanup. Has no effect on
            an existing dataset.
        commit_message: a message to store in the transaction's properties.
        transaction_properties: properties to record in the transaction.
        initial_bases: base paths of a new table.
        target_bases: names or paths of base paths; data files are distributed among these base paths in rotation.
        target_all_bases: whether to distribute data files among the root and all base paths in rotation.
        base_store_params: maps base paths to the options of their stores; the other base paths use
            ``storage_options``.
        session: the session of the returned handle; if None, that of ``uri`` if it is a handle, or a new one.

    All other arguments are rejected.

    Returns:
        A handle to the new version.

    Raises:
        AlreadyExistsError: the mode is "create", but the dataset already exists.
        SchemaMismatchError: the mode is "append", but the schema of the rows does not match the dataset's.
        NotSupportedError: an argument or a column type is not supported.
        CommitConflictError: another writer committed a conflicting version; see :meth:`LanceDataset.commit`.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    refuse_unsupported(
        "write_dataset",
        namespace_client=namespace_client,
        table_id=table_id,
    )
    return LanceDataset.of(
        write_version(
            data_obj,
            uri,
            schema,
            mode,
            storage_options=storage_options,
            base_store_params=base_store_params,
            commit_lock=commit_lock,
            session=session,
            data_storage_version=data_storage_version,
            use_legacy_format=use_legacy_format,
            enable_v2_manifest_paths=enable_v2_manifest_paths,
            enable_stable_row_ids=enable_stable_row_ids,
            auto_cleanup_options=auto_cleanup_options,
            commit_message=commit_message,
            transaction_properties=transaction_properties,
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
            data_cache_bytes=data_cache_bytes,
            max_page_bytes=max_page_bytes,
            max_rows_per_group=max_rows_per_group,
            external_blob_mode=external_blob_mode,
            allow_external_blob_outside_bases=allow_external_blob_outside_bases,
            blob_pack_file_size_threshold=blob_pack_file_size_threshold,
            initial_bases=initial_bases,
            target_bases=target_bases,
            target_all_bases=target_all_bases,
            progress=progress,
        )
    )


def write_fragments(  # noqa: D417  # the reference's signature; arguments without effect are described together
    data: ReaderLike,
    dataset_uri: str | Path | LanceDataset,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: str = "append",
    max_rows_per_file: int | None = DEFAULT_MAX_ROWS_PER_FILE,
    max_rows_per_group: int | None = 1024,
    max_bytes_per_file: int | None = DEFAULT_MAX_BYTES_PER_FILE,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    progress: FragmentWriteProgress | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    storage_options: dict[str, str] | None = None,
    enable_stable_row_ids: bool = False,
    target_bases: list[str] | None = None,
    target_all_bases: bool | None = None,
    initial_bases: list[DatasetBasePath] | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    external_blob_mode: str = REFERENCE,
    allow_external_blob_outside_bases: bool = False,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
    session: Session | None = None,
    file_token: str | None = None,
) -> list[FragmentMetadata] | Transaction:
    """Write rows as fragments that no version refers to yet.

    Several processes can write fragments for the same change; :meth:`LanceDataset.commit` then adds all of the
    fragments in one version.

    Args:
        data: the rows to write, as for ``data_obj`` of :func:`write_dataset`.
        dataset_uri: location of the dataset to which the fragments will be added.
        schema: as for :func:`write_dataset`.
        return_transaction: whether to return a transaction that adds the fragments, instead of the fragments
            themselves.
        mode: with "append", the columns get the field ids of the dataset; with "create" and "overwrite", field ids are
            assigned from 0.
        max_rows_per_file: as for :func:`write_dataset`.
        max_bytes_per_file: as for :func:`write_dataset`.
        data_cache_bytes: as for :func:`write_dataset`.
        max_page_bytes: as for :func:`write_dataset`.
        max_rows_per_group: as for :func:`write_dataset`.
        data_storage_version: as for :func:`write_dataset`.
        use_legacy_format: as for :func:`write_dataset`.
        storage_options: credentials and settings of the store.
        progress: as for :func:`write_dataset`.
        file_token: 16 lowercase hexadecimal digits with which the name of every data file ends, before its extension;
            they identify the files of a failed job. Not an argument in pylance.
        initial_bases: as for :func:`write_dataset`.
        target_bases: as for :func:`write_dataset`.
        target_all_bases: as for :func:`write_dataset`.
        base_store_params: as for :func:`write_dataset`.
        session: the session of ``dataset_uri``, if that is a handle; has no effect.

    ``enable_stable_row_ids`` has no effect. All other arguments are rejected.

    Returns:
        The fragments (one per data file, with id 0), or the transaction. If there are no rows, there are no fragments.

    Raises:
        SchemaMismatchError: the mode is "append", but the schema of the rows does not match the dataset's.
        NotSupportedError: an argument or a column type is not supported.
        StorageError: a storage operation failed; the files written by this call were removed.
    """
    refuse_unsupported(
        "write_fragments",
        namespace_client=namespace_client,
        table_id=table_id,
    )
    destination = Destination.of(dataset_uri, storage_options, base_store_params, session=session).with_latest()
    if isinstance(dataset_uri, LanceDataset) and session is not None and not session.is_same_as(dataset_uri.session()):
        raise InvalidInputError("session must be the session of the dataset handle, or None", argument="session")
    request = WriteRequest.of(
        mode=mode,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        data_cache_bytes=data_cache_bytes,
        max_page_bytes=max_page_bytes,
        data_storage_version=requested_version(data_storage_version, use_legacy_format),
        max_rows_per_group=max_rows_per_group,
        file_token=file_token,
        external_blob_mode=external_blob_mode,
        allow_external_blob_outside_bases=allow_external_blob_outside_bases,
        initial_bases=initial_bases,
        target_bases=target_bases,
        target_all_bases=target_all_bases,
        progress=progress,
    )
    transaction = stage_rows(
        destination.log, destination.manifest, data, schema, request, storage_options=destination.storage_options
    )
    if return_transaction:
        return transaction_from_core(transaction)
    return shown_fragments(transaction.operation.added_fragments())
