"""Reads blob values, which are stored outside the pages, and replaces their descriptors with bytes.

A field with blob leaves is read in two steps. The first step reads descriptors from the pages and depends on the format
version. The second step reads the bytes that the descriptors refer to and is the same for all versions.

**Source:** ``lance.encodings21.BlobLayout``; ``lance.encodings.Blob``; files of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import bitmap_of, bytes_of, validity_of
from lance_core.encodings.nested_arrays import list_items, with_items
from lance_core.errors import CorruptDataError
from lance_core.file.file_bytes import run_steps, together
from lance_core.file.value_ranges import value_steps
from lance_core.schema.blob_fields import is_blob_v1, stored_field
from lance_core.schema.logical_types import arrow_field, arrow_type
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from lance_core.file.field_source import FieldSource, Pace, Segment
    from lance_core.file.file_bytes import Read, ReadSteps
    from lance_core.file.file_metadata import FileMetadata
    from lance_core.io.byte_range import ByteRange
    from lance_core.schema.field import Field

__all__ = ["BlobBytesSource", "bytes_array", "differing_leaves", "load_bytes", "with_blob_bytes", "with_leaves"]

_PACE_BYTES: Final = 32 * 1024 * 1024
"""Size in bytes that is assumed for a segment; the actual size of its values is unknown until its descriptors are read.
It equals the default of ``ReadConfig.ahead_bytes``, so that at most one segment of a large file is decoded ahead of the
consumer."""


def with_blob_bytes(
    metadata: FileMetadata,
    fields: Sequence[Field],
    sources: Callable[[Sequence[Field]], Sequence[FieldSource]],
    are_described: Callable[[Sequence[Field]], bool] | None = None,
) -> list[FieldSource]:
    """Return one source per field; sources of fields with blobs load the bytes if the projection requests bytes.

    Args:
        metadata: the open file.
        fields: top-level fields, possibly pruned.
        sources: creates the sources that read fields in the form stored in the pages.
        are_described: returns whether the pages of at least one blob leaf of a field contain descriptors; None if the
            pages of all blob leaves contain descriptors.
    """
    stored = []
    for top in fields:
        blobs = [leaf for leaf in top.leaves() if is_blob_v1(leaf)]
        lie_outside = bool(blobs) and (are_described is None or are_described(blobs))
        stored.append(stored_field(top) if lie_outside else top)
    return [
        source if top is below else BlobBytesSource(source, top, metadata.num_bytes, metadata.path)
        for source, top, below in zip(sources(stored), fields, stored, strict=True)
    ]


_SOURCE_BYTES: Final = 200
"""Approximate memory in bytes of a source of blobs, without the descriptors."""


@dataclass(frozen=True, slots=True)
class _LoadedSegment:
    """A segment of descriptors and the values that they refer to."""

    described: Segment
    start: int
    stop: int
    num_bytes: int


def _described(segment: Segment) -> Segment:
    return segment.described if isinstance(segment, _LoadedSegment) else segment


class BlobBytesSource:
    """A :class:`~lance_core.file.field_source.FieldSource` that returns the bytes of blob values.

    Args:
        described: the source of the same field, with descriptors in place of the values.
        field: the field, with large_binary in place of the descriptors.
        num_bytes: size of the file in bytes.
        path: path of the file, for messages.
    """

    def __init__(self, described: FieldSource, field: Field, num_bytes: int, path: str) -> None:
        """See the class docstring."""
        self._described = described
        self._field = field
        self._num_bytes = num_bytes
        self._path = path

    @property
    def field(self) -> Field:
        """The field that the source reads; its arrays have the type ``arrow_type(field)``."""
        return self._field

    @property
    def memory(self) -> int:
        """Approximate memory in bytes of the source itself."""
        return _SOURCE_BYTES + self._described.memory

    def as_dictionary(self) -> FieldSource:
        """Return this source: only structural files are read as dictionaries."""
        return self

    def plan(self, start: int, stop: int, *, batch_rows: int | None = None) -> Sequence[Segment]:
        """Return segments of at most ``batch_rows`` rows, because the values of a segment are loaded together."""
        step = max(stop - start, 1) if batch_rows is None else batch_rows
        pace = min(self._num_bytes, _PACE_BYTES)
        return [
            _LoadedSegment(segment, segment.start, segment.stop, max(segment.num_bytes, pace))
            for at in range(start, stop, step)
            for segment in self._described.plan(at, min(at + step, stop), batch_rows=batch_rows)
        ]

    def memory_of(self, segment: Segment) -> int:
        """Return 0: segments have at most as many rows as are requested at a time, so splitting saves no memory."""
        return 0

    def cut(self, segment: Segment, pace: Pace) -> Sequence[Segment]:
        """Return the segment unchanged."""
        return [segment]

    def first_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return the byte ranges that must be read first to decode the segment's descriptors."""
        return self._described.first_ranges(_described(segment))

    def guessed_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return the byte ranges that may contain the segment's descriptors."""
        return self._described.guessed_ranges(_described(segment))

    def decode(self, segment: Segment, read: Read) -> pa.Array:
        """Return the rows of one segment."""
        return run_steps(self._loaded(self._described.decode(_described(segment), read)), read)

    def take_steps(self, rows: NDArray[np.int64]) -> ReadSteps[list[pa.Array]]:
        """Read individual rows, given in ascending order, in steps; repeated rows are read only once."""
        distinct, places = np.unique(rows, return_inverse=True)
        described = yield from self._described.take_steps(distinct)
        arrays = yield from together([self._loaded(array) for array in described])
        if len(distinct) == len(rows):
            return arrays
        return [pa.concat_arrays(arrays).take(pa.array(places))]

    def guessed_offsets(self, rows: NDArray[np.int64]) -> Sequence[ByteRange]:
        """Return the guessed locations of offsets, as the source of the descriptors does."""
        return self._described.guessed_offsets(rows)

    def _loaded(self, array: pa.Array) -> ReadSteps[pa.Array]:
        """Replace the descriptors with the values; those of all leaves are read together."""
        readings = [
            _load_steps(descriptors, self._num_bytes, f"{self._path}, field {field.name!r}")
            for descriptors, field in differing_leaves(array, self._described.field, self._field)
        ]
        values = yield from together(readings)
        return with_leaves(array, self._described.field, self._field, iter(values))


