"""Version: an entry in the result of ``versions()``.

Source: keys and values of pylance 14.0.2.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypedDict

from lance_core.table.fragment_totals import FragmentTotals

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest

__all__ = ["Version", "VersionRef", "version_info"]

_NANOSECONDS: Final = 1_000_000_000


class VersionRef(TypedDict):
    """The number of a version: an item in the result of ``version_refs()``."""

    version: int


class Version(TypedDict):
    """A version of a dataset.

    Attributes:
        version: version number.
        timestamp: commit time, in local time without a time zone.
        metadata: numbers of rows, files, and fragments, and the total file size in bytes, as decimal strings.
    """

    version: int
    timestamp: datetime
    metadata: dict[str, str]


def version_info(manifest: Manifest) -> Version:
    """Describe a version, using only its manifest; an out-of-range commit time is replaced with 1970-01-01."""
    seconds, nanoseconds = divmod(manifest.timestamp_ns, _NANOSECONDS)
    try:
        timestamp = datetime.fromtimestamp(seconds) + timedelta(microseconds=nanoseconds // 1000)
    except (ValueError, OverflowError, OSError):
        timestamp = datetime.fromtimestamp(0)
    recorded = manifest.message if manifest.as_written is None else manifest.as_written.message
    totals = FragmentTotals.of(recorded)
    counts = {
        "total_data_file_rows": totals.physical_rows,
        "total_data_files": totals.num_files,
        "total_deletion_file_rows": totals.deleted_rows,
        "total_deletion_files": totals.num_deletion_files,
        "total_files_size": totals.file_bytes,
        "total_fragments": totals.num_fragments,
        "total_rows": totals.physical_rows - totals.deleted_rows,
    }
    return Version(
        version=manifest.version,
        timestamp=timestamp,
        metadata={name: str(count) for name, count in counts.items()},
    )
