"""FSST, compiled: finding a symbol table, compressing with it, and expanding. See ``kernels/fsst_symbols.py``.

A matcher is the table in a form that finds a long symbol at a position without a branch. Entries are
``length << 16 | code``; code 256 + b stands for the byte b itself, which is escaped::

    hashes   three hash tables of SLOTS slots, a slot being the words (symbol, entry):
             symbols of 3 or 4 bytes by their first 3 bytes, of 5 or 6 by their first 5, of 7 or 8 by their first 7
    pairs    [b0 | b1 << 8] entry of the longest symbol of one or two bytes; from 65536 on [b0] of one byte

A slot holds one symbol: of two that collide the table keeps the one that covers more.

Source: Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression", PVLDB 13(11), 2020, section 4. Unlike
there, symbols of different lengths have tables of their own, so that few symbols displace their own beginning.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lance_core.encodings.kernels.compiled.jit import inlined, kernel

__all__ = ["HASHES", "PAIRS", "PSEUDO_CODES", "build", "candidates", "compress", "count_codes", "expand", "measure"]

_SLOTS: Final = 1024
_TABLE_WORDS: Final = 2 * _SLOTS

HASHES: Final = 3 * _TABLE_WORDS
"""Length of ``hashes``."""

PAIRS: Final = 65536 + 256
"""Length of ``pairs``."""

PSEUDO_CODES: Final = 512
"""Codes and, behind them, literal bytes."""

_HASH_SHIFT: Final = 54
_EMPTY: Final = (8 << 16) | 0xFFFF
_ESCAPE: Final = 255
_MAX_SYMBOLS: Final = 255
_ALL: Final = 0xFFFFFFFFFFFFFFFF


@inlined
def _slot(kept: Any) -> Any:
    return np.int64((kept * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(_HASH_SHIFT)) << 1


@inlined
def _word(data: Any, words: Any, at: Any) -> Any:
    """Eight bytes from ``at`` on; what lies behind the data is 0."""
    word = np.uint64(0)
    if at < len(words):
        word = words[at]
    else:
        for index in range(at, len(data)):
            word |= np.uint64(data[index]) << np.uint64(8 * (index - at))
    return word


@inlined
def _longest(word: Any, left: Any, hashes: Any, pairs: Any) -> Any:
    """Entry of the longest symbol at the start of a word of which ``left`` bytes belong to the string."""
    at = np.int64(word & np.uint64(0xFFFF)) if left > 1 else np.int64(65536) + np.int64(word & np.uint64(0xFF))
    found = np.int64(pairs[at])
    for table in range(3):
        slot = _slot(word & (np.uint64(_ALL) >> np.uint64(40 - 16 * table))) + table * _TABLE_WORDS
        symbol, entry = hashes[slot], np.int64(hashes[slot + 1])
        length = entry >> 16
        matches = ((word & (np.uint64(_ALL) >> np.uint64(64 - 8 * length))) == symbol) & (length <= left)
        found = entry if matches else found
    return found


@kernel
def build(words: Any, lengths: Any, out_words: Any, out_lengths: Any, hashes: Any, pairs: Any) -> Any:
    """Accept symbols in the order given until there are 255, skip those that collide, and return how many there are.

    Args:
        words: symbols as little-endian words.
        lengths: 1 to 8.
        out_words: (256,) uint64, symbol of each code; a code without one keeps what it has.
        out_lengths: (256,) int64, likewise.
        hashes: filled, see the module. An empty slot holds a word that belongs to another slot, and so never matches.
        pairs: filled.
    """
    for slot in range(0, HASHES, 2):
        hashes[slot] = np.uint64(slot % _TABLE_WORDS == 0)
        hashes[slot + 1] = np.uint64(_EMPTY)
    for pair in range(PAIRS):
        pairs[pair] = (1 << 16) | (256 + (pair & 0xFF))
    code = 0
    for index in range(len(words)):
        if code == _MAX_SYMBOLS:
            break
        word, length = words[index], np.int64(lengths[index])
        entry = (length << 16) | code
        if length > 2:
            table = (length - 3) >> 1
            slot = _slot(word & (np.uint64(_ALL) >> np.uint64(40 - 16 * table))) + table * _TABLE_WORDS
            if hashes[slot + 1] != np.uint64(_EMPTY):
                continue
            hashes[slot] = word
            hashes[slot + 1] = np.uint64(entry)
        elif length == 2:
            pairs[np.int64(word)] = entry
        else:
            pairs[65536 + np.int64(word)] = entry
            for following in range(256):
                pair = np.int64(word) | (following << 8)
                if pairs[pair] >> 16 == 1:
                    pairs[pair] = entry
        out_words[code], out_lengths[code] = word, length
        code += 1
    return code


@kernel
def count_codes(
    data: Any,
    words: Any,
    starts: Any,
    stops: Any,
    hashes: Any,
    pairs: Any,
    singles: Any,
    doubles: Any,
) -> None:
    """Compress a sample and count codes and pairs of neighbouring codes.

    ``singles`` is (512,) and ``doubles`` (512, 512), both int32 and added to. The first byte of a symbol is counted as
    well, alone and behind its neighbour, so that short symbols can grow again.
    """
    for index in range(len(starts)):
        at, stop = starts[index], stops[index]
        previous = -1
        while at < stop:
            word = _word(data, words, at)
            found = _longest(word, stop - at, hashes, pairs)
            code, length = found & 0xFFFF, found >> 16
            first = np.int64(256) + np.int64(word & np.uint64(0xFF))
            singles[code] += 1
            if length > 1:
                singles[first] += 1
            if previous >= 0:
                doubles[previous, code] += 1
                if length > 1:
                    doubles[previous, first] += 1
            previous = code
            at += length


@inlined
def _gather_candidate(word: Any, length: Any, gain: Any, words: Any, lengths: Any, gains: Any) -> None:
    """Add the gain to the candidate's slot of an open hash table; a full table ignores new candidates."""
    slots = len(words)
    key = (word ^ (word >> np.uint64(29)) ^ np.uint64(length)) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64(key >> np.uint64(40)) & (slots - 1)
    for _ in range(64):
        if lengths[slot] == 0 or (lengths[slot] == length and words[slot] == word):
            words[slot] = word
            lengths[slot] = length
            gains[slot] += gain
            break
        slot = (slot + 1) & (slots - 1)


