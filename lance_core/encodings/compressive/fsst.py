"""fsst: byte strings compressed with a table of short byte strings.

The child stores the compressed strings; its offsets count compressed bytes.

Source: ``lance.encodings21.Fsst``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_core.encodings.api import (
    Chunks,
    DataBlock,
    Decoder,
    Encoding,
    FixedRows,
    MiniBlockForm,
    PerValueForm,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.fsst_symbols import MAX_CODES, expand_codes, parse_symbols
from lance_core.errors import CorruptDataError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.proto import pb21

__all__ = ["ENCODING"]


def _describe(message: pb21.Fsst, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"fsst({child(message.values)})"


def _decode_chunks(message: pb21.Fsst, chunks: Chunks, decoder: Decoder) -> VariableWidthBlock:
    return _expand(message, decoder.mini_block(message.values, chunks))


def _decode_rows(message: pb21.Fsst, rows: FixedRows | VariableWidthBlock, decoder: Decoder) -> VariableWidthBlock:
    return _expand(message, decoder.per_value(message.values, rows))


def _expand(message: pb21.Fsst, block: DataBlock) -> VariableWidthBlock:
    if not isinstance(block, VariableWidthBlock):
        raise CorruptDataError("fsst: the compressed values are not byte strings")
    table = parse_symbols(message.symbol_table)
    if table is None:
        raise CorruptDataError(f"fsst: the symbol table of {len(message.symbol_table)} bytes is malformed")
    if not table.is_compressed:
        return block
    first, last = int(block.offsets[0]), int(block.offsets[-1])
    if last - first > MAX_CODES:
        raise NotSupportedError(f"fsst: {last - first} compressed bytes at once, at most {MAX_CODES} are supported")
    expanded = expand_codes(table, block.data[first:last], block.offsets - block.offsets[0])
    if expanded is None:
        raise CorruptDataError("fsst: the compressed bytes end inside an escape")
    data, offsets = expanded
    return VariableWidthBlock(offsets, data)


ENCODING: Final = Encoding(
    arm="fsst",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks),
    per_value=PerValueForm(_decode_rows),
)
