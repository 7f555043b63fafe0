"""LocalStore: files in the local file system.

Every object appears completely or not at all:

===================  =====================================================================================
``put``, ``create``  write ``.tmp…`` in the same directory, fsync, ``rename`` over the final name, fsync the
                     directory; a ``put`` that need not be durable does not fsync
``put_if_absent``    write ``<final>#1`` with ``O_EXCL`` (``#2`` … if it exists), fsync, ``link`` to the final
                     name, fsync the directory, unlink the staging name
``delete``           unlink; if the removal must be durable, fsync the directory
===================  =====================================================================================

``link`` fails with EEXIST if the final name exists, so the commit protocol uses it as its compare-and-set operation.
``rename`` would silently replace the file, and ``O_EXCL`` on the final name would expose an empty file to readers.

The effect of an operation survives a power loss once the operation has returned. The parent of a new directory is
synced, because otherwise everything in the new directory could be lost. A removed name must not reappear after a power
loss, because a migrated table would then have manifests of both naming schemes again.

A symbolic link to a file is treated like the file itself: a table may consist of links to the files of another copy of
the table.

The kernel returns the names in a directory in batches of a few hundred, or fewer if a signal arrives. Between two
batches, other processes may change the directory: if one name is created and then another is removed, a listing may
contain neither of them. A directory that changes is therefore listed again, and the results are combined. Changes are
detected by the modification time of the directory, which may miss a change that closely follows another one; a caller
that must not miss any new name must list the directory once more.

For how ranges are read, see :mod:`lance_core.io.file_ranges`.

Source: system calls of a local commit of pylance 14.0.2; the fsyncs are our addition.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError, LanceError, NotFoundError, StorageError
from lance_core.io.file_ranges import read_file_ranges, read_file_tail, read_whole_file
from lance_core.io.file_sync import sync, sync_together
from lance_core.io.io_counters import IOCounters
from lance_core.io.object_store import ObjectInfo, PutOutcome, StoreCapabilities, WriteStream
from lance_core.io.read_costs import MEMORY_COSTS

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from lance_core.io.byte_range import ByteRange

__all__ = ["LocalStore"]

_CAPABILITIES: Final = StoreCapabilities(
    atomic_create=True, lexical_listing=False, version_hint=True, maps_files=True, read_costs=MEMORY_COSTS
)
_TEMPORARY_PREFIX: Final = ".tmp"
_RETRYABLE: Final = frozenset({errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ETIMEDOUT, errno.ESTALE})
_UNCLEAR: Final = frozenset({errno.EIO, errno.EINTR, errno.ETIMEDOUT, errno.ESTALE})
"""Errors of devices and servers: if creating a link fails with one of these errors, the link may exist nevertheless."""
_ALL: Final = frozenset(errno.errorcode)
_NOT_AN_EMPTY_DIRECTORY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR})
_MAX_LISTINGS: Final = 5
"""Maximum number of times that a directory is listed if it changes while it is being listed."""
_READING: Final = frozenset({"read", "stat"})
"""Operations that require the file to exist; if any other operation fails with ENOENT, something else is missing."""


class LocalStore:
    """Files in the local file system; paths are absolute file names.

    Attributes:
        identity: equal for stores with the same objects and the same access to them.
        counters: count the reads and writes.
    """

    identity: Final = ("file",)

    def __init__(self) -> None:
        self.counters = IOCounters()

    @property
    def capabilities(self) -> StoreCapabilities:
        return _CAPABILITIES

    def join(self, *segments: str) -> str:
        return os.path.join(*segments)

    def head(self, path: str) -> ObjectInfo:
        with _Translated(path, "stat"):
            status = os.stat(path)
        return ObjectInfo(path=path, num_bytes=status.st_size, modified_at=status.st_mtime)

    def get(self, path: str) -> pa.Buffer:
        data = self.map(path)
        self.counters.add_read(1, data.size)
        return data

    def map(self, path: str) -> pa.Buffer:
        with _Translated(path, "read"):
            return read_whole_file(path)

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        with _Translated(path, "read"):
            found = read_file_ranges(path, ranges)
        self.counters.add_read(len(ranges), sum([wanted.num_bytes for wanted in ranges]))
        return found

    def get_tail(self, path: str, max_bytes: int) -> tuple[pa.Buffer, int]:
        with _Translated(path, "read"):
            tail, num_bytes = read_file_tail(path, max_bytes)
        self.counters.add_read(1, tail.size)
        return tail, num_bytes

    def put(
        self, path: str, data: pa.Buffer | bytes, *, durable: bool = True, depends_on: Collection[str] = ()
    ) -> None:
        with self.create(path) as stream:
            stream.write(data)
            stream.commit(durable=durable, depends_on=depends_on)

    def put_if_absent(self, path: str, data: pa.Buffer | bytes, *, depends_on: Collection[str] = ()) -> PutOutcome:
        with _Translated(path, "create"):
            _make_directory(os.path.dirname(path))
            staging = _write_staging(path, data)
            try:
                sync_together(staging, depends_on)
                with _unsettled(path):
                    os.link(staging, path)
            except FileExistsError:
                return PutOutcome.EXISTS
            finally:
                with suppress(OSError):
                    os.unlink(staging)
            self.counters.add_write(1, memoryview(data).nbytes)
            with _unsettled(path, _ALL):
                sync(os.path.dirname(path))
        return PutOutcome.CREATED

    def create(self, path: str) -> LocalWriteStream:
        return LocalWriteStream(path, self.counters)

    def delete(self, path: str, *, durable: bool = True) -> None:
        with _Translated(path, "delete"), suppress(FileNotFoundError):
            os.unlink(path)
            if durable:
                sync(os.path.dirname(path))

    def remove_empty_directory(self, path: str) -> None:
        with _Translated(path, "remove"):
            try:
                os.rmdir(path)
            except OSError as error:
                if error.errno not in _NOT_AN_EMPTY_DIRECTORY:
                    raise

    def remove_directory(self, path: str) -> None:
        with _Translated(path, "remove"), suppress(FileNotFoundError):
            shutil.rmtree(os.path.realpath(path))
            if os.path.islink(path):
                os.unlink(path)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        with _Translated(prefix, "list"):
            try:
                entries = list(os.scandir(prefix))
            except FileNotFoundError:
                return
            infos = [info for entry in entries if (info := _info(entry)) is not None]
        yield from infos

    def list_names(self, prefix: str) -> Iterator[str]:
        with _Translated(prefix, "list"):
            try:
                names = _names(prefix)
            except FileNotFoundError:
                return
        yield from names

    def list_recursive(self, prefix: str) -> Iterator[ObjectInfo]:
        with _Translated(prefix, "list"):
            try:
                entries = list(os.scandir(prefix))
            except FileNotFoundError:
                return
            infos = [info for entry in entries if (info := _info(entry)) is not None]
            # Links to directories may point back to an ancestor.
            directories = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield from infos
        for directory in directories:
            yield from self.list_recursive(directory)


class LocalWriteStream(WriteStream):
    """A file being written under a temporary name in its final directory."""

    def __init__(self, path: str, counters: IOCounters) -> None:
        self._path = path
        self._counters = counters
        self._position = 0
        directory, name = os.path.split(path)
        # The name contains the final name, so that leftovers of a crashed writer can be identified.
        # The reference treats every file in the tags directory that ends in .json as a tag.
        ending = "#" if name.endswith(".json") else ""
        self._temporary = os.path.join(directory, f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}-{name}{ending}")
        with _Translated(path, "create"):
            # An interrupt may discard the stream before the caller can abort it.
            self._descriptors: list[int] = []
            self._dropped = weakref.finalize(self, _give_up, self._descriptors, self._temporary, os.getpid())
            self._descriptors.append(_created(self._temporary, directory))

    @property
    def position(self) -> int:
        return self._position

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        if not self._descriptors:
            raise StorageError(f"cannot write {self._path}: the stream is closed", path=self._path)
        with _Translated(self._path, "write"):
            self._position += _write_all(self._descriptors[0], memoryview(data).cast("B"))

    def commit(self, *, durable: bool = True, depends_on: Collection[str] = ()) -> None:
        if not self._descriptors:
            raise StorageError(f"cannot commit {self._path}: the stream is closed", path=self._path)
        with _Translated(self._path, "write"):
            os.close(self._descriptors.pop())
            if durable:
                sync_together(self._temporary, depends_on)
            os.rename(self._temporary, self._path)
            self._dropped.detach()
            self._counters.add_write(1, self._position)
            if durable:
                sync(os.path.dirname(self._path))

    def abort(self) -> None:
        # After a commit the temporary name no longer exists and this does nothing.
        _give_up(self._descriptors, self._temporary, os.getpid())
        self._dropped.detach()


def _created(path: str, directory: str) -> int:
    """Create a file and return its descriptor. Create the directory if needed, as for the first file of a table."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        _make_directory(directory)
        return os.open(path, flags, 0o666)


