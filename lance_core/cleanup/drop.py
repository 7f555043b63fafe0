"""Removes a dataset together with everything below its root.

The versions are removed last, so that an interrupted removal can be repeated. A directory without a readable version is
not removed, because the given path may be wrong.

Symbolic links below the root are removed, but not their targets. If the root itself is a link, both the link and its
target directory are removed.

Source: ``LanceDataset.drop`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import DatasetNotFoundError, InvalidInputError
from lance_core.places.location import open_log
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.paths import VERSIONS_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["drop_dataset"]


def drop_dataset(uri: str, storage_options: Mapping[str, str] | None, *, ignore_not_found: bool) -> None:
    """Remove a dataset and everything below its root.

    Args:
        uri: location of the dataset.
        storage_options: credentials and settings of the store.
        ignore_not_found: if True, do nothing if the dataset does not exist.

    Raises:
        DatasetNotFoundError: no version was found.
        InvalidInputError: the location is a branch, not a dataset.
        CorruptDataError: the latest version is damaged.
        StorageError: a storage operation failed.
    """
    log = open_log(uri, storage_options)
    latest = log.read_latest()
    paths = [info.path for info in log.store.list_recursive(log.root)]
    if latest is None:
        if ignore_not_found and not paths:
            return
        raise DatasetNotFoundError(f"dataset '{log.uri}' does not exist; nothing was removed", path=log.root)
    branch = latest.message.branch
    if branch:
        raise InvalidInputError(
            f"{log.uri} is branch {branch!r}, not a dataset; use branches.delete to remove it", branch=branch
        )
    marker = f"/{VERSIONS_DIRECTORY}/"
    roots = sorted({path.partition(marker)[0] for path in paths if marker in path} | {log.root}, key=len, reverse=True)
    for path in sorted(paths, key=lambda path: (path.startswith(log.store.join(log.root, VERSIONS_DIRECTORY)), path)):
        log.store.delete(path)
    if isinstance(log.protocol, ExternalCommit):
        for root in roots:
            log.protocol.forget(log.at(root))
    log.store.remove_directory(log.root)
