"""Lists every file below a table's root.

When listing files, stores do not follow symbolic links to directories, because such links may form cycles. However, a
directory of the table itself may be a link, for example if ``data/`` is on another disk. Therefore, each directory that
appears to be empty is listed separately by its own path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.table.paths import (
    BLOBS_DIRECTORY,
    BRANCH_ROOTS_DIRECTORY,
    BRANCHES_DIRECTORY,
    DATA_DIRECTORY,
    DELETIONS_DIRECTORY,
    INDICES_DIRECTORY,
    REUSE_MAPS_DIRECTORY,
    TAGS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    VERSIONS_DIRECTORY,
)

if TYPE_CHECKING:
    from lance_core.table.version_log import VersionLog

__all__ = ["StoredFile", "list_files", "relative_path"]

_DIRECTORIES: Final = frozenset(
    {
        BLOBS_DIRECTORY,
        BRANCHES_DIRECTORY,
        BRANCH_ROOTS_DIRECTORY,
        DATA_DIRECTORY,
        DELETIONS_DIRECTORY,
        INDICES_DIRECTORY,
        REUSE_MAPS_DIRECTORY,
        TAGS_DIRECTORY,
        TRANSACTIONS_DIRECTORY,
        VERSIONS_DIRECTORY,
    }
)


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """A file below the root of a table.

    Attributes:
        path: path relative to the root, with segments separated by ``/``.
        num_bytes: size of the file.
        modified_at: modification time, in seconds since the epoch (UTC).
    """

    path: str
    num_bytes: int
    modified_at: float


def relative_path(root: str, path: str) -> str:
    """Return the path of a file relative to a root."""
    return path[len(root) :].lstrip("/")


def list_files(log: VersionLog) -> list[StoredFile]:
    """Return all files below the root, ordered by path."""
    found = _list(log, log.root)
    seen = {file.path.partition("/")[0] for file in found} | {file.path.rpartition("/")[0] for file in found}
    missing = _DIRECTORIES - seen
    for directory in sorted(missing):
        found += _list(log, log.store.join(log.root, directory))
    return sorted(found)


def _list(log: VersionLog, prefix: str) -> list[StoredFile]:
    return [
        StoredFile(relative_path(log.root, info.path), info.num_bytes, info.modified_at)
        for info in log.store.list_recursive(prefix)
    ]
