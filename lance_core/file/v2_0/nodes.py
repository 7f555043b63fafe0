"""A tree of nodes that decodes the rows of one field in a file in format 2.0 from the pages of its columns.

::

    ValueNode     one column; every page has a tree of encodings
    StructNode    one child node per member
    PackedNode    one column that holds all members
    ListNode      offsets column; its items are the rows of the child node       list_nodes.py
    BytesNode     old strings: a list column over a column of single bytes       list_nodes.py
    BlobNode      (position, size) pairs; the values are outside the pages       blob_node.py

Source: ``lance.file.v2.ColumnMetadata``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lance_core.encodings.v2_0.api import checked_values, is_variable_width, may_be_invalid, together
from lance_core.encodings.v2_0.registry import decode_array
from lance_core.file.v2_0.column_pages import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance_core.encodings.v2_0.api import PageBuffers, Steps
    from lance_core.encodings.v2_0.spans import Spans
    from lance_core.file.column_metadata import Page
    from lance_core.file.v2_0.column_pages import ColumnPages

__all__ = ["Node", "PackedNode", "StructNode", "ValueNode"]


class Node(Protocol):
    """Reads the rows of one field."""

    @property
    def columns(self) -> Sequence[ColumnPages]:
        """The columns that have one row for each row of the node, in contrast to columns of list items."""

    @property
    def below(self) -> Sequence[ColumnPages]:
        """The columns that contain the items of lists."""

    def check_rows(self, expected: int) -> None:
        """Check that every column has the expected number of rows.

        Raises:
            CorruptDataError: the numbers differ.
        """

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        """Decode rows as consecutive arrays; if there are no rows, return one empty array."""

    def guessed_offsets(self, rows: Spans) -> Iterable[Steps[Any]]:
        """Return decoders of the items that the rows would have if all lists of a page had the same length."""


@dataclass(frozen=True, slots=True)
class ValueNode:
    """Reads a field with one column.

    Attributes:
        dtype: Arrow type of the field.
        pages: the pages of the column.
    """

    dtype: pa.DataType
    pages: ColumnPages

    @property
    def columns(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return [self.pages]

    @property
    def below(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return []

    def check_rows(self, expected: int) -> None:
        """See ``Node``."""
        self.pages.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        """See ``Node``."""
        return (yield from self.pages.decode(rows, self._page)) or [pa.nulls(0, self.dtype)]

    def guessed_offsets(self, rows: Spans) -> Iterable[Steps[Any]]:
        """See ``Node``."""
        return ()

    def _page(self, page: Page, rows: Spans, buffers: PageBuffers) -> Steps[pa.Array]:
        array = yield from decode_array(page.array_encoding, self.dtype, rows, buffers)
        # Strings were checked when they were created.
        has_more = not is_variable_width(self.dtype) and may_be_invalid(self.dtype)
        return checked_values(array) if has_more else array


@dataclass(frozen=True, slots=True)
class PackedNode:
    """Reads all or some members of a packed struct.

    Attributes:
        dtype: Arrow type of the struct with only the requested members.
        stored: reads all members that the file contains.
        chosen: indices of the requested members.
    """

    dtype: pa.DataType
    stored: ValueNode
    chosen: tuple[int, ...]

    @property
    def columns(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return self.stored.columns

    @property
    def below(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return []

    def check_rows(self, expected: int) -> None:
        """See ``Node``."""
        self.stored.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        """See ``Node``."""
        arrays = yield from self.stored.decode(rows)
        return [
            pa.Array.from_buffers(
                self.dtype, len(array), [None], children=[array.field(index) for index in self.chosen]
            )
            for array in arrays
        ]

    def guessed_offsets(self, rows: Spans) -> Iterable[Steps[Any]]:
        """See ``Node``."""
        return ()


@dataclass(frozen=True, slots=True)
class StructNode:
    """Reads a struct whose members have their own columns. Such a struct is never null.

    Attributes:
        dtype: Arrow type of the struct.
        header: the pages of the header column; None if it is in another file.
        members: one node per member.
    """

    dtype: pa.DataType
    header: ColumnPages | None
    members: tuple[Node, ...]

    @property
    def columns(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return [column for member in self.members for column in member.columns]

    @property
    def below(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return [column for member in self.members for column in member.below]

    def check_rows(self, expected: int) -> None:
        """See ``Node``."""
        if self.header is not None:
            self.header.check_rows(expected)
        for member in self.members:
            member.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        """See ``Node``."""
        parts = yield from together([member.decode(rows) for member in self.members])
        members = [joined(arrays) for arrays in parts]
        return [pa.Array.from_buffers(self.dtype, rows.total, [None], children=members)]

    def guessed_offsets(self, rows: Spans) -> Iterable[Steps[Any]]:
        """See ``Node``."""
        return [steps for member in self.members for steps in member.guessed_offsets(rows)]
