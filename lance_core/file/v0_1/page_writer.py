"""PageWriter: the pages of one batch of a field, depth first.

Nulls have no place in a page. What lies under one is left out or zeroed, so that it reads back as zero, as empty, or,
where empty means null, as null again.

**Source:** byte map in :mod:`lance_core.file.v0_1.layout`; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.leaf_arrays import is_variable_width, validity_of
from lance_core.encodings.v0_1.binary import encode_binary
from lance_core.encodings.v0_1.list_offsets import encode_lists
from lance_core.encodings.v0_1.plain import encode_plain
from lance_core.encodings.v0_1.statistics import PageStatistics, has_statistics, page_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lance_core.schema.field import Field

__all__ = ["PageWriter", "fields_with_statistics"]


_MOST_BYTES: Final = 16
"""Of one value, or of two offsets."""


class PageWriter:
    """Collects bytes and where they are; whoever owns it moves the bytes on.

    Args:
        position: where in the file the next byte will be.

    Attributes:
        position: as above.
        parts: bytes that are not yet moved on.
        entries: field id -> (position, length) of its pages, in the order of the batches.
        statistics: field id -> of its pages, in the order of the batches.
    """

    def __init__(self, position: int) -> None:
        """No pages yet."""
        self.position = position
        self.parts: list[NDArray[np.uint8]] = []
        self.entries: dict[int, list[tuple[int, int]]] = {}
        self.statistics: dict[int, list[PageStatistics]] = {}

    def write(self, field: Field, array: pa.Array, *, with_statistics: bool = False) -> None:
        """Add the pages of a field and of those below it.

        Args:
            field: the field.
            array: its rows, with keys in the place of dictionaries.
            with_statistics: whether statistics of its pages, and of those of struct members, are wanted.
        """
        self._write(field, array, None, with_statistics)

    def write_values(self, values: pa.Array) -> int:
        """Add a page that belongs to no field; returns its position."""
        validity = validity_of(values)
        if is_variable_width(values.type):
            return self._binary(values, validity)
        return self.append(encode_plain(values, validity))

    def _write(self, field: Field, array: pa.Array, visible: NDArray[np.bool_] | None, with_statistics: bool) -> None:
        validity = validity_of(array)
        if visible is not None:
            validity = visible if validity is None else validity & visible
        if field.is_struct:
            for index, child in enumerate(field.children):
                self._write(child, array.field(index), validity, with_statistics)
            return
        if field.is_list:
            offsets, items = encode_lists(array, validity)
            self._enter(field, self.append(offsets), len(array) + 1)
            self._write(field.children[0], items, None, False)
            return
        if pa.types.is_null(array.type):
            self._enter(field, self.position, len(array))
            return
        if with_statistics and not field.is_dictionary and has_statistics(array.type):
            # Bounds hold for what is read back: below a null struct these are zeros, not nulls.
            shown = array if visible is None else _zeroed(array, visible)
            self.statistics.setdefault(field.id, []).append(page_statistics(shown, validity_of(shown)))
        if is_variable_width(array.type):
            position = self._binary(array, validity)
        else:
            position = self.append(encode_plain(array, validity))
        self._enter(field, position, len(array))

    def _binary(self, array: pa.Array, validity: NDArray[np.bool_] | None) -> int:
        data, offsets = encode_binary(array, validity, self.position)
        self.append(data)
        return self.append(offsets)

    def append(self, data: NDArray[np.generic]) -> int:
        """Add bytes, whose memory is referenced; returns their position."""
        position = self.position
        if data.size:
            self.parts.append(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
            self.position += data.nbytes
        return position

    def _enter(self, field: Field, position: int, length: int) -> None:
        self.entries.setdefault(field.id, []).append((position, length))


def _zeroed(array: pa.Array, visible: NDArray[np.bool_]) -> pa.Array:
    """The array with zeros, or empty values, for the values that are not visible; nulls stay nulls."""
    if visible.all():
        return array
    zeros = pa.py_buffer(bytes(_MOST_BYTES))
    buffers = [None, zeros, zeros] if is_variable_width(array.type) else [None, zeros]
    zero = pa.Array.from_buffers(array.type, 1, buffers)[0]
    return pc.if_else(pc.or_(pa.array(visible), array.is_null()), array, zero)


def fields_with_statistics(field: Field) -> Iterator[Field]:
    """The fields whose pages have statistics: leaves that are reached through structs only."""
    if field.is_struct:
        for child in field.children:
            yield from fields_with_statistics(child)
    elif not (field.is_list or field.is_dictionary):
        yield field
