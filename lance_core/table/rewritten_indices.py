"""Replaces entries of the index section after a rewrite that also updated the row addresses in indices.

An index whose row addresses were updated is replaced by an index with a new id that covers the new fragments instead of
the old ones. The rest of its entry is kept: name, fields, the version from which it was built, and type. Its new files
are in the table's root.

An index that is not listed in the rewrite is unchanged: the fragments that it covers no longer exist, and the new ones
are scanned. An index that is listed but no longer exists was dropped or rewritten by another writer; it is skipped.

Source: ``lance.table.Transaction.Rewrite.rewritten_indices``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError
from lance_core.proto import pb_table
from lance_core.table.index_metadata import read_fragment_bitmap
from lance_core.table.index_rules import decode_index_section

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyroaring import BitMap

    from lance_core.proto import pb_transaction

__all__ = ["with_rewritten_indices"]

_UUID_BYTES = 16


def with_rewritten_indices(
    section: bytes | None,
    rewritten: Collection[pb_transaction.Transaction.Rewrite.RewrittenIndex],
    groups: Sequence[tuple[Collection[int], Collection[int]]],
) -> bytes | None:
    """Replace indices in an index section with the new indices that a rewrite of fragments created.

    Args:
        section: serialized ``IndexSection``; None if the table has no index.
        rewritten: records of the replaced indices and their replacements.
        groups: ids of the old and new fragments of each group; 0 for a new fragment whose id has not been assigned.

    Returns:
        The new section; the ``section`` argument itself if nothing changes.

    Raises:
        InvalidInputError: an index is replaced twice, an id is malformed or in use, an index covers only some of the
            old fragments of a group, or a new fragment of an index has no id yet.
        CorruptDataError: the section, or a bitmap in it, cannot be decoded.
    """
    replacements = {each.old_id.uuid: each for each in rewritten}
    if len(replacements) != len(rewritten):
        raise InvalidInputError("a rewrite replaces the same index twice")
    for each in rewritten:
        if len(each.old_id.uuid) != _UUID_BYTES or len(each.new_id.uuid) != _UUID_BYTES:
            raise InvalidInputError("a rewrite refers to an index by a malformed UUID")
    indices = decode_index_section(section)
    kept = {index.uuid.uuid for index in indices} - replacements.keys()
    changed = False
    for index in indices:
        replacement = replacements.get(index.uuid.uuid)
        if replacement is None:
            continue
        if replacement.new_id.uuid in kept:
            raise InvalidInputError(
                f"index {index.name!r} would be rewritten as {uuid.UUID(bytes=replacement.new_id.uuid)}, which is the "
                "id of another index",
                index=index.name,
            )
        kept.add(replacement.new_id.uuid)
        _replace(index, replacement, groups)
        changed = True
    return pb_table.IndexSection(indices=indices).SerializeToString() if changed else section


def _replace(
    index: pb_table.IndexMetadata,
    replacement: pb_transaction.Transaction.Rewrite.RewrittenIndex,
    groups: Sequence[tuple[Collection[int], Collection[int]]],
) -> None:
    # Imported on first use: few rewrites replace indices.
    from pyroaring import BitMap

    bitmap = read_fragment_bitmap(index)
    if bitmap is None:
        raise InvalidInputError(
            f"index {index.name!r} does not record which fragments it covers; rebuild the index", index=index.name
        )
    for old_ids, new_ids in groups:
        bitmap = _moved(bitmap, index.name, old_ids, new_ids)
    index.uuid.CopyFrom(replacement.new_id)
    index.fragment_bitmap = BitMap(bitmap.to_array(), optimize=False).serialize()
    index.ClearField("base_id")
    del index.files[:]
    index.files.extend(replacement.new_index_files)


def _moved(bitmap: BitMap, name: str, old_ids: Collection[int], new_ids: Collection[int]) -> BitMap:
    from pyroaring import BitMap

    covered = [fragment_id for fragment_id in old_ids if fragment_id in bitmap]
    if not covered:
        return bitmap
    if len(covered) != len(old_ids):
        outside = next(fragment_id for fragment_id in old_ids if fragment_id not in bitmap)
        raise InvalidInputError(
            f"index {name!r} covers fragment {covered[0]} but not fragment {outside}; both are rewritten in "
            "the same group",
            index=name,
        )
    if 0 in new_ids:
        raise InvalidInputError(
            f"index {name!r} was rewritten for a new fragment that has no id; reserve fragment ids first", index=name
        )
    return (bitmap - BitMap(old_ids)) | BitMap(new_ids)
