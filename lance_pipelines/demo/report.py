"""The before/after table that the demonstration ends with."""

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from lance_pipelines.demo.snapshot import Snapshot

__all__ = ["print_comparison"]


def print_comparison(console: Console, before: Snapshot, after: Snapshot) -> None:
    """Print two snapshots of a dataset side by side."""
    table = Table(title="events, before and after the sensors acted")
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
