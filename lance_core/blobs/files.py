"""BlobFile: a file object that reads one value of a blob column on demand."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.io.byte_range import ByteRange
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _typeshed import WriteableBuffer

    from lance_core.io.object_store import ObjectStore

__all__ = ["DEFAULT_BLOB_BUFFER_SIZE", "BlobColumn", "BlobFile", "BlobPlace"]

DEFAULT_BLOB_BUFFER_SIZE: Final = 512 * 1024
"""Default number of bytes that sequential reads fetch at a time."""


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """The location of one blob value in an object, which is a file of a store.

    Attributes:
        store: the store that contains the object.
        path: the path of the object.
        start: the position of the first byte of the value in the object.
        size: the size of the value in bytes.
    """

    store: ObjectStore
    path: str
    start: int
    size: int


class BlobFile(io.BufferedIOBase):
    """A file object for reading one blob value; created by :meth:`lance_core.LanceDataset.take_blobs`.

    ``read_range`` and ``read_ranges`` neither use nor change the position.

    Args:
        place: the location of the value.
        buffer_size: number of bytes that sequential reads fetch at a time; 0 fetches only the requested bytes.

    Raises:
        InvalidInputError: the buffer size is negative.
        InvalidTypeError: the buffer size is not a whole number.
    """

    def __init__(self, place: BlobPlace, buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE) -> None:
        """Create the file object without reading anything."""
        super().__init__()
        self._place = place
        self._buffer_size = checked_buffer_size(buffer_size)
        self._position = 0
        self._ahead_start = 0
        self._ahead = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def size(self) -> int:
        """Return the size of the value in bytes."""
        return self._place.size

    def tell(self) -> int:
        """Return the position of the next read."""
        self._require_open("tell")
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position and return it; a read beyond the end returns no bytes."""
        self._require_open("seek")
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size()}
        if whence not in bases:
            raise InvalidInputError(f"invalid whence {whence}; expected 0 (start), 1 (current position), or 2 (end)")
        position = bases[whence] + offset
        if position < 0:
            raise InvalidInputError(f"cannot seek to position {position}; positions must not be negative")
        self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """Read up to ``size`` bytes, or all remaining bytes if ``size`` is negative or None."""
        self._require_open("read")
        left = max(self.size() - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._sequential(wanted)
        self._position += len(data)
        return data

    def read1(self, size: int | None = -1) -> bytes:
        """Read up to ``size`` bytes, or a default number of bytes if ``size`` is negative or None."""
        return self.read(io.DEFAULT_BUFFER_SIZE if size is None or size < 0 else size)

    def readall(self) -> bytes:
        """Read all remaining bytes."""
        return self.read()

    def readinto(self, b: WriteableBuffer) -> int:
        """Fill a buffer and return the number of bytes read."""
        view = memoryview(b).cast("B")
        if view.readonly:
            raise InvalidTypeError("readinto() requires a writable buffer, found a read-only one")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def readinto1(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer and return the number of bytes read, as :meth:`readinto` does."""
        return self.readinto(buffer)

    def read_range(self, offset: int, length: int) -> bytes:
        """Read the bytes ``[offset, offset + length)`` of the value.

        Raises:
            InvalidInputError: ``offset`` or ``length`` is negative, or the range extends past the end of the value.
        """
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges, each given as (offset, length), in one request if the store supports that.

        Raises:
            InvalidInputError: an offset or a length is negative, or a range extends past the end of the value.
        """
        self._require_open("read_ranges")
        for offset, length in ranges:
            if offset < 0 or length < 0 or offset + length > self.size():
                raise InvalidInputError(
                    f"range [{offset}, {offset + length}) is not within the blob ({counted(self.size(), 'byte')})"
                )
        return self._fetch(ranges)

    def __repr__(self) -> str:
        """Return a string representation that includes the size."""
        return f"<BlobFile size={self.size()}>"

    def _sequential(self, wanted: int) -> bytes:
        """Read bytes at the position, from the read-ahead buffer if it contains them."""
        if not wanted:
            return b""
        start = self._position
        stop = start + wanted
        if not self._ahead_start <= start <= stop <= self._ahead_start + len(self._ahead):
            if wanted >= self._buffer_size:
                return self._fetch([(start, wanted)])[0]
            self._ahead = self._fetch([(start, min(self._buffer_size, self.size() - start))])[0]
            self._ahead_start = start
        return self._ahead[start - self._ahead_start : stop - self._ahead_start]

    def _fetch(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        here = self._place.start
        filled = [ByteRange(here + offset, here + offset + length) for offset, length in ranges if length]
        found = iter(self._place.store.get_ranges(self._place.path, filled) if filled else [])
        return [next(found).to_pybytes() if length else b"" for _, length in ranges]

    def _require_open(self, method: str) -> None:
        if self.closed:
            raise InvalidInputError(f"cannot call {method}() on a closed blob file")


class BlobColumn:
    """Iterates over a binary column as file objects, with None for null values.

    Args:
        blob_column: a binary or large_binary column.

    Raises:
        InvalidInputError: the argument is not a binary or large_binary column.
    """

    def __init__(self, blob_column: pa.Array | pa.ChunkedArray) -> None:
        """See the class docstring."""
        if not isinstance(blob_column, (pa.Array, pa.ChunkedArray)):
            raise InvalidInputError(
                f"blob_column must be a pyarrow.Array or pyarrow.ChunkedArray, found {type(blob_column).__name__}"
            )
        dtype = blob_column.type
        if not (pa.types.is_large_binary(dtype) or pa.types.is_binary(dtype)):
            raise InvalidInputError(f"blob_column must be of type binary or large_binary, found {dtype}")
        self.blob_column = blob_column

    def __iter__(self) -> Iterator[io.BytesIO | None]:
        """Return an iterator with one file object per value, or None for a null value."""
        return (io.BytesIO(value.as_py()) if value.is_valid else None for value in self.blob_column)


def checked_buffer_size(buffer_size: Any) -> int:
    """Check the argument ``buffer_size`` and return its value.

    Raises:
        InvalidInputError: the size is negative.
        InvalidTypeError: the size is not a whole number.
    """
    if isinstance(buffer_size, bool) or not isinstance(buffer_size, int):
        raise InvalidTypeError(f"buffer_size must be an int, found {type(buffer_size).__name__}")
    if buffer_size < 0:
        raise InvalidInputError(f"buffer_size must not be negative, found {buffer_size}")
    return buffer_size
