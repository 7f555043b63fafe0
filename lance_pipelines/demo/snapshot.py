"""Snapshots of a dataset, and the table that compares two of them at the end of the demonstration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

import lance_core

__all__ = ["Snapshot", "print_comparison"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Statistics of a dataset on disk.

    Attributes:
        versions: the version numbers, in ascending order.
        fragments: number of fragments in the latest version.
        rows: number of live rows in the latest version.
        deleted_rows: number of deleted rows that the data files of the latest version still contain.
        worst_deleted_fraction: the highest fraction of deleted rows in any fragment; 0 if there are no fragments.
        data_files: number of data files on disk, for all versions.
        deletion_files: number of deletion files on disk, for all versions.
        other_files: number of manifests, transaction files, and all other files.
        num_bytes: total size of all files, in bytes.
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


def print_comparison(console: Console, before: Snapshot, after: Snapshot) -> None:
    """Print two snapshots of a dataset side by side."""
    table = Table(title="dataset 'events', before and after maintenance by the sensors")
    table.add_column("")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    for name, left, right in (
        ("versions", len(before.versions), len(after.versions)),
        ("fragments", before.fragments, after.fragments),
        ("rows", before.rows, after.rows),
        ("deleted rows still stored", before.deleted_rows, after.deleted_rows),
        ("data files", before.data_files, after.data_files),
        ("deletion files", before.deletion_files, after.deletion_files),
        ("other files", before.other_files, after.other_files),
    ):
        table.add_row(name, f"{left:,}", f"{right:,}")
    table.add_row("bytes", decimal(before.num_bytes), decimal(after.num_bytes))
    console.print(table)
