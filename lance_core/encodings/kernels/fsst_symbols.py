"""FSST: a one-byte code represents a symbol of up to 8 bytes.

::

    table   u64 header | n symbols of 8 bytes, zero padded | n length bytes | unused
    header  0x46535354 << 32 | compressed << 24 | suffix limit << 16 | terminator << 8 | n

    code c < n    symbol c
    code 255      the next byte is a literal

A string never ends inside an escape, so the bytes of a run of 255s are alternately escapes and literals, starting with
an escape.

Expansion is a single Arrow ``take`` from a list of all possible expansions of a code: a symbol, nothing (for an
escape), or one byte (after an escape). No pure numpy implementation was faster. Large inputs use a compiled kernel.
Strings with different tables are expanded together, so that many small pages take little longer than one large page.
Finding symbols and compressing are implemented only as compiled kernels.

Symbols are found in a sample, in rounds. Each round compresses the sample with the symbols found so far, counts codes
and pairs of neighboring codes, and keeps the symbols and pairs that cover the most bytes.

Source: Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression", VLDB 2020; checked against pylance
14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.loading import compiled_kernels, load_now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "MAX_CODES",
    "SymbolTable",
    "compress_strings",
    "expand_codes",
    "parse_symbols",
    "serialize_symbols",
    "train_symbols",
]

MAX_CODES: Final = (1 << 28) - 1
"""Maximum number of codes that can be expanded together; the result is then smaller than 2 GiB."""

_MAGIC: Final = 0x46535354
_ESCAPE: Final = 255
_SYMBOL_BYTES: Final = 8
_TABLE_BYTES: Final = 2312
_MAX_INT32: Final = (1 << 31) - 1

_SAMPLE_BYTES: Final = 1 << 15
_MAX_PIECE_BYTES: Final = 512
_ROUNDS: Final = 8
_CANDIDATE_SLOTS: Final = 1 << 16
_MAX_CANDIDATES: Final = 1024
"""Maximum number of candidate symbols: more than a symbol table can contain, because some collide with better ones."""
_MANY_STRINGS: Final = 1024
_MEASURED_PART: Final = 32
_ROOM: Final = 1.03
_SLACK_BYTES: Final = 64
_MASKS: Final = np.array([(1 << 8 * length) - 1 for length in range(_SYMBOL_BYTES + 1)], np.dtype("<u8"))
"""For each length of a symbol, a mask that selects that many low-order bytes of a word."""

_CODES: Final = 256
"""Number of codes of a table, including those that have no symbol."""
_MAX_UINT16: Final = (1 << 16) - 1
_FULL_COUNT: Final = 5
"""Minimum number of occurrences of a candidate symbol in the last round. In earlier rounds, it is lower, because the
samples are smaller."""


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """A parsed symbol table.

    Attributes:
        is_compressed: whether the strings are compressed; if False, they are stored unchanged.
        padded: the symbols, at most 255, each padded to 8 bytes with zeros.
        lengths: the number of bytes of each symbol.
    """

    is_compressed: bool
    padded: bytes
    lengths: bytes

    @classmethod
    def of(cls, is_compressed: bool, symbols: Sequence[bytes] = ()) -> Self:
        """Return a table of the given symbols."""
        padded = b"".join(symbol.ljust(_SYMBOL_BYTES, b"\0") for symbol in symbols)
        return cls(is_compressed, padded, bytes(map(len, symbols)))

    @property
    def symbols(self) -> tuple[bytes, ...]:
        """The symbols."""
        starts = range(0, len(self.padded), _SYMBOL_BYTES)
        return tuple([self.padded[at : at + length] for at, length in zip(starts, self.lengths, strict=True)])


def parse_symbols(table: bytes) -> SymbolTable | None:
    """Parse a symbol table; return None if it is malformed."""
    header = int.from_bytes(table[:_SYMBOL_BYTES], "little")
    num_symbols = header & 0xFF
    lengths_start = _SYMBOL_BYTES * (num_symbols + 1)
    lengths = table[lengths_start : lengths_start + num_symbols]
    if header >> 32 != _MAGIC or len(lengths) != num_symbols or max(lengths, default=0) > _SYMBOL_BYTES:
        return None
    words = np.frombuffer(table, np.dtype("<u8"), num_symbols, _SYMBOL_BYTES)
    padded = words & _MASKS[np.frombuffer(lengths, np.uint8)]
    return SymbolTable(bool(header >> 24 & 1), padded.tobytes(), lengths)


def expand_codes(
    tables: Sequence[SymbolTable], codes: NDArray[np.uint8], offsets: NDArray[Any], num_strings: Sequence[int] = ()
) -> tuple[NDArray[np.uint8], NDArray[np.int32]] | None:
    """Expand many strings.

    Args:
        tables: the symbol tables.
        codes: (num_codes,) uint8, at most ``MAX_CODES``; the compressed strings, back to back.
        offsets: (num_strings + 1,) positions in ``codes``.
        num_strings: the number of consecutive strings that each table compresses; empty if there is only one table.

    Returns:
        The bytes and the (num_strings + 1,) int32 offsets into them; None if a string ends inside an escape.
    """
    if len(codes) == 0:
        return codes, offsets.astype(np.int32)
    stops = np.cumsum(num_strings, dtype=np.int64) if len(tables) > 1 else np.array([len(offsets) - 1], np.int64)
    compiled = compiled_kernels("fsst_expand", len(codes))
    if compiled is not None:
        return _expand_compiled(compiled, tables, stops, codes, offsets)
    return _expand_with_take(tables, stops, codes, offsets)


def serialize_symbols(table: SymbolTable) -> bytes:
    """Return the 2312 bytes of a serialized table."""
    header = _MAGIC << 32 | int(table.is_compressed) << 24 | len(table.lengths)
    packed = header.to_bytes(_SYMBOL_BYTES, "little") + table.padded + table.lengths
    return packed.ljust(_TABLE_BYTES, b"\0")


def train_symbols(data: NDArray[np.uint8], offsets: NDArray[Any]) -> SymbolTable | None:
    """Find symbols in sample strings; the same strings always result in the same symbols.

    Args:
        data: (num_bytes,) uint8.
        offsets: (num_strings + 1,) ascending positions in ``data``.

    Returns:
        The symbol table, or None if numba does not work.
    """
    compiled = load_now("fsst")
    if compiled is None:
        return None
    words, lengths = np.zeros(256, np.uint64), np.zeros(256, np.int64)
    matcher = _matcher(compiled, SymbolTable.of(True), words, lengths)
    num_symbols = 0
    starts, stops = _sample(offsets)
    for number in range(1, _ROUNDS + 1):
        # The first symbols are rough, so a part of the sample is enough for them.
        chosen = slice(number, None, _ROUNDS // number) if number < _ROUNDS else slice(None)
        codes, bounds = _compress(compiled, matcher, data, starts[chosen], stops[chosen], np.dtype(np.int64))
        singles = np.zeros(compiled.PSEUDO_CODES, np.int32)
        doubles = np.zeros((compiled.PSEUDO_CODES, compiled.PSEUDO_CODES), np.int32)
        compiled.count_codes(codes, bounds, words, lengths, singles, doubles)
        found_words = np.zeros(_CANDIDATE_SLOTS, np.uint64)
        found_lengths, gains = np.zeros(_CANDIDATE_SLOTS, np.int64), np.zeros(_CANDIDATE_SLOTS, np.int64)
        least = max(1, _FULL_COUNT * number // _ROUNDS)
        compiled.candidates(singles, doubles, words, lengths, num_symbols, least, found_words, found_lengths, gains)
        filled = np.flatnonzero(found_lengths)
        best = filled[np.argsort(-gains[filled], kind="stable")[:_MAX_CANDIDATES]]
        words, lengths = np.zeros(256, np.uint64), np.zeros(256, np.int64)
        num_symbols = compiled.build(found_words[best], found_lengths[best], False, words, lengths, *matcher)
    padded, found = words[:num_symbols].astype("<u8"), lengths[:num_symbols].astype(np.uint8)
    return SymbolTable(True, padded.tobytes(), found.tobytes())


def compress_strings(
    table: SymbolTable, data: NDArray[np.uint8], offsets: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[Any]] | None:
    """Compress many strings.

    Args:
        table: any symbol table, such as one returned by :func:`train_symbols`.
        data: (num_bytes,) uint8.
        offsets: (num_strings + 1,) ascending positions in ``data``; the first need not be 0.

    Returns:
        The codes and the (num_strings + 1,) offsets into them, which start at 0; None if numba does not work.
    """
    compiled = load_now("fsst")
    if compiled is None:
        return None
    matcher = _matcher(compiled, table, np.zeros(256, np.uint64), np.zeros(256, np.int64))
    is_small = 2 * (int(offsets[-1]) - int(offsets[0])) <= _MAX_INT32
    return _compress(compiled, matcher, data, offsets[:-1], offsets[1:], np.dtype(np.int32 if is_small else np.int64))


def _sample(offsets: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the starts and stops of evenly spaced pieces of strings in the data."""
    first, last = int(offsets[0]), int(offsets[-1])
    mean_bytes = (last - first) / max(1, len(offsets) - 1)
    num_pieces = int(_SAMPLE_BYTES / min(max(mean_bytes, 1), _MAX_PIECE_BYTES)) + 1
    positions = first + np.arange(num_pieces) * (last - first) // num_pieces
    chosen = np.searchsorted(offsets, positions.astype(offsets.dtype), side="right") - 1
    chosen = np.minimum(chosen, len(offsets) - 2)
    starts, stops = offsets[chosen].astype(np.int64), offsets[chosen + 1].astype(np.int64)
    starts = np.where(stops - starts > _MAX_PIECE_BYTES, positions, starts)
    stops = np.minimum(stops, starts + _MAX_PIECE_BYTES)
    starts, indices = np.unique(starts, return_index=True)
    return starts, stops[indices]


