"""LanceFileSession: opens, lists, and copies files below one base path.

The methods and their results are the same as in pylance.

**Source:** behavior of pylance 14.0.2.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError
from lance_core.file.blob_writers import DedicatedBlobWriter, PackedBlobWriter
from lance_core.file.lance_file import LanceFileReader, LanceFileWriter, refuse_namespace
from lance_core.io.byte_range import ByteRange
from lance_core.io.local_store import LocalStore
from lance_core.io.object_store import has_object
from lance_core.io.uri import resolve

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore

__all__ = ["LanceFileSession", "ListResult"]


@dataclass(frozen=True, slots=True)
class ListResult:
    """The files and subdirectories of one directory.

    Attributes:
        common_prefixes: sorted paths of the subdirectories.
        objects: sorted paths of the files.
    """

    common_prefixes: list[str]
    objects: list[str]


class LanceFileSession:
    """Opens, lists, and copies files below one base path. All paths are relative to it, with ``/`` between segments.

    Args:
        base_path: local path or URI of a directory; it need not exist.
        storage_options: settings for remote stores.
        namespace_client: not supported.
        table_id: not supported.

    Raises:
        InvalidInputError: a path is empty or malformed.
        NotSupportedError: a namespace argument is given, or the scheme of ``base_path`` is not supported.
    """

    def __init__(
        self,
        base_path: str | os.PathLike[str],
        storage_options: dict[str, str] | None = None,
        namespace_client: object | None = None,
        table_id: list[str] | None = None,
    ) -> None:
        """See the class docstring."""
        refuse_namespace(namespace_client, table_id)
        self._store, self._base = resolve(base_path, storage_options)

    def open_reader(self, path: str, columns: list[str] | None = None) -> LanceFileReader:
        """Open a file for reading.

        Raises:
            NotFoundError: the file does not exist.
        """
        return LanceFileReader(path, columns=columns, _place=self._place(path))

    def open_writer(
        self,
        path: str,
        *,
        schema: pa.Schema | None = None,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        keep_original_array: bool | None = None,
        max_page_bytes: int | None = None,
    ) -> LanceFileWriter:
        """Open a file for writing.

        Args:
            path: path of the file; missing directories are created.
            schema: schema of the file; by default, the schema of the first batch.
            data_cache_bytes: number of bytes to collect for all columns before pages are written.
            version: format version; by default the stable version.
            keep_original_array: accepted for compatibility.
            max_page_bytes: maximum page size in bytes; larger arrays are split into several pages.
        """
        return LanceFileWriter(
            path,
            schema,
            data_cache_bytes=data_cache_bytes,
            version=version,
            max_page_bytes=max_page_bytes,
            _place=self._place(path),
        )

    def open_packed_blob_writer(self, path: str, blob_id: int) -> PackedBlobWriter:
        """Open a writer that stores several values in one sidecar.

        Args:
            path: path of the data file that the values belong to; ends in ``.lance``. The file need not exist.
            blob_id: id of the sidecar within the data file, at least 1; an existing sidecar with this id is replaced.

        Raises:
            InvalidInputError: the path does not end in ``.lance``, or the id is out of range.
        """
        return PackedBlobWriter(*self._place(path), blob_id)

    def open_dedicated_blob_writer(self, path: str, blob_id: int) -> DedicatedBlobWriter:
        """Open a writer that stores one value in its own sidecar; see :meth:`open_packed_blob_writer`."""
        return DedicatedBlobWriter(*self._place(path), blob_id)

    def contains(self, path: str) -> bool:
        """Return whether a file with this path exists; directories do not count."""
        store, location = self._place(path)
        if isinstance(store, LocalStore) and os.path.isdir(location):
            return False
        return has_object(store, location)

    def list(self, path: str | None = None) -> list[str]:
        """Return the sorted paths of all files below a directory; the list is empty if the directory does not exist."""
        _, prefix = self._place(path or "")
        return sorted(self._relative(info.path) for info in self._store.list_recursive(prefix))

    def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """List the files in one directory, and the subdirectories that contain files."""
        level = (path or "").strip("/")
        start = len(level) + 1 if level else 0
        prefixes: set[str] = set()
        objects = []
        for name in self.list(path):
            head, slash, _ = name[start:].partition("/")
            if slash:
                prefixes.add(name[:start] + head)
            else:
                objects.append(name)
        return ListResult(sorted(prefixes), objects)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read bytes ``[offset, offset + length)`` of a file.

        Raises:
            NotFoundError: the file does not exist.
            CorruptDataError: the range extends past the end of the file.
        """
        store, location = self._place(path)
        return bytes(store.get_ranges(location, [ByteRange(offset, offset + length)])[0])

    def delete_file(self, path: str) -> None:
        """Remove a file.

        Raises:
            NotFoundError: the file does not exist.
        """
        store, location = self._place(path)
        store.head(location)
        store.delete(location)

    def upload_file(self, local_path: str | Path, remote_path: str) -> None:
        """Copy a local file to a path below the session's base path.

        Raises:
            NotFoundError: the local file does not exist.
        """
        store, location = self._place(remote_path)
        store.put(location, LocalStore().get(os.path.abspath(local_path)))

    def download_file(self, remote_path: str, local_path: str | Path) -> None:
        """Copy a file below the session's base path to a local file.

        Raises:
            NotFoundError: the file does not exist.
        """
        store, location = self._place(remote_path)
        LocalStore().put(os.path.abspath(local_path), store.get(location))

    def _place(self, path: str) -> tuple[ObjectStore, str]:
        segments = [segment for segment in str(path).split("/") if segment]
        if any(segment in (".", "..") for segment in segments):
            raise InvalidInputError(f"expected a path below the session's base path, found {path!r}")
        return self._store, self._store.join(self._base, *segments) if segments else self._base

    def _relative(self, location: str) -> str:
        return location[len(self._base) :].lstrip("/" + os.sep).replace(os.sep, "/")
