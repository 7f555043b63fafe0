"""Binary pages: strings and binaries with 32-bit or 64-bit offsets.

::

    bytes of all values, row 0 first
    page position ▸ (num_rows + 1) x i64     positions in the file; the first is the position of the bytes

Nulls are not marked: in a nullable field, every empty value is read as null.

**Source:** behavior of pylance 14.0.2; files of releases since 0.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import VariableWidthBlock
from lance_core.encodings.leaf_arrays import array_from_block, block_from_array
from lance_core.errors import CorruptDataError, InternalError
from lance_core.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["OFFSET_BYTES", "decode_binary", "encode_binary", "split_offsets"]

OFFSET_BYTES: Final = 8


def split_offsets(
    words: NDArray[np.int64], num_rows: NDArray[np.int64], file_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Convert the stored offsets of several runs of rows to lengths and byte ranges.

    Args:
        words: ``num_rows[i] + 1`` offsets of each run, back to back.
        num_rows: number of rows in each run, shape (num_runs,).
        file_bytes: size of the file in bytes.

    Returns:
        The length of each value, and the start and the end of the bytes of each run, as positions in the file.

    Raises:
        CorruptDataError: offsets decrease or point outside the file, or the values together are larger than the file.
    """
    ends = np.cumsum(num_rows + 1)
    firsts, lasts = words[ends - num_rows - 1], words[ends - 1]
    # Check every offset, not only the ends: differences of arbitrary words may wrap around and appear to ascend.
    if len(words) and not 0 <= int(words.min()) <= int(words.max()) <= file_bytes:
        raise CorruptDataError(f"the offsets of a binary page point outside the file ({counted(file_bytes, 'byte')})")
    lengths = np.diff(words)
    if len(num_rows) > 1:
        lengths = np.delete(lengths, ends[:-1] - 1)
    if len(lengths) and int(lengths.min()) < 0:
        raise CorruptDataError("the offsets of a binary page are not in ascending order")
    if int((lasts - firsts).sum()) > file_bytes:
        raise CorruptDataError(
            "values of a binary column overlap: together, they are larger than the file "
            f"({counted(file_bytes, 'byte')})"
        )
    return lengths, firsts, lasts


def decode_binary(dtype: pa.DataType, nullable: bool, lengths: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    """Build an array of the values.

    Args:
        dtype: a string or binary type with 32-bit or 64-bit offsets.
        nullable: whether empty values are nulls.
        lengths: size of each value in bytes, shape (num_rows,).
        data: the bytes of all values.

    Raises:
        CorruptDataError: the bytes of a string are not UTF-8.
        NotSupportedError: there are more bytes than 32-bit offsets can address.
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    validity = None
    if nullable:
        validity = lengths != 0
        validity = None if bool(validity.all()) else validity
    return array_from_block(dtype, VariableWidthBlock(offsets, data), validity)


def encode_binary(
    array: pa.Array, validity: NDArray[np.bool_] | None, position: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode the bytes and the offsets of a page; the bytes are a view of the array if its nulls take no bytes.

    Args:
        array: strings or binaries with 32-bit or 64-bit offsets; the array may have any offset.
        validity: (len(array),) mask of the rows to keep; it must be False for at least the array's own nulls.
        position: position of the bytes in the file.
    """
    block = block_from_array(array, validity)
    if not isinstance(block, VariableWidthBlock):
        raise InternalError(f"an array of type {array.type} cannot be stored as a binary page")
    first, last = int(block.offsets[0]), int(block.offsets[-1])
    return block.data[first:last], block.offsets.astype(np.int64) + (position - first)
