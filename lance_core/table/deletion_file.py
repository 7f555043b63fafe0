"""Deletion files: the deleted rows of one fragment.

Every file contains the physical offsets of all deleted rows in its fragment. The manifest records the format; readers
do not derive it from the number of rows.

=======  ==========================================================================================
arrow    Arrow IPC file: one column ``row_id: uint32 not null``, values in any order, any compression
bitmap   portable 32-bit Roaring bitmap, with or without run containers
=======  ==========================================================================================

Name: ``_deletions/{fragment_id}-{read_version}-{id}.arrow`` or ``.bin``.

A fragment's first deletion file is an Arrow file if it lists fewer than 5000 rows, and otherwise a bitmap. A file that
replaces an Arrow file is an Arrow file if it lists at most 5000 rows; a file that replaces a bitmap is a bitmap. If the
deletions of two writers are merged, the result is always written as a bitmap. Files are immutable: the next delete in
the fragment writes a new file, which also lists the rows deleted earlier. If every row is deleted, the fragment is
removed and no file is written.

Source: ``lance.table.DeletionFile``; files of pylance 14.0.2.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.io.removal import remove_objects
from lance_core.proto import pb_table
from lance_core.table.paths import DELETIONS_DIRECTORY
from lance_core.wording import counted

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyroaring import BitMap

    from lance_core.io.object_store import ObjectStore

__all__ = [
    "BITMAP_THRESHOLD_ROWS",
    "DeletionFile",
    "DeletionFileType",
    "deletion_file_path",
    "parse_deletion_file",
    "serialize_deletion_file",
    "write_deletion_file",
]

BITMAP_THRESHOLD_ROWS: Final = 5000
"""The first deletion file of a fragment is a bitmap if it lists at least this many rows."""

_ARROW_SCHEMA: Final = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
_ID_BITS: Final = 64


class DeletionFileType(Enum):
    """Format of a deletion file; the value is the file extension."""

    ARROW = "arrow"
    BITMAP = "bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """The file that lists the deleted rows of a fragment.

    Attributes:
        file_type: format of the file.
        read_version: the version that the deletion was based on.
        id: random number that is part of the file name.
        num_deleted_rows: number of listed rows; 0 if not recorded.
        base_id: id of the base path that contains the file; None for the table's own root.
    """

    file_type: DeletionFileType
    read_version: int
    id: int
    num_deleted_rows: int = 0
    base_id: int | None = None

    def name(self, fragment_id: int) -> str:
        """Return the file name below ``_deletions/``."""
        return f"{fragment_id}-{self.read_version}-{self.id}.{self.file_type.value}"

    @classmethod
    def from_proto(cls, message: pb_table.DeletionFile) -> Self:
        """Parse the message.

        Raises:
            CorruptDataError: the file type is unknown.
        """
        file_type = _TYPES.get(message.file_type)
        if file_type is None:
            raise CorruptDataError(f"unknown deletion file type {message.file_type}; expected 0 (Arrow) or 1 (bitmap)")
        return cls(
            file_type=file_type,
            read_version=message.read_version,
            id=message.id,
            num_deleted_rows=message.num_deleted_rows,
            base_id=message.base_id if message.HasField("base_id") else None,
        )

    def to_proto(self) -> pb_table.DeletionFile:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        message = pb_table.DeletionFile(
            file_type=_NUMBERS[self.file_type],
            read_version=self.read_version,
            id=self.id,
            num_deleted_rows=self.num_deleted_rows,
        )
        if self.base_id is not None:
            message.base_id = self.base_id
        return message


def deletion_file_path(store: ObjectStore, root: str, fragment_id: int, deletion: DeletionFile) -> str:
    """Return the path of a deletion file below the table's own root."""
    return store.join(root, DELETIONS_DIRECTORY, deletion.name(fragment_id))


