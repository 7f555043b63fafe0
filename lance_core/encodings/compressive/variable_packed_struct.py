"""variable_packed_struct: structs stored row by row; at least one member has variable width or is a fixed-size list.

::

    row    member 0 | member 1 | ...
           fixed width: its bytes       variable width: length | bytes

The bytes of each member are encoded separately, as specified by the member's description. An empty row represents a
null struct, whose members are decoded as zeros and empty strings. Members cannot be null. The rows are the
variable-width values of a full-zip page.

Source: ``lance.encodings21.VariablePackedStruct``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.api import (
    DataBlock,
    Decoder,
    Encoder,
    Encoding,
    FixedRows,
    FixedSizeListBlock,
    PerValueForm,
    StructBlock,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["ENCODING"]

_LENGTH_BITS: Final = (8, 16, 32, 64)
_MAX_MEMBER_BITS: Final = 1 << 23
_MAX_INT32: Final = (1 << 31) - 1


def _describe(message: pb21.VariablePackedStruct, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"variable_packed_struct({', '.join(child(member.value) for member in message.fields)})"


def _decode_rows(
    message: pb21.VariablePackedStruct, rows: FixedRows | VariableWidthBlock, decoder: Decoder
) -> StructBlock:
    if not isinstance(rows, VariableWidthBlock):
        raise CorruptDataError("variable_packed_struct: expected values of variable width, found fixed width")
    cursor = _RowCursor(rows)
    members = tuple(_decode_member(member, cursor, decoder) for member in message.fields)
    cursor.require_end()
    return StructBlock(rows.num_values, members)


def _decode_member(member: pb21.VariablePackedStruct.FieldEncoding, cursor: _RowCursor, decoder: Decoder) -> DataBlock:
    layout = member.WhichOneof("layout")
    if layout == "bits_per_value" and member.bits_per_value % 8 == 0 and member.bits_per_value <= _MAX_MEMBER_BITS:
        return decoder.per_value(member.value, FixedRows(cursor.take_fixed(member.bits_per_value // 8)))
    if layout == "bits_per_length" and member.bits_per_length in _LENGTH_BITS:
        return decoder.per_value(member.value, cursor.take_variable(member.bits_per_length // 8))
    found = "unknown" if layout is None else f"{layout} = {getattr(member, layout)}"
    raise UnsupportedEncodingError(
        f"variable_packed_struct: a member layout is not supported: {found}", arm="variable_packed_struct"
    )


def _encode_rows(
    block: Any, _values_per_row: int, encoder: Encoder
) -> tuple[pb21.CompressiveEncoding, VariableWidthBlock]:
    if not isinstance(block, StructBlock):
        raise InternalError(f"variable_packed_struct: expected a StructBlock, found {type(block).__name__}")
    message = pb21.VariablePackedStruct()
    columns: list[Segments] = []
    for member in block.members:
        arm = "variable" if isinstance(member, VariableWidthBlock) else "flat"
        if isinstance(member, FixedSizeListBlock):
            arm = "fixed_size_list"
        encoding, values = encoder.per_value(arm, member)
        if isinstance(values, FixedRows):
            width = values.rows.shape[1]
            message.fields.add(value=encoding, bits_per_value=width * 8)
            data = np.ascontiguousarray(values.rows).reshape(-1)
            columns.append(Segments.evenly(data, block.num_values, width))
        else:
            width = values.offsets.itemsize
            message.fields.add(value=encoding, bits_per_length=width * 8)
            starts = values.offsets[:-1].astype(np.int64)
            sizes = values.offsets[1:] - starts
            columns.append(Segments.evenly(sizes.astype(f"<u{width}").view(np.uint8), block.num_values, width))
            columns.append(Segments(values.data, starts, sizes))
    data, bounds = interleave(columns)
    encoding = pb21.CompressiveEncoding(variable_packed_struct=message)
    return encoding, VariableWidthBlock(bounds if len(data) > _MAX_INT32 else bounds.astype(np.int32), data)


class _RowCursor:
    """Reads one member after another, each from all rows together; empty rows yield zeros and empty strings."""

    __slots__ = ("_at", "_data", "_is_filled", "_num_rows", "_stops")

    def __init__(self, rows: VariableWidthBlock) -> None:
        self._num_rows = rows.num_values
        self._data = rows.data
        self._is_filled: NDArray[np.bool_] = rows.offsets[1:] > rows.offsets[:-1]
        self._at = rows.offsets[:-1][self._is_filled].astype(np.int64)
        self._stops = rows.offsets[1:][self._is_filled].astype(np.int64)

    def take_fixed(self, width: int) -> NDArray[np.uint8]:
        """Return the next ``width`` bytes of every row: (num_rows, width) uint8."""
        taken = self._advance(np.full(len(self._at), width, np.int64))
        rows = np.zeros((self._num_rows, width), np.uint8)
        rows[self._is_filled] = taken.rows(width)
        return rows

    def take_variable(self, length_bytes: int) -> VariableWidthBlock:
        """Read a length from every row, and then as many bytes as the length specifies."""
        length_words = self._advance(np.full(len(self._at), length_bytes, np.int64)).rows(length_bytes)
        lengths = np.ascontiguousarray(length_words).view(f"<u{length_bytes}").reshape(-1)
        if int(lengths.max(initial=0)) > len(self._data):
            raise CorruptDataError(
                f"variable_packed_struct: a member of {counted(int(lengths.max()), 'byte')} extends past the "
                "end of its row"
            )
        sizes = np.zeros(self._num_rows, np.int64)
        sizes[self._is_filled] = lengths
        data = self._advance(lengths.astype(np.int64)).gather()
        return VariableWidthBlock(np.append(0, np.cumsum(sizes)), data)

    def require_end(self) -> None:
        """Check that the members have consumed every row completely."""
        if bool((self._at != self._stops).any()):
            raise CorruptDataError("variable_packed_struct: a row has bytes after its last member")

    def _advance(self, sizes: NDArray[np.int64]) -> Segments:
        taken = Segments(self._data, self._at, sizes)
        self._at = self._at + sizes
        if bool((self._at > self._stops).any()):
            raise CorruptDataError("variable_packed_struct: a member extends past the end of its row")
        return taken


ENCODING: Final = Encoding(
    arm="variable_packed_struct",
    describe=_describe,
    per_value=PerValueForm(_decode_rows, _encode_rows),
)
