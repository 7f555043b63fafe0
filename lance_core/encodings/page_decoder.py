"""Page decoder: the bytes of one page become levels and values, and the leaves of a column an array.

::

    layout and buffers  →  levels and block of values   structural/, for one leaf and a range of its rows
    leaves of a column  →  array                        assembly.py

Source: ``lance.encodings21.PageLayout``; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.encodings.api import LeafPage
from lance_core.encodings.assembly import assemble
from lance_core.encodings.leaf_arrays import bytes_of
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.registry import DECODER, selected_arm
from lance_core.encodings.structural import constant, full_zip, mini_block
from lance_core.errors import CorruptDataError, InvalidInputError, NotSupportedError, UnsupportedEncodingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lance_core.encodings.api import DataBlock
    from lance_core.proto import pb21
    from lance_core.schema.field import Field

__all__ = ["STRUCTURAL", "STRUCTURAL_NOT_YET", "assemble", "decode_leaf"]

STRUCTURAL: Final[Mapping[str, Callable[..., tuple[Levels, DataBlock]]]] = MappingProxyType(
    {
        "mini_block": mini_block.decode,
        "constant": constant.decode,
        "full_zip": full_zip.decode,
    }
)
"""Decoders by the arm of ``PageLayout.layout``."""

STRUCTURAL_NOT_YET: Final[Mapping[str, str]] = MappingProxyType(
    {"blob": "values outside the pages, of columns with metadata lance-encoding:blob"}
)
"""Arms that are known and refused, and what they are."""

_MAX_ROWS_AT_ONCE: Final = (1 << 31) - 1


def decode_leaf(
    field: Field,
    layout: pb21.PageLayout,
    buffers: Sequence[pa.Buffer],
    num_rows: int,
    *,
    rows: tuple[int, int] | None = None,
) -> LeafPage:
    """Decode rows of one page of a leaf column.

    Args:
        field: the leaf.
        layout: description of the page.
        buffers: all buffers of the page, in order; the result may share their memory.
        num_rows: value of ``Page.length``. Below a fixed-size list of structs it counts the slots of the lists: rows
            times dimension.
        rows: half-open range in the unit of ``num_rows``; None = all.

    Raises:
        InvalidInputError: the range is not within the page.
        CorruptDataError: the bytes contradict the layout or themselves.
        NotSupportedError: an encoding that this library does not decode (``UnsupportedEncodingError``), or more rows at
            once than an array can hold.
    """
    start, stop = rows if rows is not None else (0, num_rows)
    if not 0 <= start <= stop <= num_rows:
        raise InvalidInputError(f"rows [{start}, {stop}) are not within the {num_rows} rows of the page")
    where = f"field {field.name!r}"
    if num_rows == 0:
        raise CorruptDataError(f"{where}: a page without rows")
    if stop - start > _MAX_ROWS_AT_ONCE:
        raise NotSupportedError(f"{where}: {stop - start} rows at once, at most {_MAX_ROWS_AT_ONCE} can be read")
    arm = selected_arm(layout, "layout", f"{where}: a page layout")
    if arm in STRUCTURAL_NOT_YET:
        raise UnsupportedEncodingError(f"{where}: page layout {arm!r} is not supported: {STRUCTURAL_NOT_YET[arm]}")
    # An empty range is the empty front of one row.
    first, last = (start, stop) if start < stop else (min(start, num_rows - 1), min(start, num_rows - 1) + 1)
    views = [bytes_of(buffer) for buffer in buffers]
    try:
        levels, block = STRUCTURAL[arm](getattr(layout, arm), views, num_rows, (first, last), DECODER)
    except (CorruptDataError, NotSupportedError) as error:
        raise _located(error, where) from error
    except (ValueError, IndexError, OverflowError, MemoryError, pa.ArrowException) as error:
        raise CorruptDataError(f"{where}: the page cannot be decoded: {error}") from error
    if start == stop:
        levels, block = _emptied(levels), block.slice(0, 0)
    return LeafPage(field, levels, block, stop - start)


def _located(error: CorruptDataError | NotSupportedError, where: str) -> CorruptDataError | NotSupportedError:
    context: dict[str, Any] = dict(error.context)
    return type(error)(f"{where}: {error}", **context)


def _emptied(levels: Levels) -> Levels:
    return Levels(
        levels.layers,
        None if levels.repetition is None else levels.repetition[:0],
        None if levels.definition is None else levels.definition[:0],
        0,
    )
