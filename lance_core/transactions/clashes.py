"""Conflict rules that depend on the content of both operations: one function for each letter of the conflict table.

Every function takes our operation, which is about to be committed, and the other operation, which has already been
committed, and returns a verdict. If the operations do not record enough to decide, the function reports a conflict.

Source: behavior of pylance 14.0.2; ``docs/format-notes/conflicts.md`` lists the differences.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.table.index_metadata import MEM_WAL_INDEX
from lance_core.table.mem_wal import absorbed_generations
from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.operations.data_overlay import DataOverlay
from lance_core.transactions.operations.data_replacement import DataReplacement
from lance_core.transactions.operations.map_update import MapUpdate
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.project import Project
from lance_core.transactions.operations.update import Update
from lance_core.transactions.operations.update_bases import UpdateBases
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.operations.update_mem_wal_state import UpdateMemWalState
from lance_core.transactions.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lance_core.proto import pb_table, pb_transaction
    from lance_core.transactions.operations.operation import Operation

__all__ = ["CLASHES", "may_share_keys"]

_BLOCK_WORDS: Final = 8
"""Number of 32-bit words per block of a Bloom filter."""
_WORD_BYTES: Final = 4


def _retry_if(clashes: bool) -> Verdict:  # its only argument
    return Verdict.RETRYABLE if clashes else Verdict.COMPATIBLE


def _refuse_if(clashes: bool) -> Verdict:  # its only argument
    return Verdict.INCOMPATIBLE if clashes else Verdict.COMPATIBLE


def one_fragment(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether both operations modify the same fragment."""
    return _retry_if(_share_fragment(ours, theirs))


