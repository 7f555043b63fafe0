"""What decides where blobs are placed: thresholds of the field, and what the table offers beside its data files.

**Source:** thresholds of pylance 14.0.2, observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from lance_core.file.blob_sidecars import Sidecars
    from lance_core.schema.field import Field

__all__ = [
    "DEDICATED_THRESHOLD_KEY",
    "INLINE_THRESHOLD_KEY",
    "PACK_THRESHOLD_KEY",
    "BlobOptions",
    "BlobThresholds",
    "ExternalValues",
]

INLINE_THRESHOLD_KEY: Final = "lance-encoding:blob-inline-size-threshold"
DEDICATED_THRESHOLD_KEY: Final = "lance-encoding:blob-dedicated-size-threshold"
PACK_THRESHOLD_KEY: Final = "lance-encoding:blob-pack-file-size-threshold"

_INLINE_BYTES: Final = 64 * 1024
_DEDICATED_BYTES: Final = 4 * 1024 * 1024
_PACK_BYTES: Final = 1024 * 1024 * 1024


class ExternalValues(Protocol):
    """What becomes of values that are given by their URI."""

    def place(self, uris: list[str]) -> tuple[list[int], list[str]]:
        """Where references are kept.

        Returns:
            Per URI the id of a base path and the path below it; 0 and the URI itself where there is none.
        """

    def fetch(self, uris: list[str], ranges: list[tuple[int, int] | None]) -> list[bytes] | None:
        """The bytes, if values are taken in rather than referred to; None if not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobOptions:
    """How values of v2 columns are placed.

    Attributes:
        sidecars: makes the files beside the data file.
        external: what becomes of URIs; None = they are refused.
        pack_bytes: a shared sidecar does not grow beyond; the field's own threshold comes first.
    """

    sidecars: Sidecars
    external: ExternalValues | None = None
    pack_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BlobThresholds:
    """Bytes above which the values of a field are placed elsewhere.

    Attributes:
        inline: of values in the data file.
        dedicated: of values in a shared sidecar; checked first.
        pack: of a shared sidecar as a whole.
    """

    inline: int
    dedicated: int
    pack: int

    @classmethod
    def of(cls, leaf: Field, options: BlobOptions) -> Self:
        """From the metadata of a field. Raises ``InvalidInputError`` when a threshold is not a number."""
        default = _PACK_BYTES if options.pack_bytes is None else options.pack_bytes
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
