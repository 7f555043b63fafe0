"""Caches the bytes of a file that locate other bytes: the offsets of strings and lists, and repetition indices.

To read a single row of variable length, its offsets must be read first. They are read in blocks, together with
neighboring offsets, and the blocks are cached. The next row whose offsets are in the same block is then read with one
request instead of two.

The offsets of strings in a list are located by the offsets of the list. Both are read at the same time: the position
of the former is guessed on the assumption that all lists have the same length. If the guess is wrong, another read
follows.

Source: specific to this library; see ``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.io.byte_range import ByteRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lance_core.file.file_bytes import Read
    from lance_core.file.page_cache import PageCache

__all__ = ["keeping_offsets"]

_BLOCK_BYTES: Final = 32 * 1024
"""Size of a block in bytes. An object store returns a block almost as fast as a few bytes."""

_MAX_BLOCKS: Final = 64
"""Maximum number of blocks for one request. If the requested offsets are in more blocks, only the offsets themselves
are read, and they are not cached."""

_BLOCKS: Final = -1
"""Stands in for a column index in the cache keys of blocks."""


def keeping_offsets(
    read: Read, cache: PageCache[Any], num_bytes: int, guessed: Callable[[], Iterable[ByteRange]] = tuple
) -> Read:
    """Return a function that reads the same bytes as ``read``, and caches blocks of offsets.

    Args:
        read: reads ranges of the file.
        cache: the cache of the file.
        num_bytes: size of the file in bytes.
        guessed: returns the ranges in which later steps probably find offsets; called before the first request for
            offsets.
    """
    is_first = True

    def read_and_keep(ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        nonlocal is_first
        numbers = {number for wanted in ranges if wanted.holds_offsets for number in _numbers(wanted)}
        if not numbers or len(numbers) > _MAX_BLOCKS:
            return read(ranges)
        if is_first and any(cache.get((_BLOCKS, number)) is None for number in numbers):
            later = {number for wanted in guessed() if wanted.stop <= num_bytes for number in _numbers(wanted)}
            numbers |= later if len(numbers | later) <= _MAX_BLOCKS else set()
        is_first = False
        known = {number: block for number in numbers if (block := cache.get((_BLOCKS, number))) is not None}
        absent = sorted(numbers - known.keys())
        others = [wanted for wanted in ranges if not wanted.holds_offsets]
        needed = [_block(number, num_bytes) for number in absent] + others
        found = read(needed) if needed else []
        for number, part in zip(absent, found, strict=False):
            # A copy, because a store may return parts of a larger buffer.
            known[number] = block = pa.py_buffer(part.to_pybytes())
            cache.put((_BLOCKS, number), block, block.size)
        rest = iter(found[len(absent) :])
        return [_cut(wanted, known) if wanted.holds_offsets else next(rest) for wanted in ranges]

    return read_and_keep


def _numbers(wanted: ByteRange) -> range:
    return range(wanted.start // _BLOCK_BYTES, -(-wanted.stop // _BLOCK_BYTES))


def _block(number: int, num_bytes: int) -> ByteRange:
    return ByteRange(number * _BLOCK_BYTES, min((number + 1) * _BLOCK_BYTES, num_bytes))


def _cut(wanted: ByteRange, blocks: Mapping[int, pa.Buffer]) -> pa.Buffer:
    numbers = _numbers(wanted)
    if not numbers:
        return pa.py_buffer(b"")
    start = wanted.start - numbers[0] * _BLOCK_BYTES
    joined = blocks[numbers[0]] if len(numbers) == 1 else pa.py_buffer(b"".join(blocks[number] for number in numbers))
    return joined.slice(start, wanted.num_bytes)
