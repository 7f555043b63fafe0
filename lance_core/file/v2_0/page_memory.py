"""Estimates the memory of decoded values in columns in format 2.0 from the page descriptions alone.

Source: ``lance.encodings.ArrayEncoding``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from google.protobuf.message import Message

from lance_core.encodings.v2_0.registry import is_packed
from lance_core.proto import pb20

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core.file.v2_0.column_pages import ColumnPages

__all__ = ["dictionary_bytes_per_row", "expansion"]

M = TypeVar("M", bound=Message)

_EXPANSION: Final = 4
"""Assumed ratio of decoded to stored size for compressed values."""


def expansion(columns: Sequence[ColumnPages]) -> int:
    """Return the assumed ratio of decoded to stored bytes for some columns."""
    pages = [page.array_encoding for column in columns for page in column.pages]
    return _EXPANSION if any(is_packed(page) or _find(page, pb20.Fsst) for page in pages) else 1


def dictionary_bytes_per_row(columns: Sequence[ColumnPages]) -> float:
    """Estimate the average size of the dictionary items in each page, and return the largest estimate in bytes.

    The estimate is 0 if there is no dictionary.
    """
    most = 0.0
    for column in columns:
        for page in column.pages:
            for found in _find(page.array_encoding, pb20.Dictionary):
                index_bits = sum(part.bits_per_value for part in _find(found.indices, pb20.Flat))
                items_bytes = max(0, page.num_bytes - page.length * index_bits // 8)
                most = max(most, items_bytes / max(1, found.num_dictionary_items))
    return most


def _find(message: Message, kind: type[M]) -> list[M]:
    return list(_walk(message, kind))


def _walk(message: Message, kind: type[M]) -> Iterator[M]:
    if isinstance(message, kind):
        yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                yield from _walk(part, kind)
