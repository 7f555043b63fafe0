"""constant: one scalar, or null, for every value; no bytes are stored.

Pages of 2.1 and 2.2 use it only below fixed-size lists whose items are all null. A whole page of one scalar is another
thing: see ``structural/constant.py``.

Source: ``lance.encodings21.Constant``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_core.encodings.api import (
    Chunks,
    Decoder,
    Encoding,
    FixedRows,
    MiniBlockForm,
    NullBlock,
    PerValueForm,
    VariableWidthBlock,
)
from lance_core.errors import CorruptDataError, UnsupportedEncodingError

if TYPE_CHECKING:
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


def _require_null(message: pb21.Constant) -> None:
    if message.HasField("value"):
        raise UnsupportedEncodingError("constant: scalars inside another encoding are not supported", arm="constant")


ENCODING: Final = Encoding(
    arm="constant",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks),
    per_value=PerValueForm(_decode_rows),
)
