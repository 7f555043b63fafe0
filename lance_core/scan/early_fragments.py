"""Determines the row counts of fragments from early releases, whose manifests have no row counts or wrong ones.

Every data file contains the row count, so only one file of each fragment is opened. A commit based on such a version
records the correct counts.

Source: manifests of pylance 0.4 to 0.8.0 (:mod:`~lance_core.table.old_writers`); behavior of pylance 14.0.2.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lance_core.file.session import UNCACHED, Session
from lance_core.proto import pb_table
from lance_core.table.data_file import DataFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.table.base_paths import FileLocator
    from lance_core.table.manifest import Manifest

__all__ = ["rows_in_files", "uncounted_fragments", "with_row_counts"]

_READER_THREADS: Final = 16


def with_row_counts(manifest: Manifest, locator: FileLocator, session: Session = UNCACHED) -> Manifest:
    """Return the manifest with the row counts of all fragments; if it already records them, it is returned unchanged.

    Args:
        manifest: manifest of the version.
        locator: locates the files of the version.
        session: opens the files.

    Raises:
        NotFoundError: a data file is missing.
        CorruptDataError: a data file is damaged.
    """
    if manifest.totals.counts_every_fragment:
        return manifest
    uncounted = uncounted_fragments(manifest.message)
    if not uncounted:
        return manifest
    counts = rows_in_files(uncounted, locator, session)
    message = pb_table.Manifest()
    message.CopyFrom(manifest.message)
    for fragment in message.fragments:
        fragment.physical_rows = counts.get(fragment.id, fragment.physical_rows)
    return replace(manifest, message=message)


def uncounted_fragments(message: pb_table.Manifest) -> list[pb_table.DataFragment]:
    """Return the fragments whose row counts are not recorded."""
    return [fragment for fragment in message.fragments if not fragment.physical_rows and fragment.files]


def rows_in_files(
    fragments: Sequence[pb_table.DataFragment], locator: FileLocator, session: Session = UNCACHED
) -> dict[int, int]:
    """Return a map from the id of each fragment to the number of rows in its data files, including deleted rows.

    This opens one file of each fragment.

    Raises:
        NotFoundError: a data file is missing.
        CorruptDataError: a data file is damaged.
    """

    def rows(fragment: pb_table.DataFragment) -> int:
        file = DataFile.from_proto(fragment.files[0])
        location = locator.data_file(file)
        return session.open_file(
            location.store, location.path, num_bytes=file.known_num_bytes, field_ids=file.field_ids
        ).num_rows

    with ThreadPoolExecutor(max_workers=min(_READER_THREADS, max(1, len(fragments)))) as executor:
        return dict(zip((fragment.id for fragment in fragments), executor.map(rows, fragments), strict=True))
