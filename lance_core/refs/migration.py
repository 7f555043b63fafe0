"""migrate_manifest_paths_v2: takes a URI, because a dataset cannot be opened after an interrupted migration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import DatasetNotFoundError, NotFoundError
from lance_core.places.location import open_log, uri_text
from lance_core.table.migration import migrate_to_v2_names

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["migrate_manifest_paths_v2"]


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
        raise DatasetNotFoundError(f"no dataset exists at {log.root}", path=log.root) from error