def differing_leaves(array: pa.Array, stored: Field, wanted: Field) -> list[tuple[pa.Array, Field]]:
    """Return the array of every leaf that differs between two fields, and the wanted leaf.

    Args:
        array: an array of ``arrow_type(stored)``.
        stored: the field as stored, for example with descriptors.
        wanted: the same field with other leaves.
    """
    if stored == wanted:
        return []
    if stored.is_leaf:
        return [(array, wanted)]
    if stored.is_struct:
        members = (array.field(index) for index in range(len(stored.children)))
        parts = zip(members, stored.children, wanted.children, strict=True)
        return [found for part in parts for found in differing_leaves(*part)]
    return differing_leaves(list_items(array), stored.children[0], wanted.children[0])


def with_leaves(array: pa.Array, stored: Field, wanted: Field, leaves: Iterator[pa.Array]) -> pa.Array:
    """Replace every leaf that differs between two fields.

    Args:
        array: an array of ``arrow_type(stored)``.
        stored: the field as stored.
        wanted: the same field with the leaves to return.
        leaves: the arrays of the wanted leaves, in the order of :func:`differing_leaves`.

    Returns:
        An array of ``arrow_type(wanted)``.
    """
    if stored == wanted:
        return array
    if stored.is_leaf:
        return next(leaves)
    if stored.is_struct:
        members = [
            with_leaves(array.field(index), below, above, leaves)
            for index, (below, above) in enumerate(zip(stored.children, wanted.children, strict=True))
        ]
        mask = array.is_null() if array.null_count else None
        fields = [arrow_field(child) for child in wanted.children]
        return pa.StructArray.from_arrays(members, fields=fields, mask=mask)
    items = with_leaves(list_items(array), stored.children[0], wanted.children[0], leaves)
    return with_items(array, items, arrow_type(wanted))


def load_bytes(descriptors: pa.StructArray, read: Read, num_bytes: int, where: str) -> pa.Array:
    """Read the values to which descriptors refer; see :func:`_load_steps`."""
    return run_steps(_load_steps(descriptors, num_bytes, where), read)


def _load_steps(descriptors: pa.StructArray, num_bytes: int, where: str) -> ReadSteps[pa.Array]:
    """Read the values to which descriptors refer; all of the values are in one file.

    Null descriptors, and descriptors with position 1 and size 0, become null values.

    Args:
        descriptors: a struct array without duplicates, whose first members are position and size, both uint64.
        num_bytes: size of the file in bytes.
        where: file and field, for messages.

    Raises:
        CorruptDataError: a value is not within the file, or the values together are larger than the file.
    """
    position, size = (_words(descriptors.field(name)) for name in ("position", "size"))
    valid = validity_of(descriptors)
    # Files of 2.0 mark nulls this way, because their structs have none.
    marked = (position == 1) & (size == 0)
    if bool(marked.any()):
        valid = ~marked if valid is None else valid & ~marked
    filled = size > 0 if valid is None else (size > 0) & valid
    starts, sizes = position[filled], size[filled]
    limit = np.uint64(num_bytes)
    if bool(((starts > limit) | (sizes > limit - np.minimum(starts, limit))).any()):
        raise CorruptDataError(f"{where}: a value extends past the end of the file ({counted(num_bytes, 'byte')})")
    if float(sizes.sum(dtype=np.float64)) > num_bytes:
        raise CorruptDataError(
            f"{where}: the values together are larger than the file, which has {counted(num_bytes, 'byte')}"
        )
    buffers = yield from value_steps(starts, sizes)
    lengths = np.where(filled, size, np.uint64(0)).astype(np.int64)
    return bytes_array(buffers, lengths, valid)


def bytes_array(buffers: Sequence[pa.Buffer], lengths: NDArray[np.int64], valid: NDArray[np.bool_] | None) -> pa.Array:
    """Build a large_binary array.

    Args:
        buffers: one buffer per value that is neither null nor empty, in order; or a single buffer that contains all
            these values.
        lengths: length of each value in bytes, shape (num_values,); 0 for null and empty values.
        valid: mask of the non-null values, shape (num_values,); None if there are no nulls.
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    views = [bytes_of(buffer) for buffer in buffers]
    data = views[0] if len(views) == 1 else np.concatenate([np.empty(0, np.uint8), *views])
    parts = [bitmap_of(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), parts)


def _words(member: pa.Array) -> NDArray[Any]:
    buffer = bytes_of(member.buffers()[1])
    return buffer.view("<u8")[member.offset : member.offset + len(member)]
