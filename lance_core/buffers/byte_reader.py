"""ByteReader: bounds-checked reading of untrusted bytes.

Slicing a ``memoryview`` silently truncates, and ``np.frombuffer`` raises a bare ``ValueError``. A ``ByteReader`` checks
every read first; if the check fails, a ``CorruptDataError`` reports the location and the expected and actual sizes.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptDataError
from lance_core.wording import counted

__all__ = ["ByteReader"]

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


class ByteReader:
    """A cursor over one buffer. All positions are byte offsets from the start of the buffer.

    Args:
        buffer: the bytes; slices taken from it share its memory.
        what: description of the bytes, for error messages ("footer of data/x.lance").
    """

    __slots__ = ("_buffer", "_position", "_what")

    def __init__(self, buffer: pa.Buffer | bytes, what: str) -> None:
        self._buffer = buffer if isinstance(buffer, pa.Buffer) else pa.py_buffer(buffer)
        self._position = 0
        self._what = what

    @property
    def position(self) -> int:
        """Position of the next read."""
        return self._position

    @property
    def remaining_bytes(self) -> int:
        """Number of bytes between the cursor and the end."""
        return int(self._buffer.size) - self._position

    def seek(self, position: int) -> None:
        """Move the cursor.

        Raises:
            CorruptDataError: the position is outside the buffer.
        """
        if not 0 <= position <= self._buffer.size:
            raise CorruptDataError(
                f"{self._what}: position {position} is outside the buffer ({counted(self._buffer.size, 'byte')})",
                offset=position,
            )
        self._position = position

    def take(self, num_bytes: int, what: str = "bytes") -> pa.Buffer:
        """Return the next ``num_bytes`` bytes as a zero-copy slice.

        Raises:
            CorruptDataError: fewer than ``num_bytes`` bytes remain.
        """
        if num_bytes < 0 or num_bytes > self.remaining_bytes:
            raise CorruptDataError(
                f"{self._what}: {what} at offset {self._position} requires {counted(num_bytes, 'byte')}, "
                f"found {self.remaining_bytes}",
                offset=self._position,
                expected=num_bytes,
                found=self.remaining_bytes,
            )
        part = self._buffer.slice(self._position, num_bytes)
        self._position += num_bytes
        return part

    def take_array(self, dtype: str, num_values: int, what: str = "array") -> np.ndarray:
        """Return the next ``num_values`` values as a read-only zero-copy array, shape (num_values,)."""
        return np.frombuffer(self.take(num_values * np.dtype(dtype).itemsize, what), dtype)

    def u16(self, what: str = "u16") -> int:
        """Return the next little-endian unsigned 16-bit number."""
        return int(_U16.unpack(self.take(2, what))[0])

    def u32(self, what: str = "u32") -> int:
        """Return the next little-endian unsigned 32-bit number."""
        return int(_U32.unpack(self.take(4, what))[0])

    def u64(self, what: str = "u64") -> int:
        """Return the next little-endian unsigned 64-bit number."""
        return int(_U64.unpack(self.take(8, what))[0])
