"""Owners: the keys by which manifests hold files.

A manifest names its files in several ways. Each name is turned into an *owner*, a path below the root, and each stored
file has exactly one owner: a file is held by a version when the version names its owner.

======================  ===========================================
file                    owner
======================  ===========================================
``_indices/{uuid}/…``   ``_indices/{uuid}``: the directory as a whole
``data/{stem}/x.blob``  ``data/{stem}.lance``: the data file beside it
any other               the file's own path
======================  ===========================================

Names are taken as if they lay below this root even when the manifest places them in another base path: that holds at
most a file too many. A base path may also lie inside ``data/`` or another directory of this root: then the directory
itself is an owner, with a slash at its end, and holds every file below it. So there is never a file too few.

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
    """Return the owner of a stored file, by its path below the root."""
    parts = path.split("/")
    if parts[0] == INDICES_DIRECTORY and len(parts) > 1:
        return f"{parts[0]}/{parts[1]}"
    if parts[0] == DATA_DIRECTORY and len(parts) == _SIDECAR_DEPTH and path.endswith(_BLOB):
        return f"{parts[0]}/{parts[1]}.lance"
    return path


def held_directories(owners: Iterable[str]) -> tuple[str, ...]:
    """Return those of some owners that hold every file below them."""
    return tuple(owner for owner in owners if owner.endswith("/"))


def owners_of(manifest: Manifest, root: str) -> set[str]:
    """The owners that a version names: data, deletion and index files, its transaction, and base paths in the root.

    Args:
        manifest: of the version.
        root: the table's path in its store.

    Raises:
        CorruptDataError: a deletion file or an index cannot be interpreted.
    """
    owners = _owners(manifest, root, borrowed_only=False)
    if manifest.message.transaction_file:
        owners.add(_below(TRANSACTIONS_DIRECTORY, manifest.message.transaction_file))
    return owners


def borrowed_owners(manifest: Manifest, root: str) -> set[str]:
    """The owners of those files that a version keeps in a base path: a branch's files in the root it was made from.

    Args:
        manifest: of the version.
        root: path of the root that it borrows from.

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
    return owners | inner_directories(root, (base.path for base in manifest.message.base_paths))


def _below(directory: str, name: str) -> str:
    # Only a name with segments can be spelled in several ways.
    return posixpath.normpath(f"{directory}/{name}") if "/" in name else f"{directory}/{name}"