def rows_of_one_fragment(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether both operations delete rows of the same fragment, or are updates that may insert the same key."""
    if isinstance(ours, Update) and isinstance(theirs, Update) and _may_insert_one_key(ours, theirs):
        return Verdict.RETRYABLE
    return Verdict.MERGEABLE if _share_fragment(ours, theirs) else Verdict.COMPATIBLE


def one_fragment_or_key(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether both operations modify the same fragment, or are updates that may have inserted the same key."""
    inserts = isinstance(ours, Update) and isinstance(theirs, Update) and _may_insert_one_key(ours, theirs)
    return _retry_if(inserts or _share_fragment(ours, theirs))


def inserts_by_key(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether our operation inserts rows by primary key, while the other one added rows with unknown keys."""
    del theirs
    return _retry_if(isinstance(ours, Update) and ours.inserted_rows is not None)


def one_setting(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether both operations change the same config or table metadata key, or metadata of the same field."""
    return _refuse_if(
        _config_clashes(ours, theirs) or _table_metadata_clashes(ours, theirs) or _field_metadata_clashes(ours, theirs)
    )


def one_index_name(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether both operations create an index with the same name."""
    mine, others = (each.names() if isinstance(each, CreateIndex) else frozenset() for each in (ours, theirs))
    return _retry_if(not mine.isdisjoint(others))


def index_on_replaced_field(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether one operation rewrites a field on which the other one creates an index."""
    mine, others = (
        each.field_ids() if isinstance(each, (CreateIndex, DataReplacement)) else frozenset() for each in (ours, theirs)
    )
    return _retry_if(not mine.isdisjoint(others))


def one_replaced_cell(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether both operations rewrite the same field of the same fragment."""
    mine, others = (
        {(part.fragment_id, field_id) for part in each.replacements for field_id in part.new_file.live_field_ids}
        if isinstance(each, DataReplacement)
        else set()
        for each in (ours, theirs)
    )
    return _retry_if(not mine.isdisjoint(others))


def replaces_in_removed_fragment(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether the other operation removed a fragment for which our operation has a new data file."""
    return _refuse_if(not (ours.touched_fragments() or frozenset()).isdisjoint(theirs.removed_fragments()))


def replaces_updated_values(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether an update removed or moved rows of a fragment that gets a new file, or rewrote its fields."""
    removed = replaces_in_removed_fragment(ours, theirs)
    if removed is not Verdict.COMPATIBLE or not isinstance(theirs, Update) or not isinstance(ours, DataReplacement):
        return removed
    rewritten = not ours.field_ids().isdisjoint(theirs.fields_modified)
    return _retry_if(_share_fragment(ours, theirs) and (theirs.moves_rows or rewritten))


def overlays_removed_fragment(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether the other operation removed a fragment for which our operation has overlays."""
    return _retry_if(not (ours.touched_fragments() or frozenset()).isdisjoint(theirs.removed_fragments()))


def overlay_and_moved_rows(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether one operation adds overlays to a fragment, and the other one removes it or moves its rows."""
    update = next((each for each in (ours, theirs) if isinstance(each, Update)), None)
    if update is None or not _share_fragment(ours, theirs):
        return Verdict.COMPATIBLE
    overlaid = (theirs if update is ours else ours).touched_fragments() or frozenset()
    return _retry_if(update.moves_rows or not overlaid.isdisjoint(update.removed_fragment_ids))


def overlay_on_changed_field(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether our change rewrites a field for which the other operation added an overlay in the same fragment."""
    if not isinstance(ours, Update) or not isinstance(theirs, DataOverlay):
        return Verdict.COMPATIBLE
    overlaid = {field_id for group in theirs.groups for file in group.overlays for field_id in file.data_file.fields}
    return _retry_if(_share_fragment(ours, theirs) and not overlaid.isdisjoint(ours.fields_modified))


def updates_dropped_field(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether the other operation dropped a field that our change rewrote."""
    return _retry_if(isinstance(ours, Update) and _drops(theirs, ours.fields_modified))


def replaces_dropped_field(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether the other operation dropped a field whose data our change replaces."""
    return _refuse_if(isinstance(ours, DataReplacement) and _drops(theirs, ours.field_ids()))


def one_base(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether both operations add a base path with the same id, name, or path."""
    mine, others = (each.new_bases if isinstance(each, UpdateBases) else () for each in (ours, theirs))
    return _refuse_if(any(_same_base(one, other) for one in mine for other in others))


def files_below_moved_base(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether one operation moves a base path below which the other has written files."""
    return _retry_if(_writes_below_bases_of(ours, theirs) or _writes_below_bases_of(theirs, ours))


def one_shard(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether both operations compacted the same shard of the write-ahead log; if so, our data must be newer."""
    mine, others = (
        absorbed_generations(each.absorbed_tables) if isinstance(each, (Update, UpdateMemWalState)) else {}
        for each in (ours, theirs)
    )
    shared = mine.keys() & others.keys()
    if any(others[shard] >= mine[shard] for shard in shared):
        return Verdict.INCOMPATIBLE
    return _retry_if(bool(shared))


def log_was_set_up(ours: Operation, theirs: Operation) -> Verdict:
    """Check whether the other operation set up the write-ahead log again."""
    del ours
    return _retry_if(isinstance(theirs, CreateIndex) and MEM_WAL_INDEX in theirs.names())


def _may_insert_one_key(ours: Update, theirs: Update) -> bool:
    """Return whether both updates may have inserted the same key; False if ours has no key filter."""
    if ours.inserted_rows is None:
        return False
    return theirs.inserted_rows is None or may_share_keys(ours.inserted_rows, theirs.inserted_rows)


def _share_fragment(ours: Operation, theirs: Operation) -> bool:
    """Return whether both operations modified the same fragment; True if that is unknown."""
    mine, others = ours.touched_fragments(), theirs.touched_fragments()
    return mine is None or others is None or not mine.isdisjoint(others)


def _drops(operation: Operation, field_ids: Iterable[int]) -> bool:
    return isinstance(operation, Project) and not set(operation.schema.field_ids()).issuperset(field_ids)


def _same_base(one: pb_table.BasePath, other: pb_table.BasePath) -> bool:
    if one.path == other.path or (one.id and one.id == other.id):
        return True
    return one.HasField("name") and other.HasField("name") and one.name == other.name


def _writes_below_bases_of(writing: Operation, moving: Operation) -> bool:
    # A base that was only added has no files yet.
    moved = {base.id for base in moving.new_bases if base.id} if isinstance(moving, UpdateBases) else set()
    return bool(moved) and any(
        file.HasField("base_id") and file.base_id in moved
        for fragment in writing.added_fragments()
        for file in fragment.message.files
    )


def _config_clashes(ours: Operation, theirs: Operation) -> bool:
    """Return whether one side sets a key that the other sets or removes; removing a key twice is not a conflict."""
    mine, others = _config_of(ours), _config_of(theirs)
    mine_set, others_set = ({key for key, value in m.items() if value is not None} for m in (mine, others))
    return not (mine_set.isdisjoint(others) and others_set.isdisjoint(mine))


def _table_metadata_clashes(ours: Operation, theirs: Operation) -> bool:
    mine, others = (getattr(operation, "table_metadata", None) for operation in (ours, theirs))
    if not (isinstance(mine, MapUpdate) and isinstance(others, MapUpdate)):
        return False
    return mine.replace or others.replace or not mine.entries.keys().isdisjoint(others.entries)


def _field_metadata_clashes(ours: Operation, theirs: Operation) -> bool:
    if not (isinstance(ours, UpdateConfig) and isinstance(theirs, UpdateConfig)):
        return False
    return not ours.field_metadata.keys().isdisjoint(theirs.field_metadata)


def _config_of(operation: Operation) -> Mapping[str, str | None]:
    if isinstance(operation, Overwrite):
        return operation.config_upserts
    if isinstance(operation, UpdateConfig) and operation.config is not None:
        return operation.config.entries
    return {}


CLASHES: Final[Mapping[str, Callable[[Operation, Operation], Verdict]]] = MappingProxyType(
    {
        "r": one_fragment,
        "m": rows_of_one_fragment,
        "i": one_fragment_or_key,
        "k": inserts_by_key,
        "x": one_setting,
        "n": one_index_name,
        "f": index_on_replaced_field,
        "c": one_replaced_cell,
        "g": replaces_in_removed_fragment,
        "h": replaces_updated_values,
        "e": overlays_removed_fragment,
        "o": overlay_and_moved_rows,
        "v": overlay_on_changed_field,
        "u": updates_dropped_field,
        "d": replaces_dropped_field,
        "a": files_below_moved_base,
        "b": one_base,
        "w": one_shard,
        "l": log_was_set_up,
    }
)
"""Maps each lowercase letter of the conflict table to the function that decides the cells with this letter."""


def may_share_keys(
    one: pb_transaction.Transaction.KeyExistenceFilter, other: pb_transaction.Transaction.KeyExistenceFilter
) -> bool:
    """Return whether a primary key may be in both filters; True if they cannot be compared.

    A filter is either the set of all key hashes, or a split-block Bloom filter with blocks of eight 32-bit words: a key
    sets one bit in each word of one block. Two Bloom filters of the same size share a key only if some block has a
    common bit in each of its eight words.

    Source: ``lance.table.Transaction.KeyExistenceFilter``; behavior of pylance 14.0.2.
    """
    kind = one.WhichOneof("data")
    if list(one.field_ids) != list(other.field_ids) or kind != other.WhichOneof("data"):
        return True
    if kind == "exact":
        return not set(one.exact.key_hashes).isdisjoint(other.exact.key_hashes)
    return kind is None or _blocks_meet(one.bloom, other.bloom)


def _blocks_meet(one: pb_transaction.Transaction.BloomFilter, other: pb_transaction.Transaction.BloomFilter) -> bool:
    def size(each: pb_transaction.Transaction.BloomFilter) -> tuple[int, int, float, int]:
        return each.num_bits, each.number_of_items, each.probability, len(each.bitmap)

    if size(one) != size(other) or len(one.bitmap) % (_BLOCK_WORDS * _WORD_BYTES):
        return True
    common = np.frombuffer(one.bitmap, "<u4") & np.frombuffer(other.bitmap, "<u4")
    return bool(np.any(np.all(common.reshape(-1, _BLOCK_WORDS) != 0, axis=1)))
