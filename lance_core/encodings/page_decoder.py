"""Page decoder: converts the bytes of a page to levels and values, and the leaves of a column to an array.

::

    layout and buffers  →  levels and block of values   structural/, for one leaf and some of its rows
    leaves of a column  →  array                        assemble, from the leaves outward

The levels of every leaf of a struct include the layers of the struct. All leaves are unraveled (see
``levels/unravel.py``); the validity and the offsets of the result come from the first leaf.

Source: ``lance.encodings21.PageLayout``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import NullBlock, StructBlock
from lance_core.encodings.leaf_arrays import array_from_block, bitmap_of, bytes_of
from lance_core.encodings.leaf_page import LeafPage
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.levels.unravel import Unraveler
from lance_core.encodings.raw_sizes import most_value_bits
from lance_core.encodings.registry import DECODER, selected_arm
from lance_core.encodings.structural import blob, constant, full_zip_pages, mini_block_pages
from lance_core.encodings.structural.page_requests import Fetched
from lance_core.encodings.v2_0.api import bits_per_row
from lance_core.errors import (
    CorruptDataError,
    InternalError,
    InvalidInputError,
    NotSupportedError,
    OutOfMemoryError,
    UnsupportedEncodingError,
)
from lance_core.schema.logical_types import arrow_type
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.structural.page_requests import PageState, PageSteps, Rows
    from lance_core.proto import pb21
    from lance_core.schema.field import Field

__all__ = [
    "STRUCTURAL",
    "STRUCTURAL_NOT_YET",
    "assemble",
    "decode_leaf",
    "merge_key",
    "open_page",
    "open_pages",
    "open_pages_apart",
    "read_leaf",
    "run_in_memory",
]

T = TypeVar("T")

STRUCTURAL: Final[Mapping[str, Callable[..., PageSteps[PageState]]]] = MappingProxyType(
    {
        "mini_block": mini_block_pages.open_page,
        "constant": constant.open_page,
        "full_zip": full_zip_pages.open_page,
        "blob": blob.open_page,
    }
)
"""Maps each arm of ``PageLayout.layout`` to the function that opens a page with this layout."""

STRUCTURAL_NOT_YET: Final[Mapping[str, str]] = MappingProxyType({})
"""Descriptions of the arms that are known but not supported, keyed by arm."""

_MAX_INT32: Final = (1 << 31) - 1
_MAX_ROWS_AT_ONCE: Final = (1 << 31) - 1
_MAX_WORD_BITS: Final = 64
"""Maximum width in bits of indices, offsets, and lengths; columns of any type may contain numbers of this width."""


def open_page(field: Field, layout: pb21.PageLayout, sizes: Sequence[int], num_rows: int) -> PageSteps[PageState]:
    """Read the metadata of a page of a leaf column, before reading any of its rows.

    Args:
        field: the leaf.
        layout: description of the page.
        sizes: size of each buffer of the page in bytes.
        num_rows: value of ``Page.length``. Inside a fixed-size list of structs, this is the number of slots: rows times
            dimension.

    Raises:
        CorruptDataError: the bytes are inconsistent or do not match the layout.
        UnsupportedEncodingError: this library does not decode the encoding.
    """
    where = f"field {field.name!r}"
    if num_rows == 0:
        raise CorruptDataError(f"{where}: a page has no rows")
    arm = selected_arm(layout, "layout", f"{where}: a page layout")
    if arm in STRUCTURAL_NOT_YET:
        raise UnsupportedEncodingError(f"{where}: page layout {arm!r} is not supported: {STRUCTURAL_NOT_YET[arm]}")
    with _Located(where):
        if arm == "mini_block":
            _check_widths(field, layout.mini_block)
        return (yield from STRUCTURAL[arm](getattr(layout, arm), sizes, num_rows, DECODER))


def open_pages(
    field: Field,
    layouts: Sequence[pb21.PageLayout],
    buffers: Sequence[Sequence[NDArray[np.uint8]]],
    num_rows: Sequence[int],
    data_starts: Sequence[int],
) -> PageState:
    """Open several mini-block pages of a leaf column as one; all buffers are in memory.

    Args:
        field: the leaf.
        layouts: descriptions of the pages, which have the same :func:`mini_block_pages.merge_key`.
        buffers: the buffers of each page.
        num_rows: value of ``Page.length`` of each page.
        data_starts: start of page buffer 1 of each page, relative to any common origin; the requests of the page are
            relative to the same origin.

    Raises:
        CorruptDataError: as for :func:`open_page`.
    """
    sizes = [list(map(len, of_page)) for of_page in buffers]
    if mini_block_pages.opens_as_one(layouts[0].mini_block):
        with _Located(f"field {field.name!r}"):
            _check_widths(field, layouts[0].mini_block)
            mini_blocks, words = [layout.mini_block for layout in layouts], [of_page[0] for of_page in buffers]
            return mini_block_pages.open_pages(mini_blocks, words, sizes, num_rows, data_starts, DECODER)
    opened = [
        run_in_memory(open_page(field, layout, of_page, rows), views)
        for layout, of_page, rows, views in zip(layouts, sizes, num_rows, buffers, strict=True)
    ]
    return mini_block_pages.merged(cast("list[mini_block_pages.MiniBlockState]", opened), data_starts)


def open_pages_apart(
    field: Field,
    layouts: Sequence[pb21.PageLayout],
    words: Sequence[NDArray[np.uint8]],
    sizes: Sequence[Sequence[int]],
    num_rows: Sequence[int],
) -> Sequence[PageState]:
    """Open several mini-block pages of a leaf column at once, and return the state of each.

    Args:
        field: the leaf.
        layouts: descriptions of the pages, which have the same :func:`mini_block_pages.merge_key`, and for which
            :func:`mini_block_pages.opens_as_one` is True.
        words: buffer 0 of each page.
        sizes: size of each buffer of each page in bytes.
        num_rows: value of ``Page.length`` of each page.

    Raises:
        CorruptDataError: as for :func:`open_page`.
    """
    with _Located(f"field {field.name!r}"):
        _check_widths(field, layouts[0].mini_block)
        return mini_block_pages.open_pages_apart(
            [layout.mini_block for layout in layouts], words, sizes, num_rows, DECODER
        )


def merge_key(layout: pb21.PageLayout) -> bytes | None:
    """Return the merge key of a page, or None if it must be read alone. Pages with equal keys can be read as one."""
    return mini_block_pages.merge_key(layout.mini_block, DECODER) if layout.HasField("mini_block") else None


def read_leaf(field: Field, state: PageState, rows: Rows) -> PageSteps[LeafPage]:
    """Decode rows of a page of a leaf column.

    Args:
        field: the leaf.
        state: the open page.
        rows: rows of the page, counted as in ``state.num_rows``; the caller has checked that they exist.

    Raises:
        CorruptDataError: the bytes are inconsistent or do not match the layout.
        NotSupportedError: this library does not decode the encoding (``UnsupportedEncodingError``), or there are more
            rows than an array can hold.
    """
    where = f"field {field.name!r}"
    num_rows = rows[1] - rows[0] if isinstance(rows, tuple) else len(rows)
    if num_rows > _MAX_ROWS_AT_ONCE:
        raise NotSupportedError(
            f"{where}: cannot read {counted(num_rows, 'row')} at once; the maximum is {_MAX_ROWS_AT_ONCE}"
        )
    with _Located(where):
        levels, block = yield from state.read(rows)
    return LeafPage(field, levels, block, num_rows)


def decode_leaf(
    field: Field,
    layout: pb21.PageLayout,
    buffers: Sequence[pa.Buffer],
    num_rows: int,
    *,
    rows: tuple[int, int] | NDArray[np.int64] | None = None,
) -> LeafPage:
    """Decode rows of a page whose buffers are all in memory; see :func:`open_page` and :func:`read_leaf`.

    Args:
        field: the leaf.
        layout: description of the page.
        buffers: all buffers of the page, in order; the result may share their memory.
        num_rows: value of ``Page.length``.
        rows: half-open range, or ascending row numbers without duplicates; None = all rows.

    Raises:
        InvalidInputError: the range is not within the page.
    """
    if rows is None:
        rows = (0, num_rows)
    start, stop = rows if isinstance(rows, tuple) else (int(rows[0]), int(rows[-1]) + 1)
    if not 0 <= start <= stop <= num_rows:
        raise InvalidInputError(f"rows [{start}, {stop}) are not within the {counted(num_rows, 'row')} of the page")
    views = [bytes_of(buffer) for buffer in buffers]
    state = run_in_memory(open_page(field, layout, [buffer.size for buffer in buffers], num_rows), views)
    if start < stop:
        return run_in_memory(read_leaf(field, state, rows), views)
    # Decode an empty range as a single row without its values.
    first = min(start, num_rows - 1)
    page = run_in_memory(read_leaf(field, state, (first, first + 1)), views)
    return LeafPage(field, _emptied(page.levels), page.block.slice(0, 0), 0)


def run_in_memory(steps: PageSteps[T], buffers: Sequence[NDArray[np.uint8]]) -> T:
    """Run the steps of a page whose buffers are all in memory."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send([Fetched(buffers[part.buffer], part.starts) for part in wanted])
    except StopIteration as finished:
        result: T = finished.value
        return result


