"""Writes blob values outside the pages: takes arrays of values and returns arrays of descriptors.

=============  ===============================  ===============================================================
Blob version   Value                            Written to
=============  ===============================  ===============================================================
v1             any                              the data file, at a multiple of 64 bytes
v2             above the dedicated threshold    a sidecar of its own
v2             above the inline threshold       a shared sidecar, until that sidecar is full
v2             smaller or empty                 the data file, at a multiple of 64 bytes
v2             a URI                            no file, because only a reference is stored; if the value
                                                is fetched, the same file as for other v2 values
=============  ===============================  ===============================================================

The thresholds are set in the metadata of the field; see ``_Thresholds``. If the caller has already written values to
files, it passes descriptors instead; see ``prepared_placement.py``.

**Source:** files of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import bitmap_of, validity_of
from lance_core.encodings.nested_arrays import list_items, with_items
from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.file.aligned_values import BinaryValues, place_values, write_inline_values
from lance_core.file.prepared_placement import described_prepared
from lance_core.schema.blob_fields import is_blob_v1, is_prepared, stored_field
from lance_core.schema.logical_types import arrow_field, arrow_type
from lance_core.schema.prepared_blobs import DEDICATED, EXTERNAL, PACKED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.file.field_writer import BufferSink
    from lance_core.file.table_context import TableContext
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Field

__all__ = ["BlobPlacement"]

_MAX_UINT64: Final = np.uint64((1 << 64) - 1)

_INLINE_KEY: Final = "lance-encoding:blob-inline-size-threshold"
_DEDICATED_KEY: Final = "lance-encoding:blob-dedicated-size-threshold"
_PACK_KEY: Final = "lance-encoding:blob-pack-file-size-threshold"

_INLINE_BYTES: Final = 64 * 1024
_DEDICATED_BYTES: Final = 4 * 1024 * 1024
_PACK_BYTES: Final = 1024 * 1024 * 1024


class BlobPlacement:
    """Writes the values of one top-level field outside the pages. Not safe for concurrent use by several threads.

    Args:
        top: the top-level field, as declared in the schema.
        table: the table that the file is written for, required for v2 values; None for a standalone file, which accepts
            only descriptors.
        pack_bytes: maximum size of a shared sidecar in bytes; a maximum set in the field's metadata takes precedence.

    Raises:
        NotSupportedError: the field has v2 values, but the file is standalone.
        InvalidInputError: a threshold in the field's metadata is not a number.
    """

    def __init__(self, top: Field, table: TableContext | None, pack_bytes: int | None = None) -> None:
        """See the class docstring."""
        self._declared = top
        self._is_of_table = table is not None
        self.stored = stored_field(top)
        self._leaves: dict[int, _PlacementV2] = {}
        for leaf in top.leaves():
            if leaf.is_blob and not is_blob_v1(leaf) and not is_prepared(leaf):
                if table is None:
                    raise NotSupportedError(
                        f"column {leaf.name!r}: lance.blob.v2 values may need separate files, so they can only be "
                        "written to datasets; use write_dataset, or provide descriptors"
                    )
                self._leaves[leaf.id] = _PlacementV2(leaf, table, _Thresholds.of(leaf, pack_bytes))

    def place(self, array: pa.Array, sink: BufferSink) -> pa.Array:
        """Write the values of a batch; return the array with descriptors in place of the values."""
        return self._placed(array, self._declared, self.stored, sink)

    def finish(self) -> None:
        """Complete the sidecars that are still open."""
        for leaf in self._leaves.values():
            leaf.finish()

    def _placed(self, array: pa.Array, declared: Field, stored: Field, sink: BufferSink) -> pa.Array:
        if declared == stored:
            return array
        if is_blob_v1(declared):
            return _described_v1(array, stored, sink)
        if is_prepared(declared):
            return described_prepared(array, stored, sink, is_of_table=self._is_of_table)
        if declared.is_blob:
            return self._leaves[declared.id].described(array, stored, sink)
        if declared.is_struct:
            # flatten() hides values below null structs.
            members = [
                self._placed(member, before, after, sink)
                for member, before, after in zip(array.flatten(), declared.children, stored.children, strict=True)
            ]
            return _struct(members, stored, validity_of(array))
        items = self._placed(list_items(array), declared.children[0], stored.children[0], sink)
        return with_items(array, items, arrow_type(stored))


def _described_v1(array: pa.Array, stored: Field, sink: BufferSink) -> pa.Array:
    positions, sizes = place_values(array, sink)
    return _struct([pa.array(positions), pa.array(sizes)], stored, validity_of(array))


@dataclass(slots=True)
class _Pack:
    """A shared sidecar that is being written."""

    blob_id: int
    stream: WriteStream


@dataclass(slots=True)
class _PlacementV2:
    """Writes the values of one v2 leaf outside the pages."""

    leaf: Field
    table: TableContext
    thresholds: _Thresholds
    pack: _Pack | None = None

    def described(self, array: pa.StructArray, stored: Field, sink: BufferSink) -> pa.Array:
        num_values = len(array)
        valid = validity_of(array)
        kinds = np.zeros(num_values, np.uint8)
        positions, sizes = np.zeros(num_values, np.uint64), np.zeros(num_values, np.uint64)
        ids = np.zeros(num_values, np.uint32)
        uris = pa.array([""], pa.string()).take(pa.array(np.zeros(num_values, np.int64)))
        data = self._data(array, valid)
        outside = np.flatnonzero(_mask(array.field("uri"), valid))
        if len(outside):
            references = array.take(pa.array(outside))
            fetched = self._fetched(references)
            if fetched is not None:
                data = _merged(data, fetched, outside)
            else:
                kinds[outside] = EXTERNAL
                ids[outside], uris = self._references(references, outside, num_values)
                positions[outside], sizes[outside] = _bounds_of(references)
        values = BinaryValues.of(data)
        filled = values.sizes > 0
        dedicated = values.sizes > self.thresholds.dedicated
        packed = filled & ~dedicated & (values.sizes > self.thresholds.inline)
        inline = np.flatnonzero(_mask(data, valid) & ~dedicated & ~packed)
        positions[inline] = write_inline_values(values.segments.select(inline), sink)
        self._write_packed(values, np.flatnonzero(packed), ids, positions)
        self._write_dedicated(values, np.flatnonzero(dedicated), ids)
        kinds[packed], kinds[dedicated] = PACKED, DEDICATED
        sizes[filled] = values.sizes[filled]
        members = [pa.array(kinds), pa.array(positions), pa.array(sizes), pa.array(ids), uris]
        return _struct(members, stored, valid)

    def finish(self) -> None:
        if self.pack is not None:
            self.pack.stream.commit()
            self.pack = None

    def _data(self, array: pa.StructArray, valid: NDArray[np.bool_] | None) -> pa.Array:
        """Return the values given as bytes, after checking that each slot sets exactly one representation."""
        has_data, has_uri = (_mask(array.field(name), valid) for name in ("data", "uri"))
        expected = np.ones(len(array), np.bool_) if valid is None else valid
        wrong = np.flatnonzero((has_data.astype(np.uint8) + has_uri) != expected)
        if len(wrong):
            raise InvalidInputError(
                f"column {self.leaf.name!r}: the value at index {int(wrong[0])} of the batch must set exactly one of "
                "the members 'data' and 'uri'"
            )
        data = array.field("data")
        return (
            data
            if not bool(has_uri.any()) and valid is None
            else data.filter(pa.array(has_data)).take(pa.array(np.cumsum(has_data) - 1, mask=~has_data))
        )

    def _fetched(self, references: pa.StructArray) -> pa.Array | None:
        """Return the bytes that the URIs refer to, or None if the references are kept."""
        external = self.table.external
        if external is None:
            raise NotSupportedError(
                f"column {self.leaf.name!r}: references to values outside the table cannot be written to a standalone "
                "file"
            )
        starts, sizes = _bounds_of(references)
        if bool((starts > _MAX_UINT64 - sizes).any()):
            raise InvalidInputError(f"column {self.leaf.name!r}: external blob range overflows: it ends above 2^64 - 1")
        ranges = [(start, size) if size else None for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
        values = external.fetch(references.field("uri").to_pylist(), ranges)
        return None if values is None else pa.array(values, pa.large_binary())

    def _references(
        self, references: pa.StructArray, rows: NDArray[np.int64], num_values: int
    ) -> tuple[NDArray[np.uint32], pa.Array]:
        external = self.table.external
        base_ids, paths = ([], []) if external is None else external.place(references.field("uri").to_pylist())
        places = np.zeros(num_values, np.int64)
        places[rows] = np.arange(1, len(rows) + 1)
        return np.array(base_ids, np.uint32), pa.array(["", *paths], pa.string()).take(pa.array(places))

    def _write_packed(
        self, values: BinaryValues, rows: NDArray[np.int64], ids: NDArray[np.uint32], positions: NDArray[np.uint64]
    ) -> None:
        """Write the values to shared sidecars, with one write per sidecar regardless of the number of values."""
        while len(rows):
            stops = np.cumsum(values.sizes[rows])
            if self.pack is not None and self.pack.stream.position + int(stops[0]) > self.thresholds.pack:
                self.finish()
            if self.pack is None:
                self.pack = _Pack(*self.table.sidecars.create())
            position = self.pack.stream.position
            # The first value of a sidecar may exceed the threshold.
            num_here = max(1, int(np.searchsorted(stops, self.thresholds.pack - position, side="right")))
            here, rows = rows[:num_here], rows[num_here:]
            self.pack.stream.write(pa.py_buffer(values.segments.select(here).gather()))
            ids[here] = self.pack.blob_id
            positions[here] = position + stops[:num_here] - values.sizes[here]

    def _write_dedicated(self, values: BinaryValues, rows: NDArray[np.int64], ids: NDArray[np.uint32]) -> None:
        # Each value has its own file, so the loop runs once per file.
        for row in rows.tolist():
            ids[row], stream = self.table.sidecars.create()
            stream.write(pa.py_buffer(values.segments.segment(row)))
            stream.commit()


def _struct(members: list[pa.Array], stored: Field, valid: NDArray[np.bool_] | None) -> pa.Array:
    dtype = pa.struct([arrow_field(child) for child in stored.children])
    return pa.Array.from_buffers(dtype, len(members[0]), [bitmap_of(valid)], children=members)


def _mask(array: pa.Array, valid: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Return a mask of the slots that are valid and not below a null."""
    own = validity_of(array)
    if own is None:
        return np.ones(len(array), np.bool_) if valid is None else valid
    return own if valid is None else own & valid


