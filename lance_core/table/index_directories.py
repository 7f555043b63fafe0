"""Locations of the files of a version's indices: ``_indices/{uuid}/…``, with all files of an index in one directory.

Source: ``lance.table.IndexMetadata``; directories written by pylance 14.0.2.
"""

from __future__ import annotations

import uuid
from typing import Final

from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_table
from lance_core.wording import counted

__all__ = ["index_directories"]

_UUID_BYTES: Final = 16


def index_directories(section: bytes | None) -> dict[str, int | None]:
    """Map the name of each index directory to the id of its base path, or to None for the table's own root.

    Args:
        section: serialized ``IndexSection``; None if the table has no index.

    Raises:
        CorruptDataError: the bytes are not an index section, or the id of an index is not a UUID.
    """
    if section is None:
        return {}
    try:
        message = pb_table.IndexSection.FromString(section)
    except DecodeError as error:
        raise CorruptDataError(f"the index section cannot be decoded: {error}") from error
    found: dict[str, int | None] = {}
    for index in message.indices:
        raw = index.uuid.uuid
        if len(raw) != _UUID_BYTES:
            raise CorruptDataError(
                f"index {index.name!r}: the id has {counted(len(raw), 'byte')}, expected {_UUID_BYTES}",
                expected=_UUID_BYTES,
                found=len(raw),
            )
        found[str(uuid.UUID(bytes=raw))] = index.base_id if index.HasField("base_id") else None
    return found
