"""BlobFile: one value of a blob column as a file object, read on demand."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.io.byte_range import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _typeshed import WriteableBuffer

    from lance_core.io.object_store import ObjectStore

__all__ = ["DEFAULT_BLOB_BUFFER_SIZE", "BlobColumn", "BlobFile", "BlobPlace"]

DEFAULT_BLOB_BUFFER_SIZE: Final = 512 * 1024
"""Read ahead by sequential reads, bytes."""


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """Where the bytes of one value are.

    Attributes:
        store: keeps the object.
        path: of the object.
        start: first byte.
        size: bytes.
    """

    store: ObjectStore
    path: str
    start: int
    size: int


class BlobFile(io.BufferedIOBase):
    """One value, opened for reading; created by :meth:`lance_core.LanceDataset.take_blobs`.

    ``read_range`` and ``read_ranges`` neither use nor move the position.

    Args:
        place: where the bytes are.
        buffer_size: bytes that sequential reads fetch at a time; 0 fetches what is requested.

    Raises:
        InvalidInputError: a negative buffer size.
        InvalidTypeError: a buffer size that is not a whole number.
    """

    def __init__(self, place: BlobPlace, buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE) -> None:
        """Nothing is read yet."""
        super().__init__()
        self._place = place
        self._buffer_size = checked_buffer_size(buffer_size)
        self._position = 0
        self._ahead_start = 0
        self._ahead = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def size(self) -> int:
        """Return bytes of the value."""
        return self._place.size

    def tell(self) -> int:
        """Return where the next read starts."""
        self._require_open("tell")
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position; reads beyond the end return no bytes."""
        self._require_open("seek")
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size()}
        if whence not in bases:
            raise InvalidInputError(f"invalid whence {whence}")
        position = bases[whence] + offset
        if position < 0:
            raise InvalidInputError(f"negative seek value {position}")
        self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes; all that are left when it is negative or None."""
        self._require_open("read")
        left = max(self.size() - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._sequential(wanted)
        self._position += len(data)
        return data

    def read1(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes; some when it is negative or None."""
        return self.read(io.DEFAULT_BUFFER_SIZE if size is None or size < 0 else size)

    def readall(self) -> bytes:
        """Return all bytes that are left."""
        return self.read()

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer; returns how many bytes there were."""
        view = memoryview(buffer).cast("B")
        if view.readonly:
            raise InvalidTypeError("readinto() needs a read-write bytes-like object")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def readinto1(self, buffer: WriteableBuffer) -> int:
        """Return the same as :meth:`readinto`."""
        return self.readinto(buffer)

    def read_range(self, offset: int, length: int) -> bytes:
        """Return bytes ``[offset, offset + length)`` of the value.

        Raises:
            InvalidInputError: the range exceeds the value.
        """
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges, each (offset, length), with one request where the store can.

        Raises:
            InvalidInputError: a range exceeds the value.
        """
        self._require_open("read")
        for offset, length in ranges:
            if offset < 0 or length < 0 or offset + length > self.size():
                raise InvalidInputError(f"range [{offset}, {offset + length}) exceeds the blob's {self.size()} bytes")
        return self._fetch(ranges)

    def __repr__(self) -> str:
        """With the size."""
        return f"<BlobFile size={self.size()}>"

    def _sequential(self, wanted: int) -> bytes:
        """Return bytes at the position, from what was read ahead if they are there."""
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

    def _require_open(self, what: str) -> None:
        if self.closed:
            raise InvalidInputError(f"{what} of closed file")


class BlobColumn:
    """A binary column whose values are iterated as file objects; null values give None.

    Args:
        blob_column: binary or large_binary.

    Raises:
        InvalidInputError: not such a column.
    """

    def __init__(self, blob_column: pa.Array | pa.ChunkedArray) -> None:
        """See the class."""
        if not isinstance(blob_column, (pa.Array, pa.ChunkedArray)):
            raise InvalidInputError(f"expected a pyarrow.Array or pyarrow.ChunkedArray, got {type(blob_column)}")
        dtype = blob_column.type
        if not (pa.types.is_large_binary(dtype) or pa.types.is_binary(dtype)):
            raise InvalidInputError(f"expected a binary array, got {dtype}")
        self.blob_column = blob_column

    def __iter__(self) -> Iterator[io.BytesIO | None]:
        """Return one file object per value."""
        return (io.BytesIO(value.as_py()) if value.is_valid else None for value in self.blob_column)


def checked_buffer_size(buffer_size: Any) -> int:
    """Return the argument ``buffer_size``.

    Raises:
        InvalidInputError: negative.
        InvalidTypeError: not a whole number.
    """
    if isinstance(buffer_size, bool) or not isinstance(buffer_size, int):
        raise InvalidTypeError(f"buffer_size must be an int, got {type(buffer_size).__name__}")
    if buffer_size < 0:
        raise InvalidInputError("buffer_size must be non-negative")
    return buffer_size
