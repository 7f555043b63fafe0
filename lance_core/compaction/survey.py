"""Collects the planner's input from a manifest. Files are only read for numbers that the manifest does not record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.compaction.planning import FragmentFigures
from lance_core.errors import NotSupportedError
from lance_core.table.data_file import DataFile
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.index_metadata import parse_index_section

if TYPE_CHECKING:
    from pyroaring import BitMap

    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["survey"]


def survey(manifest: Manifest, locator: FileLocator) -> list[FragmentFigures]:
    """Figures of every fragment, ascending by id.

    Raises:
        NotSupportedError: which fragments an index answers for is not recorded.
        CorruptDataError: an index bitmap or a deletion file is damaged.
    """
    bitmaps = _index_bitmaps(manifest)
    return sorted(
        (_figures(fragment, locator, bitmaps) for fragment in manifest.fragments), key=lambda fragment: fragment.id
    )


def _index_bitmaps(manifest: Manifest) -> list[BitMap]:
    bitmaps = []
    for index in parse_index_section(manifest.index_section):
        if index.is_system:
            continue
        fragment_ids = index.fragment_ids()
        if fragment_ids is None:
            raise NotSupportedError(
                f"version {manifest.version}: index {index.name!r} does not record its fragments; rebuild it before "
                "compacting",
                index=index.name,
            )
        bitmaps.append(fragment_ids)
    return bitmaps


def _figures(fragment: Fragment, locator: FileLocator, bitmaps: list[BitMap]) -> FragmentFigures:
    message = fragment.message
    has_deletions = message.HasField("deletion_file")
    deleted_rows = message.deletion_file.num_deleted_rows
    if has_deletions and not deleted_rows:
        deleted_rows = len(read_deletion_offsets(fragment, locator))
    files = [*fragment.files, *(DataFile.from_proto(overlay.data_file) for overlay in message.overlays)]
    num_bytes = sum(file.num_bytes for file in files)
    if not all(file.num_bytes for file in files):
        locations = [locator.data_file(file) for file in files]
        num_bytes = sum(location.store.head(location.path).num_bytes for location in locations)
    return FragmentFigures(
        id=fragment.id,
        physical_rows=message.physical_rows,
        deleted_rows=deleted_rows,
        num_bytes=num_bytes,
        num_files=len(message.files) + has_deletions,
        num_overlays=len(message.overlays),
        indices=frozenset(position for position, bitmap in enumerate(bitmaps) if message.id in bitmap),
    )
