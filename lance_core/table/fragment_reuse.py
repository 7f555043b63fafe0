"""The system index ``__lance_frag_reuse``: records which fragments replaced others, for indices that were not remapped.

A compaction that defers the remapping of indices leaves them unchanged, so their bitmaps still list the old fragments.
Such an index nevertheless covers the new fragments. To determine them, readers process the compactions in order: for
each group, they remove the old fragments from the bitmap and, if it contained all of them, add the new fragments. ::

    index on b       {0, 1, 2}
    compaction       0, 1, 2  ->  3
    covers           {3}

Therefore, a bitmap must be updated in this way before a fragment id is removed from it. Records in a separate file, or
in the field ``transitions``, are not supported; the coverage of an index on such a table is unknown.

Source: ``lance.table.FragmentReuseIndexDetails``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from lance_core.proto import pb_table
from lance_core.table.index_metadata import FRAGMENT_REUSE_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyroaring import BitMap

__all__ = ["FragmentReuse"]


@dataclass(frozen=True, slots=True)
class FragmentReuse:
    """Records which fragments replaced others.

    Attributes:
        groups: old and new fragments of each rewrite group, the oldest group first.
        is_known: False if this library cannot read the records.
    """

    groups: tuple[tuple[frozenset[int], frozenset[int]], ...] = ()
    is_known: bool = True

    @classmethod
    def of(cls, indices: Iterable[pb_table.IndexMetadata]) -> FragmentReuse:
        """Read the records from a table's indices; there are none if no compaction deferred the remapping."""
        groups: list[tuple[frozenset[int], frozenset[int]]] = []
        for index in indices:
            if index.name == FRAGMENT_REUSE_INDEX:
                content = _inline_content(index)
                if content is None:
                    return cls(is_known=False)
                groups += (
                    (
                        frozenset(each.id for each in group.old_fragments),
                        frozenset(each.id for each in group.new_fragments),
                    )
                    for version in content.legacy_versions
                    for group in version.groups
                )
        return cls(tuple(groups))

    def present_fragments(self, covered: BitMap) -> BitMap:
        """Return the fragments that an index with the given bitmap covers; empty if unknown.

        If the index covers only some of the old fragments of a group, it covers none of the group's fragments.
        """
        # Imported on first use: few tables have an index.
        from pyroaring import BitMap

        if not self.is_known:
            return BitMap()
        found = BitMap(covered)
        for old, new in self.groups:
            is_covered = bool(old) and all(fragment_id in found for fragment_id in old)
            found -= BitMap(old)
            if is_covered:
                found |= BitMap(new)
        return found


def _inline_content(index: pb_table.IndexMetadata) -> pb_table.FragmentReuseIndexDetails.InlineContent | None:
    try:
        details = pb_table.FragmentReuseIndexDetails.FromString(index.index_details.value)
    except DecodeError:
        return None
    if details.WhichOneof("content") != "inline" or details.inline.transitions:
        return None
    return details.inline
