"""A snapshot of a dataset: the numbers of the before/after table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import lance_core

__all__ = ["Snapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Statistics of a dataset on disk.

    Attributes:
        versions: the version numbers, in ascending order.
        fragments: of the latest version.
        rows: live rows of the latest version.
        deleted_rows: rows that fragments of the latest version still hold but no reader sees.
        worst_deleted_fraction: of a fragment's rows, the highest of all fragments; 0 without fragments.
        data_files: on disk, of all versions.
        deletion_files: on disk, of all versions.
        other_files: manifests, transactions and the rest.
        num_bytes: of all files.
    """

    versions: tuple[int, ...]
    fragments: int
    rows: int
    deleted_rows: int
    worst_deleted_fraction: float
    data_files: int
    deletion_files: int
    other_files: int
    num_bytes: int

    @classmethod
    def take(cls, uri: Path) -> Self:
        """Take a snapshot of a dataset.

        Raises:
            DatasetNotFoundError: the dataset does not exist.
        """
        dataset = lance_core.dataset(uri)
        fragments = dataset.get_fragments()
        files = [path for path in uri.rglob("*") if path.is_file()]
        kinds = [path.relative_to(uri).parts[0] for path in files]
        num_data, num_deletions = kinds.count("data"), kinds.count("_deletions")
        return cls(
            versions=tuple(reference["version"] for reference in dataset.version_refs()),
            fragments=len(fragments),
            rows=dataset.count_rows(),
            deleted_rows=sum(fragment.num_deletions for fragment in fragments),
            worst_deleted_fraction=max(
                (fragment.num_deletions / fragment.physical_rows for fragment in fragments), default=0.0
            ),
            data_files=num_data,
            deletion_files=num_deletions,
            other_files=len(files) - num_data - num_deletions,
            num_bytes=sum(path.stat().st_size for path in files),
        )
