"""Writers of sidecars, for callers that write their own data files.

::

    session = LanceFileSession(f"{table}/data")
    packed = session.open_packed_blob_writer("part.lance", 1)     # part/1000….blob
    packed.write_blobs(pa.array([b"one", None, b"three"]))
    column = packed.finish_array("image")                         # descriptors, one per value

For the names of sidecars, see :mod:`lance_core.file.blob_sidecars`. A sidecar becomes visible when it is finished.

**Source:** behavior of ``lance.blob`` of pylance 14.0.2.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import validity_of
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.file.aligned_values import BinaryValues
from lance_core.file.blob_descriptors import BlobDescriptor, blob_bytes, checked_blob_id, packed_array
from lance_core.file.blob_sidecars import sidecar_directory, sidecar_name
from lance_core.file.valid_input import require_valid
from lance_core.schema.prepared_blobs import DEDICATED, PREPARED_TYPE, prepared_arrow_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.io.object_store import ObjectStore, WriteStream

__all__ = ["DedicatedBlobWriter", "PackedBlobWriter"]

_SUFFIX: Final = ".lance"


class _Sidecar:
    """One sidecar that is being written. It is removed if the object is discarded before it is finished."""

    def __init__(self, store: ObjectStore, data_file: str, blob_id: int) -> None:
        self.blob_id = checked_blob_id(blob_id)
        if not data_file.endswith(_SUFFIX):
            raise InvalidInputError(f"the path of a data file must end in {_SUFFIX!r}, found {data_file!r}")
        self._location = store.join(sidecar_directory(data_file), sidecar_name(self.blob_id))
        self._stream: WriteStream | None = store.create(self._location)
        weakref.finalize(self, _give_up, self._stream, os.getpid())

    @property
    def path(self) -> str:
        """Path that the sidecar will have in its store, without a leading slash."""
        return self._location.lstrip("/")

    @property
    def position(self) -> int:
        """Number of bytes written so far."""
        return self.opened().position

    def write(self, data: bytes | pa.Buffer) -> None:
        """Append bytes; a failed write closes the writer."""
        stream = self.opened()
        try:
            stream.write(data)
        except BaseException:
            self._stream = None
            stream.abort()
            raise

    def commit(self) -> None:
        """Make the sidecar visible."""
        stream, self._stream = self.opened(), None
        try:
            stream.commit()
        except BaseException:
            stream.abort()
            raise

    def opened(self) -> WriteStream:
        """Return the stream. Raise ``InvalidInputError`` if the writer is finished."""
        if self._stream is None:
            raise InvalidInputError(f"the blob writer of {self.path} is already finished")
        return self._stream


class PackedBlobWriter:
    """Writes values into a shared sidecar. Created by ``LanceFileSession.open_packed_blob_writer``."""

    def __init__(self, store: ObjectStore, data_file: str, blob_id: int) -> None:
        """See the class docstring."""
        self._sidecar = _Sidecar(store, data_file, blob_id)
        self._parts: list[pa.StructArray] = []
        self._sizes: list[int] = []
        self._start = 0
        self._field: pa.Field | None = None

    @property
    def blob_id(self) -> int:
        """The id of the sidecar."""
        return self._sidecar.blob_id

    @property
    def path(self) -> str:
        """The path of the sidecar."""
        return self._sidecar.path

    @property
    def field(self) -> pa.Field:
        """The field of the array returned by :meth:`finish_array`.

        Raises:
            InvalidInputError: :meth:`finish_array` has not been called.
        """
        if self._field is None:
            raise InvalidInputError("the field of a packed blob writer is only available after finish_array")
        return self._field

    def write_blob(self, data: bytes | bytearray | memoryview | Sequence[int]) -> None:
        """Append one value.

        Raises:
            InvalidTypeError: the value is neither bytes nor a list of numbers.
        """
        content = blob_bytes(data)
        if not self._sizes:
            self._start = self._sidecar.position
        self._sidecar.write(content)
        self._sizes.append(len(content))

    def write_blobs(self, payloads: pa.Array | pa.ChunkedArray) -> None:
        """Append the values of an array or a chunked array.

        The type must be binary, large_binary, binary_view, or fixed-size binary. A null takes no bytes in the sidecar
        and becomes a null descriptor; an empty value has size 0.

        Raises:
            InvalidInputError: the array does not have a binary type, or is malformed.
            InvalidTypeError: the argument is not an array.
        """
        self._sidecar.opened()
        if not isinstance(payloads, (pa.Array, pa.ChunkedArray)):
            raise InvalidTypeError(f"payloads must be a pyarrow array, found {type(payloads).__name__}")
        if not _is_binary(payloads.type):
            raise InvalidInputError(f"payloads must be of a binary type, found {payloads.type}")
        chunks = payloads.chunks if isinstance(payloads, pa.ChunkedArray) else [payloads]
        for chunk in chunks:
            require_valid(chunk, "payloads")
        for chunk in chunks:
            self._write_array(chunk.cast(pa.large_binary()))

    def finish(self) -> list[BlobDescriptor]:
        """Complete the sidecar and return one descriptor per value."""
        array = self._finished()
        members = [array.field(name).to_pylist() for name in ("kind", "blob_id", "blob_size", "position")]
        return [BlobDescriptor(*values) for values in zip(*members, strict=True)]

    def finish_array(self, field_name: str) -> pa.StructArray:
        """Complete the sidecar and return the descriptors as a column.

        Afterward, :attr:`field` is the Arrow field of the column.

        Args:
            field_name: name of the column.
        """
        if not isinstance(field_name, str):
            raise InvalidTypeError(f"field_name must be a str, found {field_name!r}", argument="field_name")
        array = self._finished()
        self._field = prepared_arrow_field(field_name)
        return array

    def _finished(self) -> pa.StructArray:
        self._sidecar.commit()
        self._flush()
        parts, self._parts = self._parts, []
        return pa.concat_arrays([*parts, pa.array([], PREPARED_TYPE)])

    def _flush(self) -> None:
        """Add descriptors for the values that were written one by one."""
        if self._sizes:
            sizes, self._sizes = np.array(self._sizes, np.uint64), []
            self._describe(self._start, sizes, None)

    def _write_array(self, array: pa.LargeBinaryArray) -> None:
        self._flush()
        position = self._sidecar.position
        values = BinaryValues.of(array)
        if values.segments.num_bytes:
            self._sidecar.write(pa.py_buffer(values.segments.gather()))
        self._describe(position, values.sizes.astype(np.uint64), validity_of(array))

    def _describe(self, position: int, sizes: NDArray[np.uint64], valid: NDArray[np.bool_] | None) -> None:
        positions = np.cumsum(sizes, dtype=np.uint64) - sizes + np.uint64(position)
        self._parts.append(packed_array(self.blob_id, positions, sizes, valid))


class DedicatedBlobWriter:
    """Writes one value into its own sidecar. Created by ``LanceFileSession.open_dedicated_blob_writer``."""

    def __init__(self, store: ObjectStore, data_file: str, blob_id: int) -> None:
        """See the class docstring."""
        self._sidecar = _Sidecar(store, data_file, blob_id)

    @property
    def blob_id(self) -> int:
        """The id of the sidecar."""
        return self._sidecar.blob_id

    @property
    def path(self) -> str:
        """The path of the sidecar."""
        return self._sidecar.path

    def write(self, data: bytes | bytearray | memoryview | Sequence[int]) -> None:
        """Append bytes to the value."""
        self._sidecar.write(blob_bytes(data))

    def finish(self) -> BlobDescriptor:
        """Complete the sidecar and return its descriptor."""
        size = self._sidecar.position
        self._sidecar.commit()
        return BlobDescriptor(DEDICATED, self.blob_id, size)


def _is_binary(dtype: pa.DataType) -> bool:
    return dtype in (pa.binary(), pa.large_binary(), pa.binary_view()) or bool(pa.types.is_fixed_size_binary(dtype))


def _give_up(stream: WriteStream, process: int) -> None:
    """Remove the leftovers of a discarded writer; a forked process does not touch its parent's file."""
    if process == os.getpid():
        stream.abort()
