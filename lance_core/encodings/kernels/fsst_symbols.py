"""FSST: a byte stands for a symbol of up to 8 bytes.

::

    table   u64 header | n symbols of 8 bytes, zero padded | n length bytes | unused
    header  0x46535354 << 32 | compressed << 24 | suffix limit << 16 | terminator << 8 | n

    code c < n    symbol c
    code 255      the next byte stands for itself

A string never ends inside an escape, so a run of 255s alternates between escape and literal from its start.

Expanding is one Arrow ``take`` from a list of all words that a code can stand for: symbol, nothing (for an escape), or
one byte (behind an escape). No formulation in numpy alone was faster.

Source: Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression", VLDB 2020; checked against pylance
14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_CODES", "SymbolTable", "expand_codes", "parse_symbols"]

MAX_CODES: Final = (1 << 28) - 1
"""Compressed bytes that can be expanded at once: the result stays below 2 GiB."""

_MAGIC: Final = 0x46535354
_ESCAPE: Final = 255
_SYMBOL_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """A parsed table.

    Attributes:
        is_compressed: False when the strings were left as they are.
        symbols: at most 255.
    """

    is_compressed: bool
    symbols: tuple[bytes, ...]


def parse_symbols(table: bytes) -> SymbolTable | None:
    """Parse a table; None if it is malformed."""
    header = int.from_bytes(table[:_SYMBOL_BYTES], "little")
    num_symbols = header & 0xFF
    lengths_start = _SYMBOL_BYTES * (num_symbols + 1)
    lengths = table[lengths_start : lengths_start + num_symbols]
    if header >> 32 != _MAGIC or len(lengths) != num_symbols or any(length > _SYMBOL_BYTES for length in lengths):
        return None
    starts = range(_SYMBOL_BYTES, lengths_start, _SYMBOL_BYTES)
    symbols = tuple(table[start : start + length] for start, length in zip(starts, lengths, strict=True))
    return SymbolTable(bool(header >> 24 & 1), symbols)


def expand_codes(
    table: SymbolTable, codes: NDArray[np.uint8], offsets: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int32]] | None:
    """Expand many strings.

    Args:
        table: the symbols.
        codes: (num_codes,) uint8, at most ``MAX_CODES``; the strings back to back.
        offsets: (num_strings + 1,) positions in ``codes``.

    Returns:
        The bytes and the (num_strings + 1,) int32 offsets into them; None if the codes end inside an escape.
    """
    if len(codes) == 0:
        return codes, offsets.astype(np.int32)
    words = [*table.symbols, *[b""] * (256 - len(table.symbols)), *(bytes([literal]) for literal in range(256))]
    indices = codes.astype(np.uint16)
    in_escape_run = np.flatnonzero(codes == _ESCAPE)
    if len(in_escape_run):
        position = np.arange(len(in_escape_run))
        starts_run = np.append(True, np.diff(in_escape_run) != 1)
        run_start = np.maximum.accumulate(np.where(starts_run, position, 0))
        escapes = in_escape_run[(position - run_start) % 2 == 0]
        if int(escapes[-1]) + 1 == len(codes):
            return None
        indices[escapes + 1] += 256
    expanded = pa.array(words, pa.binary()).take(pa.array(indices))
    word_stops = np.frombuffer(expanded.buffers()[1], np.int32)[: len(codes) + 1]
    data = expanded.buffers()[2]
    num_bytes = int(word_stops[-1])
    return np.frombuffer(data, np.uint8, num_bytes) if num_bytes else codes[:0], word_stops[offsets]
