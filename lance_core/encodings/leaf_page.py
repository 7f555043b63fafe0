"""LeafPage: a decoded page of one leaf column, before columns are assembled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_core.encodings.api import DataBlock
    from lance_core.encodings.levels.build import Levels
    from lance_core.schema.field import Field

__all__ = ["LeafPage"]


@dataclass(frozen=True, slots=True)
class LeafPage:
    """Rows of one leaf column, decoded but not yet assembled into an array.

    Attributes:
        field: the leaf.
        levels: repetition and definition levels of the rows.
        block: one value per visible level.
        num_rows: number of rows, counted as in ``EncodedPage.num_rows``.
    """

    field: Field
    levels: Levels
    block: DataBlock
    num_rows: int