def assemble(field: Field, leaves: Sequence[LeafPage]) -> pa.Array:
    """Build the array of a top-level column.

    Args:
        field: the column's field.
        leaves: one decoded page per leaf, in the order of ``field.leaves()``; all contain the same rows.

    Returns:
        An array of type ``arrow_type(field)``; it shares memory with the pages where their layout allows this.

    Raises:
        CorruptDataError: the levels of a leaf do not match the column's nesting, or the leaves are inconsistent.
        NotSupportedError: there are more items or bytes than an array of this type can address.
    """
    array, _ = _build(field, iter(leaves))
    return array


def _build(field: Field, leaves: Iterator[LeafPage]) -> tuple[pa.Array, list[Unraveler]]:
    """Return the array of a field, and the unravelers of its leaves, positioned after the field's layer."""
    if field.is_leaf:
        leaf = next(leaves, None)
        if leaf is None:
            raise InternalError(f"field {field.name!r}: fewer leaves were decoded than the field has")
        if field.is_struct and not field.children:
            return _memberless_structs(field, leaf), []
        unraveler = Unraveler(leaf.levels, f"field {field.name!r}")
        return _leaf_array(field, leaf, unraveler.validity()), [unraveler]
    if field.is_struct:
        return _build_struct(field, leaves)
    if field.is_list or field.is_map:
        return _build_list(field, leaves)
    return _build_fixed_size_list(field, leaves)


