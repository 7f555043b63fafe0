"""TableHealth: the statistics of one version, for policies and events.

All numbers come from the manifest and the names below ``_versions/``: one listing and one manifest are read, but no
data file or deletion file. A number that a writer did not record counts as 0, except the total number of bytes, which
is then unknown.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from lance_pipelines.maintenance.policy import CompactionPolicy, DeletionPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import lance_core
    from lance_core.metadata import FragmentMessage
    from lance_pipelines.maintenance.policy import MaintenancePolicy

__all__ = ["TableHealth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """Statistics of one version.

    Attributes:
        version: the version.
        versions: number of versions, counted by their names.
        fragments: fragments of the version.
        small_fragments: fragments below both targets of the compaction policy.
        mergeable_fragments: small fragments that a compaction would merge with neighbors.
        rows: rows that are not deleted.
        deleted_rows: deleted rows that the data files still contain.
        worn_fragments: fragments with a higher fraction of deleted rows than the deletion policy allows.
        worn_rows: deleted rows of those fragments.
        data_files: data files of the fragments.
        deletion_files: fragments that have a deletion file.
        bytes_total: bytes of the data files; None when a file does not record its size.
        manifest_bytes: bytes of the manifest's message.
    """

    version: int
    versions: int
    fragments: int
    small_fragments: int
    mergeable_fragments: int
    rows: int
    deleted_rows: int
    worn_fragments: int
    worn_rows: int
    data_files: int
    deletion_files: int
    bytes_total: int | None
    manifest_bytes: int

    @classmethod
    def of(cls, dataset: lance_core.LanceDataset, policy: MaintenancePolicy, *, versions: int | None = None) -> Self:
        """Compute the statistics of the version that a handle shows.

        Args:
            dataset: an open handle.
            policy: defines the limits; the default replaces a part that is disabled.
            versions: the number of versions; None counts them by listing.
        """
        message = dataset.counted_manifest.message
        small = [_is_small(fragment, policy.compaction or CompactionPolicy()) for fragment in message.fragments]
        worn = [_is_worn(fragment, policy.deletion or DeletionPolicy()) for fragment in message.fragments]
        deleted = [fragment.deletion_file.num_deleted_rows for fragment in message.fragments]
        sizes = [file.file_size_bytes for fragment in message.fragments for file in fragment.files]
        return cls(
            version=dataset.version,
            versions=len(dataset.version_refs()) if versions is None else versions,
            fragments=len(message.fragments),
            small_fragments=sum(small),
            mergeable_fragments=_count_mergeable(small),
            rows=sum(fragment.physical_rows for fragment in message.fragments) - sum(deleted),
            deleted_rows=sum(deleted),
            worn_fragments=sum(worn),
            worn_rows=sum(itertools.compress(deleted, worn)),
            data_files=len(sizes),
            deletion_files=sum(fragment.HasField("deletion_file") for fragment in message.fragments),
            bytes_total=sum(sizes) if all(sizes) else None,
            manifest_bytes=message.ByteSize(),
        )

    @property
    def deletion_ratio(self) -> float:
        """The fraction of the rows in the data files that is deleted, between 0 and 1."""
        physical_rows = self.rows + self.deleted_rows
        return self.deleted_rows / physical_rows if physical_rows else 0.0


def _is_small(fragment: FragmentMessage, policy: CompactionPolicy) -> bool:
    """Return whether a fragment is below both targets: its rows, deleted ones included, and the bytes of its files."""
    if fragment.physical_rows >= policy.target_rows_per_fragment:
        return False
    limit = policy.target_bytes_per_fragment
    return limit is None or sum(file.file_size_bytes for file in fragment.files) < limit


def _is_worn(fragment: FragmentMessage, policy: DeletionPolicy) -> bool:
    """Return whether more of its rows are deleted than allowed."""
    deleted_rows = fragment.deletion_file.num_deleted_rows
    if not deleted_rows:
        return False
    # The planner compares in single precision, as the reference does.
    fraction = np.float32(deleted_rows) / np.float32(fragment.physical_rows)
    return bool(fraction > np.float32(policy.max_deleted_fraction))


def _count_mergeable(small: Sequence[bool]) -> int:
    """Return the number of small fragments that are next to another small one: only neighbors are merged."""
    lengths = [sum(1 for _ in run) for is_small, run in itertools.groupby(small) if is_small]
    return sum(length for length in lengths if length > 1)