def _merged(data: pa.Array, fetched: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    """Return the data with the fetched values inserted into some of its null slots."""
    places = np.arange(len(data))
    places[rows] = len(data) + np.arange(len(rows))
    return pa.concat_arrays([data, fetched]).take(pa.array(places))


def _bounds_of(references: pa.StructArray) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the position and size of the ranges; (0, 0) means the whole file."""
    names = [child.name for child in references.type]
    bounds: list[NDArray[Any]] = []
    for name in ("position", "size"):
        member = references.field(name) if name in names else pa.nulls(len(references), pa.uint64())
        bounds.append(member.fill_null(0).to_numpy())
    return bounds[0], bounds[1]


@dataclass(frozen=True, slots=True)
class _Thresholds:
    """Limits in bytes that determine where the values of a field are written.

    Attributes:
        inline: maximum size of a value in the data file.
        dedicated: maximum size of a value in a shared sidecar; checked first.
        pack: maximum size of a shared sidecar.
    """

    inline: int
    dedicated: int
    pack: int

    @classmethod
    def of(cls, leaf: Field, pack_bytes: int | None = None) -> Self:
        """Read the thresholds from the metadata of a field; ``pack_bytes`` is the default for the pack threshold.

        Raises:
            InvalidInputError: a threshold is not a number.
        """
        default = _PACK_BYTES if pack_bytes is None else pack_bytes
        return cls(
            _threshold(leaf, _INLINE_KEY, _INLINE_BYTES),
            _threshold(leaf, _DEDICATED_KEY, _DEDICATED_BYTES),
            _threshold(leaf, _PACK_KEY, default),
        )


def _threshold(leaf: Field, key: str, default: int) -> int:
    text = leaf.metadata.get(key)
    if text is None:
        return default
    if not (text.isdigit() and len(text) <= 20):
        raise InvalidInputError(
            f"column {leaf.name!r}: metadata {key!r} must be a whole number of bytes with at most 20 digits, found "
            f"{text.decode(errors='replace')!r}"
        )
    return int(text)
