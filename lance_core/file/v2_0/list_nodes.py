"""Nodes for lists, and for strings written by early releases. A row consists of consecutive rows of another node.

Pages of items and pages of offsets need not end at the same row. The number of the first item of an offsets page is
the total item count of the preceding offsets pages.

Source: ``lance.encodings.List``; behavior of pylance 14.0.2, and of 0.12 and 0.13 for strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.bits import pack_mask
from lance_core.encodings.v2_0.api import MAX_INT32
from lance_core.encodings.v2_0.ends import Ends
from lance_core.encodings.v2_0.list import read_lists
from lance_core.encodings.v2_0.registry import selected_arm
from lance_core.encodings.v2_0.spans import MAX_POSITION, Spans
from lance_core.encodings.v2_0.strings import Strings, array_from_strings
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.file.v2_0.column_pages import joined
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import PageBuffers, Steps
    from lance_core.file.column_metadata import Page
    from lance_core.file.v2_0.column_pages import ColumnPages
    from lance_core.file.v2_0.nodes import Node

__all__ = ["BytesNode", "ListNode"]


@dataclass(frozen=True, slots=True)
class ListNode:
    """Reads a list.

    Attributes:
        dtype: Arrow type of the list.
        pages: the pages of the offsets column.
        item: reads the items, whose page boundaries are independent of the offsets pages.
        item_starts: first item of each offsets page, followed by the number of items; shape (num_pages + 1,), int64.
    """

    dtype: pa.DataType
    pages: ColumnPages
    item: Node
    item_starts: NDArray[np.int64]

    @classmethod
    def of(cls, dtype: pa.DataType, pages: ColumnPages, item: Node) -> ListNode:
        """Combine the offsets and the items of a list.

        Raises:
            CorruptDataError: the offsets pages record a different number of items than the file contains.
        """
        counts = []
        for index, page in enumerate(pages.pages):
            arm = selected_arm(page.array_encoding)
            if arm != "list":
                raise CorruptDataError(f"{pages.where}, page {index}: expected the encoding of a list, found {arm}")
            counts.append(page.array_encoding.list.num_items)
        if sum(counts) >= MAX_POSITION:
            raise CorruptDataError(
                f"{pages.where}: the lists have {counted(sum(counts), 'item')}, which is too many for a file"
            )
        item_starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=item_starts[1:])
        item.check_rows(int(item_starts[-1]))
        return cls(dtype, pages, item, item_starts)

    @property
    def columns(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return [self.pages]

    @property
    def below(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return [*self.item.columns, *self.item.below]

    def check_rows(self, expected: int) -> None:
        """See ``Node``."""
        self.pages.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        """See ``Node``."""
        ends = yield from self.read_ends(rows)
        items = yield from self.item.decode(ends.wanted)
        return [_list_array(self.dtype, ends, joined(items))]

    def guessed_offsets(self, rows: Spans) -> Iterable[Steps[Any]]:
        """See ``Node``."""
        items = np.interp(rows.positions(), self.pages.edges, self.item_starts).astype(np.int64)
        items = np.unique(items[items < self.item_starts[-1]])
        if not len(items):
            return ()
        first = Spans.of_points(items)
        return [self.item.decode(first), *self.item.guessed_offsets(first)]

    def read_ends(self, rows: Spans) -> Steps[Ends]:
        """Read where the items of some lists start and end, as item numbers counted across all pages."""
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
        offsets = [ends.offsets[:-1].astype(np.int64) + before for ends, before in zip(parts, totals[:-1], strict=True)]
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
    """Reads strings that releases 0.12 and 0.13 stored as lists of single bytes.

    Attributes:
        dtype: Arrow type of the field: string, large_string, binary, or large_binary.
        lists: reads the offsets and the bytes.
    """

    dtype: pa.DataType
    lists: ListNode

    @property
    def columns(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return self.lists.columns

    @property
    def below(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return self.lists.below

    def check_rows(self, expected: int) -> None:
        """See ``Node``."""
        self.lists.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        """See ``Node``."""
        ends = yield from self.lists.read_ends(rows)
        items = yield from self.lists.item.decode(ends.wanted)
        data = joined(items)
        values = data.buffers()[1]
        strings = Strings(ends.offsets, values if values is not None else pa.py_buffer(b""), ends.validity)
        return [array_from_strings(strings, self.dtype, "lists of bytes")]

    def guessed_offsets(self, rows: Spans) -> Iterable[Steps[Any]]:
        """See ``Node``."""
        return ()


def _read_list_page(page: Page, rows: Spans, buffers: PageBuffers) -> Steps[Ends]:
    return (yield from read_lists(page.array_encoding.list, rows, buffers))


def _list_array(dtype: pa.DataType, ends: Ends, items: pa.Array) -> pa.Array:
    offsets = ends.offsets
    if pa.types.is_large_list(dtype):
        offsets = offsets.astype(np.int64, copy=False)
    else:
        if int(offsets[-1]) > MAX_INT32:
            raise NotSupportedError(
                f"{int(offsets[-1])} items do not fit in one array of type {dtype}; read fewer rows at a time"
            )
        offsets = offsets.astype(np.int32, copy=False)
    bitmap = None if ends.validity is None else pa.py_buffer(pack_mask(ends.validity))
    return pa.Array.from_buffers(dtype, len(offsets) - 1, [bitmap, pa.py_buffer(offsets)], children=[items])
