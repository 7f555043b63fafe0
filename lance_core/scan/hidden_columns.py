"""Reading the hidden columns in which data files keep the ids and versions of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.scan.fragment_reader import FragmentReader
from lance_core.table.fragment import Fragment

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lance_core.proto import pb_table
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.row_lineage import HiddenColumns

__all__ = ["hidden_columns_of"]


def hidden_columns_of(locator: FileLocator) -> HiddenColumns:
    """How the hidden columns of a version's fragments are read.

    Args:
        locator: finds the version's files.
    """

    def read(fragment: pb_table.DataFragment, field_id: int) -> npt.NDArray[np.uint64]:
        return FragmentReader(Fragment(fragment), locator).hidden_column(field_id)

    return read
