"""Descriptors of blobs, and a builder for columns that contain them.

::

    builder = BlobDescriptorArrayBuilder("image")
    builder.extend(packed.finish())
    builder.append(dedicated.finish())
    builder.append_inline(b"...")
    schema = pa.schema([builder.field])
    batch = pa.record_batch([builder.finish()], schema=schema)

**Source:** behavior of ``lance.blob`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.schema.prepared_blobs import (
    DEDICATED,
    INLINE,
    MANAGED,
    MANAGED_IN_BASE,
    PACKED,
    PREPARED_TYPE,
    is_managed_path,
    prepared_arrow_field,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "blob_bytes",
    "checked_blob_id",
    "packed_array",
]

_MAX_U32: Final = (1 << 32) - 1
_MAX_U64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    """Describes where one blob is stored. Created by sidecar writers, for use in a :class:`BlobDescriptorArrayBuilder`.

    Attributes:
        kind: how the value is stored, for example packed or dedicated; None for a null.
        blob_id: id of the sidecar.
        size: size of the value in bytes.
        position: position of the value in the sidecar; None if the value is the whole sidecar.
    """

    kind: int | None
    blob_id: int | None = None
    size: int | None = None
    position: int | None = None

    def __repr__(self) -> str:
        """Return the same representation as pylance."""
        if self.kind is None:
            return "Null"
        if self.kind == PACKED:
            return f"Packed {{ blob_id: {self.blob_id}, offset: {self.position}, size: {self.size} }}"
        return f"Dedicated {{ blob_id: {self.blob_id}, size: {self.size} }}"

    def _row(self) -> tuple[Any, ...] | None:
        if self.kind is None:
            return None
        return (self.kind, None, None, self.blob_id, self.size, self.position)


class BlobDescriptorArrayBuilder:
    """Collects the descriptors of one blob column. Usable until :meth:`finish` is called.

    Args:
        column: name of the column.
    """

    def __init__(self, column: str) -> None:
        """See the class docstring."""
        if not isinstance(column, str):
            raise InvalidTypeError(f"column must be a str, found {column!r}", argument="column")
        self._field = prepared_arrow_field(column)
        self._rows: list[tuple[Any, ...] | None] = []
        self._parts: list[pa.Array] = []
        self._is_open = True

    @property
    def field(self) -> pa.Field:
        """The Arrow field of the column."""
        return self._field

    def extend_packed(self, blob_id: int, offsets: Sequence[int], sizes: Sequence[int]) -> None:
        """Add references to values in one shared sidecar.

        Args:
            blob_id: id of the sidecar.
            offsets: position of each value in the sidecar, in bytes.
            sizes: size of each value in bytes.
        """
        self._require_open()
        number = checked_blob_id(blob_id)
        if len(offsets) != len(sizes):
            raise InvalidInputError(
                f"offsets and sizes must have the same length, found {len(offsets)} and {len(sizes)}"
            )
        self._flush()
        self._parts.append(packed_array(number, _words("offsets", offsets), _words("sizes", sizes)))

    def append_dedicated(self, blob_id: int, size: int) -> None:
        """Add a reference to the value in a dedicated sidecar."""
        self._add((DEDICATED, None, None, checked_blob_id(blob_id), _number("size", size, _MAX_U64), None))

    def append_managed(self, uri: str, offset: int, size: int, *, base_id: int | None = None) -> None:
        """Add a reference to a range of a file that already belongs to the table. Nothing is copied or committed.

        Args:
            uri: path of the file, relative to the base path if ``base_id`` is given, and otherwise to the root of the
                table.
            offset: position of the value in the file, in bytes.
            size: size of the value in bytes; 0 for an empty value.
            base_id: id of one of the table's base paths; None if the file is below the root of the table.

        Raises:
            InvalidInputError: the path is absolute, or contains a backslash, a control character, or a segment that is
                empty, ``.``, or ``..``; or the range ends above 2^64 - 1.
        """
        if not isinstance(uri, str):
            raise InvalidTypeError(f"uri must be a str, found {uri!r}", argument="uri")
        if not is_managed_path(uri):
            raise InvalidInputError(
                "the uri of a managed blob must be a relative path that contains no backslash, no control character, "
                f"and no segment that is empty, '.', or '..'; found {uri!r:.200}"
            )
        start, length = _number("offset", offset, _MAX_U64), _number("size", size, _MAX_U64)
        if start > _MAX_U64 - length:
            raise InvalidInputError(f"the range of a managed blob must end at or below 2^64 - 1: {offset=}, {size=}")
        base = None if base_id is None else _number("base_id", base_id, _MAX_U32)
        self._add((MANAGED if base is None else MANAGED_IN_BASE, None, uri, base, length, start))

    def append(self, value: BlobDescriptor) -> None:
        """Add a descriptor created by a sidecar writer."""
        self._add(_checked(value)._row())

    def extend(self, values: Iterable[BlobDescriptor]) -> None:
        """Add descriptors created by sidecar writers. If any value is not a descriptor, nothing is added."""
        rows = [_checked(value)._row() for value in values]
        if rows:
            self._require_open()
            self._rows += rows

    def append_inline(self, data: bytes | bytearray | memoryview | Sequence[int]) -> None:
        """Add a value given as bytes; it is stored in the data file."""
        self._add((INLINE, blob_bytes(data), None, None, None, None))

    def append_null(self) -> None:
        """Add a null."""
        self._add(None)

    def finish(self) -> pa.StructArray:
        """Return the column, which has the type of :attr:`field`, and close the builder."""
        self._require_open()
        self._is_open = False
        self._flush()
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else pa.concat_arrays([*parts, pa.array([], PREPARED_TYPE)])

    def _add(self, row: tuple[Any, ...] | None) -> None:
        self._require_open()
        self._rows.append(row)

    def _flush(self) -> None:
        """Convert the rows that were added one by one into an array."""
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        nothing = (None,) * PREPARED_TYPE.num_fields
        columns = zip(*[nothing if row is None else row for row in rows], strict=True)
        members = [pa.array(column, member.type) for column, member in zip(columns, PREPARED_TYPE, strict=True)]
        mask = pa.array([row is None for row in rows], pa.bool_()) if None in rows else None
        self._parts.append(pa.StructArray.from_arrays(members, fields=list(PREPARED_TYPE), mask=mask))

    def _require_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError("the array builder is already finished")


def packed_array(
    blob_id: int, positions: NDArray[np.uint64], sizes: NDArray[np.uint64], valid: NDArray[np.bool_] | None = None
) -> pa.StructArray:
    """Return an array of descriptors for values in one shared sidecar.

    Args:
        blob_id: id of the sidecar.
        positions: position of each value in the sidecar, shape (num_values,).
        sizes: size of each value in bytes, shape (num_values,).
        valid: mask of the non-null values, shape (num_values,); None if there are no nulls.

    Raises:
        InvalidInputError: a range ends above 2^64 - 1.
    """
    if bool((positions > np.uint64(_MAX_U64) - sizes).any()):
        raise InvalidInputError("the range of a packed blob must end at or below 2^64 - 1")
    num_values = len(sizes)
    mask = None if valid is None else ~valid
    members = [
        pa.array(np.full(num_values, PACKED, np.uint8), mask=mask),
        pa.nulls(num_values, pa.large_binary()),
        pa.nulls(num_values, pa.string()),
        pa.array(np.full(num_values, blob_id, np.uint32), mask=mask),
        pa.array(sizes, mask=mask),
        pa.array(positions, mask=mask),
    ]
    nulls = None if mask is None else pa.array(mask)
    return pa.StructArray.from_arrays(members, fields=list(PREPARED_TYPE), mask=nulls)


def blob_bytes(data: object) -> bytes:
    """Return a blob value as bytes.

    Raises:
        InvalidTypeError: the value is neither bytes nor a list of numbers.
        InvalidInputError: a number is not in the range from 0 to 255.
    """
    if isinstance(data, bytes):
        return data
    if isinstance(data, (list, tuple)):
        try:
            return bytes(data)
        except TypeError as error:
            raise InvalidTypeError(f"a blob given as a list must contain whole numbers: {error}") from error
        except ValueError as error:
            raise InvalidInputError(f"a blob given as a list must contain numbers from 0 to 255: {error}") from error
    try:
        return bytes(memoryview(data))  # type: ignore[arg-type]  # whatever has no bytes is refused
    except TypeError as error:
        raise InvalidTypeError(
            f"a blob must be bytes-like or a list of numbers, found {type(data).__name__}"
        ) from error


def checked_blob_id(blob_id: int) -> int:
    """Check the id of a sidecar and return it.

    Raises:
        InvalidInputError: the id is 0 or not an unsigned 32-bit integer.
        InvalidTypeError: the id is not a whole number.
    """
    number = _number("blob_id", blob_id, _MAX_U32)
    if not number:
        raise InvalidInputError("blob_id must be at least 1; blob id 0 is reserved")
    return number


def _checked(value: object) -> BlobDescriptor:
    if not isinstance(value, BlobDescriptor):
        raise InvalidTypeError(f"a value of the array must be a BlobDescriptor, found {type(value).__name__}")
    return value


def _number(name: str, value: int, most: int) -> int:
    try:
        number = index(value)
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a whole number, found {value!r}", argument=name) from error
    if not 0 <= number <= most:
        raise InvalidInputError(f"{name} must be between 0 and {most}, found {number}")
    return number


def _words(name: str, values: Sequence[int]) -> NDArray[np.uint64]:
    try:
        array = pa.array(values, pa.uint64())
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be whole numbers between 0 and 2^64 - 1: {error}") from error
    if array.null_count:
        raise InvalidInputError(f"{name} must be whole numbers, found None")
    words: NDArray[np.uint64] = array.to_numpy()
    return words
