"""The ObjectStore protocol: defines the operations that every store must provide.

Paths are strings with ``/`` between segments, as returned by ``uri.resolve``; only the store interprets them. Every
failure is reported as a :class:`~lance_core.errors.LanceError`: ``NotFoundError`` for a missing object,
``StorageError`` for any failed storage operation. "Already exists" is an outcome, not an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol, Self

from lance_core.errors import NotFoundError
from lance_core.io.read_costs import REMOTE_COSTS, ReadCosts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from lance_core.io.byte_range import ByteRange

__all__ = [
    "ObjectInfo",
    "ObjectStore",
    "PutOutcome",
    "StoreCapabilities",
    "WriteStream",
    "has_object",
    "shown_path",
]


class PutOutcome(Enum):
    """Result of a create-only write."""

    CREATED = auto()
    """The object did not exist and was created with its full content."""

    EXISTS = auto()
    """An object with that name already existed and was not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCapabilities:
    """Capabilities of a store. Callers check these instead of the store's type.

    Attributes:
        atomic_create: whether ``put_if_absent`` succeeds for exactly one of several concurrent callers.
        lexical_listing: whether listings are in lexical order. If so, the first listed manifest of the V2 naming scheme
            is the latest.
        version_hint: whether to write ``latest_version_hint.json`` next to the manifests. It is needed in stores with
            unordered listings.
        maps_files: whether ``get_ranges`` returns views of a memory-mapped file, so that only the accessed bytes are
            read.
        read_costs: costs of reading.
    """

    atomic_create: bool
    lexical_listing: bool
    version_hint: bool
    maps_files: bool = False
    read_costs: ReadCosts = REMOTE_COSTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """One stored object.

    Attributes:
        path: path of the object in the store.
        num_bytes: size of the object in bytes.
        modified_at: modification time in seconds since the epoch.
    """

    path: str
    num_bytes: int
    modified_at: float


class WriteStream(Protocol):
    """An object being written. It becomes visible under its final name with ``commit``; ``abort`` discards it.

    Leaving the ``with`` block without ``commit`` aborts the write.
    """

    @property
    def position(self) -> int:
        """Number of bytes written so far."""
        ...

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        """Append bytes."""
        ...

    def commit(self, *, durable: bool = True) -> None:
        """Make the complete object visible and, unless ``durable`` is False, durable, as ``ObjectStore.put`` does."""
        ...

    def abort(self) -> None:
        """Discard the data written so far. Safe to call after any failure, and more than once."""
        ...

    def __enter__(self) -> Self:
        """Return the stream itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abort the write; this has no effect if the object has been committed."""
        self.abort()


class ObjectStore(Protocol):
    """A store of named byte strings.

    A store may also have ``uri_of(path)``, which returns a path in the form used in messages, ``counters``, which count
    its requests (:mod:`~lance_core.io.io_counters`), and ``begin_ranges(path, ranges)``, which is like
    :meth:`get_ranges` but immediately returns a ``concurrent.futures.Future``.
    """

    @property
    def capabilities(self) -> StoreCapabilities:
        """Capabilities of the store."""
        ...

    def join(self, *segments: str) -> str:
        """Append segments to a path: ``join(root, "_versions", name)``."""
        ...

    def head(self, path: str) -> ObjectInfo:
        """Return the size and modification time of an object. Raises ``NotFoundError`` if it does not exist."""
        ...

    def get(self, path: str) -> pa.Buffer:
        """Read a whole object. Raises ``NotFoundError`` if it does not exist."""
        ...

    def map(self, path: str) -> pa.Buffer:
        """Map a whole object into memory. Only for stores with ``maps_files``; callers count the bytes they access.

        Raises:
            NotFoundError: the object does not exist.
        """
        ...

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read parts of an object, in the requested order.

        Raises:
            NotFoundError: the object does not exist.
            CorruptDataError: a range extends past the end of the object.
        """
        ...

    def get_tail(self, path: str, max_bytes: int) -> tuple[pa.Buffer, int]:
        """Read the end of an object whose size is unknown.

        Args:
            path: path of the object.
            max_bytes: number of bytes to read, at least 1; a smaller object is read as a whole.

        Returns:
            The last bytes, and the size of the object in bytes.

        Raises:
            NotFoundError: the object does not exist.
        """
        ...

    def put(
        self, path: str, data: pa.Buffer | bytes, *, durable: bool = True, depends_on: Collection[str] = ()
    ) -> None:
        """Create or replace an object; readers see either the old or the new content, never a mix.

        If ``durable`` is False, a power loss may undo the write or leave an empty object. The objects in
        ``depends_on``, which were not written durably, become durable before this object appears.
        """
        ...

    def put_if_absent(self, path: str, data: pa.Buffer | bytes, *, depends_on: Collection[str] = ()) -> PutOutcome:
        """Create an object, atomically, unless one with the same name exists.

        When this returns ``CREATED``, the object is complete and durable. The objects in ``depends_on`` become durable
        before this object appears.
        """
        ...

    def create(self, path: str) -> WriteStream:
        """Start writing an object."""
        ...

    def delete(self, path: str, *, durable: bool = True) -> None:
        """Remove an object if it exists. Unless ``durable`` is True, a power loss may undo the removal."""
        ...

    def remove_empty_directory(self, path: str) -> None:
        """Remove a directory if it is empty. This has no effect in stores without directories."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory and its content, including links but not their targets.

        Nothing is removed in stores without directories, where callers must first remove the objects one by one.
        """
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List the objects directly in the directory ``prefix``, including temporary objects.

        The listing is empty if the directory does not exist.
        """
        ...

    def list_names(self, prefix: str) -> Iterator[str]:
        """List the names of the objects directly in ``prefix``: like :meth:`list`, but without sizes and times."""
        ...

    def list_recursive(self, prefix: str) -> Iterator[ObjectInfo]:
        """List all objects below the directory ``prefix``; the listing is empty if the directory does not exist."""
        ...


def shown_path(store: ObjectStore, path: str) -> str:
    """Return a path in the form used in messages: with the scheme, if the store has the method ``uri_of``."""
    shown: str = getattr(store, "uri_of", str)(path)
    return shown


def has_object(store: ObjectStore, path: str) -> bool:
    """Return whether an object exists. Raises ``StorageError`` if its existence cannot be determined."""
    try:
        store.head(path)
    except NotFoundError:
        return False
    return True
