"""The encoding options that the metadata of a field requests.

==============================================  ===================================================================
Key (after ``lance-encoding:``)                 Value
==============================================  ===================================================================
``compression``                                 ``none``, ``zstd``, ``lz4``, ``fsst`` (strings)
``compression-level``                           level of zstd, 1 to 22
``rle-threshold``                               maximum number of runs per value for run-length encoding
``bss``                                         ``auto``, ``on``, ``off``: split the bytes of words before compression
``dict-divisor``                                minimum number of values per item of a dictionary
``dict-size-ratio``                             maximum ratio of page size with a dictionary to size without one
``dict-values-compression``                     ``none``, ``zstd``, ``lz4``: compression of the items of a dictionary
``dict-values-compression-level``               level of zstd, 1 to 22
``minichunk-size``                              target size of the values of a chunk in bytes
``structural-encoding``                         ``miniblock``, ``fullzip``
==============================================  ===================================================================

A leaf uses its own metadata and, for keys that this metadata does not contain, the metadata of its top-level column. As
in pylance, unknown values and malformed numbers are ignored, and numbers out of range are clamped. A level of 0 selects
the default of zstd.

Only ``compression`` must be exactly one of its four values: ``ZSTD``, `` zstd`` and the empty string are rejected for
every column of formats 2.1 and 2.2. pylance also rejects them, but only when it stores values in chunks that it
compresses. It ignores the key for columns that it stores in other ways (long values, vectors, blobs, packed structs,
constants, only nulls), and for the lists, structs, and maps around a leaf. Whether it rejects a value therefore depends
on the data. Format 2.0 supports two of these keys for strings and ignores unknown values; see
``v2_0/page_encoder.py``.

Source: ``lance-encoding`` keys of pylance 14.0.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.schema.field import Field

__all__ = ["COMPRESSION_KEY", "COMPRESSION_LEVEL_KEY", "FieldOptions", "options_of"]

_PREFIX: Final = "lance-encoding:"

COMPRESSION_KEY: Final = _PREFIX + "compression"
"""Field metadata key: general-purpose compression of the field's values."""

COMPRESSION_LEVEL_KEY: Final = _PREFIX + "compression-level"
"""Field metadata key: level of general-purpose compression."""

_COMPRESSIONS: Final = ("none", "zstd", "lz4", "fsst")
_MAX_DIGITS: Final = 18
_MAX_LEVEL: Final = 22
_MIN_MINICHUNK_BYTES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOptions:
    """The encoding options of one leaf. None means that an option is not set.

    Attributes:
        compression: ``none``, ``zstd``, ``lz4`` or ``fsst``.
        compression_level: level of zstd.
        rle_threshold: maximum number of runs per value for run-length encoding.
        bss: whether to split the bytes of words: True = always, False = never, None = if this reduces the size.
        dict_divisor: minimum number of values per item of a dictionary.
        dict_size_ratio: maximum ratio of the page's size with a dictionary to its size without one.
        dict_compression: compression of dictionary items: ``none``, ``zstd`` or ``lz4``.
        dict_level: zstd level for dictionary items.
        minichunk_bytes: target size of the values of a chunk in bytes.
        structure: ``miniblock`` or ``fullzip``.
    """

    compression: str | None = None
    compression_level: int | None = None
    rle_threshold: float | None = None
    bss: bool | None = None
    dict_divisor: int | None = None
    dict_size_ratio: float | None = None
    dict_compression: str | None = None
    dict_level: int | None = None
    minichunk_bytes: int | None = None
    structure: str | None = None

    @property
    def general(self) -> str | None:
        """The general-purpose compression, ``zstd`` or ``lz4``, if the metadata requests one; otherwise None."""
        return self.compression if self.compression in ("zstd", "lz4") else None


_NOTHING: Final = FieldOptions()


def options_of(leaf: Field, top: Field) -> FieldOptions:
    """Return the encoding options of a leaf.

    Args:
        leaf: the field that owns the column.
        top: the top-level field that contains the leaf, or the leaf itself.

    Raises:
        InvalidInputError: the compression is unknown.
    """
    asked = _Asked(leaf, {**_own(top), **_own(leaf)})
    if not asked.values:
        return _NOTHING
    return FieldOptions(
        compression=asked.compression(),
        compression_level=asked.integer("compression-level", 1, _MAX_LEVEL),
        rle_threshold=asked.number("rle-threshold"),
        bss={"on": True, "off": False}.get(asked.choice("bss", "on", "off", "auto") or "auto"),
        dict_divisor=asked.integer("dict-divisor", 1, 1 << 62),
        dict_size_ratio=asked.number("dict-size-ratio"),
        dict_compression=asked.choice("dict-values-compression", "none", "zstd", "lz4"),
        dict_level=asked.integer("dict-values-compression-level", 1, _MAX_LEVEL),
        minichunk_bytes=asked.integer("minichunk-size", _MIN_MINICHUNK_BYTES, 1 << 62),
        structure=asked.choice("structural-encoding", "miniblock", "fullzip"),
    )


def _own(field: Field) -> Mapping[str, bytes]:
    return {key[len(_PREFIX) :]: value for key, value in field.metadata.items() if key.startswith(_PREFIX)}


class _Asked:
    """Metadata of one leaf, keyed by the part of the key after the prefix."""

    def __init__(self, leaf: Field, values: Mapping[str, bytes]) -> None:
        self._leaf = leaf
        self.values = values

    def choice(self, key: str, *known: str) -> str | None:
        text = self._text(key).lower()
        return text if text in known else None

    def compression(self) -> str | None:
        if "compression" not in self.values:
            return None
        text = self.values["compression"].decode("utf-8", "replace")
        if text not in _COMPRESSIONS:
            raise InvalidInputError(
                f"field {self._leaf.name!r}: {COMPRESSION_KEY} is {text!r}, expected one of {', '.join(_COMPRESSIONS)}",
                field=self._leaf.name,
            )
        return text

    def integer(self, key: str, smallest: int, largest: int) -> int | None:
        text = self._text(key)
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > _MAX_DIGITS or int(text) == 0:
            return None
        return min(max(int(text), smallest), largest)

    def number(self, key: str) -> float | None:
        try:
            found = float(self._text(key))
        except ValueError:
            return None
        return None if math.isnan(found) else min(max(found, 0.0), 1.0)

    def _text(self, key: str) -> str:
        return self.values.get(key, b"").decode("utf-8", "replace").strip()
