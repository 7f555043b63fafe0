"""The ObjectStore protocol: what other packages need from a store.

Paths are strings with ``/`` between segments, as ``uri.resolve`` hands them out; what they mean is the store's own
business. Every failure is a :class:`~lance_core.errors.LanceError`: ``NotFoundError`` for a missing object,
``StorageError`` for anything the outside world refuses. "Exists already" is an outcome, not an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from lance_core.io.byte_range import ByteRange

__all__ = ["ObjectInfo", "ObjectStore", "PutOutcome", "StoreCapabilities", "WriteStream"]


class PutOutcome(Enum):
    """What a create-only write did."""

    CREATED = auto()
    """The object was absent; now it exists completely."""

    EXISTS = auto()
    """An object of that name was there; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCapabilities:
    """What a store can do, so that protocols choose without asking for its type.

    Attributes:
        atomic_create: ``put_if_absent`` has exactly one winner among concurrent callers.
        lexical_listing: listings arrive in lexical order, so that the first manifest of the V2 scheme is the latest.
        version_hint: keep ``latest_version_hint.json`` beside the manifests (stores that do not list in order).
        maps_files: ``get_ranges`` hands out views of the file; bytes that nobody looks at are not read.
    """

    atomic_create: bool
    lexical_listing: bool
    version_hint: bool
    maps_files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """One stored object.

    Attributes:
        path: the path in the store.
        num_bytes: its size.
        modified_at: seconds since the epoch, UTC.
    """

    path: str
    num_bytes: int
    modified_at: float


class WriteStream(Protocol):
    """An object being written. Invisible under its final name until ``commit``; removed by ``abort``.

    Leaving the ``with`` block without ``commit`` aborts.
    """

    @property
    def position(self) -> int:
        """Bytes written so far."""
        ...

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        """Append bytes."""
        ...

    def commit(self) -> None:
        """Make the object visible, whole and durable."""
        ...

    def abort(self) -> None:
        """Remove what was written. Safe to call after any failure and repeatedly."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ObjectStore(Protocol):
    """A store of named byte strings."""

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can do."""
        ...

    def join(self, *segments: str) -> str:
        """Path below a path: ``join(root, "_versions", name)``."""
        ...

    def head(self, path: str) -> ObjectInfo:
        """Return size and time of one object. Raises ``NotFoundError``."""
        ...

    def get(self, path: str) -> pa.Buffer:
        """Return one whole object. Raises ``NotFoundError``."""
        ...

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Return parts of one object, in order. Raises ``NotFoundError``, or ``CorruptDataError`` past the end."""
        ...

    def put(
        self, path: str, data: pa.Buffer | bytes, *, durable: bool = True, depends_on: Collection[str] = ()
    ) -> None:
        """Create or replace an object; readers see the old or the new content, never a part.

        What need not be ``durable`` may be taken back by a power loss, or left empty. The objects of ``depends_on``,
        which were put like that, are durable before this one appears.
        """
        ...

    def put_if_absent(self, path: str, data: pa.Buffer | bytes, *, depends_on: Collection[str] = ()) -> PutOutcome:
        """Create an object unless one of that name exists; atomic, whole and durable when it returns ``CREATED``.

        The objects of ``depends_on`` are durable before this one appears.
        """
        ...

    def create(self, path: str) -> WriteStream:
        """Start writing an object."""
        ...

    def delete(self, path: str, *, durable: bool = True) -> None:
        """Remove one object; a missing one is not an error. Unless it is ``durable``, a power loss may undo it."""
        ...

    def remove_empty_directory(self, path: str) -> None:
        """Remove an empty directory; no effect on other directories, and in stores without directories."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory and its content; links in it are removed, but not their targets.

        Without effect where there are no directories: objects are removed one by one before.
        """
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Objects directly inside the directory ``prefix``, temporary ones included; a missing directory is empty."""
        ...

    def list_names(self, prefix: str) -> Iterator[str]:
        """Return names of the objects directly inside ``prefix``: :meth:`list` without asking for sizes and times."""
        ...

    def list_recursive(self, prefix: str) -> Iterator[ObjectInfo]:
        """Return objects anywhere below the directory ``prefix``; a missing directory is empty."""
        ...
