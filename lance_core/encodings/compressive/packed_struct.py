"""packed_struct: structs of fixed-width members; the members of a row are stored side by side.

::

    row 0: member 0 | member 1 | ...      row 1: member 0 | member 1 | ...

Members cannot be null.

Source: ``lance.encodings21.PackedStruct``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.api import (
    Chunks,
    DataBlock,
    Decoder,
    EncodedChunks,
    Encoder,
    Encoding,
    FixedRows,
    FixedWidthBlock,
    MiniBlockForm,
    PerValueForm,
    StructBlock,
    VariableWidthBlock,
)
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.encodings.api import Picks

__all__ = ["ENCODING"]


def _describe(message: pb21.PackedStruct, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"packed_struct[{', '.join(map(str, message.bits_per_value))}]({child(message.values)})"


def _decode_chunks(message: pb21.PackedStruct, chunks: Chunks, decoder: Decoder) -> StructBlock:
    return _split(message, decoder.mini_block(message.values, chunks))


def _pick(message: pb21.PackedStruct, chunks: Chunks, picks: Picks, decoder: Decoder) -> StructBlock:
    return _split(message, decoder.pick(message.values, chunks, picks))


def _decode_rows(message: pb21.PackedStruct, rows: FixedRows | VariableWidthBlock, decoder: Decoder) -> StructBlock:
    return _split(message, decoder.per_value(message.values, rows))


def _split(message: pb21.PackedStruct, block: DataBlock) -> StructBlock:
    bits = tuple(message.bits_per_value)
    if not bits or any(width % 8 or width == 0 for width in bits):
        raise UnsupportedEncodingError(
            f"packed_struct: member widths must be positive multiples of 8 bits, found {list(bits)}",
            arm="packed_struct",
        )
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value != sum(bits):
        found = block.bits_per_value if isinstance(block, FixedWidthBlock) else type(block).__name__
        raise CorruptDataError(
            f"packed_struct: expected rows of {sum(bits)} bits, the total width of the members, found {found}"
        )
    rows = block.data.reshape(block.num_values, sum(bits) // 8)
    members = []
    at = 0
    for width in bits:
        data = np.ascontiguousarray(rows[:, at : at + width // 8]).reshape(-1)
        members.append(FixedWidthBlock(block.num_values, width, data))
        at += width // 8
    return StructBlock(block.num_values, tuple(members))


def _encode_chunks(block: Any, values_per_chunk: int, encoder: Encoder) -> EncodedChunks:
    bits, rows = _joined(block)
    chunks = encoder.mini_block("flat", rows, values_per_chunk)
    return EncodedChunks(_message(bits, chunks.encoding), chunks.num_values, chunks.buffers, chunks.alignment)


def _encode_rows(
    block: Any, values_per_row: int, encoder: Encoder
) -> tuple[pb21.CompressiveEncoding, FixedRows | VariableWidthBlock]:
    bits, rows = _joined(block)
    encoding, values = encoder.per_value("flat", rows, values_per_row)
    return _message(bits, encoding), values


def _joined(block: Any) -> tuple[list[int], FixedWidthBlock]:
    """Return the width of each member, and the rows with all members side by side."""
    if not isinstance(block, StructBlock):
        raise InternalError(f"packed_struct: expected a StructBlock, found {type(block).__name__}")
    columns, bits = [], []
    for member in block.members:
        if not isinstance(member, FixedWidthBlock) or member.bits_per_value % 8 or not member.bits_per_value:
            raise InternalError("packed_struct: members must have a fixed width in whole bytes")
        bits.append(member.bits_per_value)
        columns.append(member.data.reshape(block.num_values, member.bits_per_value // 8))
    return bits, FixedWidthBlock(block.num_values, sum(bits), np.hstack(columns).reshape(-1))


def _message(bits: list[int], values: pb21.CompressiveEncoding) -> pb21.CompressiveEncoding:
    return pb21.CompressiveEncoding(packed_struct=pb21.PackedStruct(bits_per_value=bits, values=values))


ENCODING: Final = Encoding(
    arm="packed_struct",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, _encode_chunks, _pick),
    per_value=PerValueForm(_decode_rows, _encode_rows),
)
