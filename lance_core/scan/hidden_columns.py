"""Reads the hidden columns in which data files store the ids and versions of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.file.session import UNCACHED, Session
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.table.fragment import Fragment
from lance_core.table.row_lineage import column_key, hidden_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import numpy.typing as npt

    from lance_core.proto import pb_table
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.row_lineage import ColumnKey, HiddenColumns

__all__ = ["fetch_hidden_columns", "hidden_columns_of"]


def fetch_hidden_columns(
    fragments: Iterable[pb_table.DataFragment], locator: FileLocator
) -> dict[ColumnKey, npt.NDArray[np.uint64]]:
    """Read all hidden columns of the given fragments.

    Args:
        fragments: fragments of a version or a transaction.
        locator: locates the files of the fragments.

    Returns:
        The columns, for :class:`~lance_core.table.row_lineage.FetchedColumns`.

    Raises:
        NotFoundError: a data file is missing.
        CorruptDataError: a data file is damaged, or no data file contains one of the columns.
    """
    read = hidden_columns_of(locator)
    return {
        column_key(fragment, field_id): read(fragment, field_id)
        for fragment in fragments
        for field_id in hidden_fields(fragment)
    }


def hidden_columns_of(locator: FileLocator, session: Session = UNCACHED) -> HiddenColumns:
    """Return a function that reads the hidden columns of a version's fragments.

    Args:
        locator: locates the version's files.
        session: opens the files.
    """

    def read(fragment: pb_table.DataFragment, field_id: int) -> npt.NDArray[np.uint64]:
        return FragmentReader(Fragment(fragment), locator, session=session).hidden_column(field_id)

    return read
