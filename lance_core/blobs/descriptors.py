"""Resolves blob descriptors to the locations of their values: the data file, a sidecar, or another file.

====  ===========  ==========================================================
Kind  Name         Location
====  ===========  ==========================================================
0     inline       the data file, [position, position + size)
1     packed       sidecar ``blob_id``, [position, position + size); other rows may share the value
2     dedicated    sidecar ``blob_id``, the whole file; other rows may share the value
3     external     ``blob_uri``, below base path ``blob_id``; absolute if ``blob_id`` is 0;
                   [position, position + size), or the whole file if size is 0
4     managed      ``blob_uri``, below the root of the data file,
                   [position, position + size); other rows may share the value
5     managed      ``blob_uri``, below base path ``blob_id``; otherwise the same as kind 4
====  ===========  ==========================================================

Descriptors of version 1 have no kind: their values are inline. The path of a sidecar is derived from ``blob_id``. A URI
relative to a root or a base path must not refer to a location outside it.

**Source:** tables of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from lance_core.blobs.files import BlobPlace
from lance_core.encodings.leaf_arrays import bytes_of, validity_of
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.file.blob_sidecars import sidecar_directory, sidecar_name
from lance_core.file.blob_values import bytes_array
from lance_core.file.value_ranges import read_values
from lance_core.io.uri import resolve
from lance_core.table.base_paths import Location
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lance_core.table.base_paths import FileLocator

__all__ = ["BlobDescriptors"]

_INLINE, _PACKED, _DEDICATED, _EXTERNAL, _MANAGED, _MANAGED_IN_BASE = range(6)
_MAX_VALUES_BYTES: Final = np.uint64((1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class BlobDescriptors:
    """The descriptors of some rows of one blob column of one fragment.

    Attributes:
        valid: (num_rows,) mask of non-null rows.
        kinds: (num_rows,) uint8, the kind of each descriptor.
        positions: (num_rows,) uint64, the position of the first byte of each value in its object.
        sizes: (num_rows,) uint64, the size of each value in bytes; 0 if the value is a whole external file.
        ids: (num_rows,) uint32, the ``blob_id`` of each descriptor.
        uris: the ``blob_uri`` of each descriptor; None for descriptors of version 1.
        file: the data file that contains the column.
        locator: locates the files of the table.
        base_id: the base path of the data file; None for the table's own root.
    """

    valid: NDArray[np.bool_]
    kinds: NDArray[np.uint8]
    positions: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    ids: NDArray[np.uint32]
    uris: pa.Array | None
    file: Location
    locator: FileLocator
    base_id: int | None

    @classmethod
    def of(
        cls, array: pa.StructArray, file: Location, locator: FileLocator, base_id: int | None = None
    ) -> BlobDescriptors:
        """Read the fields of an array of descriptors.

        Args:
            array: an array of the stored type of a blob column.
            file: the data file that contains the column.
            locator: locates the files of the table.
            base_id: the base path of the data file; None for the table's own root.
        """
        names = [member.name for member in array.type]
        positions, sizes = (_words(array.field(name), "<u8") for name in ("position", "size"))
        own = validity_of(array)
        valid = np.ones(len(array), np.bool_) if own is None else own
        if "kind" not in names:
            # Files of 2.0 mark nulls this way, because their structs cannot be null.
            valid = valid & ~((positions == 1) & (sizes == 0))
            nothing = np.zeros(len(array), np.uint32)
            return cls(valid, nothing.astype(np.uint8), positions, sizes, nothing, None, file, locator, base_id)
        kinds, ids = _words(array.field("kind"), "u1"), _words(array.field("blob_id"), "<u4")
        if bool((kinds[valid] > _MANAGED_IN_BASE).any()):
            raise NotSupportedError(
                f"{file.path}: blob kind {int(kinds[valid].max())} is not supported", path=file.path
            )
        return cls(valid, kinds, positions, sizes, ids, array.field("blob_uri"), file, locator, base_id)

    def places(self) -> list[BlobPlace | None]:
        """Return the location of each value, or None if it is null; looks up the sizes of whole external files."""
        found: list[BlobPlace | None] = [None] * len(self.valid)
        for rows, where in self._objects(np.flatnonzero(self.valid)):
            starts, sizes = self._bounds(rows, where)
            for row, start, size in zip(rows.tolist(), starts.tolist(), sizes.tolist(), strict=True):
                found[row] = BlobPlace(where.store, where.path, start, size)
        return found

    def load(self) -> pa.Array:
        """Read the values into an array of type large_binary.

        All values in the same object are read together.

        Raises:
            CorruptDataError: a value extends past the end of its object, or the inline values together are larger than
                the data file.
            NotFoundError: an object is missing.
        """
        rows = np.flatnonzero(self.valid & ((self.sizes > 0) | (self.kinds == _EXTERNAL)))
        lengths = np.zeros(len(self.valid), np.int64)
        buffers: list[pa.Buffer] = []
        order: list[NDArray[np.int64]] = []
        for here, where in self._objects(rows):
            starts, sizes = self._bounds(here, where)
            if self.kinds[here[0]] < _EXTERNAL:
                _check_bounds(where, starts, sizes, is_shared=bool(self.kinds[here[0]] != _INLINE))
            # Whole files may be empty; their buffers are empty too.
            buffers += read_values(partial(where.store.get_ranges, where.path), starts, sizes)
            lengths[here] = sizes
            order.append(here)
        valid = None if bool(self.valid.all()) else self.valid
        if len(order) < 2:
            return bytes_array(buffers, lengths, valid)
        # The values are ordered by object; move every value to its row.
        found = np.concatenate(order)
        if len(buffers) == len(found):
            buffers = [buffers[place] for place in np.argsort(found).tolist()]
            return bytes_array(buffers, lengths, valid)
        joined = bytes_array(buffers, np.append(lengths[found], 0), None)
        places = np.full(len(self.valid), len(found))
        places[found] = np.arange(len(found))
        return joined.take(pa.array(places, mask=None if valid is None else ~valid))

    def check(self) -> None:
        """Check the descriptors against the files of the table; files outside the table are not checked.

        Raises:
            NotFoundError: a file is missing.
            CorruptDataError: a value extends past the end of its file.
        """
        inside = np.flatnonzero(self.valid & (self.kinds != _EXTERNAL) & (self.sizes > 0))
        for rows, where in self._objects(inside):
            _check_bounds(where, *self._bounds(rows, where), is_shared=bool(self.kinds[rows[0]] != _INLINE))

    def declared(self) -> pa.Array:
        """Return the values in the input form of ``lance.blob.v2`` columns: bytes, or URIs for external values."""
        outside = self.valid & (self.kinds == _EXTERNAL)
        inside = replace(self, valid=self.valid & ~outside)
        data = inside.load()
        texts: list[str | None] = [None]
        numbers = np.zeros(len(outside), np.int64)
        for rows, base_id, uri in self._references(np.flatnonzero(outside)):
            numbers[rows] = len(texts)
            texts.append(self.locator.uri_below_base(base_id, uri) if base_id else uri)
        uris = pa.array(texts, pa.string()).take(pa.array(numbers))
        whole = ~outside | (self.sizes == 0)
        members = [
            data,
            uris,
            pa.array(self.positions, mask=whole),
            pa.array(self.sizes, mask=whole),
        ]
        names = ["data", "uri", "position", "size"]
        return pa.StructArray.from_arrays(members, names=names, mask=pa.array(~self.valid))

    def _objects(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Location]]:
        """Yield the objects that contain the values of some rows, each with its rows in ascending order.

        Raises:
            CorruptDataError: a value ends beyond the maximum file size, or a reference is invalid.
        """
        behind = rows[self.positions[rows] > _MAX_VALUES_BYTES - np.minimum(self.sizes[rows], _MAX_VALUES_BYTES)]
        behind = np.append(behind, rows[self.sizes[rows] > _MAX_VALUES_BYTES])
        if len(behind):
            start, size = int(self.positions[behind[0]]), int(self.sizes[behind[0]])
            raise CorruptDataError(
                f"{self.file.path}: a blob ends at byte {start + size}, which exceeds the maximum file size of "
                f"{_MAX_VALUES_BYTES} bytes",
                path=self.file.path,
            )
        kinds = self.kinds[rows]
        inline = rows[kinds == _INLINE]
        if len(inline):
            yield inline, self.file
        store, directory = self.file.store, sidecar_directory(self.file.path)
        beside = rows[(kinds == _PACKED) | (kinds == _DEDICATED)]
        for here in _groups(beside, self.ids[beside]):
            yield here, Location(store, store.join(directory, sidecar_name(int(self.ids[here[0]]))))
        for here, base_id, uri in self._references(rows[kinds == _EXTERNAL]):
            yield here, self._outside(base_id, uri)
        for here, _, uri in self._references(rows[kinds == _MANAGED]):
            yield here, self.locator.below_base(self.base_id, uri)
        for here, base_id, uri in self._references(rows[kinds == _MANAGED_IN_BASE]):
            yield here, self.locator.below_base(base_id, uri)

    def _references(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int, str]]:
        """Yield each distinct reference: its rows, the id of its base path, and its URI."""
        if not len(rows) or self.uris is None:
            return
        # The bytes in files need not be UTF-8.
        encoded = self.uris.take(pa.array(rows)).cast(pa.binary()).fill_null(b"").dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.uint64)
        texts = encoded.dictionary.to_pylist()
        keys = self.ids[rows].astype(np.uint64) << np.uint64(32) | codes
        for group in _groups(np.arange(len(rows)), keys):
            text = texts[int(codes[group[0]])]
            try:
                uri = text.decode()
            except UnicodeDecodeError as error:
                raise CorruptDataError(f"{self.file.path}: blob URI {text!r:.200} is not valid UTF-8") from error
            yield rows[group], int(self.ids[rows[group[0]]]), uri

    def _outside(self, base_id: int, uri: str) -> Location:
        if base_id:
            return self.locator.below_base(base_id, uri)
        # A path without a scheme would be resolved against the working directory.
        if "://" not in uri or "\0" in unquote(uri):
            raise CorruptDataError(
                f"{self.file.path}: blob URI {uri!r:.200} is not absolute, or contains a null character",
                path=self.file.path,
            )
        return Location(*resolve(uri, self.locator.storage_options))

    def _bounds(self, rows: NDArray[np.int64], where: Location) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the starts and sizes of values in one object; the size of a whole external object is looked up."""
        kinds, starts, sizes = self.kinds[rows], self.positions[rows], self.sizes[rows]
        starts = np.where(kinds == _DEDICATED, np.uint64(0), starts)
        whole = (kinds == _EXTERNAL) & (sizes == 0)
        if not bool(whole.any()):
            return starts, sizes
        num_bytes = np.uint64(where.store.head(where.path).num_bytes)
        return np.where(whole, np.uint64(0), starts), np.where(whole, num_bytes, sizes)


def _check_bounds(
    where: Location, starts: NDArray[np.uint64], sizes: NDArray[np.uint64], *, is_shared: bool = False
) -> None:
    """Check that the values are inside the file and, unless bytes may be shared, together no larger than the file."""
    num_bytes = where.store.head(where.path).num_bytes
    limit = np.uint64(num_bytes)
    total = 0.0 if is_shared else float(sizes.sum(dtype=np.float64))
    leaves = (sizes > limit) | (starts > limit - np.minimum(sizes, limit))
    if total > num_bytes or bool(leaves.any()):
        raise CorruptDataError(
            f"{where.path}: blob values overlap or extend past the end of the file ({counted(num_bytes, 'byte')})",
            path=where.path,
        )


def _groups(values: NDArray[np.int64], keys: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Split values by key; the values of each key keep their order."""
    if not len(values):
        return []
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    return np.split(values[order], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)


def _words(member: pa.Array, dtype: str) -> NDArray[Any]:
    words = bytes_of(member.buffers()[1]).view(dtype)
    return words[member.offset : member.offset + len(member)]
