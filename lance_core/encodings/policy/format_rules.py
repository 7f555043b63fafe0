"""The features that each structural version allows a writer to use.

Source: behavior of pylance 14.0.2, which rejects files that break these rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_core.errors import InternalError
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FormatRules", "rules_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRules:
    """The differences between 2.1 and 2.2 that affect a page encoder.

    Attributes:
        version: the version to which the rules apply, for messages.
        large_chunks: whether the words and value sizes of mini-block chunks have 32 bits instead of 16.
        scalar_pages: whether a page whose values are all equal may store the value only once.
        encoded_constant_levels: whether levels of pages without values may be encoded; otherwise they are raw words.
        run_levels: whether levels may be run-length encoded.
        word_dictionaries: whether 64-bit words may have a dictionary.
        compressed_dictionaries: whether the items of a dictionary may be compressed.
        structs_in_lists: whether maps, fixed-size lists of structs, and packed structs with variable-width members are
            allowed.
        max_chunk_bytes: maximum size of a mini-block chunk in bytes, including the header.
        max_string_chunk_bytes: maximum size in bytes that this library uses for a chunk of strings; larger chunks do
            not benefit readers.
    """

    version: LanceFileVersion
    large_chunks: bool
    scalar_pages: bool
    encoded_constant_levels: bool
    run_levels: bool
    word_dictionaries: bool
    compressed_dictionaries: bool
    structs_in_lists: bool
    max_chunk_bytes: int
    max_string_chunk_bytes: int


_RULES: Final[Mapping[LanceFileVersion, FormatRules]] = MappingProxyType(
    {
        LanceFileVersion.V2_1: FormatRules(
            version=LanceFileVersion.V2_1,
            large_chunks=False,
            scalar_pages=False,
            encoded_constant_levels=False,
            run_levels=False,
            word_dictionaries=False,
            compressed_dictionaries=False,
            structs_in_lists=False,
            max_chunk_bytes=32 << 10,
            max_string_chunk_bytes=64 << 10,
        ),
        LanceFileVersion.V2_2: FormatRules(
            version=LanceFileVersion.V2_2,
            large_chunks=True,
            scalar_pages=True,
            encoded_constant_levels=True,
            run_levels=True,
            word_dictionaries=True,
            compressed_dictionaries=True,
            structs_in_lists=True,
            max_chunk_bytes=1 << 31,
            max_string_chunk_bytes=64 << 10,
        ),
    }
)


def rules_of(version: LanceFileVersion) -> FormatRules:
    """Return the rules of a structural version.

    Raises:
        UnsupportedVersionError: this library does not write the version, or pages of the version have no levels.
    """
    found = _RULES.get(version)
    if found is None:
        version.require_writable()
        raise InternalError(f"format {version.value} has no pages with levels")
    return found
