"""Converts (shard id, generation) pairs to and from protobuf messages.

The pairs identify generations of the write-ahead log that have been compacted into the table.
"""

from __future__ import annotations

import uuid as uuid_module
from typing import TYPE_CHECKING

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.proto import pb_table
from lance_core.public.arguments import checked_number

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["absorbed_tables_from_core", "absorbed_tables_to_core"]


def absorbed_tables_to_core(tables: Iterable[tuple[str, int]]) -> tuple[pb_table.CompactedSsTable, ...]:
    """Convert (shard id, generation) pairs to protobuf messages.

    Raises:
        InvalidInputError: a shard id is not a UUID, or a generation is not an unsigned 64-bit integer.
    """
    try:
        pairs = [(uuid_module.UUID(shard).bytes, generation) for shard, generation in tables]
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInputError(f"compacted_sstables must be (shard UUID, generation) pairs: {error}") from error
    return tuple(
        pb_table.CompactedSsTable(
            shard_id=pb_table.UUID(uuid=shard), generation=checked_number("generation", generation, 0, 2**64)
        )
        for shard, generation in pairs
    )


def absorbed_tables_from_core(tables: Iterable[pb_table.CompactedSsTable]) -> list[tuple[str, int]]:
    """Convert protobuf messages to (shard id, generation) pairs.

    Raises:
        CorruptDataError: a shard id is not a UUID.
    """
    try:
        return [(str(uuid_module.UUID(bytes=table.shard_id.uuid)), table.generation) for table in tables]
    except ValueError as error:
        raise CorruptDataError(f"the shard id of a compacted generation is not a UUID: {error}") from error
