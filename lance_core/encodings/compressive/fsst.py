"""fsst: byte strings compressed with a table of short byte strings.

The child encoding stores the compressed strings; its offsets refer to the compressed bytes.

Source: ``lance.encodings21.Fsst``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lance_core.encodings.api import (
    Chunks,
    DataBlock,
    Decoder,
    EncodedChunks,
    Encoder,
    Encoding,
    FixedRows,
    MiniBlockForm,
    PagesForm,
    PerValueForm,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.fsst_symbols import (
    MAX_CODES,
    SymbolTable,
    expand_codes,
    parse_symbols,
    serialize_symbols,
    train_symbols,
)
from lance_core.encodings.kernels.fsst_symbols import compress_strings as compress_with
from lance_core.errors import CorruptDataError, InternalError, NotSupportedError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_core.encodings.api import Picks

__all__ = ["ENCODING", "CompressedStrings", "compress_strings", "symbols_ratio", "train", "wrapped", "wrapped_rows"]

_SAMPLE_BYTES: Final = 1 << 15
_SAMPLE_RUNS: Final = 8


@dataclass(frozen=True, slots=True)
class CompressedStrings:
    """Strings encoded with a symbol table.

    Attributes:
        symbol_table: the table in its stored form.
        strings: the compressed strings (sequences of codes), one per input string.
    """

    symbol_table: bytes
    strings: VariableWidthBlock


def train(block: VariableWidthBlock) -> SymbolTable | None:
    """Return a symbol table for the strings of a page, or None if the compiled kernel is unavailable."""
    return train_symbols(block.data, block.offsets)


def symbols_ratio(table: SymbolTable, block: VariableWidthBlock) -> float:
    """Estimate the ratio of compressed to uncompressed size from evenly spaced samples of the strings."""
    num_values = block.num_values
    mean_bytes = max(1.0, float(block.offsets[-1] - block.offsets[0]) / num_values)
    run = max(1, int(_SAMPLE_BYTES / mean_bytes / _SAMPLE_RUNS))
    raw = packed = 0
    for first in range(0, num_values, max(run, num_values // _SAMPLE_RUNS)):
        offsets = block.offsets[first : first + run + 1]
        found = compress_with(table, block.data, offsets)
        if found is None:
            return 1.0
        raw += int(offsets[-1] - offsets[0])
        packed += len(found[0])
    return packed / raw if raw else 1.0


def compress_strings(block: VariableWidthBlock, table: SymbolTable | None = None) -> CompressedStrings | None:
    """Compress the strings of a page; return None if the compiled kernel is unavailable.

    Args:
        block: the strings.
        table: a table returned by :func:`train`; if None, a table is trained.
    """
    table = table or train(block)
    found = None if table is None else compress_with(table, block.data, block.offsets)
    if table is None or found is None:
        return None
    codes, offsets = found
    return CompressedStrings(
        serialize_symbols(table), VariableWidthBlock(offsets.astype(block.offsets.dtype, copy=False), codes)
    )


def wrapped(compressed: CompressedStrings, chunks: EncodedChunks) -> EncodedChunks:
    """Wrap encoded chunks of codes in ``fsst``, so that the result represents the original strings."""
    encoding = _message(compressed, chunks.encoding)
    return EncodedChunks(encoding, chunks.num_values, chunks.buffers, chunks.alignment)


def _describe(message: pb21.Fsst, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"fsst({child(message.values)})"


def _decode_chunks(message: pb21.Fsst, chunks: Chunks, decoder: Decoder) -> VariableWidthBlock:
    return _expand([message], (), decoder.mini_block(message.values, chunks))


def _pick(message: pb21.Fsst, chunks: Chunks, picks: Picks, decoder: Decoder) -> VariableWidthBlock:
    return _expand([message], (), decoder.pick(message.values, chunks, picks))


def _common(message: pb21.Fsst) -> pb21.Fsst:
    """Return the message without its symbol table, unless the table specifies that the strings are uncompressed."""
    table = parse_symbols(message.symbol_table)
    is_compressed = table is not None and table.is_compressed
    return pb21.Fsst(symbol_table=b"" if is_compressed else message.symbol_table, values=message.values)


def _decode_rows(message: pb21.Fsst, rows: FixedRows | VariableWidthBlock, decoder: Decoder) -> VariableWidthBlock:
    return _expand([message], (), decoder.per_value(message.values, rows))


def _expand(messages: Sequence[pb21.Fsst], num_values: Sequence[int], block: DataBlock) -> VariableWidthBlock:
    """Expand the values of one or more pages; for ``num_values``, see :func:`expand_codes`."""
    if not isinstance(block, VariableWidthBlock):
        raise CorruptDataError("fsst: the compressed values do not have variable width")
    if len(messages) > 1 and sum(num_values) != block.num_values:
        raise InternalError(f"fsst: decoded {counted(block.num_values, 'value')}, expected {sum(num_values)}")
    tables = [_parsed(message) for message in messages]
    if not all(table.is_compressed for table in tables):
        return block
    first, last = int(block.offsets[0]), int(block.offsets[-1])
    if last - first > MAX_CODES:
        raise NotSupportedError(f"fsst: cannot read {last - first} compressed bytes at once; the limit is {MAX_CODES}")
    offsets_from_0 = block.offsets - block.offsets[0] if first else block.offsets
    expanded = expand_codes(tables, block.data[first:last], offsets_from_0, num_values)
    if expanded is None:
        raise CorruptDataError("fsst: the compressed bytes end in the middle of an escape sequence")
    data, offsets = expanded
    return VariableWidthBlock(offsets, data)


def _parsed(message: pb21.Fsst) -> SymbolTable:
    table = parse_symbols(message.symbol_table)
    if table is None:
        raise CorruptDataError(f"fsst: the symbol table ({counted(len(message.symbol_table), 'byte')}) is malformed")
    return table


def wrapped_rows(compressed: CompressedStrings, encoding: pb21.CompressiveEncoding) -> pb21.CompressiveEncoding:
    """Wrap the encoding of the codes of a full-zip page in ``fsst``, so that it represents the original strings."""
    return _message(compressed, encoding)


def _encode_chunks(block: Any, values_per_chunk: int, encoder: Encoder) -> EncodedChunks:
    compressed = _compressed(block)
    return wrapped(compressed, encoder.mini_block("variable", compressed.strings, values_per_chunk))


def _encode_rows(
    block: Any, values_per_row: int, encoder: Encoder
) -> tuple[pb21.CompressiveEncoding, FixedRows | VariableWidthBlock]:
    compressed = _compressed(block)
    encoding, rows = encoder.per_value("variable", compressed.strings, values_per_row)
    return _message(compressed, encoding), rows


def _compressed(block: Any) -> CompressedStrings:
    """Return the compressed strings; if compression is impossible, the strings and a table for uncompressed strings."""
    if not isinstance(block, VariableWidthBlock):
        raise InternalError(f"fsst: expected a VariableWidthBlock, found {type(block).__name__}")
    return compress_strings(block) or CompressedStrings(serialize_symbols(SymbolTable.of(False)), block)


def _message(compressed: CompressedStrings, values: pb21.CompressiveEncoding) -> pb21.CompressiveEncoding:
    return pb21.CompressiveEncoding(fsst=pb21.Fsst(symbol_table=compressed.symbol_table, values=values))


ENCODING: Final = Encoding(
    arm="fsst",
    describe=_describe,
    mini_block=MiniBlockForm(
        _decode_chunks, _encode_chunks, _pick, PagesForm(_common, lambda message: message.values, _expand)
    ),
    per_value=PerValueForm(_decode_rows, _encode_rows),
)
