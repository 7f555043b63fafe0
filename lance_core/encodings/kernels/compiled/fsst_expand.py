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


def measure(codes: NDArray[np.uint8], offsets: NDArray[Any], lengths: NDArray[np.int64]) -> int:
    """Return the expanded size of strings in bytes, or -1 if a string is malformed.

    A string is malformed if it ends in the middle of an escape or its offsets are invalid. ``lengths`` has shape
    (256,) and contains 0 for codes without a symbol.
    """
    return int(_measure(read_only(codes), read_only(offsets), lengths.astype(np.uint64)))


@kernel
def _measure(codes: Any, offsets: Any, lengths: Any) -> Any:
    one = np.uint64(1)
    to = np.uint64(0)
    for index in range(len(offsets) - 1):
        start, stop = np.int64(offsets[index]), np.int64(offsets[index + 1])
        if start < 0 or stop < start or stop > len(codes):
            return -1
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
                to += lengths[code]
    return np.int64(to)


def expand(
    codes: NDArray[np.uint8],
    offsets: NDArray[Any],
    first_string: int,
    symbols: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
    out_offsets: NDArray[np.int32],
) -> int:
    """Expand strings until the next one might not fit into the output.

    Args:
        codes: the strings back to back.
        offsets: (num_strings + 1,) positions in ``codes``; this function validates them.
        first_string: index of the first string to expand; all earlier strings have been expanded and end
            at ``out_offsets[first_string]``.
        symbols: (256,) symbols as words, 0 for codes without a symbol.
        lengths: (256,) lengths of the symbols, 0 for codes without a symbol.
        out: output buffer of at least eight bytes.
        out_offsets: same length as ``offsets``; the first entry is 0.

    Returns:
        The index of the next string to expand, or -1 if a string is malformed; see :func:`measure`.
    """
    inputs = (read_only(codes), read_only(offsets), first_string, symbols, lengths.astype(np.uint64))
    return int(_expand(*inputs, out, words_at(out), out_offsets))


@kernel
def _expand(
    codes: Any, offsets: Any, first_string: Any, symbols: Any, lengths: Any, out: Any, out_words: Any, out_offsets: Any
) -> Any:
    # Unsigned positions need no check for negative indices, which would take as long as the work itself.
    one = np.uint64(1)
    to = np.uint64(out_offsets[first_string])
    last_word = np.int64(len(out_words)) - 1
    for index in range(first_string, len(offsets) - 1):
        start, stop = np.int64(offsets[index]), np.int64(offsets[index + 1])
        if start < 0 or stop < start or stop > len(codes):
            return -1
        # A code expands to at most eight bytes, so up to this position, every word fits.
        if np.int64(to) + 8 * (stop - start) > last_word:
            return index
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
                out_words[to] = symbols[code]
                to += lengths[code]
        out_offsets[index + 1] = to
    return len(offsets) - 1
