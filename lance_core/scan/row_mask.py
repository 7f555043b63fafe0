"""RowMask: restricts a scan to given row ids, or excludes them. Sets of row ids are serialized as bytes.

A set is stored as follows, in little-endian order: the number of entries (u32), and for each entry the upper half of
the ids (u32, a fragment id if ids are addresses), the size of a bitmap in bytes (u32), and the bitmap of the lower
halves, in the portable format of Roaring bitmaps. Size 0 means all lower halves.

Source: ``row_addr_allowlist``, ``row_addr_blocklist`` and ``serialize_row_addrs`` of pylance 14.0.2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.file.row_numbers import row_ids
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

__all__ = ["RowMask", "serialize_row_addrs"]

_SHIFT: Final = 32
_LOW: Final = 2**32 - 1

_RowSet: TypeAlias = "Mapping[int, npt.NDArray[np.uint32] | None]"
"""Maps the upper half of ids to the sorted lower halves; None means all lower halves."""


@dataclass(frozen=True, slots=True)
class RowMask:
    """Selects rows by their ids. A row whose id is null is never selected by a set of allowed rows.

    Attributes:
        allowed: the rows to select; None means all rows.
        blocked: the rows to exclude.
    """

    allowed: _RowSet | None
    blocked: _RowSet

    @classmethod
    def of(cls, allowlist: object, blocklist: object) -> Self | None:
        """Parse the arguments of a scan, either of which may be None; return None if both are.

        Raises:
            InvalidInputError: the bytes are not a set of row ids.
        """
        if allowlist is None and blocklist is None:
            return None
        allowed = None if allowlist is None else _parsed("row_addr_allowlist", allowlist)
        return cls(allowed, {} if blocklist is None else _parsed("row_addr_blocklist", blocklist))

    def selects(self, ids: pa.Array) -> pa.Array:
        """Return which ids the mask selects, as an array of booleans without nulls."""
        known = np.asarray(ids.is_valid())
        values = np.asarray(ids.fill_null(0))
        chosen = np.ones(len(values), bool) if self.allowed is None else _contains(self.allowed, values) & known
        return pa.array(chosen & ~(_contains(self.blocked, values) & known))


def serialize_row_addrs(addrs: Iterable[int]) -> bytes:
    """Return row ids as bytes, for the arguments ``row_addr_allowlist`` and ``row_addr_blocklist`` of scans.

    Args:
        addrs: row ids; without stable row ids, these are row addresses.

    Raises:
        InvalidInputError: a number is negative or too large.
        InvalidTypeError: an item is not a whole number.
    """
    # Imported only when needed, as in all other modules.
    from pyroaring import BitMap

    values = row_ids(list(addrs))
    uppers = values >> np.uint64(_SHIFT)
    entries = []
    for upper in np.unique(uppers).tolist():
        lowers = (values[uppers == upper] & np.uint64(_LOW)).astype(np.uint32)
        bitmap = BitMap(lowers, optimize=False).serialize()
        entries.append(struct.pack("<II", upper, len(bitmap)) + bitmap)
    return struct.pack("<I", len(entries)) + b"".join(entries)


def _parsed(name: str, given: object) -> _RowSet:
    # Imported only when needed, as in all other modules.
    from pyroaring import BitMap

    try:
        data = memoryview(given).cast("B")  # type: ignore[arg-type]  # a TypeError is handled
        (num_entries,) = struct.unpack_from("<I", data)
        position = 4
        found: dict[int, npt.NDArray[np.uint32] | None] = {}
        for _ in range(num_entries):
            upper, size = struct.unpack_from("<II", data, position)
            position += 8
            if position + size > len(data):
                raise ValueError(f"expected a bitmap of {counted(size, 'byte')}, found {len(data) - position}")
            bitmap = BitMap.deserialize(bytes(data[position : position + size])) if size else None
            found[upper] = None if bitmap is None else np.array(bitmap.to_array(), np.uint32)
            position += size
    except (TypeError, ValueError, struct.error) as error:
        raise InvalidInputError(f"{name} is not a serialized set of row ids: {error}", argument=name) from error
    return found


def _contains(rows: _RowSet, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(ids), bool)
    uppers, lowers = ids >> np.uint64(_SHIFT), (ids & np.uint64(_LOW)).astype(np.uint32)
    for upper in np.unique(uppers).tolist():
        if upper in rows:
            here, members = uppers == upper, rows[upper]
            found[here] = True if members is None else np.isin(lowers[here], members)
    return found
