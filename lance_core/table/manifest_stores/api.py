"""ManifestStore: the protocol for databases with one row per version. Exactly one writer can insert each row.

A row records the location of a version's manifest: its final path, or the path where its writer staged it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["ManifestRow", "ManifestStore"]


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """The row of one version.

    Attributes:
        version: the version number.
        path: the path of the manifest, below the table's root.
        num_bytes: the size of the manifest in bytes; 0 if unknown.
    """

    version: int
    path: str
    num_bytes: int


class ManifestStore(Protocol):
    """A database of versions. Reads reflect all writes that were acknowledged earlier."""

    def latest(self, root: str) -> ManifestRow | None:
        """Return the row of a table's highest version; None if the store has no rows for the table."""
        ...

    def find(self, root: str, version: int) -> ManifestRow | None:
        """Return the row of a version; None if it has no row."""
        ...

    def reserve(self, root: str, row: ManifestRow) -> bool:
        """Insert a row unless the version has one. Return True for exactly one of several concurrent callers."""
        ...

    def finish(self, root: str, row: ManifestRow) -> None:
        """Replace the existing row of a version."""
        ...

    def withdraw(self, root: str, row: ManifestRow) -> None:
        """Remove the row of a version if the stored path still equals ``row.path``."""
        ...

    def forget(self, root: str) -> None:
        """Remove all rows that the store has for a table that no longer exists. This method is idempotent."""
        ...
