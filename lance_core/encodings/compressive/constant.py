"""constant: one scalar, or null, for every value; no bytes are stored.

Pages of 2.1 and 2.2 use it only below fixed-size lists whose items are all null. A whole page of one scalar is another
thing: see ``structural/constant.py``.

Source: ``lance.encodings21.Constant``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lance_core.encodings.api import (
    Chunks,
    Decoder,
    EncodedChunks,
    Encoder,
    Encoding,
    FixedRows,
    MiniBlockForm,
    NullBlock,
    PerValueForm,
    VariableWidthBlock,
)
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21

__all__ = ["ENCODING"]


def _describe(message: pb21.Constant, _child: object) -> str:
    return f"constant[{message.value.hex()}]" if message.HasField("value") else "constant[null]"


def _decode_chunks(message: pb21.Constant, chunks: Chunks, _decoder: Decoder) -> NullBlock:
    _require_null(message)
    return NullBlock(chunks.total_values)


def _decode_rows(message: pb21.Constant, rows: FixedRows | VariableWidthBlock, _decoder: Decoder) -> NullBlock:
    _require_null(message)
    if not isinstance(rows, FixedRows) or rows.rows.shape[1]:
        raise CorruptDataError("constant: the page stores bytes for values that need none")
    return NullBlock(rows.num_values)


def _encode_chunks(block: Any, values_per_chunk: int, _encoder: Encoder) -> EncodedChunks:
    if not isinstance(block, NullBlock):
        raise InternalError("constant: only nulls need no bytes")
    num_values = np.full(-(-block.num_values // values_per_chunk), values_per_chunk, np.int64)
    num_values[-1:] = block.num_values - (len(num_values) - 1) * values_per_chunk
    return EncodedChunks(pb21.CompressiveEncoding(constant=pb21.Constant()), num_values, ())


def _encode_rows(
    block: Any, values_per_row: int, _encoder: Encoder
) -> tuple[pb21.CompressiveEncoding, FixedRows | VariableWidthBlock]:
    if not isinstance(block, NullBlock):
        raise InternalError("constant: only nulls need no bytes")
    rows = np.empty((block.num_values // values_per_row, 0), np.uint8)
    return pb21.CompressiveEncoding(constant=pb21.Constant()), FixedRows(rows, values_per_row)


def _require_null(message: pb21.Constant) -> None:
    if message.HasField("value"):
        raise UnsupportedEncodingError("constant: scalars inside another encoding are not supported", arm="constant")


ENCODING: Final = Encoding(
    arm="constant",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, _encode_chunks),
    per_value=PerValueForm(_decode_rows, _encode_rows),
)
