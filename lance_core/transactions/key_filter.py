"""Key filters: approximate sets of the primary keys that a merge inserted, used to rule out a key common to two merges.

A filter is either the set of all key hashes, or a split-block Bloom filter with blocks of eight 32-bit words: a key
sets one bit in each word of one block. Two Bloom filters of the same size share a key only if some block has a common
bit in each of its eight words.

Source: ``lance.table.Transaction.KeyExistenceFilter``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from lance_core.proto import pb_transaction

__all__ = ["may_share_keys"]

_WORDS: Final = 8
"""Number of 32-bit words per block."""
_WORD_BYTES: Final = 4


def may_share_keys(
    one: pb_transaction.Transaction.KeyExistenceFilter, other: pb_transaction.Transaction.KeyExistenceFilter
) -> bool:
    """Return whether a key may be in both filters; True if they cannot be compared."""
    kind = one.WhichOneof("data")
    if list(one.field_ids) != list(other.field_ids) or kind != other.WhichOneof("data"):
        return True
    if kind == "exact":
        return not set(one.exact.key_hashes).isdisjoint(other.exact.key_hashes)
    return kind is None or _blocks_meet(one.bloom, other.bloom)


def _blocks_meet(one: pb_transaction.Transaction.BloomFilter, other: pb_transaction.Transaction.BloomFilter) -> bool:
    def size(each: pb_transaction.Transaction.BloomFilter) -> tuple[int, int, float, int]:
        return each.num_bits, each.number_of_items, each.probability, len(each.bitmap)

    if size(one) != size(other) or len(one.bitmap) % (_WORDS * _WORD_BYTES):
        return True
    common = np.frombuffer(one.bitmap, "<u4") & np.frombuffer(other.bitmap, "<u4")
    return bool(np.any(np.all(common.reshape(-1, _WORDS) != 0, axis=1)))
