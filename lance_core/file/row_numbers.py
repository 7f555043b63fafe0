"""Validates row numbers and row ids provided by callers."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError, RowOutOfRangeError
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["row_ids", "row_number", "row_positions"]

_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1


def row_positions(indices: Sequence[int] | NDArray[Any] | pa.Array) -> NDArray[np.int64]:
    """Check row numbers and return them as an array with shape (num_rows,).

    Raises:
        InvalidTypeError: a number is not an integer.
        RowOutOfRangeError: a number does not fit in a signed 64-bit integer.
        InvalidInputError: the argument is not a flat list.
    """
    plain = _flat(indices)
    if not plain.size:
        return np.empty(0, np.int64)
    if plain.dtype == object:
        return np.array([row_number("a row number", value) for value in plain.tolist()], np.int64)
    if plain.dtype.kind not in "iu":
        found = {"U": "strings", "S": "bytes"}.get(plain.dtype.kind, plain.dtype.name)
        raise InvalidTypeError(f"row numbers must be whole numbers, found {found}")
    if plain.dtype == np.uint64 and int(plain.max()) > _MAX_INT64:
        raise RowOutOfRangeError(f"a row number must fit in a signed 64-bit integer, found {int(plain.max())}")
    return plain.astype(np.int64, copy=False)


def row_ids(ids: Sequence[int] | NDArray[Any] | pa.Array) -> NDArray[np.uint64]:
    """Check row ids and return them as an array with shape (num_rows,).

    Raises:
        InvalidTypeError: a number is not an integer.
        RowOutOfRangeError: an id is negative or does not fit in 64 bits.
        InvalidInputError: the argument is not a flat list.
    """
    plain = _flat(ids)
    if plain.dtype.kind == "f" and isinstance(ids, (list, tuple)):
        # numpy converts a mix of small and large numbers to floats.
        plain = np.array(ids, object)
    if plain.dtype == np.uint64:
        return plain
    if plain.dtype != object:
        plain = row_positions(plain)
        if plain.size and int(plain.min()) < 0:
            raise RowOutOfRangeError(f"row id {int(plain.min())} is negative")
        return plain.astype(np.uint64)
    return np.array([_row_id(value) for value in plain.tolist()], np.uint64)


def row_number(name: str, value: Any) -> int:
    """Check a row number, a number of rows, or the index of a global buffer.

    Raises:
        InvalidTypeError: the value is not a whole number.
        RowOutOfRangeError: the value does not fit in a signed 64-bit integer.
    """
    try:
        number = index(value)
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a whole number, found {value!r}", argument=name) from error
    if not _MIN_INT64 <= number <= _MAX_INT64:
        raise RowOutOfRangeError(f"{name} must fit in a signed 64-bit integer, found {number}")
    return number


def _flat(numbers: Sequence[int] | NDArray[Any] | pa.Array) -> NDArray[Any]:
    try:
        plain = numbers.to_numpy(zero_copy_only=False) if isinstance(numbers, pa.Array) else np.asarray(numbers)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"row numbers must be a flat list of whole numbers: {error}") from error
    if plain.ndim != 1:
        raise InvalidInputError(f"row numbers must be a flat list, found {counted(plain.ndim, 'dimension')}")
    return plain


def _row_id(value: Any) -> int:
    try:
        number = index(value)
    except TypeError as error:
        raise InvalidTypeError(f"a row id must be a whole number, found {value!r}") from error
    if not 0 <= number <= np.iinfo(np.uint64).max:
        raise RowOutOfRangeError(f"row id {number} is {'negative' if number < 0 else 'too large'}")
    return number
