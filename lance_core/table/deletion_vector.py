"""Deletion vectors: the deleted rows of a fragment, read from its deletion file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_core.errors import CorruptDataError
from lance_core.table.deletion_file import parse_deletion_file
from lance_core.wording import counted

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment import Fragment

__all__ = ["read_deletion_offsets"]


def read_deletion_offsets(fragment: Fragment, locator: FileLocator) -> npt.NDArray[np.uint32]:
    """Return the deleted rows of a fragment, sorted and unique; empty if it has no deletion file.

    Args:
        fragment: the fragment.
        locator: locates the deletion file.

    Returns:
        Physical positions, shape (num_deleted_rows,), read-only. Use ``BitMap(offsets, optimize=False)`` to get a set.

    Raises:
        NotFoundError: the file is missing.
        CorruptDataError: the file is damaged, or does not list as many rows as the manifest records.
    """
    deletion = fragment.deletion_file
    if deletion is None:
        return np.empty(0, np.uint32)
    location = locator.deletion_file(fragment.id, deletion)
    offsets = parse_deletion_file(
        location.store.get(location.path),
        deletion.file_type,
        physical_rows=fragment.physical_rows,
        what=location.uri,
    )
    if deletion.num_deleted_rows and len(offsets) != deletion.num_deleted_rows:
        raise CorruptDataError(
            f"deletion file {location.uri} lists {counted(len(offsets), 'row')}, but the manifest records "
            f"{deletion.num_deleted_rows}",
            path=location.path,
            expected=deletion.num_deleted_rows,
            found=len(offsets),
        )
    return offsets