def _leaf_array(field: Field, leaf: LeafPage, validity: NDArray[np.bool_] | None) -> pa.Array:
    dtype = arrow_type(field)
    if not field.is_struct:
        return array_from_block(dtype, leaf.block, validity)
    num_values = leaf.block.num_values
    if isinstance(leaf.block, NullBlock):
        return pa.nulls(num_values, dtype)
    if not isinstance(leaf.block, StructBlock) or len(leaf.block.members) != len(field.children):
        raise CorruptDataError(
            f"field {field.name!r}: the page does not contain packed structs with "
            f"{counted(len(field.children), 'member')}"
        )
    members = [
        array_from_block(arrow_type(child), member, None)
        for child, member in zip(field.children, leaf.block.members, strict=True)
    ]
    return _from_buffers(dtype, num_values, validity, None, members)


def _memberless_structs(field: Field, leaf: LeafPage) -> pa.Array:
    # pylance stores such structs as all null, without the enclosing layers, and reads them back as {}.
    if leaf.levels.layers.max_repetition:
        raise NotSupportedError(f"field {field.name!r}: lists of structs without fields cannot be read")
    return pa.Array.from_buffers(arrow_type(field), leaf.num_rows, [None], children=[])


def _build_struct(field: Field, leaves: Iterator[LeafPage]) -> tuple[pa.Array, list[Unraveler]]:
    members, unravelers = [], []
    for child in field.children:
        member, below = _build(child, leaves)
        members.append(member)
        unravelers += below
    num_slots = unravelers[0].num_slots() if unravelers else len(members[0])
    if any(len(member) != num_slots for member in members):
        raise CorruptDataError(
            f"struct {field.name!r}: expected {counted(num_slots, 'slot')} in each member, found "
            f"{', '.join(str(len(member)) for member in members)}"
        )
    validity, *_ = [unraveler.validity() for unraveler in unravelers] or [None]
    return _from_buffers(arrow_type(field), num_slots, validity, None, members), unravelers


