"""Reads a page in steps; each step requests only the bytes that are needed next.

A page is read by a generator. It yields the parts of the page's buffers that it needs next and is sent their bytes.
Decoding code thus decides which bytes are needed but does not fetch them; the caller fetches them, for many pages
together::

    open     parts needed to locate the others: chunk words, repetition index, dictionary      →  PageState, cacheable
    read     parts that contain the wanted rows, in one or two steps                           →  levels and values

Source: specific to this library; see ``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock
    from lance_core.encodings.levels.build import Levels

__all__ = ["Fetched", "PageState", "PageSteps", "Rows", "Wanted"]

T = TypeVar("T")

Rows: TypeAlias = "tuple[int, int] | NDArray[np.int64]"
"""Rows of a page: a nonempty half-open range, or an array of ascending row numbers without duplicates."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Parts of one buffer of a page that are needed next.

    Attributes:
        buffer: index of the buffer.
        starts: (num_parts,) int64, ascending; start of each part. The caller has checked that all parts are inside the
            buffer.
        stops: (num_parts,) int64, ascending; end of each part.
        are_offsets: whether the parts only locate other parts; a reader of individual rows caches such parts.
    """

    buffer: int
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    are_offsets: bool = False

    @classmethod
    def span(cls, buffer: int, start: int, stop: int, *, are_offsets: bool = False) -> Wanted:
        """Return a request for a single part, ``[start, stop)``."""
        return cls(buffer, np.array([start], np.int64), np.array([stop], np.int64), are_offsets)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes that were fetched for one ``Wanted``.

    Attributes:
        data: bytes that contain all parts, possibly with other bytes between them.
        starts: (num_parts,) int64 start of each part in ``data``.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]

    def only(self, num_bytes: int) -> NDArray[np.uint8]:
        """Return the first ``num_bytes`` bytes of the first part."""
        start = int(self.starts[0])
        return self.data[start : start + num_bytes]


PageSteps: TypeAlias = Generator[Sequence[Wanted], Sequence[Fetched], T]
"""A generator that yields the parts of a page that it needs, receives their bytes, and returns a ``T``."""


class PageState(Protocol):
    """The metadata of a page, read before its rows. It is immutable and can be cached."""

    @property
    def num_bytes(self) -> int:
        """Approximate memory use in bytes."""

    def read(self, rows: Rows) -> PageSteps[tuple[Levels, DataBlock]]:
        """Decode rows.

        Raises:
            CorruptDataError: the bytes are inconsistent or do not match the layout.
            UnsupportedEncodingError: this library does not decode the encoding.
        """