@kernel
def candidates(
    singles: Any,
    doubles: Any,
    symbols: Any,
    lengths: Any,
    num_symbols: Any,
    least: Any,
    out_words: Any,
    out_lengths: Any,
    out_gains: Any,
) -> None:
    """Gather the candidates of the next round and the bytes that each would cover.

    ``out_*`` is an open hash table, a power of two long and zeroed. A candidate seen fewer than ``least`` times is left
    out, and so is a pair that would be longer than eight bytes.
    """
    for first in range(PSEUDO_CODES):
        count = singles[first]
        if count == 0 or (first < 256 and first >= num_symbols):
            continue
        if first < 256:
            first_word, first_length = symbols[first], np.int64(lengths[first])
        else:
            first_word, first_length = np.uint64(first - 256), np.int64(1)
        if count >= least:
            # A single byte costs two when it has to be escaped: it is worth more than the byte that it covers.
            gain = np.int64(count) * (8 if first_length == 1 else first_length)
            _gather_candidate(first_word, first_length, gain, out_words, out_lengths, out_gains)
        if first_length == 8:
            continue
        for second in range(PSEUDO_CODES):
            together = doubles[first, second]
            if together < least or (second < 256 and second >= num_symbols):
                continue
            if second < 256:
                second_word, second_length = symbols[second], np.int64(lengths[second])
            else:
                second_word, second_length = np.uint64(second - 256), np.int64(1)
            length = first_length + second_length
            if length <= 8:
                word = first_word | (second_word << np.uint64(8 * first_length))
                _gather_candidate(word, length, np.int64(together) * length, out_words, out_lengths, out_gains)


@kernel
def compress(
    data: Any,
    words: Any,
    offsets: Any,
    hashes: Any,
    pairs: Any,
    out: Any,
    out_offsets: Any,
) -> None:
    """Compress strings; the caller has checked that the offsets ascend within the data.

    ``out`` has room for two bytes per byte of the strings and one more; ``out_offsets`` is (num_strings + 1,).
    """
    to = 0
    out_offsets[0] = 0
    for index in range(len(offsets) - 1):
        at, stop = np.int64(offsets[index]), np.int64(offsets[index + 1])
        while at < stop:
            word = _word(data, words, at)
            found = _longest(word, stop - at, hashes, pairs)
            code = found & 0xFFFF
            # The literal behind an escape; behind a code the next one replaces it.
            out[to] = min(code, _ESCAPE)
            out[to + 1] = np.uint8(word & np.uint64(0xFF))
            to += 1 + (code >> 8)
            at += found >> 16
        out_offsets[index + 1] = to


@kernel
def measure(codes: Any, offsets: Any, lengths: Any, out_offsets: Any) -> Any:
    """Where each string ends when expanded; False if one ends inside an escape.

    The caller has checked that the offsets ascend within the codes. ``lengths`` is (256,), 0 for codes without symbol.
    """
    to = np.int64(0)
    out_offsets[0] = 0
    for index in range(len(offsets) - 1):
        at, stop = np.int64(offsets[index]), np.int64(offsets[index + 1])
        while at < stop:
            code = codes[at]
            if code == _ESCAPE:
                to += 1
                at += 2
            else:
                to += lengths[code]
                at += 1
        if at > stop:
            return False
        out_offsets[index + 1] = to
    return True


@kernel
def expand(codes: Any, first: Any, last: Any, symbols: Any, lengths: Any, out: Any, out_words: Any) -> Any:
    """Expand the codes ``[first, last)``, whole strings, to the start of ``out``, and return how many bytes they gave.

    Stops before it would write behind ``out``: the codes may have changed since they were measured, in a mapped file.
    ``out_words`` holds the 8-byte words at every byte of ``out``.
    """
    to = 0
    at = first
    while at < last:
        code = codes[at]
        if code == _ESCAPE:
            if at + 1 >= last or to >= len(out):
                break
            out[to] = codes[at + 1]
            to += 1
            at += 2
        else:
            if to < len(out_words):
                out_words[to] = symbols[code]
            else:
                symbol = symbols[code]
                for index in range(min(np.int64(lengths[code]), len(out) - to)):
                    out[to + index] = np.uint8((symbol >> np.uint64(8 * index)) & np.uint64(0xFF))
            to += lengths[code]
            if to > len(out):
                break
            at += 1
    return to

