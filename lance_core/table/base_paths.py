"""Base paths: additional roots and directories that contain some of a table's files.

A file with a ``base_id`` is below the base path with that id; a file without one is below the table's own root. A base
that is a table root has ``data/``, ``_deletions/``, and ``_indices/`` below it; any other base directly contains the
files. Branches and shallow clones refer to the files of their source this way. Id 0 is valid.

The writer of the manifest may choose any location as a base path. A file name must not refer to a location outside its
base.

Source: ``lance.table.BasePath``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lance_core.errors import CorruptDataError
from lance_core.io.io_counters import counters_of, share_counters
from lance_core.io.object_keys import is_plain_path
from lance_core.io.object_store import shown_path
from lance_core.io.uri import resolve
from lance_core.table.base_options import options_of_base
from lance_core.table.paths import DATA_DIRECTORY, DELETIONS_DIRECTORY, INDICES_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_core.io.io_counters import IOCounters
    from lance_core.io.object_store import ObjectStore, StoreCapabilities
    from lance_core.proto import pb_table
    from lance_core.table.data_file import DataFile
    from lance_core.table.deletion_file import DeletionFile

__all__ = ["BasePath", "DataPlace", "FileLocator", "Location", "directory_uri"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePath:
    """A location outside the table's root that contains some of the table's files.

    Attributes:
        id: id of the base path; files refer to it as ``base_id``.
        path: absolute path or URI.
        is_table_root: True if the path is a table root, with ``data/`` and ``_deletions/`` below it.
        name: name of the base path; None if it has no name.
    """

    id: int
    path: str
    is_table_root: bool
    name: str | None = None

    @classmethod
    def from_proto(cls, message: pb_table.BasePath) -> Self:
        """Parse the message. Raises ``CorruptDataError`` if the path contains a NUL character."""
        if "\0" in message.path:
            raise CorruptDataError(
                f"base path {message.id} contains a NUL character: {message.path!r}", base_id=message.id
            )
        return cls(
            id=message.id,
            path=message.path,
            is_table_root=message.is_dataset_root,
            name=message.name if message.HasField("name") else None,
        )


@dataclass(frozen=True, slots=True)
class Location:
    """The location of an object: a store and a path in the store."""

    store: ObjectStore
    path: str

    @property
    def uri(self) -> str:
        """The location of the object, as shown in messages."""
        return shown_path(self.store, self.path)


@dataclass(frozen=True, slots=True)
class DataPlace:
    """The location where new data files are written.

    Attributes:
        store: the store that contains the directory.
        directory: path of the directory that directly contains the files.
        base_id: id of the base path to record for the files; None for the table's own root.
    """

    store: ObjectStore
    directory: str
    base_id: int | None = None


def directory_uri(path: str) -> str:
    """Return the URI of a directory, with a trailing slash; a local path gets the scheme ``file``."""
    text = path if "://" in path else f"file://{path}"
    return text.rstrip("/") + "/"


def reference_directories(base_paths: Iterable[BasePath]) -> dict[int, str]:
    """Return the URIs of the base paths to which blob values may refer, keyed by id, each with a trailing slash."""
    # Id 0 in a descriptor means that there is no base.
    return {base.id: directory_uri(base.path) for base in base_paths if base.id and not base.is_table_root}


class FileLocator:
    """Locates the files of one table version.

    Args:
        store: the store of the table.
        root: path of the table in the store.
        base_paths: the version's base paths.
        storage_options: the options of the table and of its base paths (:mod:`~lance_core.table.base_options`).
    """

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        base_paths: Iterable[BasePath] = (),
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Initialize without reading anything."""
        self._store = store
        self._root = root
        self._bases = {base.id: base for base in base_paths}
        self._storage_options = storage_options

    def data_file(self, file: DataFile) -> Location:
        """Return the location of a data file. Raises ``CorruptDataError`` if its base path or its path is invalid."""
        return self._find(file.base_id, DATA_DIRECTORY, file.path)

    def deletion_file(self, fragment_id: int, file: DeletionFile) -> Location:
        """Return the location of a deletion file. Raises ``CorruptDataError`` if its base path is unknown."""
        return self._find(file.base_id, DELETIONS_DIRECTORY, file.name(fragment_id))

    def index_directory(self, name: str, base_id: int | None) -> Location:
        """Return the directory of an index. Raises ``CorruptDataError`` if its base path is unknown."""
        return self._find(base_id, INDICES_DIRECTORY, name)

    def data_place(self, base_id: int | None) -> DataPlace:
        """Return the location for new data files below a base path; below the table's own root if ``base_id`` is None.

        Raises:
            CorruptDataError: the base path is unknown.
        """
        if base_id is None:
            return DataPlace(self._store, self._store.join(self._root, DATA_DIRECTORY))
        base = self._base(base_id, DATA_DIRECTORY)
        store, root = self._store_of(base)
        return DataPlace(store, store.join(root, DATA_DIRECTORY) if base.is_table_root else root, base_id)

    def data_store(self, base_id: int | None) -> StoreCapabilities:
        """Return the capabilities of the store of the data files below a base path; see :meth:`data_place`."""
        store = self._store if base_id is None else self.data_place(base_id).store
        return store.capabilities

    @property
    def counters(self) -> IOCounters:
        """The counters of the table's store, which also count requests to the stores of base paths."""
        return counters_of(self._store)

    @property
    def storage_options(self) -> Mapping[str, str] | None:
        """The storage options of the table and of its base paths."""
        return self._storage_options

    @property
    def base_paths(self) -> tuple[BasePath, ...]:
        """The version's base paths."""
        return tuple(self._bases.values())

    def uri_below_base(self, base_id: int, path: str) -> str:
        """Return the URI of a file below a base path; raises the same errors as :meth:`below_base`."""
        self.below_base(base_id, path)
        return directory_uri(self._bases[base_id].path) + path

    def below_base(self, base_id: int | None, path: str) -> Location:
        """Return the location of a file, such as an external value, below a base path.

        If ``base_id`` is None, the file is below the table's own root.

        Raises:
            CorruptDataError: the base path is unknown, or ``path`` points outside the base path.
        """
        base = None if base_id is None else self._base(base_id, path)
        if not is_plain_path(path):
            place = "the table's root" if base_id is None else f"base path {base_id}"
            raise CorruptDataError(f"path {path!r:.200} points outside {place}", base_id=base_id)
        store, root = (self._store, self._root) if base is None else self._store_of(base)
        return Location(store, store.join(root, path))

    def _store_of(self, base: BasePath) -> tuple[ObjectStore, str]:
        # "~" means the home directory only in a user's argument: in a manifest, it is a directory with that name.
        path = os.path.join(os.curdir, base.path) if base.path.startswith("~") else base.path
        store, root = resolve(path, options_of_base(self._storage_options, base.id, base.path))
        share_counters(store, self.counters)
        return store, root

    def _base(self, base_id: int, what: str) -> BasePath:
        base = self._bases.get(base_id)
        if base is None:
            raise CorruptDataError(
                f"file {what} refers to unknown base path {base_id}; the version has base paths {sorted(self._bases)}",
                base_id=base_id,
            )
        return base

    def _find(self, base_id: int | None, directory: str, name: str) -> Location:
        if not is_plain_path(name):
            raise CorruptDataError(f"path {name!r:.200} must be a relative path inside {directory}/", path=name)
        if base_id is None:
            return Location(self._store, self._store.join(self._root, directory, name))
        base = self._base(base_id, f"{directory}/{name}")
        store, root = self._store_of(base)
        segments = (root, directory, name) if base.is_table_root else (root, name)
        return Location(store, store.join(*segments))
