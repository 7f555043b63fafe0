"""Columns of a 2.0 file as a tree: what decodes the rows of one field from the pages of its columns.

::

    values    one column; every page is a tree of encodings
    lists     offsets column; the items are the values of another column
    structs   the members' columns side by side
    bytes     strings of releases 0.12 and 0.13: a list column over one of single bytes
    blobs     (position, size) pairs; the values lie outside the pages

Rows of a node are items of the node above it. Pages of length 0 are skipped wherever they stand.

Source: ``lance.file.v2.ColumnMetadata``; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.bits import pack_mask
from lance_core.encodings.v2_0.api import MAX_INT32, PageBuffers, together
from lance_core.encodings.v2_0.ends import Ends
from lance_core.encodings.v2_0.list import read_lists
from lance_core.encodings.v2_0.registry import decode_array, selected_arm
from lance_core.encodings.v2_0.spans import MAX_POSITION, Spans
from lance_core.encodings.v2_0.strings import Strings, array_from_strings
from lance_core.errors import CorruptDataError, LanceError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import Steps
    from lance_core.file.column_metadata import ColumnMetadata, Page

__all__ = ["BlobNode", "BytesNode", "ColumnPages", "ListNode", "Node", "PackedNode", "StructNode", "ValueNode"]


class ColumnPages:
    """The pages of one column that have rows.

    Args:
        metadata: the column.
        where: file and column, for messages.

    Attributes:
        pages: in row order.
        edges: (num_pages + 1,) int64: first row of each page, and the number of rows.
    """

    __slots__ = ("_buffers", "edges", "pages", "where")

    def __init__(self, metadata: ColumnMetadata, where: str) -> None:
        """See the class."""
        self.where = where
        self.pages = tuple(page for page in metadata.pages if page.length)
        if sum(page.length for page in self.pages) >= MAX_POSITION:
            raise CorruptDataError(f"{where}: pages of {sum(page.length for page in self.pages)} rows")
        self.edges: NDArray[np.int64] = np.zeros(len(self.pages) + 1, np.int64)
        np.cumsum([page.length for page in self.pages], out=self.edges[1:])
        column = [(buffer.start, buffer.num_bytes) for buffer in metadata.buffers]
        self._buffers = [
            PageBuffers([(buffer.start, buffer.num_bytes) for buffer in page.buffers], column) for page in self.pages
        ]

    @property
    def num_rows(self) -> int:
        """Rows of the column."""
        return int(self.edges[-1])

    @property
    def num_bytes(self) -> int:
        """Encoded bytes of all pages."""
        return sum(page.num_bytes for page in self.pages)

    def check_rows(self, expected: int) -> None:
        """Compare the rows with what the rest of the file says.

        Raises:
            CorruptDataError: they differ.
        """
        if self.num_rows != expected:
            raise CorruptDataError(
                f"{self.where} has pages of {self.num_rows} rows, expected {expected}",
                expected=expected,
                found=self.num_rows,
            )

    def split(self, rows: Spans) -> list[tuple[int, Spans]]:
        """The pages that hold the rows, each with the rows counted from its start."""
        if rows.stop > self.num_rows:
            raise CorruptDataError(f"{self.where}: row {rows.stop} of {self.num_rows} is wanted")
        first = int(np.searchsorted(self.edges, rows.start, side="right")) - 1
        last = int(np.searchsorted(self.edges, rows.stop, side="left"))
        parts = []
        for index in range(max(first, 0), last):
            start, stop = int(self.edges[index]), int(self.edges[index + 1])
            inside = rows.clipped(start, stop)
            if inside is not None and inside.total:
                parts.append((index, inside))
        return parts

    def decode(self, rows: Spans, step: Callable[[Page, Spans, PageBuffers], Steps[object]]) -> Steps[list[object]]:
        """Decode the rows page by page, all pages in the same rounds."""
        parts = [self._page(index, inside, step) for index, inside in self.split(rows)]
        return (yield from together(parts))

    def bytes_of(self, rows: Spans) -> int:
        """Encoded bytes of a run of rows, in proportion."""
        return sum(
            self.pages[index].num_bytes * inside.total // self.pages[index].length
            for index, inside in (self.split(rows) if rows.total else [])
        )

    def _page(
        self, index: int, rows: Spans, step: Callable[[Page, Spans, PageBuffers], Steps[object]]
    ) -> Steps[object]:
        try:
            return (yield from step(self.pages[index], rows, self._buffers[index]))
        except LanceError as error:
            raise type(error)(f"{self.where}, page {index}: {error.message}", **error.context) from error


class Node(Protocol):
    """Rows of one field."""

    @property
    def columns(self) -> Sequence[ColumnPages]:
        """Columns whose rows are the node's own, not items of its lists."""

    @property
    def below(self) -> Sequence[ColumnPages]:
        """Columns of the items."""

    def check_rows(self, expected: int) -> None:
        """Compare the rows of every column with what the rest of the file says.

        Raises:
            CorruptDataError: they differ.
        """

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        """The rows, as arrays that follow each other; of no rows, one empty array."""


