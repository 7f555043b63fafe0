"""Compiled FSST kernels: find a symbol table and compress strings with it. See ``kernels/fsst_symbols.py``.

A matcher is a form of the symbol table in which a long symbol can be found without branching. Entries are
``length << 16 | code``; code 256 + b represents the byte b itself, which is escaped::

    hashes   three hash tables of SLOTS slots; a slot is a pair of words (symbol, entry):
             symbols of 3 or 4 bytes by their first 3 bytes, of 5 or 6 by their first 5, of 7 or 8 by their first 7
    pairs    [b0 | b1 << 8] entry of the longest symbol of one or two bytes; [65536 + b0] entry of the single byte b0

A slot contains one symbol; of two symbols that collide, the table keeps the symbol that covers more bytes.

Source: Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression", PVLDB 13(11), 2020, section 4. Unlike
in the paper, symbols of different lengths are in separate tables, so that symbols rarely collide with their prefixes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.kernels.compiled.jit import inlined, kernel, read_only, words_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HASHES", "PAIRS", "PSEUDO_CODES", "build", "candidates", "compress", "count_codes"]

_SLOTS: Final = 1024
_TABLE_WORDS: Final = 2 * _SLOTS

HASHES: Final = 3 * _TABLE_WORDS
"""Number of words in the array ``hashes``, which the module docstring describes."""

PAIRS: Final = 65536 + 256
"""Number of entries in the array ``pairs``, which the module docstring describes."""

PSEUDO_CODES: Final = 512
"""Total number of codes and literal bytes; the literal bytes are numbered after the codes."""

_HASH_SHIFT: Final = 54
_FACTOR: Final = 0x9E3779B97F4A7C15
_EMPTY: Final = (8 << 16) | 0xFFFF
_ESCAPE: Final = 255
_MAX_SYMBOLS: Final = 255
_ALL: Final = 0xFFFFFFFFFFFFFFFF

_LANES: Final = 3
_AT, _STOP, _TO, _INDEX, _LAST, _LANE_STATE = range(6)


@inlined
def _slot(kept: Any) -> Any:
    return np.int64((kept * np.uint64(_FACTOR)) >> np.uint64(_HASH_SHIFT)) << 1


@kernel
def build(words: Any, lengths: Any, is_table: Any, out_words: Any, out_lengths: Any, hashes: Any, pairs: Any) -> Any:
    """Add up to 255 symbols to the tables in the given order, except those that collide; return the number of codes.

    Args:
        words: symbols as little-endian words.
        lengths: length of each symbol, 1 to 8.
        is_table: True if the symbols already have codes; a skipped symbol then keeps its code.
        out_words: (256,) uint64, the symbol of each code; entries of other codes are left unchanged.
        out_lengths: (256,) int64, the length of each symbol.
        hashes: filled as described in the module docstring. An empty slot contains a word that belongs to another slot
            and thus never matches.
        pairs: filled as described in the module docstring.
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
        if length == 0:
            # A symbol without bytes would cause an endless loop.
            code += is_table
            continue
        if length > 2:
            table = (length - 3) >> 1
            slot = _slot(word & (np.uint64(_ALL) >> np.uint64(40 - 16 * table))) + table * _TABLE_WORDS
            if hashes[slot + 1] != np.uint64(_EMPTY):
                code += is_table
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
def count_codes(codes: Any, offsets: Any, symbols: Any, lengths: Any, singles: Any, doubles: Any) -> None:
    """Count codes and pairs of neighboring codes in a compressed sample.

    ``singles`` has shape (512,), and ``doubles`` has shape (512, 512); both are int32, and the counts are added to
    them. The first byte of a symbol is also counted, both alone and after the preceding code, so that short symbols can
    be found again and extended.
    """
    for index in range(len(offsets) - 1):
        at = offsets[index]
        previous = -1
        while at < offsets[index + 1]:
            code = np.int64(codes[at])
            length = 1
            if code == _ESCAPE:
                code = 256 + np.int64(codes[at + 1])
                first = code
                at += 2
            else:
                length = lengths[code]
                first = 256 + np.int64(symbols[code] & np.uint64(0xFF))
                at += 1
            singles[code] += 1
            if length > 1:
                singles[first] += 1
            if previous >= 0:
                doubles[previous, code] += 1
                if length > 1:
                    doubles[previous, first] += 1
            previous = code


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
    """Collect the candidates for the next round and their gains.

    The ``out_*`` arrays form an open hash table; they are initially zero, and their length is a power of two.
    The gain is the number of bytes that a candidate would cover; a candidate of one byte gains 8 per occurrence.
    Candidates that occur fewer than ``least`` times and pairs longer than eight bytes are omitted.
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
            # An escaped byte takes two bytes, so a symbol for a single byte saves more than the byte that it covers.
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


def compress(
    data: NDArray[np.uint8],
    starts: NDArray[Any],
    stops: NDArray[Any],
    hashes: NDArray[np.uint64],
    pairs: NDArray[np.int32],
    out: NDArray[np.uint8],
    out_offsets: NDArray[Any],
) -> None:
    """Compress strings ``data[starts[i] : stops[i]]``; the caller has checked that all of them are inside ``data``.

    The strings are processed in several interleaved lanes, because the next symbol of a string depends on
    the previous one. Each lane handles an equal share of the bytes and has its own output space.

    ``hashes`` and ``pairs`` are filled by :func:`build`. ``out`` has space for two bytes per input byte, plus one byte;
    ``out_offsets`` has shape (num_strings + 1,).
    """
    byte_stops = np.cumsum(stops - starts, dtype=np.int64)
    num_bytes = int(byte_stops[-1]) if len(byte_stops) else 0
    shares = num_bytes * np.arange(_LANES + 1) // _LANES
    firsts = np.searchsorted(byte_stops, shares)
    firsts[0], firsts[-1] = 0, len(starts)
    rooms = 2 * np.append(0, byte_stops)[firsts]
    reached = np.zeros((_LANES, _LANE_STATE), np.int64)
    reached[:, _INDEX], reached[:, _LAST], reached[:, _TO] = firsts[:-1], firsts[1:], rooms[:-1]
    inputs = (read_only(data), read_only(words_at(data)), read_only(starts), read_only(stops), hashes, pairs)
    out_offsets[0] = 0
    _compress(*inputs, out, out_offsets, rooms, reached)
    num_codes = int(reached[0, _TO])
    for lane in range(1, _LANES):
        first, stop = int(rooms[lane]), int(reached[lane, _TO])
        out[num_codes : num_codes + stop - first] = out[first:stop]
        out_offsets[firsts[lane] + 1 : firsts[lane + 1] + 1] += num_codes
        num_codes += stop - first


@kernel
def _compress(
    data: Any,
    words: Any,
    starts: Any,
    stops: Any,
    hashes: Any,
    pairs: Any,
    out: Any,
    out_offsets: Any,
    rooms: Any,
    reached: Any,
) -> None:
    """Advance all lanes in turn until one has finished its strings, then process the other lanes one by one."""
    # Unsigned positions need no check for negative indices, which would take as long as the work itself.
    num_words = np.uint64(len(words))
    one, three, sixteen = np.uint64(1), np.uint64(3), np.uint64(16)
    all_bits = np.uint64(_ALL)
    first_lane, last_lane = 0, _LANES
    for lane in range(_LANES):
        if reached[lane, _INDEX] < reached[lane, _LAST]:
            reached[lane, _AT] = starts[reached[lane, _INDEX]]
            reached[lane, _STOP] = stops[reached[lane, _INDEX]]
    while first_lane < _LANES:
        for lane in range(first_lane, last_lane):
            while reached[lane, _AT] >= reached[lane, _STOP]:
                index = reached[lane, _INDEX]
                if index >= reached[lane, _LAST]:
                    break
                index += 1
                out_offsets[index] = reached[lane, _TO] - rooms[lane]
                reached[lane, _INDEX] = index
                if index < reached[lane, _LAST]:
                    reached[lane, _AT] = starts[index]
                    reached[lane, _STOP] = stops[index]
            if reached[lane, _INDEX] >= reached[lane, _LAST]:
                # From here on, process one lane at a time.
                first_lane += last_lane - first_lane == 1
                last_lane = first_lane + 1
                break
            at, to = np.uint64(reached[lane, _AT]), np.uint64(reached[lane, _TO])
            left = np.uint64(reached[lane, _STOP]) - at
            word = np.uint64(0)
            if at < num_words:
                word = words[at]
            else:
                for behind in range(left):
                    byte = np.uint64(behind)
                    word |= np.uint64(data[at + byte]) << (byte << three)
            pair = word & np.uint64(0xFFFF) if left > one else np.uint64(65536) + (word & np.uint64(0xFF))
            found = np.uint64(pairs[pair])
            for table in range(3):
                kept = word & (all_bits >> np.uint64(40 - 16 * table))
                slot = (kept * np.uint64(_FACTOR)) >> np.uint64(_HASH_SHIFT)
                slot = (slot << one) + np.uint64(table * _TABLE_WORDS)
                entry = hashes[slot + one]
                length = entry >> sixteen
                matches = (word & (all_bits >> (np.uint64(64) - (length << three)))) == hashes[slot]
                found = entry if matches & (length <= left) else found
            code = found & np.uint64(0xFFFF)
            # Write the literal after an escape; if this is not an escape, the next code overwrites the literal.
            out[to] = min(code, np.uint64(_ESCAPE))
            out[to + one] = np.uint8(word & np.uint64(0xFF))
            reached[lane, _TO] = to + one + (code >> np.uint64(8))
            reached[lane, _AT] = at + (found >> sixteen)
