"""Generations of a write-ahead log that were compacted into the table: conversion between public pairs and messages."""

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
    """Convert pairs of shard id and generation to messages.

    Raises:
        InvalidInputError: a shard id is not a UUID, or a generation is not a number.
    """
    try:
        pairs = [(uuid_module.UUID(shard).bytes, generation) for shard, generation in tables]
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInputError(f"compacted_sstables must be pairs (shard id, generation): {error}") from error
    return tuple(
        pb_table.CompactedSsTable(
            shard_id=pb_table.UUID(uuid=shard), generation=checked_number("generation", generation, 0, 2**64)
        )
        for shard, generation in pairs
    )


def absorbed_tables_from_core(tables: Iterable[pb_table.CompactedSsTable]) -> list[tuple[str, int]]:
    """Convert messages to pairs of shard id and generation.

    Raises:
        CorruptDataError: a shard id is not a UUID.
    """
    try:
        return [(str(uuid_module.UUID(bytes=table.shard_id.uuid)), table.generation) for table in tables]
    except ValueError as error:
        raise CorruptDataError(f"a shard id is not a UUID: {error}") from error
