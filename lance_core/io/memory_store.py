"""MemoryStore: objects in the memory of this process, for tests and temporary data (``memory://name/…``)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.buffers.fork_lock import fork_lock
from lance_core.errors import CorruptDataError, NotFoundError, StorageError
from lance_core.io.io_counters import IOCounters
from lance_core.io.object_store import ObjectInfo, PutOutcome, StoreCapabilities, WriteStream
from lance_core.io.read_costs import MEMORY_COSTS
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lance_core.io.byte_range import ByteRange

__all__ = ["MemoryStore"]

_lock: Final = fork_lock()


class MemoryStore:
    """Stores objects in a dictionary, as immutable byte strings. Thread-safe.

    Attributes:
        counters: count the reads and writes.
    """

    def __init__(self) -> None:
        self._objects: dict[str, tuple[pa.Buffer, float]] = {}
        self.counters = IOCounters()

    @property
    def capabilities(self) -> StoreCapabilities:
        return StoreCapabilities(atomic_create=True, lexical_listing=True, version_hint=False, read_costs=MEMORY_COSTS)

    def join(self, *segments: str) -> str:
        return "/".join(segment.strip("/") for segment in segments if segment.strip("/"))

    def head(self, path: str) -> ObjectInfo:
        buffer, modified_at = self._find(path)
        return ObjectInfo(path=path, num_bytes=buffer.size, modified_at=modified_at)

    def get(self, path: str) -> pa.Buffer:
        whole = self.map(path)
        self.counters.add_read(1, whole.size)
        return whole

    def map(self, path: str) -> pa.Buffer:
        return self._find(path)[0]

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        whole = self.map(path)
        for wanted in ranges:
            if wanted.stop > whole.size:
                raise CorruptDataError(
                    f"{path}: bytes [{wanted.start}, {wanted.stop}) were requested, but the object has "
                    f"{counted(whole.size, 'byte')}",
                    path=path,
                    offset=wanted.start,
                    expected=wanted.stop,
                    found=whole.size,
                )
        self.counters.add_read(len(ranges), sum([wanted.num_bytes for wanted in ranges]))
        return [whole.slice(wanted.start, wanted.num_bytes) for wanted in ranges]

    def get_tail(self, path: str, max_bytes: int) -> tuple[pa.Buffer, int]:
        whole = self.map(path)
        tail = whole.slice(max(0, whole.size - max_bytes))
        self.counters.add_read(1, tail.size)
        return tail, whole.size

    def put(
        self, path: str, data: pa.Buffer | bytes, *, durable: bool = True, depends_on: Collection[str] = ()
    ) -> None:
        with _lock:
            self._objects[path] = (_frozen(data), time.time())
        self.counters.add_write(1, memoryview(data).nbytes)

    def put_if_absent(self, path: str, data: pa.Buffer | bytes, *, depends_on: Collection[str] = ()) -> PutOutcome:
        with _lock:
            if path in self._objects:
                return PutOutcome.EXISTS
            self._objects[path] = (_frozen(data), time.time())
        self.counters.add_write(1, memoryview(data).nbytes)
        return PutOutcome.CREATED

    def create(self, path: str) -> MemoryWriteStream:
        return MemoryWriteStream(self, path)

    def delete(self, path: str, *, durable: bool = True) -> None:
        with _lock:
            self._objects.pop(path, None)

    def remove_empty_directory(self, path: str) -> None:
        """Do nothing, because there are no directories."""

    def remove_directory(self, path: str) -> None:
        """Do nothing, because there are no directories."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        start = prefix.rstrip("/") + "/"
        return (info for info in self.list_recursive(prefix) if "/" not in info.path[len(start) :])

    def list_names(self, prefix: str) -> Iterator[str]:
        return (info.path.rpartition("/")[2] for info in self.list(prefix))

    def list_recursive(self, prefix: str) -> Iterator[ObjectInfo]:
        start = prefix.rstrip("/") + "/"
        with _lock:
            found = sorted((path, *entry) for path, entry in self._objects.items() if path.startswith(start))
        return (
            ObjectInfo(path=path, num_bytes=buffer.size, modified_at=modified_at) for path, buffer, modified_at in found
        )

    def _find(self, path: str) -> tuple[pa.Buffer, float]:
        with _lock:
            entry = self._objects.get(path)
        if entry is None:
            raise NotFoundError(f"cannot read {path}: the object does not exist", path=path)
        return entry


class MemoryWriteStream(WriteStream):
    """Collects the parts of an object until ``commit`` stores it under its name."""

    def __init__(self, store: MemoryStore, path: str) -> None:
        self._store = store
        self._path = path
        self._parts: list[bytes] | None = []
        self._position = 0

    @property
    def position(self) -> int:
        return self._position

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        if self._parts is None:
            raise StorageError(f"cannot write {self._path}: the stream is closed", path=self._path)
        part = bytes(memoryview(data).cast("B"))
        self._parts.append(part)
        self._position += len(part)

    def commit(self, *, durable: bool = True) -> None:
        del durable
        if self._parts is None:
            raise StorageError(f"cannot commit {self._path}: the stream is closed", path=self._path)
        self._store.put(self._path, b"".join(self._parts))
        self._parts = None

    def abort(self) -> None:
        self._parts = None


def _frozen(data: pa.Buffer | bytes) -> pa.Buffer:
    return pa.py_buffer(bytes(memoryview(data).cast("B")))
