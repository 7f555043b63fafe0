"""Progress of compacting the write-ahead log into a table: one entry per shard in the system index of the log.

A writer with a write-ahead log writes rows to shards, each a series of numbered generations, and merges them into the
table later. The merging commit records the newest merged generation of each shard in the system index. All other
content of the index details is kept unchanged.

Source: ``lance.table.MemWalIndexDetails``, field 9; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.proto import pb_table
from lance_core.table.index_metadata import MEM_WAL_INDEX
from lance_core.table.index_rules import decode_index_section, with_indices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["absorbed_generations", "with_absorbed_tables"]

_MILLISECONDS: Final = 1000


def absorbed_generations(tables: Iterable[pb_table.CompactedSsTable]) -> Mapping[bytes, int]:
    """Map each shard id to the newest compacted generation of the shard."""
    newest: dict[bytes, int] = {}
    for table in tables:
        newest[table.shard_id.uuid] = max(table.generation, newest.get(table.shard_id.uuid, 0))
    return newest


def with_absorbed_tables(
    section: bytes | None, tables: Iterable[pb_table.CompactedSsTable], *, version: int
) -> bytes | None:
    """Record compacted generations. The entry of the system index gets a new UUID and moves to the end of the section.

    Args:
        section: serialized ``IndexSection``.
        tables: the compacted generations; if empty, nothing changes.
        version: the version being committed.

    Raises:
        InvalidInputError: the table has no write-ahead log.
        CorruptDataError: the index section, or the details of the system index, cannot be decoded.
    """
    absorbed = absorbed_generations(tables)
    if not absorbed:
        return section
    found = next((index for index in decode_index_section(section) if index.name == MEM_WAL_INDEX), None)
    if found is None:
        raise InvalidInputError("the table has no write-ahead log to compact data from")
    entry = pb_table.IndexMetadata()
    entry.CopyFrom(found)
    entry.uuid.uuid = uuid.uuid4().bytes
    entry.dataset_version = version
    entry.created_at = time.time_ns() // (1_000_000_000 // _MILLISECONDS)
    entry.index_details.value = _recorded(entry.index_details.value, absorbed)
    return with_indices(section, new=[entry], removed={found.uuid.uuid})


def _recorded(details: bytes, absorbed: Mapping[bytes, int]) -> bytes:
    try:
        message = pb_table.MemWalIndexDetails.FromString(details)
    except DecodeError as error:
        raise CorruptDataError(f"the details of index {MEM_WAL_INDEX} cannot be decoded: {error}") from error
    known = {table.shard_id.uuid: table for table in message.compacted_sstables}
    for shard_id, generation in absorbed.items():
        if shard_id in known:
            known[shard_id].generation = max(known[shard_id].generation, generation)
        else:
            message.compacted_sstables.add(shard_id=pb_table.UUID(uuid=shard_id), generation=generation)
    return message.SerializeToString()
