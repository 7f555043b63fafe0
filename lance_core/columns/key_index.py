"""KeyIndex: finds rows by the values of a key column.

Every key becomes a 64-bit code: a value of at most 8 bytes is its own code; longer values are hashed. The codes are
sorted once. A lookup is a binary search; for hashes, it then compares the values themselves.

If a key is repeated, its last row is found. Null is found like any other value. Floating point numbers are compared bit
by bit, so that a NaN is found, but 0.0 and -0.0 are different.

Source: ``HashJoiner`` of pylance 14.0.2, which finds any of several rows with the same key.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_core.errors import NotSupportedError
from lance_core.schema.extension_types import storage_array, storage_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

__all__ = ["NO_ROW", "KeyIndex", "comparable_type"]

NO_ROW: Final = -1
"""What a lookup returns for a key that the index does not have."""

_WORDS: Final[Mapping[int, pa.DataType]] = MappingProxyType(
    {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
)
"""Width in bits of the values that are their own codes -> the integers with the same bits."""
_HASHED_ROWS: Final = 1 << 14
"""Number of values that are hashed together; hashing needs 32 bytes of memory for each byte of the values."""


def comparable_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type as which keys are compared, whichever way their values are stored.

    Raises:
        NotSupportedError: keys cannot have this type.
    """
    dtype = storage_type(dtype)
    if types.is_dictionary(dtype):
        return comparable_type(dtype.value_type)
    if types.is_string(dtype):
        return pa.large_string()
    if types.is_binary(dtype):
        return pa.large_binary()
    if types.is_nested(dtype) or types.is_null(dtype):
        raise NotSupportedError(f"rows cannot be joined by values of type {dtype}")
    return dtype


class KeyIndex:
    """The rows of a table by the values of one column.

    Args:
        keys: the column, in parts of the same type; at least one. Rows are numbered from 0.

    Raises:
        NotSupportedError: keys cannot have this type.
    """

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        """Sort the keys."""
        self._dtype = comparable_type(keys[0].type)
        values = pa.concat_arrays([_comparable(part, self._dtype) for part in keys])
        is_null = _nulls(values)
        nulls, rows = np.flatnonzero(is_null), np.flatnonzero(~is_null)
        self._null_row = int(nulls[-1]) if len(nulls) else NO_ROW
        self._hashed = None if _word(self._dtype) is not None else values
        self._seed = -1
        is_unique = False
        while not is_unique:
            self._seed += 1
            codes = self._codes(values)[rows]
            # Stable, so that the last of several rows with the same key remains the last.
            order = np.argsort(codes, kind="stable")
            self._sorted, self._rows = codes[order], rows[order]
            same = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
            is_unique = bool(np.all(self._have_values(self._rows[same], values.take(pa.array(self._rows[same + 1])))))

    def find(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return the row of each key, shape (len(keys),); :data:`NO_ROW` for a key that no row has."""
        values = _comparable(keys, self._dtype)
        found = np.full(len(values), NO_ROW, np.int64)
        if len(self._sorted):
            codes = self._codes(values)
            # Ascending searches need not wait for memory.
            order = np.argsort(codes)
            places = np.empty(len(codes), np.int64)
            places[order] = np.maximum(np.searchsorted(self._sorted, codes[order], side="right") - 1, 0)
            at = np.flatnonzero(self._sorted[places] == codes)
            rows = self._rows[places[at]]
            equal = self._have_values(rows, values.take(pa.array(at)))
            found[at[equal]] = rows[equal]
        found[_nulls(values)] = self._null_row
        return found

    def _have_values(self, rows: npt.NDArray[np.int64], values: pa.Array) -> npt.NDArray[np.bool_]:
        """Return whether the keys of rows equal values that have the same codes; nulls are not equal to anything."""
        if self._hashed is None:
            return np.ones(len(rows), bool)
        equal = pc.equal(self._hashed.take(pa.array(rows)), values).fill_null(False)
        return equal.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow has no types

    def _codes(self, values: pa.Array) -> npt.NDArray[np.uint64]:
        """Return the code of each value, shape (len(values),); codes of nulls are arbitrary."""
        word = _word(self._dtype)
        if word is not None:
            values = values.cast(pa.uint8()) if types.is_boolean(self._dtype) else values.view(word)
            return values.fill_null(0).to_numpy().astype(np.uint64)  # type: ignore[no-any-return]  # as above
        if types.is_fixed_size_binary(self._dtype) or types.is_decimal(self._dtype):
            values = values.view(pa.binary(self._dtype.byte_width)).cast(pa.large_binary())
        parts = (values.slice(at, _HASHED_ROWS) for at in range(0, len(values), _HASHED_ROWS))
        return np.concatenate([np.zeros(0, np.uint64), *(_hashes(part, self._seed) for part in parts)])


def _comparable(keys: pa.Array, dtype: pa.DataType) -> pa.Array:
    keys = storage_array(keys)
    if types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    return keys.cast(dtype)


def _nulls(values: pa.Array) -> npt.NDArray[np.bool_]:
    return values.is_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow has no types


def _word(dtype: pa.DataType) -> pa.DataType | None:
    """Return the integers whose bits are those of the values; None if values are hashed instead."""
    if types.is_boolean(dtype):
        return pa.uint8()
    return _WORDS.get(dtype.bit_width) if types.is_primitive(dtype) or types.is_decimal(dtype) else None


def _hashes(values: pa.Array, seed: int) -> npt.NDArray[np.uint64]:
    """Return the sum of the bytes of each value, multiplied by random numbers, shape (len(values),).

    Args:
        values: strings or binary values with 64-bit offsets.
        seed: determines the random numbers.
    """
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    if data_buffer is None or not len(values):
        return np.zeros(len(values), np.uint64)
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    lengths = np.diff(offsets)
    # Odd factors, so that a changed byte always changes the sum; one is added to bytes, so that zeros count.
    factors = np.random.default_rng(seed).integers(0, 2**64, int(lengths.max(initial=0)), np.uint64) | np.uint64(1)
    terms = (data.astype(np.uint64) + np.uint64(1)) * factors[np.arange(len(data)) - np.repeat(starts, lengths)]
    sums: npt.NDArray[np.uint64] = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    hashes: npt.NDArray[np.uint64] = sums[offsets[1:] - offsets[0]] - sums[starts]
    return hashes
