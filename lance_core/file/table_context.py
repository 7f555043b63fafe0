"""TableContext: what a data file gets from the table that it is written for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lance_core.file.blob_sidecars import Sidecars

__all__ = ["ExternalValues", "TableContext"]


class ExternalValues(Protocol):
    """What becomes of values that are given by their URI."""

    def place(self, uris: list[str]) -> tuple[list[int], list[str]]:
        """Return where references are kept.

        Returns:
            Per URI the id of a base path and the path below it; 0 and the URI itself where there is none.
        """

    def fetch(self, uris: list[str], ranges: list[tuple[int, int] | None]) -> list[bytes] | None:
        """Return the bytes, if values are taken in rather than referred to; None if not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """What a file of a table has that a file written alone has not.

    Attributes:
        sidecars: makes the files beside the data file, for blob values.
        external: what becomes of URIs in blob columns; None = they are refused.
        dictionaries: field id -> values that dictionary columns start with, in format 0.1; new values go behind them.
    """

    sidecars: Sidecars
    external: ExternalValues | None = None
    dictionaries: Mapping[int, pa.Array] | None = None