def write_deletion_file(
    store: ObjectStore,
    root: str,
    *,
    fragment_id: int,
    read_version: int,
    offsets: BitMap,
    as_bitmap: bool | None = None,
    durable: bool = True,
) -> pb_table.DeletionFile:
    """Write the deleted rows of a fragment to a new file. No version refers to it yet.

    Args:
        store: the store of the table.
        root: path of the table in the store.
        fragment_id: the fragment that contains the rows.
        read_version: the version that the deletion is based on.
        offsets: the physical offsets of all deleted rows, including rows deleted earlier.
        as_bitmap: True to write a bitmap, False to write an Arrow file; if None, the number of rows decides, which is
            correct for a fragment's first deletion file.
        durable: whether to ensure, before returning, that the file survives a power loss.

    Returns:
        The message to store in the fragment.

    Raises:
        InvalidInputError: ``offsets`` is empty.
        StorageError: a storage operation failed.
    """
    if not offsets:
        raise InvalidInputError(f"fragment {fragment_id}: a deletion file must list at least one row")
    is_bitmap = len(offsets) >= BITMAP_THRESHOLD_ROWS if as_bitmap is None else as_bitmap
    deletion = DeletionFile(
        file_type=DeletionFileType.BITMAP if is_bitmap else DeletionFileType.ARROW,
        read_version=read_version,
        id=secrets.randbits(_ID_BITS),
        num_deleted_rows=len(offsets),
    )
    path = deletion_file_path(store, root, fragment_id, deletion)
    data = serialize_deletion_file(offsets, deletion.file_type)
    try:
        store.put(path, data, durable=durable)
    except BaseException:
        # The file may exist despite the failure. It can be removed: no other process knows its name.
        remove_objects(store, [path])
        raise
    return deletion.to_proto()


def serialize_deletion_file(offsets: BitMap, file_type: DeletionFileType) -> bytes:
    """Return the bytes of a deletion file; the inverse of :func:`parse_deletion_file`."""
    rows = np.frombuffer(offsets.to_array(), dtype=np.uint32)
    if file_type is DeletionFileType.BITMAP:
        from pyroaring import BitMap

        # Rebuilt because the reference writes no run containers, and the given set may have some.
        return bytes(BitMap(rows, optimize=False).serialize())
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, _ARROW_SCHEMA, options=options) as writer:
        writer.write_batch(pa.record_batch([pa.array(rows)], schema=_ARROW_SCHEMA))
    return bytes(sink.getvalue())


def parse_deletion_file(
    buffer: pa.Buffer, file_type: DeletionFileType, *, physical_rows: int, what: str
) -> npt.NDArray[np.uint32]:
    """Return the offsets of the deleted rows, sorted and unique.

    Args:
        buffer: the whole file.
        file_type: the type recorded in the manifest.
        physical_rows: number of rows in the fragment; every offset must be less than this number.
        what: name of the file, for error messages.

    Returns:
        A read-only array of shape (num_deleted_rows,).

    Raises:
        CorruptDataError: the bytes are not a deletion file, or an offset is outside the fragment.
    """
    offsets = _read_arrow(buffer, what) if file_type is DeletionFileType.ARROW else _read_bitmap(buffer, what)
    if not bool((offsets[:-1] < offsets[1:]).all()):
        offsets = np.unique(offsets)
    if offsets.size and int(offsets[-1]) >= physical_rows:
        raise CorruptDataError(
            f"deletion file {what}: row offset {int(offsets[-1])} is listed, but the fragment has only "
            f"{counted(physical_rows, 'row')}",
            path=what,
            expected=physical_rows,
            found=int(offsets[-1]),
        )
    return offsets


def _read_arrow(buffer: pa.Buffer, what: str) -> npt.NDArray[np.uint32]:
    try:
        with pa.ipc.open_file(buffer) as reader:
            if not reader.schema.equals(_ARROW_SCHEMA):
                raise CorruptDataError(
                    f"deletion file {what}: expected the schema 'row_id: uint32 not null', "
                    f"found {reader.schema.to_string()!r}",
                    path=what,
                )
            table = reader.read_all()
            table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, CorruptDataError):
            raise
        raise CorruptDataError(f"deletion file {what} is not a readable Arrow file: {error}", path=what) from error
    if table.column(0).null_count:
        num_nulls = table.column(0).null_count
        raise CorruptDataError(f"deletion file {what}: expected no null row offsets, found {num_nulls}", path=what)
    return np.asarray(table.column(0).to_numpy(), dtype=np.uint32)


def _read_bitmap(buffer: pa.Buffer, what: str) -> npt.NDArray[np.uint32]:
    # Imported on first use: most tables have no such file.
    from pyroaring import BitMap

    try:
        bitmap = BitMap.deserialize(buffer.to_pybytes())
    except (ValueError, IndexError, MemoryError) as error:
        raise CorruptDataError(f"deletion file {what} is not a readable Roaring bitmap: {error}", path=what) from error
    return np.frombuffer(bitmap.to_array(), dtype=np.uint32)


_TYPES: Final = {
    pb_table.DeletionFile.ARROW_ARRAY: DeletionFileType.ARROW,
    pb_table.DeletionFile.BITMAP: DeletionFileType.BITMAP,
}
_NUMBERS: Final = {file_type: number for number, file_type in _TYPES.items()}
