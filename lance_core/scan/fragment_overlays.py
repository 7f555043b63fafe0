"""FragmentOverlays: newer values of individual cells, which override the data files of a fragment.

A cell is the value of one column in one row. Each member of a struct has its own cells, but the entire content of a
list, map, or packed struct is a single cell. The validity of a struct is not a cell; it is always read from the data
files.

The overlays of each column are resolved once: for every covered position, this determines the newest overlay that
contains a value, and the row of the value in that overlay. Scans and takes then look up their rows in the result.

Source: ``lance.table.DataOverlayFile``; scans of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.schema.extension_types import storage_array
from lance_core.schema.projection import project_by_ids
from lance_core.table.data_file import DataFile, stored_fields
from lance_core.table.overlay_files import coverage
from lance_core.wording import counted, shown_list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt
    from pyroaring import BitMap

    from lance_core.file.reader import FileReader
    from lance_core.schema.field import Field, Schema
    from lance_core.table.fragment import Fragment

__all__ = ["FragmentOverlays"]


@dataclass(frozen=True, slots=True)
class _Covered:
    """The locations of the values that override cells of one column.

    Attributes:
        positions: covered positions in the fragment, ascending, shape (num_covered,).
        overlays: index of the overlay that contains the value of each position.
        rows: row of each value in the file of that overlay.
    """

    positions: npt.NDArray[np.uint32]
    overlays: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


class FragmentOverlays:
    """The overlays of one fragment.

    Args:
        fragment: the fragment.
        open_file: opens the data file of an overlay.
    """

    def __init__(self, fragment: Fragment, open_file: Callable[[DataFile], FileReader]) -> None:
        """Initialize without reading anything."""
        self._overlays = fragment.message.overlays
        self._num_rows = fragment.physical_rows
        self._what = f"fragment {fragment.id}"
        self._open_file = open_file
        self._covered: dict[frozenset[int], _Covered] = {}

    def __bool__(self) -> bool:
        """Return whether there are any overlays."""
        return bool(self._overlays)

    def lay_over(self, wanted: Schema, arrays: Sequence[pa.Array], positions: npt.NDArray[np.int64]) -> list[pa.Array]:
        """Replace covered cells with the newer values.

        Args:
            wanted: the projection, with the table's field ids.
            arrays: one array for each top-level field of the projection.
            positions: for each row of the arrays, its physical position in the fragment.

        Raises:
            CorruptDataError: an overlay is damaged, or has fewer values than the number of cells that it covers.
            NotSupportedError: an overlay covers a blob, or only part of a list.
        """
        return [self._laid_over(top, array, positions) for top, array in zip(wanted.fields, arrays, strict=True)]

    def check(self) -> None:
        """Open the file of every overlay and check that it has a value for every covered cell.

        Raises:
            NotFoundError: a file is missing.
            CorruptDataError: a file is damaged, or has too few values.
        """
        self._check_order()
        for overlay in self._overlays:
            bitmaps = (coverage(overlay, {each}, self._what) for each in overlay.data_file.fields if each >= 0)
            most = max((len(self._inside(bitmap)) for bitmap in bitmaps if bitmap is not None), default=0)
            self._check_rows(self._open_file(DataFile.from_proto(overlay.data_file)), most)

    def _laid_over(self, field: Field, array: pa.Array, positions: npt.NDArray[np.int64]) -> pa.Array:
        if field.is_struct and not field.is_packed and not field.is_blob:
            stored = storage_array(array)
            before = [stored.field(place) for place in range(len(field.children))]
            after = [
                self._laid_over(child, part, positions) for child, part in zip(field.children, before, strict=True)
            ]
            if all(left is right for left, right in zip(before, after, strict=True)):
                return array
            mask = stored.is_null() if stored.null_count else None
            whole = pa.StructArray.from_arrays(after, fields=list(stored.type), mask=mask)
            return whole if stored.type == array.type else pa.ExtensionArray.from_storage(array.type, whole)
        covered = self._resolved(field)
        places = np.searchsorted(covered.positions, positions)
        hits = places < len(covered.positions)
        hits[hits] = covered.positions[places[hits]] == positions[hits]
        if not hits.any():
            return array
        if pa.types.is_dictionary(array.type) and not field.is_dictionary:
            array = array.dictionary_decode()
        return self._replaced(field, array, np.flatnonzero(hits), covered, places[hits])

    def _replaced(
        self,
        field: Field,
        array: pa.Array,
        hits: npt.NDArray[np.int64],
        covered: _Covered,
        places: npt.NDArray[np.int64],
    ) -> pa.Array:
        """Return the array with the values at ``hits`` replaced by the covered cells at indices ``places``."""
        order = np.arange(len(array), dtype=np.int64)
        parts = [storage_array(array)]
        length = len(array)
        for overlay in np.unique(covered.overlays[places]).tolist():
            chosen = covered.overlays[places] == overlay
            values = self._values(overlay, field, covered.rows[places[chosen]], parts[0].type)
            order[hits[chosen]] = np.arange(length, length + len(values))
            length += len(values)
            parts.append(values)
        replaced = pa.concat_arrays(parts).take(pa.array(order))
        return replaced if replaced.type == array.type else pa.ExtensionArray.from_storage(array.type, replaced)

    def _values(self, overlay: int, field: Field, rows: npt.NDArray[np.int64], expected: pa.DataType) -> pa.Array:
        """Read values of a column, which the file may store inside a struct, as in the table, or at the top level."""
        file = DataFile.from_proto(self._overlays[overlay].data_file)
        columns = file.columns()
        leaves = {leaf.id for leaf in field.leaves()}
        if field.is_blob or not leaves <= columns.keys():
            raise NotSupportedError(
                f"{self._what}: overlay {file.path} covers {'blobs' if field.is_blob else 'only part'} of field "
                f"{field.name!r}, which is not supported",
                path=file.path,
                field=field.id,
            )
        reader = self._open_file(file)
        self._check_rows(reader, int(rows.max()) + 1)
        owners = dict(enumerate(stored_fields(reader.schema.fields, reader.version)))
        if not all(columns[leaf] in owners for leaf in leaves):
            raise CorruptDataError(
                f"overlay {reader.path} has {counted(len(owners), 'column')}, but the manifest maps fields to "
                f"columns {columns}",
                path=reader.path,
            )
        here = project_by_ids(reader.schema, {owners[columns[leaf]].id for leaf in leaves})
        values = _one_array(reader.take(here.fields, rows).column(0))
        while values.type != expected and pa.types.is_struct(values.type) and values.type.num_fields == 1:
            # Nulls of the struct become nulls of the values.
            values = storage_array(values.flatten()[0])
        if len(here.fields) > 1 or values.type != expected:
            raise CorruptDataError(
                f"overlay {reader.path} stores field {field.name!r} as {values.type}, expected {expected}",
                path=reader.path,
            )
        return values

    def _resolved(self, field: Field) -> _Covered:
        key = frozenset(node.id for node in field.walk())
        if key not in self._covered:
            self._covered[key] = self._resolve(key)
        return self._covered[key]

    def _resolve(self, field_ids: frozenset[int]) -> _Covered:
        self._check_order()
        found = [
            (place, self._inside(covered))
            for place, overlay in enumerate(self._overlays)
            if (covered := coverage(overlay, field_ids, self._what)) is not None
        ]
        positions = [np.frombuffer(covered.to_array(), np.uint32) for _, covered in found]
        every = np.concatenate([np.empty(0, np.uint32), *positions])
        overlays = np.repeat([place for place, _ in found], [len(each) for each in positions]).astype(np.int64)
        rows = np.concatenate([np.empty(0, np.int64), *(np.arange(len(each)) for each in positions)])
        order = np.argsort(every, kind="stable")
        ordered = every[order]
        # If a position occurs several times, the last occurrence belongs to the newest overlay.
        last = order[np.append(ordered[1:] != ordered[:-1], np.ones(min(len(ordered), 1), bool))]
        return _Covered(every[last], overlays[last], rows[last])

    def _inside(self, covered: BitMap) -> BitMap:
        """Return the covered positions that are in the fragment. Their ranks stay the same: all others are larger."""
        # Imported only when needed: few tables have overlays.
        from pyroaring import BitMap

        return covered & BitMap(range(self._num_rows))

    def _check_rows(self, reader: FileReader, needed: int) -> None:
        if reader.num_rows < needed:
            raise CorruptDataError(
                f"{self._what}: overlay {reader.path} covers at least {counted(needed, 'row')}, but has "
                f"{counted(reader.num_rows, 'value')}",
                path=reader.path,
                expected=needed,
                found=reader.num_rows,
            )

    def _check_order(self) -> None:
        versions = [overlay.committed_version for overlay in self._overlays]
        if any(left > right for left, right in pairwise(versions)):
            raise CorruptDataError(
                f"{self._what}: the overlays are not sorted from oldest to newest; found versions "
                f"{shown_list(versions)}"
            )


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return storage_array(column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks))
