"""TableSlice: the rows and columns of one version that a frame is loaded from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    import lance_core

__all__ = ["TableSlice"]


@dataclass(frozen=True, slots=True)
class TableSlice:
    """Rows and columns of one version of a dataset.

    Attributes:
        dataset: a handle to the version.
        columns: names of the columns; None means all.
        filter: a SQL condition that selects the rows; None means all.
    """

    dataset: lance_core.LanceDataset
    columns: tuple[str, ...] | None = None
    filter: str | None = None

    @classmethod
    def of(cls, dataset: lance_core.LanceDataset, columns: Sequence[str] | None, *conditions: str | None) -> Self:
        """Return the slice of the rows that meet all conditions; a condition of None is always met."""
        # A condition may end in a comment, which the end of the line closes.
        given = [f"({condition}\n)" for condition in conditions if condition is not None]
        return cls(dataset, None if columns is None else tuple(columns), " and ".join(given) or None)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the selected columns."""
        return self.scanner().projected_schema

    def scanner(
        self, columns: list[str] | None = None, *, limit: int | None = None, batch_size: int | None = None
    ) -> lance_core.LanceScanner:
        """Return a scanner of the slice.

        Args:
            columns: some of the slice's columns; None means all of them.
            limit: maximum number of rows; None means all.
            batch_size: maximum number of rows in a batch; None means the default.
        """
        if columns is None and self.columns is not None:
            columns = list(self.columns)
        return self.dataset.scanner(columns=columns, filter=self.filter, limit=limit, batch_size=batch_size)
