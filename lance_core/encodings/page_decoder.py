"""Page decoder: converts the bytes of a page to levels and values, and the leaves of a column to an array.

::

    layout and buffers  →  levels and block of values   structural/, for one leaf and some of its rows
    leaves of a column  →  array                        assembly.py

Source: ``lance.encodings21.PageLayout``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.encodings.assembly import assemble
from lance_core.encodings.leaf_arrays import bytes_of
from lance_core.encodings.leaf_page import LeafPage
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.raw_sizes import most_value_bits
from lance_core.encodings.registry import DECODER, selected_arm
from lance_core.encodings.structural import blob, constant, full_zip_pages, mini_block_pages
from lance_core.encodings.structural.page_steps import run_in_memory
from lance_core.encodings.v2_0.api import bits_per_row
from lance_core.errors import (
    CorruptDataError,
    InvalidInputError,
    NotSupportedError,
    OutOfMemoryError,
    UnsupportedEncodingError,
)
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lance_core.encodings.structural.page_steps import PageState, PageSteps, Rows
    from lance_core.proto import pb21
    from lance_core.schema.field import Field

__all__ = ["STRUCTURAL", "STRUCTURAL_NOT_YET", "assemble", "decode_leaf", "open_page", "read_leaf"]

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
"""Maps each arm that is known but not supported to a description."""

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
        raise NotSupportedError(f"{where}: cannot read {num_rows} rows at once; the maximum is {_MAX_ROWS_AT_ONCE}")
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
        raise InvalidInputError(f"rows [{start}, {stop}) are not within the {num_rows} rows of the page")
    views = [bytes_of(buffer) for buffer in buffers]
    state = run_in_memory(open_page(field, layout, [buffer.size for buffer in buffers], num_rows), views)
    if start < stop:
        return run_in_memory(read_leaf(field, state, rows), views)
    # Decode an empty range as a single row without its values.
    first = min(start, num_rows - 1)
    page = run_in_memory(read_leaf(field, state, (first, first + 1)), views)
    return LeafPage(field, _emptied(page.levels), page.block.slice(0, 0), 0)


def _check_widths(field: Field, layout: pb21.MiniBlockLayout) -> None:
    """Check that the described values are not wider than those of the column, since compressed bytes expand to them."""
    described = most_value_bits(layout.dictionary if layout.HasField("dictionary") else layout.value_compression)
    if described <= _MAX_WORD_BITS:
        return
    most = max(_MAX_WORD_BITS, bits_per_row(arrow_type(field)))
    if described > most:
        raise CorruptDataError(
            f"found values of {described} bits, expected at most {most} bits for this column", expected=most
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
            raise OutOfMemoryError(f"{where}: the rows do not fit into memory; read fewer rows at a time") from error
        if isinstance(error, (ValueError, IndexError, OverflowError, pa.ArrowException)):
            raise CorruptDataError(f"{where}: the page cannot be decoded: {error}") from error


def _emptied(levels: Levels) -> Levels:
    return Levels(
        levels.layers,
        None if levels.repetition is None else levels.repetition[:0],
        None if levels.definition is None else levels.definition[:0],
        0,
    )
