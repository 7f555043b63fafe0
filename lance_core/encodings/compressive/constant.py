"""constant: a single scalar, or null, for all values; no bytes are stored.

Pages of 2.1 and 2.2 use this encoding only inside fixed-size lists whose items are all null. A block stores a scalar in
little-endian byte order; no release writes this form, but pylance 14.0.2 reads it. For pages whose values are all
equal, see ``structural/constant.py``.

Source: ``lance.encodings21.Constant``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.api import (
    BlockForm,
    Chunks,
    Decoder,
    EncodedChunks,
    Encoder,
    Encoding,
    FixedRows,
    FixedWidthBlock,
    MiniBlockForm,
    NullBlock,
    PerValueForm,
    VariableWidthBlock,
)
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ENCODING"]

_MAX_BLOCK_BYTES: Final = 64 << 20
"""Maximum size of a decoded block in bytes. Without a limit, a few bytes could expand to any number of bytes."""


def _describe(message: pb21.Constant, _child: object) -> str:
    return f"constant[{message.value.hex()}]" if message.HasField("value") else "constant[null]"


def _decode_chunks(message: pb21.Constant, chunks: Chunks, _decoder: Decoder) -> NullBlock:
    _require_null(message)
    return NullBlock(chunks.total_values)


def _decode_rows(message: pb21.Constant, rows: FixedRows | VariableWidthBlock, _decoder: Decoder) -> NullBlock:
    _require_null(message)
    if not isinstance(rows, FixedRows) or rows.rows.shape[1]:
        raise CorruptDataError("constant: the page has bytes, but null values take no bytes")
    return NullBlock(rows.num_values)


def _decode_block(message: pb21.Constant, blocks: Chunks, _decoder: Decoder) -> FixedWidthBlock:
    if not message.value:
        raise UnsupportedEncodingError("constant: a block without a scalar is not supported", arm="constant")
    if any(int(buffer.sizes.sum()) for buffer in blocks.buffers):
        raise CorruptDataError("constant: a block has bytes, but constant values take no bytes")
    value, num_values = np.frombuffer(message.value, np.uint8), blocks.total_values
    if len(value) * num_values > _MAX_BLOCK_BYTES:
        raise UnsupportedEncodingError(
            f"constant: a block of {counted(num_values, 'value')} of {counted(len(value), 'byte')} is too large; "
            f"at most {_MAX_BLOCK_BYTES} bytes are supported",
            arm="constant",
        )
    return FixedWidthBlock(num_values, 8 * len(value), np.tile(value, num_values))


def _encode_chunks(block: Any, values_per_chunk: int, _encoder: Encoder) -> EncodedChunks:
    if not isinstance(block, NullBlock):
        raise InternalError(f"constant: expected a NullBlock, found {type(block).__name__}")
    num_values = np.full(-(-block.num_values // values_per_chunk), values_per_chunk, np.int64)
    num_values[-1:] = block.num_values - (len(num_values) - 1) * values_per_chunk
    return EncodedChunks(pb21.CompressiveEncoding(constant=pb21.Constant()), num_values, ())


def _encode_rows(
    block: Any, values_per_row: int, _encoder: Encoder
) -> tuple[pb21.CompressiveEncoding, FixedRows | VariableWidthBlock]:
    if not isinstance(block, NullBlock):
        raise InternalError(f"constant: expected a NullBlock, found {type(block).__name__}")
    rows = np.empty((block.num_values // values_per_row, 0), np.uint8)
    return pb21.CompressiveEncoding(constant=pb21.Constant()), FixedRows(rows, values_per_row)


def _encode_block(block: Any) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
    if not isinstance(block, FixedWidthBlock) or block.num_values == 0 or block.bits_per_value % 8:
        raise InternalError(
            f"constant: expected a nonempty FixedWidthBlock with values of whole bytes, found a {type(block).__name__}"
        )
    rows = block.data.reshape(block.num_values, -1)
    if bool((rows != rows[0]).any()):
        raise InternalError("constant: the values of a block are not all equal")
    return pb21.CompressiveEncoding(constant=pb21.Constant(value=rows[0].tobytes())), np.empty(0, np.uint8)


def _require_null(message: pb21.Constant) -> None:
    if message.HasField("value"):
        raise UnsupportedEncodingError("constant: scalars inside another encoding are not supported", arm="constant")


ENCODING: Final = Encoding(
    arm="constant",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, _encode_chunks),
    per_value=PerValueForm(_decode_rows, _encode_rows),
    block=BlockForm(_decode_block, _encode_block),
)
