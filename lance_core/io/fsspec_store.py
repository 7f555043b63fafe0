"""FsspecStore: objects in Google Cloud Storage or Azure, accessed through an fsspec package.

The package is imported when a URI requires it. ``put_if_absent`` uses the package's exclusive create, which sends
``ifGenerationMatch=0`` to Google and ``If-None-Match: *`` to Azure. Before the first exclusive create, a test checks
whether the store honors the condition (:mod:`~lance_core.io.condition_probe`). An object that is written in parts is
collected in a local temporary file, which ``commit`` uploads.

Source: API of fsspec, gcsfs and adlfs.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.buffers.fork_lock import fork_lock
from lance_core.errors import (
    CorruptDataError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    NotSupportedError,
)
from lance_core.io.byte_range import ByteRange, coalesce_ranges
from lance_core.io.condition_probe import require_condition
from lance_core.io.fsspec_errors import EXCLUSIVE_VERB, ObjectExistsError, translate_fsspec
from lance_core.io.fsspec_options import BACKENDS
from lance_core.io.fsspec_stream import FsspecWriteStream
from lance_core.io.io_counters import IOCounters
from lance_core.io.object_store import ObjectInfo, PutOutcome, StoreCapabilities
from lance_core.io.read_costs import REMOTE_COSTS, ReadCosts
from lance_core.io.s3_errors import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

__all__ = ["FSSPEC_SCHEMES", "FsspecStore", "open_fsspec_store"]

FSSPEC_SCHEMES: Final = frozenset(BACKENDS)

_MAX_EXTENT_BYTES: Final = 16 * 1024 * 1024
_lock: Final = fork_lock()


def open_fsspec_store(scheme: str, container: str, storage_options: Mapping[str, str] | None) -> FsspecStore:
    """Open the store of a container.

    Raises:
        NotSupportedError: the package for the scheme is not installed; the message contains the package's name.
        InvalidInputError: an option is invalid.
    """
    backend = BACKENDS[scheme]
    arguments, secrets = backend.arguments(storage_options or {}, container)
    try:
        kind = getattr(import_module(backend.module), backend.file_system)
    except ImportError as error:
        raise NotSupportedError(
            f"{scheme}:// URIs require the package {backend.package}; install it with 'pip install {backend.package}'",
            scheme=scheme,
            package=backend.package,
        ) from error
    return FsspecStore(
        lambda: kind(**arguments, skip_instance_cache=True, use_listings_cache=False),
        scheme=scheme,
        container=container,
        exclusive=backend.exclusive,
        secrets=secrets,
        settings=sha256(repr(sorted(arguments.items())).encode()).hexdigest(),
        read_costs=ReadCosts.of_object_store(storage_options),
    )


class FsspecStore:
    """Objects of one container.

    Args:
        connect: creates the fsspec file system; called once in each process.
        scheme: scheme of URIs, for messages.
        container: name of the container.
        exclusive: arguments with which ``pipe_file`` performs an exclusive create.
        secrets: values that must not appear in messages.
        settings: a digest of the settings and credentials; stores with the same container and digest are equal. None if
            the store is only equal to itself.

    Attributes:
        counters: count the requests for the content of objects.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        scheme: str,
        container: str,
        exclusive: Mapping[str, Any],
        secrets: tuple[str, ...] = (),
        settings: str | None = None,
        read_costs: ReadCosts = REMOTE_COSTS,
    ) -> None:
        """Create the store without connecting."""
        self._connect = connect
        self._scheme = scheme
        self._place = f"{scheme}://{container}"
        self._exclusive = exclusive
        self._secrets = secrets
        self._settings = settings
        self._read_costs = read_costs
        self._connections: dict[int, Any] = {}
        self.counters = IOCounters()

    def __repr__(self) -> str:
        """Return a representation that contains the container's name."""
        return f"FsspecStore({self._place!r})"

    @property
    def identity(self) -> tuple[str, ...] | None:
        """A key that stores share if they have the same container and settings; None if the store equals no other."""
        return None if self._settings is None else (self._place, self._settings)

    @property
    def capabilities(self) -> StoreCapabilities:
        return StoreCapabilities(
            atomic_create=True, lexical_listing=True, version_hint=False, read_costs=self._read_costs
        )

    def uri_of(self, path: str) -> str:
        """Return the URI of a path, for messages."""
        return f"{self._scheme}://{path}"

    def join(self, *segments: str) -> str:
        return "/".join(segment.strip("/") for segment in segments if segment.strip("/"))

    def head(self, path: str) -> ObjectInfo:
        with self._translated("stat", path):
            return _info(self._files().info(path))

    def get(self, path: str) -> pa.Buffer:
        with self._translated("read", path):
            data = pa.py_buffer(self._files().cat_file(path))
        self.counters.add_read(1, data.size)
        return data

    def map(self, path: str) -> pa.Buffer:
        return self.get(path)

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        wanted = [index for index, each in enumerate(ranges) if each.num_bytes]
        reads = coalesce_ranges(
            [ranges[index] for index in wanted],
            max_gap_bytes=self._read_costs.near_bytes,
            max_extent_bytes=_MAX_EXTENT_BYTES,
        )
        starts, stops = [read.extent.start for read in reads], [read.extent.stop for read in reads]
        with self._translated("read", path):
            parts = self._files().cat_ranges([path] * len(reads), starts, stops, on_error="raise")
        self.counters.add_read(len(reads), sum(stops) - sum(starts))
        found = [pa.py_buffer(b"")] * len(ranges)
        for read, part in zip(reads, parts, strict=True):
            _check_length(self.uri_of(path), read.extent, len(part))
            buffer = pa.py_buffer(part)
            for member in read.members:
                place = ranges[wanted[member]]
                found[wanted[member]] = buffer.slice(place.start - read.extent.start, place.num_bytes)
        return found

    def get_tail(self, path: str, max_bytes: int) -> tuple[pa.Buffer, int]:
        # Azure has no requests for the last bytes of an object, and gcsfs does not return the object's size with them.
        num_bytes = self.head(path).num_bytes
        [tail] = self.get_ranges(path, [ByteRange(max(0, num_bytes - max_bytes), num_bytes)])
        return tail, num_bytes

    def put(
        self, path: str, data: pa.Buffer | bytes, *, durable: bool = True, depends_on: Collection[str] = ()
    ) -> None:
        with self._translated("write", path):
            self._files().pipe_file(path, bytes(memoryview(data).cast("B")))
        self.counters.add_write(1, memoryview(data).nbytes)

    def put_if_absent(self, path: str, data: pa.Buffer | bytes, *, depends_on: Collection[str] = ()) -> PutOutcome:
        self.require_condition(path)
        return self.put_if_none_match(path, data)

    def require_condition(self, path: str) -> None:
        """Raise an error if the server ignores the condition of exclusive creates."""
        require_condition(self, (self._place, ""), path)

    def put_if_none_match(self, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Send one exclusive create, without checking that the store honors the condition."""
        try:
            with self._translated(EXCLUSIVE_VERB, path):
                self._files().pipe_file(path, bytes(memoryview(data).cast("B")), **self._exclusive)
        except ObjectExistsError:
            return PutOutcome.EXISTS
        self.counters.add_write(1, memoryview(data).nbytes)
        return PutOutcome.CREATED

    def create(self, path: str) -> FsspecWriteStream:
        return FsspecWriteStream(self, path)

    def send_file(self, local_path: str, path: str) -> None:
        """Create or replace an object with the content of a local file."""
        with self._translated("write", path):
            self._files().put_file(local_path, path)
        self.counters.add_write(1, os.path.getsize(local_path))

    def delete(self, path: str, *, durable: bool = True) -> None:
        try:
            with self._translated("delete", path):
                self._files().rm_file(path)
        except NotFoundError:
            return

    def remove_empty_directory(self, path: str) -> None:
        """Do nothing, because there are no directories."""

    def remove_directory(self, path: str) -> None:
        """Do nothing, because there are no directories."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        try:
            with self._translated("list", prefix):
                files = self._files()
                files.invalidate_cache()
                entries = files.ls(prefix, detail=True)
        except NotFoundError:
            return iter(())
        return _infos(entries)

    def list_names(self, prefix: str) -> Iterator[str]:
        return (info.path.rpartition("/")[2] for info in self.list(prefix))

    def list_recursive(self, prefix: str) -> Iterator[ObjectInfo]:
        try:
            with self._translated("list", prefix):
                files = self._files()
                files.invalidate_cache()
                entries = files.find(prefix, detail=True)
        except NotFoundError:
            return iter(())
        return _infos(list(entries.values()))

    def _files(self) -> Any:
        pid = os.getpid()
        found = self._connections.get(pid)
        if found is None:
            with _lock:
                found = self._connections.get(pid) or self._connected()
                self._connections[pid] = found
        return found

    def _connected(self) -> Any:
        try:
            return self._connect()
        except (TypeError, ValueError) as error:
            text = redacted(str(error), self._secrets)
            raise InvalidInputError(f"{self._place}: invalid or incomplete storage options: {text}") from None

    @contextmanager
    def _translated(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except LanceError:
            raise
        except Exception as error:  # noqa: BLE001  # packages raise what they like
            # The error is not chained: the text of the original error may contain secrets.
            raise translate_fsspec(error, verb, self.uri_of(path), self._secrets) from None


def _check_length(path: str, extent: ByteRange, found: int) -> None:
    if found != extent.num_bytes:
        raise CorruptDataError(
            f"{path}: bytes [{extent.start}, {extent.stop}) were requested, but the object is shorter",
            path=path,
            offset=extent.start,
            expected=extent.num_bytes,
            found=found,
        )


def _infos(entries: Sequence[Mapping[str, Any]]) -> Iterator[ObjectInfo]:
    found = [_info(entry) for entry in entries if entry["type"] == "file" and not entry["name"].endswith("/")]
    return iter(sorted(found, key=lambda info: info.path))


def _info(entry: Mapping[str, Any]) -> ObjectInfo:
    moment = next((entry[name] for name in ("mtime", "last_modified", "updated", "created") if entry.get(name)), None)
    seconds = 0.0 if moment is None or isinstance(moment, str) else float(moment.timestamp())
    return ObjectInfo(path=entry["name"].strip("/"), num_bytes=int(entry["size"] or 0), modified_at=seconds)