def _give_up(descriptors: list[int], temporary: str, process: int) -> None:
    """Remove the leftovers of a discarded stream; a forked process does not touch its parent's file."""
    if process == os.getpid():
        while descriptors:
            with suppress(OSError):
                os.close(descriptors.pop())
        with suppress(OSError, ValueError):
            os.unlink(temporary)


def _write_all(descriptor: int, view: memoryview) -> int:
    written = 0
    while written < len(view):
        written += os.write(descriptor, view[written:])
    return written


def _write_staging(path: str, data: pa.Buffer | bytes) -> str:
    attempt = 1
    while True:
        staging = f"{path}#{attempt}"
        try:
            descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            attempt += 1
            continue
        try:
            _write_all(descriptor, memoryview(data).cast("B"))
        except BaseException:
            with suppress(OSError):
                os.unlink(staging)
            raise
        finally:
            os.close(descriptor)
        return staging


def _make_directory(directory: str) -> None:
    """Create a directory and its missing ancestors, durably, so that a synced file in it is durable."""
    if os.path.isdir(directory):
        return
    above = os.path.dirname(directory) or os.curdir
    _make_directory(above)
    try:
        os.mkdir(directory)
    except FileExistsError:
        # Another writer created it, and may not have synced it yet.
        if not os.path.isdir(directory):
            raise
    sync(above)


