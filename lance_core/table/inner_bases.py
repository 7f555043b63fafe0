"""Base paths inside the directories of the table itself, where a cleanup searches for orphaned files.

The files there are named as those of a base, not as those of the root, so that they look as if nothing named them.
Here such a base is refused when it is declared; other implementations take it, and a cleanup keeps all that lies in it.
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
    """Return which base paths lie in directories of a table; each relative to its root, with a slash at its end.

    Stores are not told apart: a directory too many is kept, never one too few.

    Args:
        root: the table's path in its store.
        paths: of bases.
    """
    found = (_inner(root, path) for path in paths)
    return {directory for directory in found if directory is not None}


def refuse_inner_bases(root: str, paths: Iterable[str]) -> None:
    """Refuse new bases that lie in directories of the table itself.

    Raises:
        InvalidInputError: one does.
    """
    for path in paths:
        if _inner(root, path) is not None:
            raise InvalidInputError(
                f"base path {path!r} is inside a directory of the table at {root}, where cleanups remove unreferenced "
                "files; choose a location outside",
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
    """Two ways to one directory are one; a link may lead from the table to another disk."""
    return os.path.realpath(path)
