"""Owners: keys that represent the files to which a manifest refers.

A manifest refers to its files in several ways. Each reference is converted to an *owner*, which is a path below the
root. Each stored file has exactly one owner. A version needs a file if it refers to the file's owner.

======================  ===========================================
file                    owner
======================  ===========================================
``_indices/{uuid}/…``   ``_indices/{uuid}``: the directory as a whole
``data/{stem}/x.blob``  ``data/{stem}.lance``: the data file beside it
any other file          the file's own path
======================  ===========================================

File names are interpreted relative to the table's root even if the manifest assigns the files to a different base path,
so a file in the root may be kept although it is not needed. If a base path is inside ``data/`` or another directory of
the root, that base path, with a trailing slash, is the owner of every file below it. Therefore, a needed file is never
missed.

Source: ``lance.table.Manifest``; cleanup of pylance 14.0.2.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from lance_core.table.deletion_file import DeletionFile
from lance_core.table.index_directories import index_directories
from lance_core.table.inner_bases import inner_directories
from lance_core.table.paths import (
    DATA_DIRECTORY,
    DELETIONS_DIRECTORY,
    INDICES_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.table.manifest import Manifest

__all__ = ["borrowed_owners", "held_directories", "owner_of", "owners_of"]

_BLOB: Final = ".blob"
_SIDECAR_DEPTH: Final = 3


def owner_of(path: str) -> str:
    """Return the owner of a stored file, given the file's path relative to the root."""
    parts = path.split("/")
    if parts[0] == INDICES_DIRECTORY and len(parts) > 1:
        return f"{parts[0]}/{parts[1]}"
    if parts[0] == DATA_DIRECTORY and len(parts) == _SIDECAR_DEPTH and path.endswith(_BLOB):
        return f"{parts[0]}/{parts[1]}.lance"
    return path


def held_directories(owners: Iterable[str]) -> tuple[str, ...]:
    """Return those owners that are directories, and therefore own every file below them."""
    return tuple(owner for owner in owners if owner.endswith("/"))


def owners_of(manifest: Manifest, root: str) -> set[str]:
    """Return the owners to which a version refers: files, the transaction file, and base paths below the root.

    Args:
        manifest: the manifest of the version.
        root: the table's path in its store.

    Raises:
        CorruptDataError: a deletion file or an index cannot be interpreted.
    """
    owners = _owners(manifest, root, borrowed_only=False)
    if manifest.message.transaction_file:
        owners.add(_below(TRANSACTIONS_DIRECTORY, manifest.message.transaction_file))
    return owners


def borrowed_owners(manifest: Manifest, root: str) -> set[str]:
    """Return the owners of those files of a branch version that are in base paths, such as the source branch's root.

    Args:
        manifest: the manifest of the version.
        root: path of the root that contains these files.

    Raises:
        CorruptDataError: a deletion file or an index cannot be interpreted.
    """
    return _owners(manifest, root, borrowed_only=True)


def _owners(manifest: Manifest, root: str, *, borrowed_only: bool) -> set[str]:
    owners = {
        f"{INDICES_DIRECTORY}/{directory}"
        for directory, base_id in index_directories(manifest.index_section).items()
        if base_id is not None or not borrowed_only
    }
    for fragment in manifest.message.fragments:
        for file in (*fragment.files, *(overlay.data_file for overlay in fragment.overlays)):
            if not borrowed_only or file.HasField("base_id"):
                owners.add(_below(DATA_DIRECTORY, file.path))
        if fragment.HasField("deletion_file") and (not borrowed_only or fragment.deletion_file.HasField("base_id")):
            name = DeletionFile.from_proto(fragment.deletion_file).name(fragment.id)
            owners.add(f"{DELETIONS_DIRECTORY}/{name}")
    return owners | inner_directories(root, [base.path for base in manifest.message.base_paths])


def _below(directory: str, name: str) -> str:
    # Only a name with several segments can have more than one spelling.
    return posixpath.normpath(f"{directory}/{name}") if "/" in name else f"{directory}/{name}"
