"""Manifests that were staged for an external manifest store and will not be published anymore.

A writer stages ``_versions/{manifest}-{uuid}`` and then inserts a row that refers to it. As long as the row does, the
object is the version. An old staged object to which the row of its version does not refer was left by a writer that
crashed before it inserted the row, or after it published the version. This can be determined only if the dataset is
opened with its manifest store; with a plain URI, such objects are kept.

Source: commit protocol of pylance 14.0.2 with an external manifest store; its cleanup never removes these objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.table.paths import VERSIONS_DIRECTORY, is_staged_manifest_name, parse_manifest_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.cleanup.inventory import StoredFile
    from lance_core.table.version_log import VersionLog

__all__ = ["abandoned_manifests"]


def abandoned_manifests(log: VersionLog, files: Iterable[StoredFile], *, before: float) -> frozenset[str]:
    """Return the paths of staged manifests that no row names.

    Args:
        log: the versions of the table.
        files: the stored files.
        before: only files that were written before this moment, seconds since the epoch.

    Raises:
        StorageError: the manifest store could not be read.
    """
    found: set[str] = set()
    for file in files:
        directory, _, name = file.path.partition("/")
        if directory != VERSIONS_DIRECTORY or file.modified_at >= before or not is_staged_manifest_name(name):
            continue
        final, mark, _ = name.partition(".manifest-")
        parsed = parse_manifest_name(f"{final}.manifest") if mark else None
        if parsed is not None and log.protocol.has_abandoned(log, parsed, file.path):
            found.add(file.path)
    return frozenset(found)
