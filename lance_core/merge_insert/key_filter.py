"""The filter of the primary keys that a merge inserts, which its transaction records for concurrent writers.

The filter is a split-block Bloom filter of a fixed size, so that the filters of any two merges can be compared. A merge
has a filter only if its keys are the declared primary key.

Source: ``lance.table.Transaction.KeyExistenceFilter``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.join.keys import byte_ranges, complete_keys
from lance_core.merge_insert.rules import primary_key
from lance_core.merge_insert.xxhash64 import xxhash64
from lance_core.proto import pb_transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_core.merge_insert.rules import MergeRules
    from lance_core.merge_insert.source import RowSource
    from lance_core.schema.field import Schema

__all__ = ["key_filter"]

_NUM_ITEMS: Final = 8192
_PROBABILITY: Final = 0.00057
_NUM_BLOCKS: Final = 1024
_BLOCK_WORDS: Final = 8
_SALTS: Final = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)


def key_filter(
    table: Schema, rules: MergeRules, source: RowSource, inserted: npt.NDArray[np.bool_]
) -> pb_transaction.Transaction.KeyExistenceFilter | None:
    """Return the filter, or None if the keys of the merge are not the table's primary key.

    Args:
        table: schema of the table.
        rules: the rules of the merge.
        source: the rows of the source.
        inserted: mask of the rows that the merge inserts.
    """
    fields = primary_key(table)
    if not fields or {top.name for top in fields} != set(rules.keys):
        return None
    words = np.zeros((_NUM_BLOCKS, _BLOCK_WORDS), np.uint32)
    names = [top.name for top in fields]
    for start, batch in source.batches(columns=names):
        here = inserted[start : start + batch.num_rows] & complete_keys(batch.columns)
        keys = _key_bytes(batch.filter(pa.array(here)).columns)
        if keys is not None and len(keys):
            _add(words, xxhash64(*byte_ranges(keys)))
    message = pb_transaction.Transaction.KeyExistenceFilter(field_ids=[top.id for top in fields])
    message.bloom.bitmap = words.astype("<u4").tobytes()
    message.bloom.num_bits = 32 * words.size
    message.bloom.number_of_items = _NUM_ITEMS
    message.bloom.probability = _PROBABILITY
    return message


def _add(words: npt.NDArray[np.uint32], hashes: npt.NDArray[np.uint64]) -> None:
    blocks = ((hashes >> np.uint64(32)) * np.uint64(_NUM_BLOCKS)) >> np.uint64(32)
    bits = (hashes.astype(np.uint32)[:, None] * _SALTS) >> np.uint32(27)
    np.bitwise_or.at(words, blocks.astype(np.int64), np.uint32(1) << bits)


def _key_bytes(columns: Sequence[pa.Array]) -> pa.Array | None:
    """Return the bytes of each key; None if a column's type has no byte form, in which case the filter is empty."""
    parts = [_column_bytes(column) for column in columns]
    if any(part is None for part in parts):
        return None
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()), pa.scalar(b"\0", pa.large_binary()))


def _column_bytes(column: pa.Array) -> pa.Array | None:
    dtype = column.type
    if pa.types.is_integer(dtype):
        wide = column.cast(pa.int64() if pa.types.is_signed_integer(dtype) else pa.uint64())
        return pa.Array.from_buffers(pa.binary(8), len(wide), [None, wide.buffers()[1]], offset=wide.offset).cast(
            pa.large_binary()
        )
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return column.cast(pa.large_string()).cast(pa.large_binary())
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return column.cast(pa.large_binary())
    return None
