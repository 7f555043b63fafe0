"""Copy of all files of a version to another root.

Every data file is copied to ``data/`` with its sidecars, and every deletion file and index to its directory, with
unchanged names. No version refers to the copies yet. They are kept if a later step fails: another process may be
writing the same files, and a retry replaces them.

Source: deep clones of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.errors import NotSupportedError
from lance_core.file.blob_sidecars import sidecar_directory
from lance_core.io.byte_range import ByteRange
from lance_core.table.data_file import DataFile
from lance_core.table.deletion_file import DeletionFile
from lance_core.table.index_directories import index_directories
from lance_core.table.paths import DATA_DIRECTORY, DELETIONS_DIRECTORY, INDICES_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_core.table.base_paths import FileLocator, Location
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["copy_files"]

_CHUNK_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Copy:
    """One file to copy: from where, and its path below the new root."""

    source: Location
    path: str


def copy_files(manifest: Manifest, locator: FileLocator, target: VersionLog) -> None:
    """Copy every file that a version names.

    Args:
        manifest: the version.
        locator: finds its files.
        target: the root that they are copied to.

    Raises:
        NotSupportedError: two files of different bases have the same name.
        NotFoundError: a file is missing.
        StorageError: a storage operation failed.
    """
    copies: dict[str, Location] = {}
    for copy in _copies(manifest, locator):
        if copies.setdefault(copy.path, copy.source).path != copy.source.path:
            raise NotSupportedError(
                f"two files would be copied to {copy.path}: {copies[copy.path].path} and {copy.source.path}",
                path=copy.path,
            )
    for path, source in copies.items():
        _copy(source, target, target.store.join(target.root, *path.split("/")))


def _copies(manifest: Manifest, locator: FileLocator) -> Iterator[_Copy]:
    for fragment in manifest.message.fragments:
        for message in (*fragment.files, *(overlay.data_file for overlay in fragment.overlays)):
            file = DataFile.from_proto(message)
            source = locator.data_file(file)
            yield _Copy(source, f"{DATA_DIRECTORY}/{file.path}")
            directory = sidecar_directory(source.path)
            if directory != source.path:
                yield from _below(
                    type(source)(source.store, directory), sidecar_directory(f"{DATA_DIRECTORY}/{file.path}")
                )
        if fragment.HasField("deletion_file"):
            deletion = DeletionFile.from_proto(fragment.deletion_file)
            yield _Copy(
                locator.deletion_file(fragment.id, deletion), f"{DELETIONS_DIRECTORY}/{deletion.name(fragment.id)}"
            )
    for name, base_id in index_directories(manifest.index_section).items():
        yield from _below(locator.index_directory(name, base_id), f"{INDICES_DIRECTORY}/{name}")


def _below(directory: Location, path: str) -> Iterator[_Copy]:
    for info in directory.store.list_recursive(directory.path):
        yield _Copy(type(directory)(directory.store, info.path), path + info.path[len(directory.path) :])


def _copy(source: Location, target: VersionLog, path: str) -> None:
    num_bytes = source.store.head(source.path).num_bytes
    with target.store.create(path) as stream:
        for start in range(0, num_bytes, _CHUNK_BYTES):
            stop = min(start + _CHUNK_BYTES, num_bytes)
            stream.write(source.store.get_ranges(source.path, [ByteRange(start, stop)])[0])
        stream.commit()
