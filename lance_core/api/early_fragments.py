"""Fragments of early releases, whose manifests do not say how many rows a fragment has.

The number is in every data file, so that one per fragment is opened. A commit on top of such a version records it.

Source: manifests of pylance 0.4; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lance_core.file.reader import FileReader
from lance_core.proto import pb_table
from lance_core.table.data_file import DataFile

if TYPE_CHECKING:
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment_totals import FragmentTotals
    from lance_core.table.manifest import Manifest

__all__ = ["with_row_counts"]


def with_row_counts(manifest: Manifest, locator: FileLocator, totals: FragmentTotals | None = None) -> Manifest:
    """The manifest with the rows of every fragment; itself when they are recorded.

    Args:
        manifest: of the version.
        locator: finds its files.
        totals: of the manifest, when they are at hand.

    Raises:
        NotFoundError: a data file is missing.
        CorruptDataError: a data file is damaged.
    """
    if totals is not None and totals.counts_every_fragment:
        return manifest
    if all(fragment.physical_rows or not fragment.files for fragment in manifest.message.fragments):
        return manifest
    message = pb_table.Manifest()
    message.CopyFrom(manifest.message)
    for fragment in message.fragments:
        if not fragment.physical_rows and fragment.files:
            file = DataFile.from_proto(fragment.files[0])
            location = locator.data_file(file)
            reader = FileReader.open(
                location.store, location.path, num_bytes=file.known_num_bytes, field_ids=file.field_ids
            )
            fragment.physical_rows = reader.num_rows
    return replace(manifest, message=message)