def _names(prefix: str) -> list[str]:
    """List the names of files in a directory; the result may include names removed during the listing."""
    names: dict[str, None] = {}
    for _ in range(_MAX_LISTINGS):
        changed_ns = os.stat(prefix).st_mtime_ns
        names.update(dict.fromkeys(_listed_names(prefix)))
        if os.stat(prefix).st_mtime_ns == changed_ns:
            break
    return list(names)


def _listed_names(prefix: str) -> list[str]:
    with os.scandir(prefix) as entries:
        # Check for plain files first, because the type in the directory entry needs no system call.
        return [entry.name for entry in entries if entry.is_file(follow_symlinks=False) or _is_file(entry)]


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether the entry is a file or a link to an existing file."""
    try:
        return entry.is_file()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _info(entry: os.DirEntry[str]) -> ObjectInfo | None:
    # Another process may remove a file between the listing and the stat.
    try:
        if not _is_file(entry):
            return None
        status = entry.stat()
    except FileNotFoundError:
        return None
    return ObjectInfo(path=entry.path, num_bytes=status.st_size, modified_at=status.st_mtime)


@contextmanager
def _unsettled(path: str, errors: Container[int] = _UNCLEAR) -> Iterator[None]:
    """Convert the given errors to a ``StorageError`` with ``in_flight``: the file may have been created anyway."""
    try:
        yield
    except OSError as error:
        if error.errno not in errors:
            raise
        raise StorageError(
            f"cannot create {path}: {error.strerror or error}",
            path=path,
            errno=error.errno,
            retryable=error.errno in _RETRYABLE,
            in_flight=True,
        ) from error


class _Translated:
    """Converts errors of the operating system to errors of this library that name the file and the operation."""

    __slots__ = ("_path", "_verb")

    def __init__(self, path: str, verb: str) -> None:
        self._path = path
        self._verb = verb

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        path, verb = self._path, self._verb
        if error is None or isinstance(error, LanceError):
            return
        if isinstance(error, FileNotFoundError) and verb in _READING:
            raise NotFoundError(f"cannot {verb} {path}: the file does not exist", path=path) from error
        if isinstance(error, OSError):
            raise StorageError(
                f"cannot {verb} {path}: {error.strerror or error}",
                path=path,
                errno=error.errno,
                retryable=error.errno in _RETRYABLE,
            ) from error
        if isinstance(error, ValueError):
            # The name is invalid: it contains a NUL character, or characters that the file system encoding cannot
            # represent.
            raise InvalidInputError(f"cannot {verb} {path!r}: {error}", path=path) from error