def _matcher(
    compiled: Any, table: SymbolTable, words: NDArray[np.uint64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return the tables that find symbols; ``words`` and ``lengths`` are (256,) and are filled."""
    hashes, pairs = np.empty(compiled.HASHES, np.uint64), np.empty(compiled.PAIRS, np.int32)
    compiled.build(*_words_and_lengths(table), True, words, lengths, hashes, pairs)
    return hashes, pairs


def _compress(
    compiled: Any,
    matcher: tuple[NDArray[np.uint64], NDArray[np.int32]],
    data: NDArray[np.uint8],
    starts: NDArray[Any],
    stops: NDArray[Any],
    dtype: np.dtype[Any],
) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    num_bytes = int((stops - starts).sum(dtype=np.int64))
    codes, offsets = np.empty(2 * num_bytes + 1, np.uint8), np.empty(len(starts) + 1, dtype)
    compiled.compress(data, starts, stops, *matcher, codes, offsets)
    return codes[: int(offsets[-1])], offsets


def _expand_compiled(
    compiled: Any,
    tables: Sequence[SymbolTable],
    stops: NDArray[np.int64],
    codes: NDArray[np.uint8],
    offsets: NDArray[Any],
) -> tuple[NDArray[np.uint8], NDArray[np.int32]] | None:
    words, lengths = _symbols_of_codes(tables)
    lengths = lengths.astype(np.uint64)
    num_strings = len(offsets) - 1
    # Estimate the output size from a part at each end; measure the rest only if the estimate is too small.
    part = num_strings // _MEASURED_PART if num_strings >= _MANY_STRINGS else num_strings
    ends = [(0, part)] if part == num_strings else [(0, part), (num_strings - part, num_strings)]
    sizes = [compiled.measure(codes, offsets, first, last, lengths, stops) for first, last in ends]
    if min(sizes) < 0:
        return None
    num_bytes = sum(sizes)
    if len(ends) > 1:
        codes_measured = max(1, sum(int(offsets[last]) - int(offsets[first]) for first, last in ends))
        num_bytes = int(num_bytes * _ROOM * ((int(offsets[-1]) - int(offsets[0])) / codes_measured))
    expanded_offsets = np.zeros(len(offsets), np.int32)
    room = np.empty(num_bytes + _SLACK_BYTES, np.uint8)
    reached = compiled.expand(codes, offsets, 0, words, lengths, stops, room, expanded_offsets)
    if 0 <= reached < num_strings:
        left = compiled.measure(codes, offsets, reached, num_strings, lengths, stops)
        done = room[: int(expanded_offsets[reached])]
        # For the kernel, one more complete string might follow the last one.
        longest = _SYMBOL_BYTES * int((offsets[reached + 1 :] - offsets[reached:-1]).max())
        room = np.empty(len(done) + max(left, 0) + longest + _SLACK_BYTES, np.uint8)
        room[: len(done)] = done
        reached = compiled.expand(codes, offsets, reached, words, lengths, stops, room, expanded_offsets)
    return None if reached < num_strings else (room[: int(expanded_offsets[-1])], expanded_offsets)


def _expand_with_take(
    tables: Sequence[SymbolTable], stops: NDArray[np.int64], codes: NDArray[np.uint8], offsets: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int32]] | None:
    first_literal = _CODES * len(tables)
    indices: NDArray[Any] = codes.astype(np.uint16 if first_literal + _CODES <= _MAX_UINT16 else np.int32)
    if len(tables) > 1:
        num_codes = np.diff(offsets[stops], prepend=offsets[:1])
        indices += np.repeat(np.arange(0, first_literal, _CODES).astype(indices.dtype), num_codes)
    in_escape_run = np.flatnonzero(codes == _ESCAPE)
    if len(in_escape_run):
        position = np.arange(len(in_escape_run))
        starts_run = np.append(True, np.diff(in_escape_run) != 1)
        run_start = np.maximum.accumulate(np.where(starts_run, position, 0))
        escapes = in_escape_run[(position - run_start) % 2 == 0]
        ends_open = np.zeros(len(codes) + 1, np.bool_)
        ends_open[escapes + 1] = True
        if bool(ends_open[offsets[1:]][offsets[1:] > offsets[:-1]].any()):
            return None
        indices[escapes + 1] = first_literal + codes[escapes + 1].astype(indices.dtype)
    expanded = _symbols_and_literals(tables).take(pa.array(indices))
    word_stops = np.frombuffer(expanded.buffers()[1], np.int32)[: len(codes) + 1]
    data = expanded.buffers()[2]
    num_bytes = int(word_stops[-1])
    return np.frombuffer(data, np.uint8, num_bytes) if num_bytes else codes[:0], word_stops[offsets]


def _words_and_lengths(table: SymbolTable) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    words = np.frombuffer(table.padded, np.dtype("<u8")).astype(np.uint64)
    return words, np.frombuffer(table.lengths, np.uint8).astype(np.int64)


def _symbols_of_codes(tables: Sequence[SymbolTable]) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Return the symbols of all codes as words, and their lengths, (num_tables, 256); 0 for codes without a symbol."""
    words = b"".join([table.padded.ljust(_CODES * _SYMBOL_BYTES, b"\0") for table in tables])
    lengths = b"".join([table.lengths.ljust(_CODES, b"\0") for table in tables])
    shape = (len(tables), _CODES)
    return np.frombuffer(words, "<u8").reshape(shape), np.frombuffer(lengths, np.uint8).reshape(shape)


def _symbols_and_literals(tables: Sequence[SymbolTable]) -> pa.Array:
    """Return the 256 symbols of each table, followed by all 256 single bytes."""
    words, lengths = _symbols_of_codes(tables)
    is_used = np.arange(_SYMBOL_BYTES) < lengths.reshape(-1, 1)
    symbols = words.view(np.uint8).reshape(-1, _SYMBOL_BYTES)[is_used]
    data = np.concatenate([symbols, np.arange(_CODES, dtype=np.uint8)])
    offsets = np.zeros(lengths.size + _CODES + 1, np.int32)
    np.cumsum(lengths, out=offsets[1 : lengths.size + 1])
    offsets[lengths.size + 1 :] = len(symbols) + 1 + np.arange(_CODES)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), lengths.size + _CODES, buffers)
