"""FragmentFigures: rows, deleted rows, bytes, and files of every fragment of a version, as arrays.

All numbers come from the manifest, except row counts that early releases did not record. The manifest is read once;
everything derived from it (the statistics of a table, a histogram, the largest fragments) is computed on arrays, so
that 100,000 fragments take a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    import lance_core
    from lance_pipelines.maintenance.policy import CompactionPolicy, DeletionPolicy

__all__ = ["FragmentFigures"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FragmentFigures:
    """One entry per fragment, in the order of the manifest.

    Attributes:
        ids: the fragments' ids.
        rows: number of rows in the data files, deleted rows included.
        deleted_rows: number of deleted rows, as recorded; 0 if the writer did not record it.
        num_bytes: total size of the data files whose size is recorded.
        has_all_sizes: whether the size of every data file is recorded.
        num_files: number of data files.
        has_deletions: whether the fragment has a deletion file.
    """

    ids: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    deleted_rows: npt.NDArray[np.int64]
    num_bytes: npt.NDArray[np.int64]
    has_all_sizes: npt.NDArray[np.bool_]
    num_files: npt.NDArray[np.int64]
    has_deletions: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, dataset: lance_core.LanceDataset) -> Self:
        """Return the numbers of a handle's version. Row counts that are not recorded are read from the data files."""
        fragments = dataset.counted_manifest.fragments
        sizes = [fragment.data_file_bytes for fragment in fragments]
        return cls(
            ids=np.array([fragment.id for fragment in fragments], np.int64),
            rows=np.array([fragment.physical_rows for fragment in fragments], np.int64),
            deleted_rows=np.array([fragment.num_deleted_rows for fragment in fragments], np.int64),
            num_bytes=np.array([sum(each) for each in sizes], np.int64),
            has_all_sizes=np.array([all(each) for each in sizes], np.bool_),
            num_files=np.array([len(each) for each in sizes], np.int64),
            has_deletions=np.array([fragment.has_deletion_file for fragment in fragments], np.bool_),
        )

    def __len__(self) -> int:
        """Return the number of fragments."""
        return len(self.ids)

    def small(self, policy: CompactionPolicy) -> npt.NDArray[np.bool_]:
        """Return a mask of the fragments that are below both targets of a policy.

        The targets are a number of rows, including deleted rows, and a size in bytes.
        """
        small: npt.NDArray[np.bool_] = self.rows < policy.target_rows_per_fragment
        if policy.target_bytes_per_fragment is not None:
            small &= self.num_bytes < policy.target_bytes_per_fragment
        return small

    def mergeable(self, policy: CompactionPolicy) -> npt.NDArray[np.bool_]:
        """Return a mask of the small fragments that are next to another small one: only neighbors are merged."""
        small = self.small(policy)
        padded = np.pad(small, 1)
        return small & (padded[:-2] | padded[2:])

    def worn(self, policy: DeletionPolicy) -> npt.NDArray[np.bool_]:
        """Return a mask of the fragments that have a higher fraction of deleted rows than a policy allows."""
        deleted, rows = self.deleted_rows.astype(np.float32), self.rows.astype(np.float32)
        # The planner compares in single precision, as the reference does.
        fraction = np.divide(deleted, rows, out=np.zeros_like(deleted), where=rows > 0)
        return (self.deleted_rows > 0) & (fraction > np.float32(policy.max_deleted_fraction))
