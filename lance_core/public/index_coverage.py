"""IndexCoverage: which fragments and rows of a version an index covers, from the manifest alone.

A query engine scans the fragments that are not in the bitmap of any segment of an index. If a compaction deferred the
remapping of indices, an index also covers the fragments that replaced those in its bitmap
(:mod:`~lance_core.table.fragment_reuse`).

Source: ``lance.table.IndexMetadata.fragment_bitmap``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lance_core.public.index_records import describe_indices
from lance_core.table.fragment_reuse import FragmentReuse
from lance_core.table.index_metadata import read_fragment_bitmap
from lance_core.table.index_rules import decode_index_section

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest

__all__ = ["IndexCoverage", "index_coverage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCoverage:
    """An index, and the part of a version that it covers.

    Attributes:
        name: name of the index.
        index_type: short name of the index type, such as "BTree"; "Vector" for all vector indices.
        columns: paths of the indexed fields.
        uuids: ids of the segments.
        size_bytes: total size of the files in bytes; None if it was not recorded for every segment.
        is_known: False if the manifest does not record which fragments the index covers, or if the records cannot be
            read; the index then counts as covering all fragments.
        indexed_rows: number of live rows in the covered fragments.
        unindexed_rows: number of live rows in the other fragments.
        unindexed_fragments: ids of the fragments that the index does not cover, in the order of the manifest.
    """

    name: str
    index_type: str
    columns: tuple[str, ...]
    uuids: tuple[str, ...]
    size_bytes: int | None
    is_known: bool
    indexed_rows: int
    unindexed_rows: int
    unindexed_fragments: tuple[int, ...]


def index_coverage(manifest: Manifest) -> list[IndexCoverage]:
    """Return the coverage of each index of a version, except system indices, in the order of the manifest.

    Args:
        manifest: the version, with the row counts of all fragments.

    Raises:
        CorruptDataError: the index section of the manifest is damaged.
    """
    indices = decode_index_section(manifest.index_section)
    described = describe_indices(indices, manifest.schema, {})
    if not described:
        return []
    reuse = FragmentReuse.of(indices)
    ids = np.array([fragment.id for fragment in manifest.fragments], np.int64)
    rows = np.array([fragment.num_live_rows for fragment in manifest.fragments], np.int64)
    found = []
    for index in described:
        bitmaps = [read_fragment_bitmap(each) for each in indices if each.name == index.name]
        is_known = reuse.is_known and None not in bitmaps
        covered = np.ones(len(ids), np.bool_)
        if is_known:
            present = [reuse.present_fragments(bitmap).to_array() for bitmap in bitmaps if bitmap is not None]
            covered = np.isin(ids, np.concatenate([np.asarray(each, np.int64) for each in present]))
        indexed = int(rows[covered].sum())
        found.append(
            IndexCoverage(
                name=index.name,
                index_type=index.index_type,
                columns=tuple(index.field_names),
                uuids=tuple(segment.uuid for segment in index.segments),
                size_bytes=index.total_size_bytes,
                is_known=is_known,
                indexed_rows=indexed,
                unindexed_rows=int(rows.sum()) - indexed,
                unindexed_fragments=tuple(ids[~covered].tolist()),
            )
        )
    return found
