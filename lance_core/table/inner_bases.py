"""Base paths inside the table's own directories, in which a cleanup searches for orphaned files.

Manifests refer to files in such a base path as files of the base, not of the root, so the files look orphaned. This
library rejects such a base path when it is declared, but other implementations accept it. Therefore, a cleanup keeps
all files in it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError, UnsupportedSchemeError
from lance_core.io.uri import place_of
from lance_core.table.paths import (
    BLOBS_DIRECTORY,
    DATA_DIRECTORY,
    DELETIONS_DIRECTORY,
    INDICES_DIRECTORY,
    REFS_DIRECTORY,
    REUSE_MAPS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    VERSIONS_DIRECTORY,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["inner_directories", "refuse_inner_bases"]

_DIRECTORIES: Final = (
    BLOBS_DIRECTORY,
    DATA_DIRECTORY,
    DELETIONS_DIRECTORY,
    INDICES_DIRECTORY,
    REFS_DIRECTORY,
    REUSE_MAPS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    VERSIONS_DIRECTORY,
)


def inner_directories(root: str, paths: Iterable[str]) -> set[str]:
    """Return the base paths inside directories of a table, relative to the table's root and with a trailing slash.

    The stores of the paths are not compared. The result may therefore contain more directories than necessary, but
    never fewer.

    Args:
        root: path of the table in its store.
        paths: the paths of the bases.
    """
    found = (_inner(root, path) for path in paths)
    return {directory for directory in found if directory is not None}


def refuse_inner_bases(root: str, paths: Iterable[str]) -> None:
    """Check that no new base is inside a directory of the table itself.

    Raises:
        InvalidInputError: a base is inside a directory of the table.
    """
    for path in paths:
        if _inner(root, path) is not None:
            raise InvalidInputError(
                f"base path {path!r} is inside a directory of the table at {root}, where cleanups remove unreferenced "
                "files; choose a location outside the table",
                path=path,
            )


def _inner(root: str, path: str) -> str | None:
    try:
        place = place_of(path)
    except (InvalidInputError, UnsupportedSchemeError):
        return None
    is_local = place.scheme in ("", "file")
    base = _real(place.path) if is_local else place.path
    for directory in _DIRECTORIES:
        own = f"{root.rstrip('/')}/{directory}"
        own = f"{_real(own) if is_local else own}/"
        if f"{base}/".startswith(own):
            return f"{directory}/{base.removeprefix(own.rstrip('/')).strip('/')}".rstrip("/") + "/"
    return None


def _real(path: str) -> str:
    """Resolve symbolic links, so that different paths to the same directory are equal."""
    return os.path.realpath(path)
