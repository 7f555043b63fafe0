"""BlobRows: selects rows of a version, and reads their values in a blob column, or finds their locations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.blobs.files import BlobFile
from lance_core.errors import InvalidInputError, NotSupportedError, RowOutOfRangeError
from lance_core.file.row_numbers import row_ids, row_positions
from lance_core.scan.take import find_rows_at
from lance_core.schema.blob_fields import stored_schema
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from lance_core.blobs.files import BlobPlace
    from lance_core.scan.fragment_reader import FragmentReader
    from lance_core.scan.row_id_lookup import RowIdLookup
    from lance_core.scan.scan_source import ScanSource
    from lance_core.scan.table_view import TableView

__all__ = ["BlobRows", "read_blob_ranges"]

_FRAGMENT_SHIFT = 32
_OFFSET_MASK = (1 << _FRAGMENT_SHIFT) - 1
_SELECTORS: Final = ("ids", "addresses", "indices")


class BlobRows:
    """The selected rows of a version, stored as fragments and physical positions."""

    def __init__(
        self,
        source: ScanSource,
        readers: list[FragmentReader],
        owners: npt.NDArray[np.int64],
        positions: npt.NDArray[np.int64],
    ) -> None:
        self._source = source
        self._readers = readers
        self._owners = owners
        self._positions = positions

    @classmethod
    def of(cls, view: TableView, ids: Any = None, addresses: Any = None, indices: Any = None) -> BlobRows:
        """Select rows of a version; exactly one of ``ids``, ``addresses``, and ``indices`` must be given.

        Args:
            view: the version.
            ids: row ids.
            addresses: row addresses.
            indices: positions among the rows that are not deleted.

        Raises:
            InvalidInputError: none or several of the three arguments are given, or a row does not exist.
            NotSupportedError: the row at one of the addresses is deleted.
        """
        if sum(given is not None for given in (ids, addresses, indices)) != 1:
            raise InvalidInputError("Exactly one of ids, indices, or addresses must be specified")
        source, lookup = view.source(), view.row_lookup
        readers = [source.reader(fragment) for fragment in source.fragments]
        if indices is not None:
            places = find_rows_at(source, row_positions(indices))
            return cls(source, readers, places.owners, places.positions)
        if ids is not None and lookup.is_stable:
            return cls._by_stable_id(source, readers, lookup, row_ids(ids))
        return cls._by_address(source, readers, row_positions(addresses if ids is None else ids))

    @classmethod
    def at_addresses(cls, source: ScanSource, addresses: npt.NDArray[np.uint64]) -> BlobRows:
        """Select rows of some fragments by their addresses.

        Raises:
            RowOutOfRangeError: a row does not exist.
            NotSupportedError: the row at one of the addresses is deleted.
        """
        readers = [source.reader(fragment) for fragment in source.fragments]
        return cls._by_address(source, readers, row_positions(addresses))

    @classmethod
    def _by_stable_id(
        cls, source: ScanSource, readers: list[FragmentReader], lookup: RowIdLookup, wanted: npt.NDArray[np.uint64]
    ) -> BlobRows:
        places = lookup.find(wanted)
        missing = wanted[~places.is_found]
        if len(missing):
            raise RowOutOfRangeError(
                f"row id {int(missing[0])} was deleted or never assigned; found {len(wanted) - len(missing)} of "
                f"{counted(len(wanted), 'requested row id')}",
                expected=len(wanted),
                found=len(wanted) - len(missing),
            )
        return cls(source, readers, places.owners, places.positions)

    @classmethod
    def _by_address(cls, source: ScanSource, readers: list[FragmentReader], wanted: npt.NDArray[np.int64]) -> BlobRows:
        indices = {fragment.id: index for index, fragment in enumerate(source.fragments)}
        positions = wanted & _OFFSET_MASK
        owners = np.zeros(len(wanted), np.int64)
        for fragment_id in np.unique(wanted >> _FRAGMENT_SHIFT).tolist():
            here = (wanted >> _FRAGMENT_SHIFT) == fragment_id
            index = indices.get(fragment_id)
            if index is None:
                raise RowOutOfRangeError(f"row address {int(wanted[here][0])}: fragment {fragment_id} does not exist")
            if int(positions[here].max()) >= source.fragments[index].physical_rows:
                raise RowOutOfRangeError(
                    f"fragment {fragment_id} has no row at offset {int(positions[here].max())}: it has "
                    f"{counted(source.fragments[index].physical_rows, 'row')}, including deleted rows"
                )
            is_deleted = np.isin(positions[here], readers[index].deleted_rows())
            if is_deleted.any():
                raise NotSupportedError(
                    f"the selection includes a deleted row: fragment {fragment_id}, offset "
                    f"{int(positions[here][is_deleted][0])}"
                )
            owners[here] = index
        return cls(source, readers, owners, positions)

    def files(self, column: str, buffer_size: int) -> list[BlobFile | None]:
        """Return a file object for each row, or None if the value is null; for ``buffer_size``, see ``BlobFile``."""
        return [None if place is None else BlobFile(place, buffer_size) for _, place in self.places(column)]

    def values(self, column: str) -> list[tuple[int, bytes | None]]:
        """Return a pair for each row: its address, and its value, or None if the value is null."""
        return [
            (address, None if place is None else BlobFile(place, 0).read()) for address, place in self.places(column)
        ]

    def places(self, column: str) -> list[tuple[int, BlobPlace | None]]:
        """Return a pair for each row: its address, and the location of its value or, if the value is null, None."""
        schema = stored_schema(self._source.schema)
        wanted = schema.project([column])
        leaf = schema.find(column)
        if leaf is None or not leaf.is_blob:
            raise InvalidInputError(f"column {column!r} is not a blob column", column=column)
        found: list[tuple[int, BlobPlace | None]] = [(0, None)] * len(self._positions)
        for owner in np.unique(self._owners).tolist():
            rows = np.flatnonzero(self._owners == owner)
            reader = self._readers[owner]
            batch = reader.take_physical(wanted, self._positions[rows], schema)
            descriptors = _member(batch.column(0), column, wanted.names[0])
            places = reader.blobs(descriptors, leaf.id).places()
            for row, place in zip(rows.tolist(), places, strict=True):
                found[row] = (reader.fragment_id << _FRAGMENT_SHIFT | int(self._positions[row]), place)
        return found


def read_blob_ranges(
    view: TableView, column: str, requests: Sequence[tuple[int, int, int]], selector: str
) -> list[tuple[int, int, bytes | None]]:
    """Return byte ranges of blob values; for arguments, result, and errors, see ``LanceDataset.read_blob_ranges``."""
    if selector not in _SELECTORS:
        raise InvalidInputError(f"unknown selector {selector!r}; expected 'ids', 'addresses', or 'indices'")
    rows = BlobRows.of(view, **{selector: [row for row, _, _ in requests]})
    return [
        (index, address, None if place is None else BlobFile(place, 0).read_range(offset, length))
        for index, ((address, place), (_, offset, length)) in enumerate(zip(rows.places(column), requests, strict=True))
    ]


def _member(array: pa.Array, path: str, top: str) -> pa.Array:
    """Return the struct member at a path, which is null where one of its parents is null."""
    rest = path[len(top) + 1 :]
    while rest:
        names = [member.name for member in array.type]
        head = rest if rest in names else next(name for name in names if rest.startswith(f"{name}."))
        array = array.flatten()[names.index(head)]
        rest = rest[len(head) + 1 :]
    return array
