"""Clones: new tables that start from a version of another table.

A shallow clone contains no data files and depends on its source. A deep clone contains copies of all files and is
independent: every data file is copied to ``data/`` with its sidecars, and every deletion file and index is copied to
the directory for its kind, with unchanged names. If a later step fails, no version refers to the copies, but they are
kept: another process may be writing the same files, and a retry replaces them.

A blob descriptor may refer to a file below a base path, or to a managed file below the root of its data file. Such
files do not belong to any data file, and a deep clone has no base paths through which they could be found. Therefore,
versions with such descriptors are rejected.

Source: clones of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from lance_core.errors import AlreadyExistsError, NotSupportedError
from lance_core.file.blob_sidecars import sidecar_directory
from lance_core.file.read_config import ReadConfig
from lance_core.io.byte_range import ByteRange
from lance_core.refs.cloning import check_cloneable, clone_version
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.schema.blob_fields import is_blob_v2
from lance_core.table.data_file import DataFile
from lance_core.table.deletion_file import DeletionFile
from lance_core.table.index_directories import index_directories
from lance_core.table.paths import DATA_DIRECTORY, DELETIONS_DIRECTORY, INDICES_DIRECTORY
from lance_core.transactions.operations.clone import Clone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Field
    from lance_core.table.base_paths import FileLocator, Location
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = [
    "check_deep_cloneable",
    "commit_deep_clone",
    "copy_files",
    "copy_index_directory",
    "deep_clone",
    "shallow_clone",
]

_EXTERNAL: Final = 3
"""Kind of blob descriptors in which ``blob_id`` is a base path id (0 = none); higher kinds refer to managed files."""

_CONFIG: Final = ReadConfig(batch_rows=65536)
_CHUNK_BYTES: Final = 16 * 1024 * 1024


def shallow_clone(source: TableView, target: VersionLog, storage_options: Mapping[str, str] | None) -> Manifest:
    """Create a table that refers to the files of a version.

    Args:
        source: the version to clone.
        target: version log of the new table, which must be empty.
        storage_options: options for the stores of the new table and of base paths.

    Raises:
        AlreadyExistsError: a dataset already exists at the target.
    """
    return clone_version(target, _clone(source, is_shallow=True), source.manifest, storage_options)


def deep_clone(source: TableView, target: VersionLog, storage_options: Mapping[str, str] | None) -> Manifest:
    """Create a table with copies of all files of a version.

    Args:
        source: the version to clone.
        target: version log of the new table, which must be empty.
        storage_options: options for the store of the new table.

    Raises:
        AlreadyExistsError: a dataset already exists at the target.
        NotSupportedError: two files in different base paths have the same name, values refer to files below a base
            path, or the version is detached or needs a feature that this library does not support.
        NotFoundError: a file is missing.
        StorageError: a storage operation failed; a retry replaces the copied files.
    """
    check_deep_cloneable(source, target)
    copy_files(source, target)
    return commit_deep_clone(source, target, storage_options)


def check_deep_cloneable(source: TableView, target: VersionLog) -> None:
    """Check that a version can be deep-cloned to a location; errors as for :func:`deep_clone`."""
    check_cloneable(source.manifest)
    latest = target.latest()
    if latest is not None:
        raise AlreadyExistsError(
            f"a dataset already exists at {target.uri}; its latest version is {latest.version}", path=target.root
        )
    field = _field_with_references(source.manifest, source.locator) if source.manifest.base_paths else None
    if field is not None:
        raise NotSupportedError(
            f"version {source.version} cannot be deep-cloned: values of blob column {field.name!r} refer, or may "
            "refer, to files in base paths, which a deep clone does not copy",
            field=field.name,
        )
    target.require_commits()


def commit_deep_clone(source: TableView, target: VersionLog, storage_options: Mapping[str, str] | None) -> Manifest:
    """Create the first version of a deep clone, all of whose files have been copied; see :func:`deep_clone`."""
    return clone_version(target, _clone(source, is_shallow=False), source.manifest, storage_options)


def _clone(source: TableView, *, is_shallow: bool) -> Clone:
    return Clone(
        is_shallow=is_shallow,
        ref_name=source.branch or None,
        ref_version=source.version,
        ref_path=source.recorded_root(),
        is_copied=not is_shallow,
    )


def _field_with_references(manifest: Manifest, locator: FileLocator) -> Field | None:
    """Return the first blob column that may contain values that a deep clone cannot copy; None if no column may.

    Nested columns are not read; they are assumed to contain such values.

    Args:
        manifest: the version.
        locator: locates its files.

    Raises:
        CorruptDataError: a file is damaged.
        StorageError: a storage operation failed.
    """
    schema = manifest.schema
    columns = [top for top in schema.fields if is_blob_v2(top)]
    inside = next((field for field in schema.walk() if is_blob_v2(field) and field not in columns), None)
    if inside is not None or not columns:
        return inside
    wanted = schema.project([top.name for top in columns])
    for fragment in manifest.fragments:
        reader = FragmentReader(fragment, locator)
        for batch in reader.batches(wanted, 0, reader.num_live_rows, _CONFIG):
            for top, column in zip(columns, batch.columns, strict=True):
                kinds, bases = column.field("kind"), column.field("blob_id")
                lies_outside = pc.or_(
                    pc.greater(kinds, _EXTERNAL), pc.and_(pc.equal(kinds, _EXTERNAL), pc.not_equal(bases, 0))
                )
                if pc.any(lies_outside).as_py():
                    return top
    return None


@dataclass(frozen=True, slots=True)
class _Copy:
    """One file to copy: its location, and its path below the new root."""

    source: Location
    path: str


def copy_files(source: TableView, target: VersionLog, part: int = 0, num_parts: int = 1) -> int:
    """Copy the files that a version refers to, or some of them.

    Args:
        source: the version.
        target: version log of the root to which the files are copied.
        part: the number of the part to copy, from 0.
        num_parts: the number of parts into which the files are divided.

    Returns:
        The number of bytes that were copied.

    Raises:
        NotSupportedError: two files in different base paths have the same name.
        NotFoundError: a file is missing.
        StorageError: a storage operation failed.
    """
    copies: dict[str, Location] = {}
    for copy in _copies(source.manifest, source.locator):
        if copies.setdefault(copy.path, copy.source).path != copy.source.path:
            raise NotSupportedError(
                f"cannot copy both {copies[copy.path].path} and {copy.source.path} to {copy.path}",
                path=copy.path,
            )
    chosen = list(copies.items())[part::num_parts]
    return sum(_copy(found, target, target.store.join(target.root, *path.split("/"))) for path, found in chosen)


def copy_index_directory(source: Location, target: VersionLog) -> int:
    """Copy the files of an index to the same directory below another root; return their total size in bytes.

    Args:
        source: the directory of the index.
        target: version log of the root to which the files are copied.

    Raises:
        NotFoundError: a file is missing.
        StorageError: a storage operation failed.
    """
    name = source.path.rpartition("/")[2]
    return sum(
        _copy(copy.source, target, target.store.join(target.root, *copy.path.split("/")))
        for copy in _below(source, f"{INDICES_DIRECTORY}/{name}")
    )


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


def _copy(source: Location, target: VersionLog, path: str) -> int:
    num_bytes = source.store.head(source.path).num_bytes
    with target.store.create(path) as stream:
        for start in range(0, num_bytes, _CHUNK_BYTES):
            stop = min(start + _CHUNK_BYTES, num_bytes)
            stream.write(source.store.get_ranges(source.path, [ByteRange(start, stop)])[0])
        stream.commit()
    return num_bytes
