"""Projections: the sources of the fields most recently read from a file, or from several files that are read as one.

Creating the sources of a projection takes longer than reading small files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_core.file.field_source import FieldSource
    from lance_core.schema.field import Field

__all__ = ["Projections"]

_MOST: Final = 4
"""Maximum number of cached projections of a file."""

_PROJECTION_BYTES: Final = 250
_FIELD_BYTES: Final = 50
"""Approximate memory in bytes of a projection, and of a field in it, without the sources."""


class Projections:
    """The sources of the last few projections. Safe for concurrent use by several threads."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        """Start without projections."""
        # Replaced as a whole, because other threads may read at the same time.
        self._kept: list[_Projection] = []

    @property
    def memory(self) -> int:
        """Approximate memory in bytes, without the metadata of the files."""
        return sum([projection.memory for projection in self._kept])

    def find(self, fields: Sequence[Field], column_indices: Mapping[int, int] | None) -> list[FieldSource] | None:
        """Return the sources of some fields, or None; for ``column_indices``, see :meth:`FileReader.read_batches`."""
        wanted = tuple(fields)
        for kept in self._kept:
            if kept.fields == wanted and kept.column_indices == column_indices:
                return kept.sources
        return None

    def add(
        self, fields: Sequence[Field], column_indices: Mapping[int, int] | None, sources: list[FieldSource]
    ) -> None:
        """Store the sources of some fields, in place of those of the oldest projection if there are too many."""
        kept = _Projection(tuple(fields), None if column_indices is None else dict(column_indices), sources)
        self._kept = [*self._kept[-_MOST + 1 :], kept]


class _Projection(NamedTuple):
    fields: tuple[Field, ...]
    column_indices: Mapping[int, int] | None
    sources: list[FieldSource]

    @property
    def memory(self) -> int:
        of_sources = sum([source.memory for source in self.sources])
        return _PROJECTION_BYTES + _FIELD_BYTES * len(self.fields) + of_sources
