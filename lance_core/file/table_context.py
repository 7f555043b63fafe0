"""TableContext: information about the table that a data file is written for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lance_core.file.blob_sidecars import Sidecars

__all__ = ["ExternalValues", "TableContext"]


class ExternalValues(Protocol):
    """Handles blob values that are given as URIs."""

    def place(self, uris: list[str]) -> tuple[list[int], list[str]]:
        """Convert URIs to the form in which references are stored.

        Returns:
            For each URI, the id of the base path that contains it, and its path relative to that base path. If no base
            path contains the URI, 0 and the URI itself.
        """

    def fetch(self, uris: list[str], ranges: list[tuple[int, int] | None]) -> list[bytes] | None:
        """Return the bytes of the values if they are copied into the table; None if they are only referenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """Information that a file writer needs about the table; None is used instead for a standalone file.

    Attributes:
        sidecars: creates the sidecars of the data file, which contain blob values.
        external: handles URIs in blob columns; None if they are rejected.
        dictionaries: maps field ids to the initial values of dictionary columns, in format 0.1; new values are
            appended.
    """

    sidecars: Sidecars
    external: ExternalValues | None = None
    dictionaries: Mapping[int, pa.Array] | None = None
