"""TableHealth: the statistics of one version, for policies and events.

All numbers come from the manifest and from the file names below ``_versions/``. No data file or deletion file is
opened. A number that a writer did not record counts as 0. The size of a data file is an exception: if it is not
recorded, the total size is unknown.
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
        versions: number of versions in the dataset.
        fragments: number of fragments.
        small_fragments: number of fragments that are below both targets (rows and bytes) of the compaction policy.
        mergeable_fragments: number of small fragments that a compaction would merge with neighbors.
        rows: number of rows that are not deleted.
        deleted_rows: number of deleted rows that the data files still contain.
        worn_fragments: number of fragments whose fraction of deleted rows exceeds the limit of the deletion policy.
        worn_rows: number of deleted rows in those fragments.
        data_files: number of data files.
        deletion_files: number of fragments that have a deletion file.
        bytes_total: total size of the data files, in bytes; None if the size of a file is not recorded.
        manifest_bytes: size of the manifest's protobuf message, in bytes.
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
        """Compute the statistics of a handle's version.

        Args:
            dataset: an open handle.
            policy: defines the limits; for a disabled part of the policy, the default limits apply.
            versions: the number of versions; if None, the versions are listed and counted.
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
        """The fraction of deleted rows among the rows in the data files, between 0 and 1."""
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