@dataclass(frozen=True, slots=True)
class ValueNode:
    """A field with one column.

    Attributes:
        dtype: its Arrow type.
        pages: its pages.
    """

    dtype: pa.DataType
    pages: ColumnPages

    @property
    def columns(self) -> Sequence[ColumnPages]:
        return [self.pages]

    @property
    def below(self) -> Sequence[ColumnPages]:
        return []

    def check_rows(self, expected: int) -> None:
        self.pages.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        return (yield from self.pages.decode(rows, self._page)) or [pa.nulls(0, self.dtype)]

    def _page(self, page: Page, rows: Spans, buffers: PageBuffers) -> Steps[pa.Array]:
        return (yield from decode_array(page.array_encoding, self.dtype, rows, buffers))


@dataclass(frozen=True, slots=True)
class PackedNode:
    """A packed struct of which some members may be left out.

    Attributes:
        dtype: the wanted type.
        stored: the members as they lie in the file.
        chosen: positions of the wanted ones.
    """

    dtype: pa.DataType
    stored: ValueNode
    chosen: tuple[int, ...]

    @property
    def columns(self) -> Sequence[ColumnPages]:
        return self.stored.columns

    @property
    def below(self) -> Sequence[ColumnPages]:
        return []

    def check_rows(self, expected: int) -> None:
        self.stored.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        arrays = yield from self.stored.decode(rows)
        return [
            pa.Array.from_buffers(self.dtype, len(array), [None], children=[array.field(index) for index in self.chosen])
            for array in arrays
        ]


