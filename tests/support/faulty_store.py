"""FaultyStore: an object store that fails on request.

Every call of the store, and of its write streams, is recorded and numbered. A fault raises before the call takes
effect (the request was lost) or after it (the response was lost). A dry run lists the calls; then a test can fail
each in turn.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from lance_core.errors import StorageError
from lance_core.io.byte_range import ByteRange
from lance_core.io.io_counters import IOCounters, counters_of
from lance_core.io.object_store import ObjectInfo, ObjectStore, PutOutcome, StoreCapabilities, WriteStream


class When(Enum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Call:
    """One recorded call: its number, the method, and the path."""

    index: int
    method: str
    path: str


Fault = Callable[[Call], When | None]


def no_fault(call: Call) -> None:
    return None


def fault_at(index: int, when: When) -> Fault:
    """Fail the call with this number."""
    return lambda call: when if call.index == index else None


@dataclass
class FaultyStore:
    """Wraps a store; ``fault`` decides for each call whether and when it fails."""

    inner: ObjectStore
    fault: Fault = no_fault
    retryable: bool = False
    calls: list[Call] = field(default_factory=list)

    @property
    def capabilities(self) -> StoreCapabilities:
        return self.inner.capabilities

    @property
    def counters(self) -> IOCounters:
        return counters_of(self.inner)

    def join(self, *segments: str) -> str:
        return self.inner.join(*segments)

    def head(self, path: str) -> ObjectInfo:
        return self.run("head", path, lambda: self.inner.head(path))

    def get(self, path: str) -> pa.Buffer:
        return self.run("get", path, lambda: self.inner.get(path))

    def map(self, path: str) -> pa.Buffer:
        return self.run("get", path, lambda: self.inner.map(path))

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        self.note_ranges(path, ranges)
        return self.run("get_ranges", path, lambda: self.inner.get_ranges(path, ranges))

    def get_tail(self, path: str, max_bytes: int) -> tuple[pa.Buffer, int]:
        tail, num_bytes = self.run("get_tail", path, lambda: self.inner.get_tail(path, max_bytes))
        self.note_ranges(path, [ByteRange(num_bytes - tail.size, num_bytes)])
        return tail, num_bytes

    def put(
        self, path: str, data: pa.Buffer | bytes, *, durable: bool = True, depends_on: Collection[str] = ()
    ) -> None:
        self.run("put", path, lambda: self.inner.put(path, data, durable=durable, depends_on=depends_on))

    def put_if_absent(self, path: str, data: pa.Buffer | bytes, *, depends_on: Collection[str] = ()) -> PutOutcome:
        return self.run("put_if_absent", path, lambda: self.inner.put_if_absent(path, data, depends_on=depends_on))

    def create(self, path: str) -> "FaultyStream":
        return FaultyStream(self, path, self.run("create", path, lambda: self.inner.create(path)))

    def delete(self, path: str, *, durable: bool = True) -> None:
        self.run("delete", path, lambda: self.inner.delete(path, durable=durable))

    def remove_empty_directory(self, path: str) -> None:
        self.run("remove_empty_directory", path, lambda: self.inner.remove_empty_directory(path))

    def remove_directory(self, path: str) -> None:
        self.run("remove_directory", path, lambda: self.inner.remove_directory(path))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter(self.run("list", prefix, lambda: list(self.inner.list(prefix))))

    def list_names(self, prefix: str) -> Iterator[str]:
        return iter(self.run("list_names", prefix, lambda: list(self.inner.list_names(prefix))))

    def list_recursive(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter(self.run("list_recursive", prefix, lambda: list(self.inner.list_recursive(prefix))))

    def note_ranges(self, path: str, ranges: Sequence[ByteRange]) -> None:
        """Receive the ranges of every read; subclasses count them."""

    def run(self, method: str, path: str, action: Callable[[], object]):
        call = Call(len(self.calls), method, path)
        self.calls.append(call)
        when = self.fault(call)
        if when is When.BEFORE:
            raise self._failure(call)
        result = action()
        if when is When.AFTER:
            raise self._failure(call)
        return result

    def _failure(self, call: Call) -> BaseException:
        return StorageError(f"injected at call {call.index}: {call.method} {call.path}", retryable=self.retryable)


@dataclass
class FaultyStream:
    """A write stream whose ``write`` and ``commit`` can fail."""

    store: FaultyStore
    path: str
    inner: WriteStream

    @property
    def position(self) -> int:
        return self.inner.position

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        self.store.run("write", self.path, lambda: self.inner.write(data))

    def commit(self, *, durable: bool = True) -> None:
        self.store.run("commit", self.path, lambda: self.inner.commit(durable=durable))

    def abort(self) -> None:
        self.inner.abort()

    def __enter__(self) -> "FaultyStream":
        return self

    def __exit__(self, *details: object) -> None:
        self.abort()
