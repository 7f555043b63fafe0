"""``binary``: strings and binaries, as end offsets and bytes.

::

    indices   one u64 per row: where it ends in the bytes; no leading zero
    bytes     the rows back to back
    null      a null row has null_adjustment added to its end; adjustment = number of bytes + 1

What is at least the adjustment is null, and may own bytes. A row starts where the one before it ends, so that reading
a row takes two offsets. Offsets have 64 bits for every type.

Source: ``lance.encodings.Binary``; behaviour of pylance 14.0.2. Releases 0.14 to 0.16 wrapped ``bytes`` into
``nullable{no_nulls}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.codecs import compress_lz4, compress_zstd
from lance_core.encodings.v2_0.api import MAX_INT32, Arm, is_variable_width, together, wrong_type
from lance_core.encodings.v2_0.flat import read_flat, read_offsets, unwrapped
from lance_core.encodings.v2_0.nullable import no_nulls
from lance_core.encodings.v2_0.spans import Spans
from lance_core.encodings.v2_0.strings import Strings, array_from_strings, strings_from_array
from lance_core.errors import CorruptDataError
from lance_core.proto import pb20

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import Decode, PageBuffers, PageBuilder, Steps

__all__ = ["ARM", "encode_binary", "encode_strings", "end_offsets", "previous_and_rows", "read_strings", "run_bounds"]

_BYTE: Final = 8
_WORD: Final = 8


def encode_binary(array: pa.Array, page: PageBuilder, compression: pb20.Compression | None = None) -> pb20.ArrayEncoding:
    """The strings of an array, at top level not wrapped in ``nullable``.

    Args:
        array: of one of the four variable-width types.
        page: takes the buffers.
        compression: how the bytes are packed; ``zstd`` or ``lz4``, None = as they are.
    """
    return encode_strings(strings_from_array(array), page, compression)


def encode_strings(
    strings: Strings, page: PageBuilder, compression: pb20.Compression | None = None
) -> pb20.ArrayEncoding:
    """See :func:`encode_binary`."""
    first, last = int(strings.offsets[0]), int(strings.offsets[-1])
    num_rows = len(strings.offsets) - 1
    adjustment = last - first + 1 if num_rows else 0
    ends = end_offsets(strings.offsets, strings.validity, adjustment)
    indices = pb20.ArrayEncoding(
        flat=pb20.Flat(bits_per_value=_WORD * _BYTE, buffer=page.add(pa.py_buffer(ends)))
    )
    data = strings.data.slice(first, last - first)
    if compression is not None:
        data = _packed(data, compression)
    values = pb20.Flat(bits_per_value=_BYTE, buffer=page.add(data), compression=compression)
    return pb20.ArrayEncoding(
        binary=pb20.Binary(
            indices=no_nulls(indices), bytes=pb20.ArrayEncoding(flat=values), null_adjustment=adjustment
        )
    )


def end_offsets(
    offsets: NDArray[Any], validity: NDArray[np.bool_] | None, adjustment: int
) -> NDArray[np.uint64]:
    """Arrow offsets as ends from 0, with the adjustment added to those of nulls; shape (num_rows,)."""
    ends = np.empty(len(offsets) - 1, np.uint64)
    np.subtract(offsets[1:], offsets[0], out=ends, dtype=np.int64, casting="unsafe")
    if validity is not None:
        ends[~validity] += np.uint64(adjustment)
    return ends


def previous_and_rows(rows: Spans) -> Spans:
    """The rows and, for each run of them, the row before it, if there is one."""
    return Spans.of(np.maximum(rows.starts - 1, 0), rows.stops)