def _build_list(field: Field, leaves: Iterator[LeafPage]) -> tuple[pa.Array, list[Unraveler]]:
    items, unravelers = _build(field.children[0], leaves)
    _require_levels(field, unravelers)
    (offsets, validity), *_ = [unraveler.offsets() for unraveler in unravelers]
    if int(offsets[-1]) != len(items):
        raise CorruptDataError(
            f"list {field.name!r}: found {counted(len(items), 'item')}, but the offsets end at {int(offsets[-1])}"
        )
    dtype = arrow_type(field)
    if not pa.types.is_large_list(dtype) and len(items) > _MAX_INT32:
        raise NotSupportedError(
            f"list {field.name!r}: {len(items)} items are too many for one array; read fewer rows at a time"
        )
    offsets = offsets.astype(np.int64 if pa.types.is_large_list(dtype) else np.int32, copy=False)
    return _from_buffers(dtype, len(offsets) - 1, validity, offsets, [items]), unravelers


def _build_fixed_size_list(field: Field, leaves: Iterator[LeafPage]) -> tuple[pa.Array, list[Unraveler]]:
    dtype = arrow_type(field)
    items, unravelers = _build(field.children[0], leaves)
    _require_levels(field, unravelers)
    for unraveler in unravelers:
        unraveler.keep_first_of(dtype.list_size)
    num_slots = unravelers[0].num_slots()
    validity, *_ = [unraveler.validity() for unraveler in unravelers]
    if len(items) != num_slots * dtype.list_size:
        raise CorruptDataError(
            f"field {field.name!r}: found {counted(len(items), 'item')} for {counted(num_slots, 'list')} of "
            f"{counted(dtype.list_size, 'item')} each"
        )
    return _from_buffers(dtype, num_slots, validity, None, [items]), unravelers


def _require_levels(field: Field, unravelers: list[Unraveler]) -> None:
    if not unravelers:
        raise NotSupportedError(f"field {field.name!r}: lists of structs without fields cannot be read")


def _from_buffers(
    dtype: pa.DataType,
    num_slots: int,
    validity: NDArray[np.bool_] | None,
    offsets: NDArray[np.signedinteger] | None,
    children: list[pa.Array],
) -> pa.Array:
    buffers = [bitmap_of(validity)]
    if offsets is not None:
        buffers.append(pa.py_buffer(offsets))
    return pa.Array.from_buffers(dtype, num_slots, buffers, children=children)


def _check_widths(field: Field, layout: pb21.MiniBlockLayout) -> None:
    """Check that the described values are not wider than those of the column, so that decompression stays bounded."""
    described = most_value_bits(layout.dictionary if layout.HasField("dictionary") else layout.value_compression)
    if described <= _MAX_WORD_BITS:
        return
    most = max(_MAX_WORD_BITS, bits_per_row(arrow_type(field)))
    if described > most:
        raise CorruptDataError(
            f"found values of {counted(described, 'bit')}, expected at most {counted(most, 'bit')} for this column",
            expected=most,
        )


class _Located:
    """Adds the location to an error, and converts low-level decoding errors to ``CorruptDataError``."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        where = self._where
        if error is None:
            return
        if isinstance(error, (CorruptDataError, NotSupportedError)):
            context: dict[str, Any] = dict(error.context)
            raise type(error)(f"{where}: {error.message}", **context) from error
        if isinstance(error, MemoryError):
            raise OutOfMemoryError(f"{where}: the rows do not fit in memory; read fewer rows at a time") from error
        if isinstance(error, (ValueError, IndexError, OverflowError, pa.ArrowException)):
            raise CorruptDataError(f"{where}: the page cannot be decoded: {error}") from error


def _emptied(levels: Levels) -> Levels:
    return Levels(
        levels.layers,
        None if levels.repetition is None else levels.repetition[:0],
        None if levels.definition is None else levels.definition[:0],
        0,
    )
