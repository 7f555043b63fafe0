"""Strings and binaries: whether they are stored in chunks or one by one, and how they are compressed.

``encodings/string_pages.py: encode_strings`` applies these rules in order, after the rules for pages whose values are
all equal (``policy/constants.py``) and for pages with few distinct values (``policy/dictionary.py``).

* Short strings are stored in chunks, which are compressed with zstd if this reduces the size of a sample by at least
  10%.
* Text is stored as FSST codes if FSST compresses it better than zstd does, for example if words of a small vocabulary
  recur far apart.
* Long strings are stored in full-zip pages. Each string is compressed separately with zstd, again only if this reduces
  the size of a sample by at least 10%.
* Metadata takes precedence: ``compression`` = ``none``, ``zstd``, ``lz4`` or ``fsst``, and ``structural-encoding``.

Source: our own policy; measurements in ``docs/decisions/0011-what-the-writer-chooses.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.kernels.codecs import compress_zstd
from lance_core.encodings.policy.choices import (
    MAX_CHUNK_VALUES,
    TARGET_CHUNK_BYTES,
    Compression,
    MiniBlockChoice,
    asked_compression,
    power_of_two,
)
from lance_core.encodings.statistics import spread

if TYPE_CHECKING:
    from lance_core.encodings.api import VariableWidthBlock
    from lance_core.encodings.policy.field_options import FieldOptions
    from lance_core.encodings.policy.format_rules import FormatRules

__all__ = [
    "FASTEST_LEVEL",
    "SMALL_PAGE_LEVEL",
    "choose_chunks",
    "choose_compression",
    "compressed_ratio",
    "is_small",
    "may_want_symbols",
    "plain_bytes",
    "string_bytes",
    "symbols_pay",
    "zips_smaller",
]

FASTEST_LEVEL: Final = 1
"""Zstd level for strings if the metadata requests neither compression nor a level; see also ``SMALL_PAGE_LEVEL``."""

SMALL_PAGE_LEVEL: Final = 9
"""Zstd level for text pages that are too small for FSST."""

_MAX_MEAN_BYTES: Final = 4 << 10
_MAX_PLAIN_MEAN_BYTES: Final = 256
_COMPRESSED_CHUNK_BYTES: Final = 16 << 10
_COMPRESSED_TEXT_CHUNK_BYTES: Final = 32 << 10
_TEXT_MEAN_BYTES: Final = 64
_MIN_STRINGS_PER_CHUNK: Final = 8
_MIN_COMPRESSED_BYTES: Final = 4 << 10
_COMPRESSION_GAIN: Final = 0.9
_SAMPLES: Final = 8
_SAMPLE_BYTES: Final = 8 << 10
_ZIPPED_VALUE_BYTES: Final = 16
_BEST_SYMBOLS_RATIO: Final = 0.3
_OFFSETS_RATIO: Final = 0.75
_MIN_SYMBOL_STRING: Final = 5
_MIN_ASKED_BYTES: Final = 32 << 10
_MIN_SYMBOL_BYTES: Final = 1 << 20
"""Minimum total size in bytes of strings for FSST if the metadata does not request it; loading the compiled kernel
takes half a second."""


def string_bytes(block: VariableWidthBlock) -> int:
    """Return the total size of all strings in bytes."""
    return int(block.offsets[-1] - block.offsets[0])


def is_small(block: VariableWidthBlock, ratio: float) -> bool:
    """Return whether a page is so small that finding symbols is not worthwhile, even if symbols would reduce its size.

    For small pages, larger chunks and a higher zstd level save almost as much as symbols.
    """
    return ratio >= _BEST_SYMBOLS_RATIO and string_bytes(block) < _MIN_SYMBOL_BYTES


def may_want_symbols(block: VariableWidthBlock, ratio: float, options: FieldOptions) -> bool:
    """Return whether to find FSST symbols: if the metadata requests them, or if they might be better than zstd.

    The result is False if the strings are too small.

    Args:
        block: the strings.
        ratio: result of :func:`compressed_ratio`.
        options: encoding options of the field.
    """
    if options.compression == "fsst":
        smallest = _MIN_ASKED_BYTES
    elif options.compression is None and ratio >= _BEST_SYMBOLS_RATIO:
        smallest = _MIN_SYMBOL_BYTES
    else:
        return False
    if string_bytes(block) < smallest:
        return False
    return int(np.diff(block.offsets).max(initial=0)) >= _MIN_SYMBOL_STRING


def symbols_pay(block: VariableWidthBlock, symbols_ratio: float, ratio: float) -> bool:
    """Return whether symbols make the page smaller, considering that zstd compresses offsets but FSST does not."""
    offset_bytes = block.offsets.itemsize * block.num_values
    as_symbols = symbols_ratio * string_bytes(block) + offset_bytes
    return as_symbols < plain_bytes(block, ratio) and symbols_ratio < _COMPRESSION_GAIN


def plain_bytes(block: VariableWidthBlock, ratio: float) -> float:
    """Estimate the size in bytes of the page without a dictionary or symbols."""
    offsets_ratio = 1.0 if ratio > _COMPRESSION_GAIN else _OFFSETS_RATIO
    return ratio * string_bytes(block) + offsets_ratio * block.offsets.itemsize * block.num_values


def compressed_ratio(block: VariableWidthBlock, options: FieldOptions) -> float:
    """Estimate the ratio of compressed to uncompressed size; 1.0 if the page is small or the options exclude zstd.

    For the estimate, samples of the bytes of the strings are compressed, without offsets.
    """
    if options.compression in ("none", "fsst"):
        return 1.0
    start, stop = int(block.offsets[0]), int(block.offsets[-1])
    num_bytes = stop - start
    if num_bytes < _MIN_COMPRESSED_BYTES:
        return 1.0
    piece = min(_SAMPLE_BYTES, num_bytes // _SAMPLES)
    firsts = (start + spread(num_bytes - piece + 1, _SAMPLES)).tolist()
    pieces = [block.data[first : first + piece] for first in firsts]
    shrunk = sum(len(compress_zstd(np.ascontiguousarray(part).data, FASTEST_LEVEL)) for part in pieces)
    return min(1.0, shrunk / (piece * _SAMPLES))


def choose_compression(ratio: float, options: FieldOptions, *, is_small: bool = False) -> Compression | None:
    """Choose the compression of strings, given their :func:`compressed_ratio`; small pages use a higher level."""
    if options.general is not None:
        return asked_compression(options)
    if options.compression is not None or ratio > _COMPRESSION_GAIN:
        return None
    return Compression("zstd", options.compression_level or (SMALL_PAGE_LEVEL if is_small else FASTEST_LEVEL))


def zips_smaller(value: VariableWidthBlock, num_values: int, options: FieldOptions) -> bool:
    """Return whether compressed copies of a long value take less space than a constant page with the value."""
    num_bytes = string_bytes(value)
    if num_bytes < _MAX_PLAIN_MEAN_BYTES or num_values * _ZIPPED_VALUE_BYTES >= num_bytes:
        return False
    compression = choose_compression(compressed_ratio(value, options), options)
    if compression is None:
        return False
    start, stop = int(value.offsets[0]), int(value.offsets[1])
    compressed = len(compress_zstd(value.data[start:stop].data, compression.level or FASTEST_LEVEL))
    return num_values * (compressed + _ZIPPED_VALUE_BYTES) < num_bytes


def choose_chunks(
    block: VariableWidthBlock, compression: Compression | None, options: FieldOptions, rules: FormatRules
) -> MiniBlockChoice | None:
    """Choose how to divide strings into chunks and encode them; return None for full zip."""
    if options.structure == "fullzip":
        return None
    mean_bytes = string_bytes(block) / block.num_values
    asked = options.structure == "miniblock"
    if not asked and mean_bytes >= (_MAX_PLAIN_MEAN_BYTES if compression is None else _MAX_MEAN_BYTES):
        return None
    target = TARGET_CHUNK_BYTES
    if compression is not None:
        target = _COMPRESSED_TEXT_CHUNK_BYTES if mean_bytes >= _TEXT_MEAN_BYTES else _COMPRESSED_CHUNK_BYTES
        if compression.level == SMALL_PAGE_LEVEL and options.general is None:
            target = rules.max_string_chunk_bytes
    if options.minichunk_bytes is not None:
        target = min(options.minichunk_bytes, rules.max_string_chunk_bytes)
    width = block.offsets.itemsize
    values_per_chunk = min(MAX_CHUNK_VALUES, power_of_two(int(target / (mean_bytes + width))))
    smallest = 2 if asked or compression is not None else _MIN_STRINGS_PER_CHUNK
    while values_per_chunk >= smallest:
        bounds = np.append(block.offsets[:-1:values_per_chunk], block.offsets[-1])
        if int(np.diff(bounds).max()) + (values_per_chunk + 1) * width <= rules.max_string_chunk_bytes:
            return MiniBlockChoice("variable", values_per_chunk, compression)
        values_per_chunk //= 2
    return None
