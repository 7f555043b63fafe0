"""Converts blob descriptors from the form that callers provide to the stored form, and writes inline values.

================  =========================================================================================
Kind              Stored members; all other members are 0 or empty
================  =========================================================================================
inline            position (a multiple of 64) and size of the bytes in the data file
packed            position, size, blob_id
dedicated         size, blob_id
external          position, size, blob_id, blob_uri
managed           position, size, blob_uri; blob_id contains the id of the base path, if any
================  =========================================================================================

**Source:** files of pylance 14.0.2. This module rejects descriptors that pylance accepts although no reader can
resolve them (a sidecar without an id, an inline value without bytes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.leaf_arrays import bitmap_of, validity_of
from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.file.aligned_values import BinaryValues, write_inline_values
from lance_core.schema.logical_types import arrow_type
from lance_core.schema.prepared_blobs import (
    DEDICATED,
    EXTERNAL,
    INLINE,
    MANAGED,
    MANAGED_IN_BASE,
    PACKED,
    is_managed_path,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.file.field_writer import BufferSink
    from lance_core.schema.field import Field

__all__ = ["described_prepared"]

_NEEDED: Final = {
    INLINE: ("data",),
    PACKED: ("blob_id", "blob_size", "position"),
    DEDICATED: ("blob_id", "blob_size"),
    EXTERNAL: ("uri",),
    MANAGED: ("uri", "blob_size", "position"),
    MANAGED_IN_BASE: ("uri", "blob_id", "blob_size", "position"),
}
_MAX_UINT64: Final = np.uint64((1 << 64) - 1)


def described_prepared(array: pa.StructArray, stored: Field, sink: BufferSink, *, is_of_table: bool) -> pa.Array:
    """Convert the descriptors of a column to the form that data files contain.

    Args:
        array: the descriptors, in the form that callers provide.
        stored: the field in the stored form.
        sink: receives the inline values.
        is_of_table: whether the file is written for a table. If so, the name of the file is chosen during the write, so
            the caller cannot have written sidecars for it.

    Raises:
        InvalidInputError: a descriptor lacks a value that its kind requires, or has an invalid value.
        NotSupportedError: a descriptor is not allowed in a file that is written for a table.
    """
    valid = _mask(array)
    kinds = np.where(valid, _words(array, "kind"), INLINE).astype(np.uint8)
    _check(array, valid, kinds, stored.name, is_of_table=is_of_table)
    is_inline = valid & (kinds == INLINE)
    has_place = valid & ~is_inline
    positions = np.where(has_place & (kinds != DEDICATED), _words(array, "position"), 0).astype(np.uint64)
    sizes = np.where(has_place, _words(array, "blob_size"), 0).astype(np.uint64)
    ids = np.where(has_place & (kinds != MANAGED), _words(array, "blob_id"), 0).astype(np.uint32)
    inline = np.flatnonzero(is_inline)
    values = BinaryValues.of(array.field("data"))
    positions[inline] = write_inline_values(values.segments.select(inline), sink)
    sizes[inline] = values.sizes[inline]
    keeps_uri = has_place & (kinds >= EXTERNAL)
    places = np.where(keeps_uri, np.arange(len(array)), len(array))
    uris = pa.concat_arrays([array.field("uri"), pa.array([""], pa.string())]).take(pa.array(places))
    members = [pa.array(kinds), pa.array(positions), pa.array(sizes), pa.array(ids), uris]
    dtype = arrow_type(stored)
    bitmap = bitmap_of(None if bool(valid.all()) else valid)
    return pa.Array.from_buffers(dtype, len(array), [bitmap], children=members)


def _check(
    array: pa.StructArray, valid: NDArray[np.bool_], kinds: NDArray[np.uint8], name: str, *, is_of_table: bool
) -> None:
    def refuse(wrong: NDArray[np.bool_], problem: str) -> None:
        if bool(wrong.any()):
            raise InvalidInputError(f"column {name!r}: value {int(np.argmax(wrong))} of the batch {problem}")

    refuse(valid & ~_mask(array.field("kind")), "has no kind")
    refuse(kinds > MANAGED_IN_BASE, "has an unknown kind")
    if is_of_table and bool((kinds != INLINE).any()):
        raise NotSupportedError(
            f"column {name!r}: descriptors that refer to other files can only be written to a data file with a known "
            "name; write the file with LanceFileSession and commit it as a fragment"
        )
    for kind, members in _NEEDED.items():
        for member in members:
            refuse(valid & (kinds == kind) & ~_mask(array.field(member)), f"has kind {kind} but no {member}")
    ids = _words(array, "blob_id")
    refuse(valid & ((kinds == PACKED) | (kinds == DEDICATED)) & (ids == 0), "has blob id 0; sidecar ids start at 1")
    refuse(
        valid & (kinds == MANAGED) & _mask(array.field("blob_id")),
        f"has kind {MANAGED}, which does not allow a blob_id",
    )
    ends_late = _words(array, "position") > _MAX_UINT64 - _words(array, "blob_size")
    refuse(valid & (kinds != INLINE) & ends_late, "has a range that ends above 2^64 - 1")
    uris = array.field("uri").fill_null("")
    refuse(valid & (kinds == EXTERNAL) & (pc.binary_length(uris).to_numpy() == 0), "has an empty uri")
    for uri in uris.filter(pa.array(valid & (kinds >= MANAGED))).unique().to_pylist():
        if not is_managed_path(uri):
            raise InvalidInputError(
                f"column {name!r}: the uri of a managed blob must be a relative path that contains no backslash, no "
                f"control character, and no segment that is empty, '.', or '..'; found {uri!r:.200}"
            )


def _mask(array: pa.Array) -> NDArray[np.bool_]:
    own = validity_of(array)
    return np.ones(len(array), np.bool_) if own is None else own


def _words(array: pa.StructArray, member: str) -> NDArray[Any]:
    words: NDArray[Any] = array.field(member).fill_null(0).to_numpy()
    return words
