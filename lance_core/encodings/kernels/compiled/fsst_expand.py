"""Compiled FSST kernels: expand codes to strings. See ``kernels/fsst_symbols.py``.

Source: Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression", PVLDB 13(11), 2020, section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.kernels.compiled.jit import kernel, read_only, words_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["expand", "measure"]

_ESCAPE: Final = 255


def measure(
    codes: NDArray[np.uint8],
    offsets: NDArray[Any],
    first_string: int,
    last_string: int,
    lengths: NDArray[np.uint64],
    stops: NDArray[np.int64],
) -> int:
    """Return the expanded size in bytes of the strings in a half-open range, or -1 if a string is malformed.

    A string is malformed if it ends in the middle of an escape or its offsets are invalid. For the other arguments, see
    :func:`expand`.
    """
    return int(_measure(read_only(codes), read_only(offsets), first_string, last_string, lengths, stops))


@kernel
def _measure(codes: Any, offsets: Any, first_string: Any, last_string: Any, lengths: Any, stops: Any) -> Any:
    one = np.uint64(1)
    to = np.uint64(0)
    table = 0
    table_lengths = lengths[0]
    for index in range(first_string, last_string):
        start, stop = np.int64(offsets[index]), np.int64(offsets[index + 1])
        if start < 0 or stop < start or stop > len(codes):
            return -1
        if index >= stops[table]:
            while index >= stops[table]:
                table += 1
            table_lengths = lengths[table]
        at, end = np.uint64(start), np.uint64(stop)
        while at < end:
            code = codes[at]
            at += one
            if code == _ESCAPE:
                if at == end:
                    return -1
                at += one
                to += one
            else:
                to += table_lengths[code]
    return np.int64(to)


def expand(
    codes: NDArray[np.uint8],
    offsets: NDArray[Any],
    first_string: int,
    symbols: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    stops: NDArray[np.int64],
    out: NDArray[np.uint8],
    out_offsets: NDArray[np.int32],
) -> int:
    """Expand strings until the next one might not fit in the output.

    Args:
        codes: the strings back to back.
        offsets: (num_strings + 1,) positions in ``codes``; this function validates them.
        first_string: index of the first string to expand; all earlier strings have been expanded and end
            at ``out_offsets[first_string]``.
        symbols: (num_tables, 256) symbols as words, 0 for codes without a symbol.
        lengths: (num_tables, 256) lengths of the symbols, 0 for codes without a symbol.
        stops: (num_tables,) index of the first string after those of each table; the last one is ``num_strings``.
        out: output buffer of at least eight bytes.
        out_offsets: same length as ``offsets``; the first entry is 0.

    Returns:
        The index of the next string to expand, or -1 if a string is malformed; see :func:`measure`.
    """
    inputs = (read_only(codes), read_only(offsets), first_string, read_only(symbols), lengths, stops)
    return int(_expand(*inputs, out, words_at(out), out_offsets))


@kernel
def _expand(
    codes: Any,
    offsets: Any,
    first_string: Any,
    symbols: Any,
    lengths: Any,
    stops: Any,
    out: Any,
    out_words: Any,
    out_offsets: Any,
) -> Any:
    # Unsigned positions need no check for negative indices, which would take as long as the work itself.
    one = np.uint64(1)
    to = np.uint64(out_offsets[first_string])
    last_word = np.int64(len(out_words)) - 1
    table = 0
    table_symbols, table_lengths = symbols[0], lengths[0]
    for index in range(first_string, len(offsets) - 1):
        start, stop = np.int64(offsets[index]), np.int64(offsets[index + 1])
        if start < 0 or stop < start or stop > len(codes):
            return -1
        # A code expands to at most eight bytes, so up to this position, every word fits.
        if np.int64(to) + 8 * (stop - start) > last_word:
            return index
        if index >= stops[table]:
            while index >= stops[table]:
                table += 1
            table_symbols, table_lengths = symbols[table], lengths[table]
        at, end = np.uint64(start), np.uint64(stop)
        while at < end:
            code = codes[at]
            at += one
            if code == _ESCAPE:
                if at == end:
                    return -1
                out[to] = codes[at]
                at += one
                to += one
            else:
                out_words[to] = table_symbols[code]
                to += table_lengths[code]
        out_offsets[index + 1] = to
    return len(offsets) - 1
