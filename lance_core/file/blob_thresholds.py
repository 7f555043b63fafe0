"""Thresholds of a field that decide where its blob values are placed.

**Source:** thresholds of pylance 14.0.2, observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from lance_core.schema.field import Field

__all__ = [
    "DEDICATED_THRESHOLD_KEY",
    "INLINE_THRESHOLD_KEY",
    "PACK_THRESHOLD_KEY",
    "BlobThresholds",
]

INLINE_THRESHOLD_KEY: Final = "lance-encoding:blob-inline-size-threshold"
DEDICATED_THRESHOLD_KEY: Final = "lance-encoding:blob-dedicated-size-threshold"
PACK_THRESHOLD_KEY: Final = "lance-encoding:blob-pack-file-size-threshold"

_INLINE_BYTES: Final = 64 * 1024
_DEDICATED_BYTES: Final = 4 * 1024 * 1024
_PACK_BYTES: Final = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BlobThresholds:
    """Size limits, in bytes, that decide where the values of a field are placed.

    Attributes:
        inline: a larger value is placed in a sidecar instead of the data file.
        dedicated: a larger value is placed in its own sidecar instead of a shared one; checked first.
        pack: maximum size of a shared sidecar.
    """

    inline: int
    dedicated: int
    pack: int

    @classmethod
    def of(cls, leaf: Field, pack_bytes: int | None = None) -> Self:
        """Read the thresholds from the metadata of a field; ``pack_bytes`` is the default of the pack threshold.

        Raises:
            InvalidInputError: a threshold is not a number.
        """
        default = _PACK_BYTES if pack_bytes is None else pack_bytes
        return cls(
            _threshold(leaf, INLINE_THRESHOLD_KEY, _INLINE_BYTES),
            _threshold(leaf, DEDICATED_THRESHOLD_KEY, _DEDICATED_BYTES),
            _threshold(leaf, PACK_THRESHOLD_KEY, default),
        )


def _threshold(leaf: Field, key: str, default: int) -> int:
    text = leaf.metadata.get(key)
    if text is None:
        return default
    if not (text.isdigit() and len(text) <= 20):
        raise InvalidInputError(f"column {leaf.name!r}: metadata {key!r} is {text!r}, expected a number of bytes")
    return int(text)
