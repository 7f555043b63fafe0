"""Classes and functions for blobs as Arrow columns, with the same names as in pylance.

**Source:** ``lance.blob`` of pylance 14.0.2.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.schema.field import BLOB_V2

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Blob", "BlobArray", "BlobType", "blob_array", "blob_field"]

_MAX_U64: Final = 2**64 - 1
_MEMBERS: Final = (
    pa.field("data", pa.large_binary()),
    pa.field("uri", pa.utf8()),
    pa.field("position", pa.uint64()),
    pa.field("size", pa.uint64()),
)


@dataclass(frozen=True)
class Blob:
    """A blob value to write: its bytes, or a reference to bytes in another location. For a null, use ``None``.

    Attributes:
        data: the bytes; None for a reference.
        uri: URI of the object that contains the bytes; None if ``data`` is set.
        position: start of the bytes within that object; None, like ``size``, if the value is the whole object.
        size: number of bytes, greater than 0; None if the value is the whole object.

    Raises:
        InvalidInputError: both or neither of data and uri are set, or only one of position and size is set.
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        """Check that the combination of attributes is valid."""
        problem = self._problem()
        if problem is not None:
            raise InvalidInputError(problem)

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Blob:
        """Create a value from its bytes."""
        return Blob(data=bytes(data))

    @staticmethod
    def from_uri(uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """Create a reference to an object at a URI, or to a range of bytes in the object."""
        if (position is not None and position < 0) or (size is not None and size < 0):
            raise InvalidInputError(
                f"position and size of an external blob must not be negative, found {position} and {size}"
            )
        return Blob(uri=uri, position=position, size=size)

    @staticmethod
    def empty() -> Blob:
        """Create an empty value, which is not null."""
        return Blob(data=b"")

    def _problem(self) -> str | None:
        if self.data is not None and self.uri is not None:
            return "a blob cannot have both data and uri"
        if self.uri == "":
            return "the uri of a blob cannot be empty"
        if (self.position is not None or self.size is not None) and self.uri is None:
            return "position and size of a blob require a uri"
        if (self.position is None) != (self.size is None):
            return "an external blob must set both position and size, or neither"
        if self.data is None and self.uri is None:
            return "a blob must set data or uri; use None for a null"
        return "the size of an external blob's range must be greater than zero" if self.size == 0 else None


class BlobType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """The extension type ``lance.blob.v2``.

    The storage type is a struct of data, uri, position, and size; the last two members may be missing.
    """

    def __init__(self) -> None:
        """Create the type with all four members."""
        pa.ExtensionType.__init__(self, pa.struct(_MEMBERS), BLOB_V2)

    def __arrow_ext_serialize__(self) -> bytes:  # pyarrow's name
        """Return an empty string, because the type has no parameters."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BlobType:  # pyarrow's name
        """Create the type for a storage type read from a file or received from another library."""
        members = list(storage_type) if pa.types.is_struct(storage_type) else []
        found = tuple((member.name, member.type) for member in members)
        if found not in (_NAMES_AND_TYPES, _NAMES_AND_TYPES[:2]):
            raise TypeError(
                f"the storage type of {BLOB_V2} must be a struct of data and uri, or of data, uri, position, and "
                f"size; found {storage_type}"
            )
        instance = cls.__new__(cls)
        pa.ExtensionType.__init__(instance, storage_type, BLOB_V2)
        return instance

    def __arrow_ext_class__(self) -> type[BlobArray]:  # pyarrow's name
        """Return the array class of the type."""
        return BlobArray

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle through the storage type."""
        return type(self).__arrow_ext_deserialize__, (self.storage_type, b"")


_NAMES_AND_TYPES: Final = tuple((member.name, member.type) for member in _MEMBERS)


class BlobArray(pa.ExtensionArray):  # type: ignore[misc]  # pyarrow has no types
    """An array of :class:`BlobType`; see :func:`blob_array`."""

    @classmethod
    def from_pylist(cls, values: Sequence[Any]) -> BlobArray:
        """Build an array from bytes, URIs, :class:`Blob` values, and None.

        Raises:
            InvalidTypeError: a value has an unsupported type.
        """
        blobs = [_as_blob(value) for value in values]
        members = [
            pa.array([None if blob is None else getattr(blob, member.name) for blob in blobs], member.type)
            for member in _MEMBERS
        ]
        mask = pa.array([blob is None for blob in blobs], pa.bool_())
        storage = pa.StructArray.from_arrays(members, fields=list(_MEMBERS), mask=mask)
        array: BlobArray = pa.ExtensionArray.from_storage(BlobType(), storage)
        return array


def blob_array(values: Sequence[Any]) -> BlobArray:
    """Build a column of blobs from Python values.

    Args:
        values: bytes-like (the value), str (the URI of the value), :class:`Blob`, or None (null).

    Raises:
        InvalidTypeError: a value has an unsupported type.
    """
    return BlobArray.from_pylist(values)


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """Build the Arrow field of a blob column.

    Args:
        name: name of the field.
        nullable: whether nulls are allowed.
        inline_size_threshold: maximum size in bytes of a value stored in the data file; 64 KiB by default.
        dedicated_size_threshold: a value with more bytes than this gets its own file; 4 MiB by default. This threshold
            is checked before ``inline_size_threshold``.
        pack_file_size_threshold: maximum size in bytes of a file that contains several values; 1 GiB by default.

    Raises:
        InvalidInputError: a threshold is out of range.
        InvalidTypeError: a threshold is not a whole number.
    """
    thresholds = {
        "inline": _threshold("inline_size_threshold", inline_size_threshold, 0),
        "dedicated": _threshold("dedicated_size_threshold", dedicated_size_threshold, 1),
        "pack-file": _threshold("pack_file_size_threshold", pack_file_size_threshold, 1),
    }
    metadata = {
        f"lance-encoding:blob-{key}-size-threshold": str(value)
        for key, value in thresholds.items()
        if value is not None
    }
    return pa.field(name, BlobType(), nullable=nullable, metadata=metadata or None)


def _threshold(name: str, value: int | None, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTypeError(f"{name} must be an int, found {type(value).__name__}")
    if not least <= value <= _MAX_U64:
        raise InvalidInputError(f"{name} must be between {least} and {_MAX_U64}, found {value}")
    return value


def _as_blob(value: Any) -> Blob | None:
    if value is None or isinstance(value, Blob):
        return value
    if isinstance(value, str):
        return Blob(uri=value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Blob(data=bytes(value))
    # pylance's own Blob has the same attributes.
    if type(value).__name__ == "Blob" and hasattr(value, "uri"):
        return Blob(value.data, value.uri, value.position, value.size)
    raise InvalidTypeError(f"a blob must be bytes-like, a str (URI), a Blob, or None; found {type(value).__name__}")


def register() -> None:
    """Register the extension type with Arrow, unless another library in this process has already done so."""
    with suppress(pa.ArrowKeyError):
        pa.register_extension_type(BlobType())


register()
