"""``list``: the offsets column of a list; the items are in the columns that follow it.

::

    offsets                 one u64 per list: its end, as a position in the items of this page; no leading zero
    null_offset_adjustment  number of items + 1, added to the end of a null list
    num_items               number of items of this page, including those under null lists

The items of a page start where the items of the preceding page end.

Source: ``lance.encodings.List``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.ends import Ends, end_offsets, read_ends
from lance_core.encodings.v2_0.nullable import no_nulls
from lance_core.errors import CorruptDataError
from lance_core.proto import pb20
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import PageBuffers, PageBuilder, Steps
    from lance_core.encodings.v2_0.spans import Spans

__all__ = ["encode_lists", "list_offsets", "read_lists"]

_OFFSET_BITS: Final = 64


def list_offsets(array: pa.Array) -> NDArray[Any]:
    """Return the (len(array) + 1,) Arrow offsets of a list array, relative to ``array.values``."""
    dtype = np.dtype("<i8" if pa.types.is_large_list(array.type) else "<i4")
    offsets = array.buffers()[1]
    if offsets is None or not offsets.size:
        return np.zeros(len(array) + 1, dtype)
    return np.frombuffer(offsets, dtype, len(array) + 1, array.offset * dtype.itemsize)


def encode_lists(offsets: NDArray[Any], validity: NDArray[np.bool_] | None, page: PageBuilder) -> pb20.ArrayEncoding:
    """Encode the offsets of one page.

    Args:
        offsets: (num_lists + 1,) Arrow offsets.
        validity: (num_lists,) mask, True = valid; None = no nulls.
        page: receives the buffer.
    """
    num_items = int(offsets[-1]) - int(offsets[0])
    ends = end_offsets(offsets, validity, num_items + 1)
    flat = pb20.Flat(bits_per_value=_OFFSET_BITS, buffer=page.add(pa.py_buffer(ends)))
    return pb20.ArrayEncoding(
        list=pb20.List(
            offsets=no_nulls(pb20.ArrayEncoding(flat=flat)),
            null_offset_adjustment=num_items + 1,
            num_items=num_items,
        )
    )


def read_lists(message: pb20.List, rows: Spans, page: PageBuffers) -> Steps[Ends]:
    """Read the positions of the items of some lists, relative to the first item of the page.

    Raises:
        CorruptDataError: the offsets do not ascend, or extend past the end of the items.
    """
    ends = yield from read_ends(message.offsets, message.null_offset_adjustment, rows, page)
    if ends.wanted.stop > message.num_items:
        raise CorruptDataError(
            f"a list ends at item {ends.wanted.stop}, but its page has {counted(message.num_items, 'item')}"
        )
    if bool((ends.offsets[1:] < ends.offsets[:-1]).any()):
        raise CorruptDataError("the offsets of lists are not in ascending order")
    return ends
