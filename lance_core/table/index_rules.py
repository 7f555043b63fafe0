"""Effects of a commit on a table's indices. This library cannot read the indices themselves.

An index covers the rows of the fragments in its bitmap; rows of other fragments are scanned. A bitmap may list
fragments that no longer exist, but must not list a fragment whose current values the index does not contain:

==============================  ====================================================================
change by the commit            effect on the index section
==============================  ====================================================================
rows added, deleted, or moved   none; the section is copied byte for byte
values changed in place         the fragment is removed from every index on one of the changed fields
field dropped                   every index on the field is removed
rows moved, keeping their ids   the new fragment is added to every index that contains row ids,
                                covers all fragments that the rows came from, and is on none of the
                                changed fields
==============================  ====================================================================

If all indices with the same name cover no fragments, one of them is kept to preserve its name and parameters. System
indices are not changed.

The functions ``with_*`` and ``without_*`` take and return a serialized ``IndexSection``, or None if the table has no
index.
They return their argument if nothing changes.

Source: ``lance.table.IndexSection``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_table
from lance_core.table.field_ids import with_relatives
from lance_core.table.fragment_files import rewritten_fields
from lance_core.table.fragment_reuse import FragmentReuse
from lance_core.table.index_metadata import is_system_index, read_fragment_bitmap, type_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lance_core.proto import pb_file

__all__ = [
    "decode_index_section",
    "with_indices",
    "with_moved_fragments",
    "without_dropped_fields",
    "without_empty_indices",
    "without_fragments",
    "without_rewritten_fields",
]

_HOLD_ROW_IDS: Final = frozenset(
    {
        "BitmapIndexDetails",
        "InvertedIndexDetails",
        "LabelListIndexDetails",
        "NGramIndexDetails",
        "VectorIndexDetails",
    }
)
"""Types of indices that contain row ids, which may be stable. All other types contain row addresses, which change if
rows move."""


def decode_index_section(section: bytes | None) -> list[pb_table.IndexMetadata]:
    """Return the indices of a serialized ``IndexSection``, in order; an empty list if ``section`` is None.

    Raises:
        CorruptDataError: the bytes are not an index section.
    """
    if section is None:
        return []
    try:
        return list(pb_table.IndexSection.FromString(section).indices)
    except DecodeError as error:
        raise CorruptDataError(f"the index section cannot be decoded: {error}") from error


def without_fragments(section: bytes | None, fragment_ids: Collection[int], field_ids: Collection[int]) -> bytes | None:
    """Remove fragments from the indices on some fields, because these fields have new values in the fragments.

    An index that a compaction did not remap lists the old fragments but covers the new ones. Therefore, the new
    fragments are first added to its bitmap. If the new fragments are unknown, every fragment is removed from the index.
    """
    if section is None or not fragment_ids or not field_ids:
        return section
    changed = False
    indices = decode_index_section(section)
    reuse = FragmentReuse.of(indices)
    for index in indices:
        if not set(field_ids).isdisjoint((*index.fields, *index.covering_fields)):
            changed |= _take_out(index, fragment_ids, reuse)
    return _encode(indices) if changed else section


def without_rewritten_fields(
    section: bytes | None,
    pairs: Iterable[tuple[pb_table.DataFragment, pb_table.DataFragment]],
    fields: Sequence[pb_file.Field] = (),
) -> bytes | None:
    """Remove fragments from the indices on fields whose data file changed.

    Args:
        section: the serialized ``IndexSection``; None if the table has no index.
        pairs: each changed fragment, before and after the change.
        fields: the fields of the schema.
    """
    if section is None:
        return None
    rewritten: dict[frozenset[int], list[int]] = {}
    for before, after in pairs:
        if before.files != after.files:
            rewritten.setdefault(rewritten_fields(before, after), []).append(after.id)
    for field_ids, fragment_ids in rewritten.items():
        section = without_fragments(section, fragment_ids, with_relatives(fields, field_ids))
    return section


def with_moved_fragments(
    section: bytes | None, *, new_ids: Sequence[int], source_ids: Collection[int], field_ids: Collection[int]
) -> bytes | None:
    """Add new fragments, whose rows kept their ids, to the indices that cover all fragments that contained these rows.

    Args:
        section: the serialized ``IndexSection``; None if the table has no index.
        new_ids: ids of the fragments that contain only moved rows.
        source_ids: ids of all fragments from which rows were moved.
        field_ids: ids of the fields whose values changed in the move.
    """
    if section is None or not new_ids or not source_ids:
        return section
    changed = False
    indices = decode_index_section(section)
    for index in indices:
        if is_system_index(index.name) or type_name(index) not in _HOLD_ROW_IDS:
            continue
        if not set(field_ids).isdisjoint((*index.fields, *index.covering_fields)):
            continue
        covered = read_fragment_bitmap(index)
        if covered is not None and all(fragment_id in covered for fragment_id in source_ids):
            changed |= _set_bitmap(index, add=new_ids)
    return _encode(indices) if changed else section


def without_dropped_fields(section: bytes | None, field_ids: Collection[int]) -> bytes | None:
    """Remove the indices on fields that are not in the schema.

    Args:
        section: the serialized ``IndexSection``; None if the table has no index.
        field_ids: ids of all fields in the schema.
    """
    indices = decode_index_section(section)
    known = set(field_ids)
    kept = [index for index in indices if is_system_index(index.name) or known.issuperset(index.fields)]
    return section if len(kept) == len(indices) else _encode(kept)


def without_empty_indices(section: bytes | None) -> bytes | None:
    """Remove the indices that cover no fragments, but keep at least one index for each name."""
    indices = decode_index_section(section)
    kept = [
        index for index in indices if is_system_index(index.name) or index in _segments_to_keep(indices, index.name)
    ]
    return section if len(kept) == len(indices) else _encode(kept)


def with_indices(
    section: bytes | None, *, new: Iterable[pb_table.IndexMetadata], removed: Collection[bytes]
) -> bytes | None:
    """Add indices and remove others by UUID; a new index replaces an existing one with the same UUID."""
    added = list(new)
    gone = {*removed, *(index.uuid.uuid for index in added)}
    indices = decode_index_section(section)
    kept = [index for index in indices if index.uuid.uuid not in gone]
    return section if len(kept) == len(indices) and not added else _encode([*kept, *added])


def _segments_to_keep(indices: Iterable[pb_table.IndexMetadata], name: str) -> list[pb_table.IndexMetadata]:
    """Return the indices of one name that cover fragments, or the oldest index if none does."""
    segments = [index for index in indices if index.name == name]
    filled = [index for index in segments if not _is_empty(index)]
    return filled or [min(segments, key=lambda index: index.dataset_version)]


def _is_empty(index: pb_table.IndexMetadata) -> bool:
    """Return whether the index is known to cover no fragments."""
    covered = read_fragment_bitmap(index)
    return covered is not None and not covered


def _take_out(index: pb_table.IndexMetadata, fragment_ids: Collection[int], reuse: FragmentReuse) -> bool:
    """Remove fragments from an index; return False if it does not cover them."""
    covered = read_fragment_bitmap(index)
    if covered is None:
        return False
    present = reuse.present_fragments(covered)
    if reuse.is_known and not any(fragment_id in present for fragment_id in fragment_ids):
        return False
    return _set_bitmap(index, add=present, remove={*(covered - present), *fragment_ids})


def _set_bitmap(index: pb_table.IndexMetadata, *, add: Iterable[int] = (), remove: Iterable[int] = ()) -> bool:
    """Change a bitmap in place; return False if it does not change or does not exist."""
    # Imported on first use: few tables have an index.
    from pyroaring import BitMap

    before = read_fragment_bitmap(index)
    if before is None:
        return False
    after = (before | BitMap(add)) - BitMap(remove)
    if after == before:
        return False
    # Rebuilt, without run containers.
    index.fragment_bitmap = BitMap(after.to_array(), optimize=False).serialize()
    return True


def _encode(indices: Sequence[pb_table.IndexMetadata]) -> bytes | None:
    return pb_table.IndexSection(indices=indices).SerializeToString() if indices else None
