"""The addresses of the rows that a task rewrites, as the reference wants them to remap its indices.

An address is the fragment id, shifted by 32 bits, and the physical position. The n-th address, ascending, is that of
the n-th row of the new files when the fragments were read in id order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_core.table.index_metadata import parse_index_section

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["needs_row_addresses", "serialize_row_addresses"]


def needs_row_addresses(manifest: Manifest) -> bool:
    """Whether there is an index that refers to rows by their addresses."""
    if manifest.has_stable_row_ids:
        return False
    return any(not index.is_system for index in parse_index_section(manifest.index_section))


def serialize_row_addresses(sources: Iterable[tuple[Fragment, npt.NDArray[np.uint32]]]) -> bytes:
    """The addresses of all live rows, as a 64-bit Roaring bitmap.

    Args:
        sources: fragments with their deleted positions.
    """
    from pyroaring import BitMap64

    addresses = BitMap64()
    for fragment, deleted in sources:
        first = fragment.id << 32
        addresses.add_range(first, first + fragment.physical_rows)
        if len(deleted):
            addresses -= BitMap64(deleted.astype(np.uint64) + np.uint64(first))
    addresses.run_optimize()
    return bytes(addresses.serialize())
