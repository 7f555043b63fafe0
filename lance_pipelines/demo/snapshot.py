"""Snapshots of a dataset, and the table that compares two of them at the end of the demonstration."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

import lance_core
from lance_core.metadata import index_coverage
from lance_pipelines.maintenance.health_card import HealthCard
from lance_pipelines.maintenance.policy import MaintenancePolicy

__all__ = ["Snapshot", "print_comparison"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Statistics of a dataset on disk.

    Attributes:
        versions: the version numbers, in ascending order.
        grade: the grade of the health card.
        fragments: number of fragments in the latest version.
        rows: number of live rows in the latest version.
        unindexed_rows: number of rows that an index does not cover, summed over all indices; None without indices.
        deleted_rows: number of deleted rows that the data files of the latest version still contain.
        worst_deleted_fraction: the highest fraction of deleted rows in any fragment; 0 if there are no fragments.
        data_files: number of data files on disk, for all versions.
        deletion_files: number of deletion files on disk, for all versions.
        other_files: number of manifests, transaction files, index files, and all other files.
        num_bytes: total size of all files, in bytes.
    """

    versions: tuple[int, ...]
    grade: str
    fragments: int
    rows: int
    unindexed_rows: int | None
    deleted_rows: int
    worst_deleted_fraction: float
    data_files: int
    deletion_files: int
    other_files: int
    num_bytes: int

    @classmethod
    def take(cls, uri: Path, policy: MaintenancePolicy) -> Self:
        """Take a snapshot of a dataset.

        Args:
            uri: location of the dataset.
            policy: the policy by which its health is graded.

        Raises:
            DatasetNotFoundError: the dataset does not exist.
        """
        dataset = lance_core.dataset(uri)
        fragments = dataset.get_fragments()
        sizes: dict[Path, int] = {}
        # A cleanup that runs at this moment may remove files and directories; os.walk passes over missing directories.
        for directory, _, names in os.walk(uri):
            for path in (Path(directory, name) for name in names):
                with suppress(FileNotFoundError):
                    sizes[path.relative_to(uri)] = path.stat().st_size
        kinds = [path.parts[0] for path in sizes]
        num_data, num_deletions = kinds.count("data"), kinds.count("_deletions")
        indices = index_coverage(dataset)
        return cls(
            versions=tuple(reference["version"] for reference in dataset.version_refs()),
            grade=HealthCard.of(dataset, policy).grade.name,
            fragments=len(fragments),
            rows=dataset.count_rows(),
            unindexed_rows=sum(index.unindexed_rows for index in indices) if indices else None,
            deleted_rows=sum(fragment.num_deletions for fragment in fragments),
            worst_deleted_fraction=max(
                (fragment.num_deletions / fragment.physical_rows for fragment in fragments), default=0.0
            ),
            data_files=num_data,
            deletion_files=num_deletions,
            other_files=len(sizes) - num_data - num_deletions,
            num_bytes=sum(sizes.values()),
        )


def print_comparison(console: Console, dataset: str, before: Snapshot, after: Snapshot) -> None:
    """Print two snapshots of a dataset side by side."""
    table = Table(title=f"dataset {dataset!r}, before and after maintenance by the sensors")
    table.add_column("")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    table.add_row("health", before.grade, after.grade)
    for name, left, right in (
        ("versions", len(before.versions), len(after.versions)),
        ("fragments", before.fragments, after.fragments),
        ("rows", before.rows, after.rows),
        ("rows without index", before.unindexed_rows, after.unindexed_rows),
        ("deleted rows still stored", before.deleted_rows, after.deleted_rows),
        ("data files", before.data_files, after.data_files),
        ("deletion files", before.deletion_files, after.deletion_files),
        ("other files", before.other_files, after.other_files),
    ):
        table.add_row(name, *("" if number is None else f"{number:,}" for number in (left, right)))
    table.add_row("bytes", decimal(before.num_bytes), decimal(after.num_bytes))
    console.print(table)
