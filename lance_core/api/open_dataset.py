"""Functions that take the location of a dataset: open one version, or migrate a dataset that cannot be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.api.dataset import LanceDataset
from lance_core.errors import DatasetNotFoundError, InvalidInputError, NotFoundError
from lance_core.places.location import open_log, uri_text
from lance_core.table.migration import migrate_to_v2_names

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from lance_core.file.session import Session
    from lance_core.places.location import CommitLock

__all__ = ["dataset", "migrate_manifest_paths_v2"]


def dataset(  # noqa: D417  # the reference's signature; arguments without effect are described together
    uri: str | Path | None = None,
    version: int | str | None = None,
    asof: datetime | str | None = None,
    block_size: int | None = None,
    commit_lock: CommitLock | None = None,
    index_cache_size: int | None = None,
    storage_options: dict[str, str] | None = None,
    default_scan_options: dict[str, Any] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    read_params: dict[str, Any] | None = None,
    session: Session | None = None,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
) -> LanceDataset:
    """Open a dataset.

    Args:
        uri: location of the dataset.
        version: a version number or the name of a tag; if None, the latest version.
        asof: a time; the latest version committed before this time is opened. Ignored if ``version`` is given.
        commit_lock: a callable that takes the version number and returns a context manager, which each commit holds
            while it creates its version. Required for stores that do not support creating an object only if it does not
            exist.
        storage_options: credentials and settings of the store; entries named ``base_{id}.{name}`` apply only to the
            store of the base path with that id.
        default_scan_options: options for all scans through the handle, such as ``{"batch_size": 1024}``. With
            ``{"with_row_id": True}``, the schema of the handle contains ``_rowid`` too. Each option is the name of a
            method of :class:`ScannerBuilder`, with its argument. An argument that is passed to a scan overrides the
            option. Counts, takes, and scans of single fragments do not use the options.
        metadata_cache_size_bytes: maximum size of the handle's own session in bytes; if None, 64 MiB.
        session: a session to share with other handles; if None, the handle has its own.
        base_store_params: maps base paths to the options of their stores; the other base paths use ``storage_options``.

    Block sizes, the size of the cache for indices, and ``read_params`` have no effect: repetition indices are always
    cached, and data is always validated. All other arguments are rejected.

    Raises:
        DatasetNotFoundError: the dataset does not exist.
        VersionNotFoundError: the version does not exist, or no version was committed before ``asof``.
        RefNotFoundError: the tag does not exist.
    """
    if uri is None:
        raise InvalidInputError("uri must be given")
    opened = LanceDataset(
        uri,
        version,
        block_size=block_size,
        index_cache_size=index_cache_size,
        commit_lock=commit_lock,
        storage_options=storage_options,
        default_scan_options=default_scan_options,
        metadata_cache_size_bytes=metadata_cache_size_bytes,
        index_cache_size_bytes=index_cache_size_bytes,
        read_params=read_params,
        session=session,
        namespace_client=namespace_client,
        table_id=table_id,
        base_store_params=base_store_params,
    )
    if version is not None or asof is None:
        return opened
    return opened.of(opened.view.as_of(asof), default_scan_options)


def migrate_manifest_paths_v2(uri: str | Path, storage_options: dict[str, str] | None = None) -> None:
    """Rename all manifests of a dataset to their V2 names; does nothing if they already have V2 names.

    No other operation may run on the dataset until the migration has finished. If it is interrupted, the dataset cannot
    be opened until the migration is run again. In pylance, a migration requires an open dataset handle.

    Args:
        uri: the location of the dataset.
        storage_options: credentials and settings of the store.

    Raises:
        DatasetNotFoundError: the dataset does not exist.
        NotSupportedError: the dataset uses an external manifest store.
        CorruptDataError: a version has two different manifests, one under its V1 name and one under its V2 name.
        StorageError: a storage operation failed.
    """
    log = open_log(uri_text(uri), storage_options)
    try:
        migrate_to_v2_names(log)
    except NotFoundError as error:
        raise DatasetNotFoundError(f"no dataset exists at {log.uri}", path=log.root) from error
