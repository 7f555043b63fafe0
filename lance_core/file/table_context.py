"""TableContext: information about the table that a data file is written for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lance_core.file.blob_sidecars import Sidecars
    from lance_core.file.external_values import ExternalValues

__all__ = ["TableContext"]


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