@dataclass(frozen=True, slots=True)
class StructNode:
    """A struct whose members have columns of their own; never null.

    Attributes:
        dtype: its Arrow type.
        header: the header column; None when the file that has it is another one.
        members: one node per member.
    """

    dtype: pa.DataType
    header: ColumnPages | None
    members: tuple[Node, ...]

    @property
    def columns(self) -> Sequence[ColumnPages]:
        return [column for member in self.members for column in member.columns]

    @property
    def below(self) -> Sequence[ColumnPages]:
        return [column for member in self.members for column in member.below]

    def check_rows(self, expected: int) -> None:
        if self.header is not None:
            self.header.check_rows(expected)
        for member in self.members:
            member.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        parts = yield from together([member.decode(rows) for member in self.members])
        members = [joined(arrays) for arrays in parts]
        return [pa.Array.from_buffers(self.dtype, rows.total, [None], children=members)]


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list.

    Attributes:
        dtype: its Arrow type.
        pages: the offsets column.
        item: the items; pages of items are not cut where those of offsets are.
        item_starts: (num_pages + 1,) int64: first item of each offsets page, and the number of items.
    """

    dtype: pa.DataType
    pages: ColumnPages
    item: Node
    item_starts: NDArray[np.int64]

    @classmethod
    def of(cls, dtype: pa.DataType, pages: ColumnPages, item: Node) -> ListNode:
        """Line up offsets and items.

        Raises:
            CorruptDataError: the pages count more or fewer items than there are.
        """
        counts = []
        for index, page in enumerate(pages.pages):
            arm = selected_arm(page.array_encoding)
            if arm != "list":
                raise CorruptDataError(f"{pages.where}, page {index} of a list is encoded as {arm}")
            counts.append(page.array_encoding.list.num_items)
        if sum(counts) >= MAX_POSITION:
            raise CorruptDataError(f"{pages.where}: lists of {sum(counts)} items")
        item_starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=item_starts[1:])
        item.check_rows(int(item_starts[-1]))
        return cls(dtype, pages, item, item_starts)

    @property
    def columns(self) -> Sequence[ColumnPages]:
        return [self.pages]

    @property
    def below(self) -> Sequence[ColumnPages]:
        return [*self.item.columns, *self.item.below]

    def check_rows(self, expected: int) -> None:
        self.pages.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        ends = yield from self.read_ends(rows)
        items = yield from self.item.decode(ends.wanted)
        return [_list_array(self.dtype, ends, joined(items))]

    def read_ends(self, rows: Spans) -> Steps[Ends]:
        """Where the items of some lists are, counted over all pages."""
        split = self.pages.split(rows)
        parts: list[Ends] = yield from self.pages.decode(rows, _read_list_page)
        if not parts:
            return Ends(np.zeros(1, np.int64), None, Spans.single(0, 0))
        wanted = [
            ends.wanted.shifted(int(self.item_starts[index])) for (index, _), ends in zip(split, parts, strict=True)
        ]
        if len(parts) == 1:
            return Ends(parts[0].offsets, parts[0].validity, wanted[0])
        totals = np.cumsum([0] + [each.total for each in wanted])
        offsets = [
            ends.offsets[:-1].astype(np.int64) + before for ends, before in zip(parts, totals[:-1], strict=True)
        ]
        all_wanted = Spans.of(
            np.concatenate([each.starts for each in wanted]), np.concatenate([each.stops for each in wanted])
        )
        validity = None
        if any(ends.validity is not None for ends in parts):
            masks = [
                np.ones(len(ends.offsets) - 1, np.bool_) if ends.validity is None else ends.validity for ends in parts
            ]
            validity = np.concatenate(masks)
        return Ends(np.concatenate([*offsets, totals[-1:]]), validity, all_wanted)


@dataclass(frozen=True, slots=True)
class BytesNode:
    """Strings of releases 0.12 and 0.13: lists of single bytes.

    Attributes:
        dtype: one of the four variable-width types.
        lists: offsets and bytes.
    """

    dtype: pa.DataType
    lists: ListNode

    @property
    def columns(self) -> Sequence[ColumnPages]:
        return self.lists.columns

    @property
    def below(self) -> Sequence[ColumnPages]:
        return self.lists.below

    def check_rows(self, expected: int) -> None:
        self.lists.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        ends = yield from self.lists.read_ends(rows)
        items = yield from self.lists.item.decode(ends.wanted)
        data = joined(items)
        values = data.buffers()[1]
        strings = Strings(ends.offsets, values if values is not None else pa.py_buffer(b""), ends.validity)
        return [array_from_strings(strings, self.dtype, "lists of bytes")]


@dataclass(frozen=True, slots=True)
class BlobNode:
    """Values outside the pages.

    Attributes:
        dtype: one of the four variable-width types.
        descriptors: (position, size) of each row.
        num_bytes: size of the file.
    """

    dtype: pa.DataType
    descriptors: ValueNode
    num_bytes: int

    @property
    def columns(self) -> Sequence[ColumnPages]:
        return self.descriptors.columns

    @property
    def below(self) -> Sequence[ColumnPages]:
        return []

    def check_rows(self, expected: int) -> None:
        self.descriptors.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        found = yield from self.descriptors.decode(rows)
        descriptors = joined(found)
        positions = np.asarray(descriptors.field(0))
        sizes = np.asarray(descriptors.field(1))
        is_null = (sizes == 0) & (positions == 1)
        if bool((sizes > self.num_bytes).any()) or bool((positions > self.num_bytes - sizes).any()):
            raise CorruptDataError(f"{self.descriptors.pages.where}: a blob lies behind the file's end")
        if int(sizes.sum()) > self.num_bytes:
            raise CorruptDataError(f"{self.descriptors.pages.where}: the blobs are larger than the file")
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes.view(np.int64), out=offsets[1:])
        stored = np.flatnonzero(sizes)
        starts = positions[stored].astype(np.int64)
        stops = starts + sizes[stored].astype(np.int64)
        if len(stored) and bool((starts[1:] >= stops[:-1]).all()):
            [data] = yield [Spans.of(starts, stops)]
        else:
            # Not in the order of the rows: no writer does so.
            parts = yield [Spans.of(starts[at : at + 1], stops[at : at + 1]) for at in range(len(stored))]
            data = pa.py_buffer(b"".join(parts))
        validity = None if not bool(is_null.any()) else ~is_null
        return [array_from_strings(Strings(offsets, data, validity), self.dtype, "blob")]


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """One array of all of them.

    Raises:
        NotSupportedError: Arrow cannot hold so much in one array.
    """
    if len(arrays) == 1:
        return arrays[0]
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid as error:
        raise NotSupportedError(f"pages do not fit into one array of type {arrays[0].type}: {error}") from error


def _read_list_page(page: Page, rows: Spans, buffers: PageBuffers) -> Steps[Ends]:
    return (yield from read_lists(page.array_encoding.list, rows, buffers))


def _list_array(dtype: pa.DataType, ends: Ends, items: pa.Array) -> pa.Array:
    offsets = ends.offsets
    if pa.types.is_large_list(dtype):
        offsets = offsets.astype(np.int64, copy=False)
    else:
        if int(offsets[-1]) > MAX_INT32:
            raise NotSupportedError(f"{int(offsets[-1])} items in one array of type {dtype}: read fewer rows at once")
        offsets = offsets.astype(np.int32, copy=False)
    bitmap = None if ends.validity is None else pa.py_buffer(pack_mask(ends.validity))
    return pa.Array.from_buffers(dtype, len(offsets) - 1, [bitmap, pa.py_buffer(offsets)], children=[items])

