"""ManifestFile: the binary layout of a manifest file.

::

    offset 0   [dictionaries]   values of 0.1 tables     positions in Field.dictionary, see manifest_dictionaries.py
               [IndexSection]   u32 length | message     position in Manifest.index_section
               [Transaction]    u32 length | message     position in Manifest.transaction_section
    P          Manifest         u32 length | message
    end - 16   i64 P
    end - 8    u16 0, u16 2     format version 0.2
    end - 4    "LANC"

Position 0 is valid, so code must test whether a position is present, not whether it is 0. Early releases stored the
position of the transaction in field 21 (``transaction_section_deprecated``), which is used if field 23 is absent.

Source: ``lance.table.Manifest``; files of pylance 14.0.2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from lance_core.buffers.byte_reader import ByteReader
from lance_core.errors import CorruptDataError
from lance_core.proto import pb_table
from lance_core.table.manifest_dictionaries import parse_dictionaries, place_dictionaries
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

__all__ = ["ManifestFile", "is_kept_inline", "parse_manifest_file", "serialize_manifest_file"]

_MAX_INLINE_TRANSACTION_BYTES: Final = 20 * 1024 * 1024
"""A transaction with more bytes than this is stored only as a file below ``_transactions/``."""

_MAGIC: Final = b"LANC"
_TRAILER: Final = struct.Struct("<qHH4s")
_LENGTH: Final = struct.Struct("<I")
_FORMAT_MAJOR: Final = 0
_FORMAT_MINOR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """The sections of a manifest file.

    Attributes:
        message: the manifest; never changed after parsing.
        index_section: serialized ``IndexSection``; None if the version has no index.
        transaction: serialized ``Transaction``; None if it is not stored inline.
        dictionaries: maps field ids to the values of the dictionary columns of a table in format 0.1.
    """

    message: pb_table.Manifest
    index_section: bytes | None = None
    transaction: bytes | None = None
    dictionaries: Mapping[int, pa.Array] = field(default_factory=dict)


def is_kept_inline(transaction: bytes) -> bool:
    """Return whether a serialized transaction is small enough to be stored in the manifest, in addition to its file."""
    return len(transaction) <= _MAX_INLINE_TRANSACTION_BYTES


def parse_manifest_file(buffer: pa.Buffer | bytes, path: str) -> ManifestFile:
    """Parse the bytes of a manifest file.

    Args:
        buffer: the whole file.
        path: path of the file, for error messages.

    Raises:
        CorruptDataError: the bytes are not a manifest file.
        NotSupportedError: a dictionary of a table in format 0.1 has values of a type that the format does not support.
    """
    reader = ByteReader(buffer, f"manifest {path}")
    position = _manifest_position(reader, path)
    data = _section(reader, position, "the manifest", path)
    try:
        message = pb_table.Manifest.FromString(data)
    except DecodeError as error:
        raise CorruptDataError(f"manifest {path}: the message cannot be decoded: {error}", path=path) from error
    transaction_position = _transaction_position(message)
    return ManifestFile(
        message=message,
        index_section=(
            _section(reader, message.index_section, "the index section", path)
            if message.HasField("index_section")
            else None
        ),
        transaction=(
            _section(reader, transaction_position, "the transaction", path)
            if transaction_position is not None
            else None
        ),
        dictionaries=parse_dictionaries(message, buffer, path),
    )


def serialize_manifest_file(
    message: pb_table.Manifest,
    *,
    index_section: bytes | None,
    transaction: bytes | None,
    dictionaries: Mapping[int, pa.Array] | None = None,
) -> bytes:
    """Return the content of a manifest file.

    Args:
        message: the manifest, in which the positions of both sections and of the dictionaries are set.
        index_section: serialized ``IndexSection``, or None.
        transaction: serialized ``Transaction`` to store inline, or None.
        dictionaries: maps field ids to the values of the dictionary columns of a table in format 0.1.
    """
    message.ClearField("index_section")
    message.ClearField("transaction_section")
    message.ClearField("transaction_section_deprecated")
    parts = [place_dictionaries(message, dictionaries or {})]
    position = len(parts[0])
    if index_section is not None:
        message.index_section = position
        parts += [_LENGTH.pack(len(index_section)), index_section]
        position += _LENGTH.size + len(index_section)
    if transaction is not None:
        message.transaction_section = position
        parts += [_LENGTH.pack(len(transaction)), transaction]
        position += _LENGTH.size + len(transaction)
    body = message.SerializeToString()
    parts += [_LENGTH.pack(len(body)), body, _TRAILER.pack(position, _FORMAT_MAJOR, _FORMAT_MINOR, _MAGIC)]
    return b"".join(parts)


def _manifest_position(reader: ByteReader, path: str) -> int:
    num_bytes = reader.remaining_bytes
    if num_bytes == 0:
        raise CorruptDataError(
            f"manifest {path} is empty: a crashed writer left it, and nothing was committed; remove this file",
            path=path,
            expected=_TRAILER.size,
            found=0,
        )
    if num_bytes < _TRAILER.size:
        raise CorruptDataError(
            f"manifest {path}: the file has {counted(num_bytes, 'byte')}, expected at least {_TRAILER.size}",
            path=path,
            expected=_TRAILER.size,
            found=num_bytes,
        )
    reader.seek(num_bytes - _TRAILER.size)
    # The format version is not checked: the reference accepts any value.
    position, _, _, magic = _TRAILER.unpack(reader.take(_TRAILER.size, "the trailer"))
    if magic != _MAGIC:
        raise CorruptDataError(
            f"manifest {path}: the file ends in {magic!r}, expected {_MAGIC!r}", path=path, expected=_MAGIC, found=magic
        )
    return int(position)


def _transaction_position(message: pb_table.Manifest) -> int | None:
    if message.HasField("transaction_section"):
        return message.transaction_section
    if message.HasField("transaction_section_deprecated"):
        return message.transaction_section_deprecated
    return None


def _section(reader: ByteReader, position: int, what: str, path: str) -> bytes:
    try:
        reader.seek(position)
        num_bytes = reader.u32(f"the length of {what}")
        return bytes(reader.take(num_bytes, what))
    except CorruptDataError as error:
        raise CorruptDataError(str(error), **{**error.context, "path": path}) from error
