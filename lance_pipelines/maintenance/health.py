"""TableHealth: the statistics of one version, for policies and events.

All numbers come from the manifest and from the file names below ``_versions/``; data files are opened only if an early
release did not record the row counts, and deletion files are never opened. If the number of deleted rows is not
recorded, it counts as 0; if the size of a data file is not recorded, the total size is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lance_pipelines.maintenance.effect import Contents
from lance_pipelines.maintenance.fragment_figures import FragmentFigures
from lance_pipelines.maintenance.policy import CompactionPolicy, DeletionPolicy

if TYPE_CHECKING:
    import lance_core
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
    def of(
        cls,
        dataset: lance_core.LanceDataset,
        policy: MaintenancePolicy,
        *,
        versions: int | None = None,
        figures: FragmentFigures | None = None,
    ) -> Self:
        """Compute the statistics of a handle's version.

        Args:
            dataset: an open handle.
            policy: defines the limits; for a disabled part of the policy, the default limits apply.
            versions: the number of versions; if None, the versions are listed and counted.
            figures: the statistics of the version's fragments, if the caller has them.
        """
        figures = FragmentFigures.of(dataset) if figures is None else figures
        compaction = policy.compaction or CompactionPolicy()
        worn = figures.worn(policy.deletion or DeletionPolicy())
        deleted_rows = int(figures.deleted_rows.sum())
        return cls(
            version=dataset.version,
            versions=len(dataset.version_refs()) if versions is None else versions,
            fragments=len(figures),
            small_fragments=int(figures.small(compaction).sum()),
            mergeable_fragments=int(figures.mergeable(compaction).sum()),
            rows=int(figures.rows.sum()) - deleted_rows,
            deleted_rows=deleted_rows,
            worn_fragments=int(worn.sum()),
            worn_rows=int(figures.deleted_rows[worn].sum()),
            data_files=int(figures.num_files.sum()),
            deletion_files=int(figures.has_deletions.sum()),
            bytes_total=int(figures.num_bytes.sum()) if figures.has_all_sizes.all() else None,
            manifest_bytes=dataset.counted_manifest.num_bytes,
        )

    @property
    def contents(self) -> Contents:
        """The statistics that all maintenance jobs report."""
        return Contents(fragments=self.fragments, files=self.data_files, num_bytes=self.bytes_total, rows=self.rows)

    @property
    def deletion_ratio(self) -> float:
        """The fraction of deleted rows among the rows in the data files, between 0 and 1."""
        physical_rows = self.rows + self.deleted_rows
        return self.deleted_rows / physical_rows if physical_rows else 0.0
