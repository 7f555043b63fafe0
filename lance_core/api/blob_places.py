"""From descriptors to the places of the values: data file, sidecar, or another file altogether.

====  ===========  ==========================================================
Kind  Name         Bytes
====  ===========  ==========================================================
0     inline       the data file, [position, position + size)
1     packed       sidecar ``blob_id``, [position, position + size)
2     dedicated    sidecar ``blob_id``, the whole of it
3     external     ``blob_uri``, below base path ``blob_id`` unless that is 0;
                   [position, position + size), the whole if size is 0
====  ===========  ==========================================================

Descriptors of v1 have no kind: their values are inline. Paths of sidecars are made from numbers; a reference below a
base path must stay below it.

**Source:** tables of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.api.blob_files import BlobPlace
from lance_core.encodings.leaf_arrays import bytes_of, validity_of
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.file.blob_sidecars import sidecar_directory, sidecar_name
from lance_core.file.blob_values import bytes_array
from lance_core.io.byte_range import ByteRange
from lance_core.io.uri import resolve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.table.base_paths import FileLocator, Location

__all__ = ["BlobDescriptors"]

_INLINE, _PACKED, _DEDICATED, _EXTERNAL = range(4)
_MAX_VALUES_BYTES: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class BlobDescriptors:
    """The descriptors of some rows of one blob column of one fragment.

    Attributes:
        valid: (num_rows,) which are not null.
        kinds: (num_rows,) uint8.
        positions: (num_rows,) uint64.
        sizes: (num_rows,) uint64.
        ids: (num_rows,) uint32.
        uris: one per row; None for v1.
        file: the data file.
        locator: finds base paths.
    """

    valid: NDArray[np.bool_]
    kinds: NDArray[np.uint8]
    positions: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    ids: NDArray[np.uint32]
    uris: pa.Array | None
    file: Location
    locator: FileLocator

    @classmethod
    def of(cls, array: pa.StructArray, file: Location, locator: FileLocator) -> BlobDescriptors:
        """From an array of descriptors.

        Args:
            array: of the stored type of a blob column.
            file: the data file that holds the column.
            locator: of the table.
        """
        names = [member.name for member in array.type]
        positions, sizes = (_words(array.field(name), "<u8") for name in ("position", "size"))
        own = validity_of(array)
        valid = np.ones(len(array), np.bool_) if own is None else own
        if "kind" not in names:
            # Files of 2.0 mark nulls so, as their structs have none.
            valid = valid & ~((positions == 1) & (sizes == 0))
            nothing = np.zeros(len(array), np.uint32)
            return cls(valid, nothing.astype(np.uint8), positions, sizes, nothing, None, file, locator)
        kinds, ids = _words(array.field("kind"), "u1"), _words(array.field("blob_id"), "<u4")
        if bool((kinds[valid] > _EXTERNAL).any()):
            raise NotSupportedError(
                f"{file.path}: blobs of kind {int(kinds[valid].max())} cannot be read", path=file.path
            )
        return cls(valid, kinds, positions, sizes, ids, array.field("blob_uri"), file, locator)

    def places(self) -> list[BlobPlace | None]:
        """Where each value is; None for null ones. Sizes of whole files are asked for."""
        return [self._place(row) if is_valid else None for row, is_valid in enumerate(self.valid.tolist())]

    def load(self) -> pa.Array:
        """The values as large_binary.

        Each object is read once, with all ranges of it.

        Raises:
            CorruptDataError: a value lies outside its object, or those of one object are larger than it.
            NotFoundError: an object is missing.
        """
        filled = self.valid & ((self.sizes > 0) | (self.kinds == _EXTERNAL))
        rows = np.flatnonzero(filled)
        buffers: dict[int, pa.Buffer] = {}
        for here in self._by_object(rows):
            buffers.update(zip(here.tolist(), self._read_object(here), strict=True))
        lengths = np.zeros(len(self.valid), np.int64)
        values = [buffers[row] for row in rows.tolist()]
        lengths[rows] = [value.size for value in values]
        # Whole files may turn out to be empty; their buffers add nothing.
        return bytes_array(values, lengths, None if bool(self.valid.all()) else self.valid)

    def check(self) -> None:
        """Compare what is described inside the table with the files; what lies outside is not looked at.

        Raises:
            NotFoundError: a sidecar is missing.
            CorruptDataError: a value leaves its file.
        """
        inside = np.flatnonzero(self.valid & (self.kinds != _EXTERNAL) & (self.sizes > 0))
        for rows in self._by_object(inside):
            self._checked_bounds(rows)

    def declared(self) -> pa.Array:
        """The values as ``lance.blob.v2`` columns declare them: bytes, or the URI of what lies outside the table."""
        outside = self.valid & (self.kinds == _EXTERNAL)
        inside = replace(self, valid=self.valid & ~outside)
        data = inside.load()
        uris = pa.array([self._uri(row) if is_outside else None for row, is_outside in enumerate(outside.tolist())])
        whole = ~outside | (self.sizes == 0)
        members = [
            data,
            uris.cast(pa.string()),
            pa.array(self.positions, mask=whole),
            pa.array(self.sizes, mask=whole),
        ]
        names = ["data", "uri", "position", "size"]
        return pa.StructArray.from_arrays(members, names=names, mask=pa.array(~self.valid))

    def _uri(self, row: int) -> str:
        uri = "" if self.uris is None else str(self.uris[row].as_py())
        base_id = int(self.ids[row])
        return self.locator.uri_below_base(base_id, uri) if base_id else uri

    def _by_object(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The rows whose values lie in the same object, object by object; external values one by one."""
        kinds, ids = self.kinds[rows], self.ids[rows]
        groups = [rows[kinds == _INLINE]]
        sidecar = (kinds == _PACKED) | (kinds == _DEDICATED)
        groups += [rows[sidecar & (ids == blob_id)] for blob_id in np.unique(ids[sidecar])]
        groups += [rows[kinds == _EXTERNAL][[index]] for index in range(int((kinds == _EXTERNAL).sum()))]
        return [group for group in groups if len(group)]

    def _read_object(self, rows: NDArray[np.int64]) -> list[pa.Buffer]:
        first = int(rows[0])
        place = self._place(first)
        if self.kinds[first] == _EXTERNAL:
            return place.store.get_ranges(place.path, [ByteRange(place.start, place.start + place.size)])
        starts, sizes = self._checked_bounds(rows)
        stops = starts + sizes
        ranges = [ByteRange(start, stop) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
        return place.store.get_ranges(place.path, ranges)

    def _checked_bounds(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Starts and sizes of values that lie in one file of the table."""
        place = self._place(int(rows[0]))
        starts = np.where(self.kinds[rows] == _DEDICATED, np.uint64(0), self.positions[rows])
        sizes = self.sizes[rows]
        total = float(sizes.sum(dtype=np.float64))
        num_bytes = place.store.head(place.path).num_bytes
        if total > num_bytes or bool((starts > np.uint64(num_bytes) - np.minimum(sizes, np.uint64(num_bytes))).any()):
            raise CorruptDataError(f"{place.path}: values leave the file of {num_bytes} bytes", path=place.path)
        return starts, sizes

    def _place(self, row: int) -> BlobPlace:
        kind, size = int(self.kinds[row]), int(self.sizes[row])
        start = int(self.positions[row])
        if start + size > _MAX_VALUES_BYTES:
            raise CorruptDataError(f"{self.file.path}: a blob ends at byte {start + size}", path=self.file.path)
        store = self.file.store
        if kind == _INLINE:
            return BlobPlace(store, self.file.path, start, size)
        if kind == _EXTERNAL:
            return self._external_place(row, start, size)
        path = store.join(sidecar_directory(self.file.path), sidecar_name(int(self.ids[row])))
        return BlobPlace(store, path, start if kind == _PACKED else 0, size)

    def _external_place(self, row: int, start: int, size: int) -> BlobPlace:
        uri = "" if self.uris is None else self.uris[row].as_py()
        base_id = int(self.ids[row])
        if base_id:
            found = self.locator.below_base(base_id, uri)
            store, path = found.store, found.path
        else:
            store, path = resolve(uri, self.locator.storage_options)
        return BlobPlace(store, path, start, size or store.head(path).num_bytes)


def _words(member: pa.Array, dtype: str) -> NDArray[Any]:
    words = bytes_of(member.buffers()[1]).view(dtype)
    return words[member.offset : member.offset + len(member)]
