"""The blob verbs of a dataset: values as file objects, whole values, ranges of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lance_core.blobs.files import DEFAULT_BLOB_BUFFER_SIZE, BlobFile, checked_buffer_size
from lance_core.errors import InvalidInputError, NotSupportedError, RowOutOfRangeError
from lance_core.file.row_numbers import row_ids, row_positions
from lance_core.scan.dataset_handle import DatasetHandle
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.take import find_rows_at
from lance_core.schema.blob_fields import stored_schema
from lance_core.schema.projection import project

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from lance_core.blobs.files import BlobPlace
    from lance_core.scan.row_id_lookup import RowIdLookup
    from lance_core.scan.scanner import ScanSource

__all__ = ["DatasetBlobs"]

_FRAGMENT_SHIFT = 32
_OFFSET_MASK = (1 << _FRAGMENT_SHIFT) - 1


class DatasetBlobs(DatasetHandle):
    """The methods that read blob columns."""

    def _rows(self, ids: Any = None, addresses: Any = None, indices: Any = None) -> _Rows:
        return _Rows.of(self._source(), self._row_lookup(), ids, addresses, indices)

    def take_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | pa.Array | None = None,
        addresses: Sequence[int] | pa.Array | None = None,
        indices: Sequence[int] | pa.Array | None = None,
        *,
        buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE,
    ) -> list[BlobFile | None]:
        """Values as file objects, in the requested order; opening them reads nothing.

        Args:
            blob_column: name, or dotted path into structs.
            ids: row ids; exactly one of the three is given.
            addresses: row addresses.
            indices: positions among the rows that are not deleted.
            buffer_size: bytes that sequential reads fetch at a time; 0 fetches what is requested.

        Returns:
            One per row; None for nulls.

        Raises:
            InvalidInputError: not a blob column, not exactly one selection, or a row that does not exist.
            NotSupportedError: the address of a deleted row.
        """
        checked_buffer_size(buffer_size)
        rows = self._rows(ids, addresses, indices)
        return [None if place is None else BlobFile(place, buffer_size) for _, place in rows.places(blob_column)]

    def read_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | pa.Array | None = None,
        addresses: Sequence[int] | pa.Array | None = None,
        indices: Sequence[int] | pa.Array | None = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Whole values, in the requested order; see :meth:`take_blobs`.

        ``io_buffer_size`` and ``preserve_order`` have no effect.

        Returns:
            The row's address and its value, one pair per row; None for nulls.
        """
        rows = self._rows(ids, addresses, indices)
        return [
            (address, None if place is None else BlobFile(place, 0).read())
            for address, place in rows.places(blob_column)
        ]

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Ranges of values.

        Args:
            blob_column: name, or dotted path into structs.
            requests: each (row, offset, length).
            selector: how rows are selected, as in :meth:`take_blobs`.
            io_buffer_size: no effect.
            preserve_order: no effect.

        Returns:
            Index of the request, address of the row, bytes; None for nulls.

        Raises:
            InvalidInputError: an unknown selector, a range that exceeds its value, or as for :meth:`take_blobs`.
        """
        if selector not in ("ids", "addresses", "indices"):
            raise InvalidInputError(f"selector {selector!r}: expected 'ids', 'addresses' or 'indices'")
        selection: dict[str, Any] = {"ids": None, "addresses": None, "indices": None}
        selection[selector] = [row for row, _, _ in requests]
        places = self._rows(**selection).places(blob_column)
        return [
            (index, address, None if place is None else BlobFile(place, 0).read_range(offset, length))
            for index, ((address, place), (_, offset, length)) in enumerate(zip(places, requests, strict=True))
        ]


class _Rows:
    """Selected rows: fragment by fragment, and physical positions."""

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
    def of(cls, source: ScanSource, lookup: RowIdLookup, ids: Any, addresses: Any, indices: Any) -> _Rows:
        if sum(given is not None for given in (ids, addresses, indices)) != 1:
            raise InvalidInputError("Exactly one of ids, indices, or addresses must be specified")
        readers = [FragmentReader(fragment, source.locator) for fragment in source.fragments]
        if indices is not None:
            places = find_rows_at(source, row_positions(indices))
            return cls(source, readers, places.owners, places.positions)
        if ids is not None and lookup.is_stable:
            return cls._by_stable_id(source, readers, lookup, row_ids(ids))
        return cls._by_address(source, readers, row_positions(addresses if ids is None else ids))

    @classmethod
    def _by_stable_id(
        cls, source: ScanSource, readers: list[FragmentReader], lookup: RowIdLookup, wanted: npt.NDArray[np.uint64]
    ) -> _Rows:
        places = lookup.find(wanted)
        missing = wanted[~places.is_found]
        if len(missing):
            raise RowOutOfRangeError(
                f"row id {int(missing[0])} does not exist: {len(missing)} of the {len(wanted)} requested row ids were "
                "deleted or never assigned",
                expected=len(wanted),
                found=len(wanted) - len(missing),
            )
        return cls(source, readers, places.owners, places.positions)

    @classmethod
    def _by_address(cls, source: ScanSource, readers: list[FragmentReader], wanted: npt.NDArray[np.int64]) -> _Rows:
        indices = {fragment.id: index for index, fragment in enumerate(source.fragments)}
        positions = wanted & _OFFSET_MASK
        owners = np.zeros(len(wanted), np.int64)
        for fragment_id in np.unique(wanted >> _FRAGMENT_SHIFT).tolist():
            here = (wanted >> _FRAGMENT_SHIFT) == fragment_id
            index = indices.get(fragment_id)
            if index is None:
                raise RowOutOfRangeError(f"row address {int(wanted[here][0])}: there is no fragment {fragment_id}")
            if int(positions[here].max()) >= source.fragments[index].physical_rows:
                raise RowOutOfRangeError(f"fragment {fragment_id} has no row {int(positions[here].max())}")
            if bool(np.isin(positions[here], readers[index].deleted_rows()).any()):
                raise NotSupportedError(f"a selected row of fragment {fragment_id} is deleted")
            owners[here] = index
        return cls(source, readers, owners, positions)

    def places(self, column: str) -> list[tuple[int, BlobPlace | None]]:
        """Address of the row and where its value is; None for nulls."""
        schema = stored_schema(self._source.schema)
        wanted = project(schema, [column])
        leaf = schema.find(column)
        if leaf is None or not leaf.is_blob:
            raise InvalidInputError(f"the column {column!r} is not a blob column", column=column)
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


def _member(array: pa.Array, path: str, top: str) -> pa.Array:
    """The member at a path; nulls of the structs above are its own."""
    rest = path[len(top) + 1 :]
    while rest:
        names = [member.name for member in array.type]
        head = rest if rest in names else next(name for name in names if rest.startswith(f"{name}."))
        array = array.flatten()[names.index(head)]
        rest = rest[len(head) + 1 :]
    return array
