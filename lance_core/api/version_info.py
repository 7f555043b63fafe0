"""What ``versions()`` tells about a version.

Source: keys and texts of pylance 14.0.2.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypedDict

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest

__all__ = ["Version", "version_info"]

_NANOSECONDS: Final = 1_000_000_000


class Version(TypedDict):
    """One version.

    Attributes:
        version: its number.
        timestamp: commit time, local, without a zone.
        metadata: counts, as decimal texts.
    """

    version: int
    timestamp: datetime
    metadata: dict[str, str]


def version_info(manifest: Manifest) -> Version:
    """Describe a version from its manifest alone."""
    seconds, nanoseconds = divmod(manifest.timestamp_ns, _NANOSECONDS)
    fragments = manifest.message.fragments
    deletions = [fragment.deletion_file for fragment in fragments if fragment.HasField("deletion_file")]
    physical_rows = sum(fragment.physical_rows for fragment in fragments)
    deleted_rows = sum(deletion.num_deleted_rows for deletion in deletions)
    counts = {
        "total_data_file_rows": physical_rows,
        "total_data_files": sum(len(fragment.files) for fragment in fragments),
        "total_deletion_file_rows": deleted_rows,
        "total_deletion_files": len(deletions),
        "total_files_size": sum(file.file_size_bytes for fragment in fragments for file in fragment.files),
        "total_fragments": len(fragments),
        "total_rows": physical_rows - deleted_rows,
    }
    return Version(
        version=manifest.version,
        timestamp=datetime.fromtimestamp(seconds) + timedelta(microseconds=nanoseconds // 1000),
        metadata={name: str(count) for name, count in counts.items()},
    )
