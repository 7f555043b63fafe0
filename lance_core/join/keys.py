"""Hashes and comparison of key columns, for all rows of a batch at once.

Two keys are equal if all their columns are equal and not null. Floating-point numbers are compared by their bits, so
that NaN is equal to itself, and 0.0 differs from -0.0. Inside structs and lists, nulls are equal to each other.
Dictionaries are compared by the values that they encode.

Equal keys have the same hash. Different keys rarely have the same hash, so a join compares the keys of rows with the
same hash.

Source: behavior of pylance 14.0.2.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.schema.extension_types import storage_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["byte_ranges", "complete_keys", "equal_keys", "hash_keys"]

_Hashes: TypeAlias = "npt.NDArray[np.uint64]"
_Mask: TypeAlias = "npt.NDArray[np.bool_]"

_WORD_BYTES: Final = 8
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR: Final = np.uint64(0x94D049BB133111EB)
_NULL: Final = np.uint64(0x5D588B656C078965)
"""The hash of a null inside a struct or list."""


def complete_keys(columns: Sequence[pa.Array]) -> _Mask:
    """Return a mask of the rows in which no key column is null; other rows match no row."""
    valid = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        if column.null_count or pa.types.is_null(column.type) or pa.types.is_dictionary(column.type):
            valid &= _valid(storage_array(column))
    return valid


def hash_keys(columns: Sequence[pa.Array]) -> _Hashes:
    """Return a 64-bit hash of each row of the key columns, shape (num_rows,)."""
    return reduce(_combined, map(_hash, columns))


def equal_keys(ours: Sequence[pa.Array], theirs: Sequence[pa.Array]) -> _Mask:
    """Return a mask of the rows in which two lists of key columns of equal length contain the same values."""
    return np.asarray(np.logical_and.reduce([_equal(*pair) for pair in zip(ours, theirs, strict=True)]))


def _hash(array: pa.Array) -> _Hashes:
    array = _plain(array)
    hashes = _hash_values(array)
    if array.null_count:
        hashes[~_valid(array)] = _NULL
    return hashes


def _hash_values(array: pa.Array) -> _Hashes:
    """Return new hashes of the values; those of nulls are arbitrary."""
    if pa.types.is_null(array.type):
        return np.full(len(array), _NULL)
    if pa.types.is_struct(array.type):
        return reduce(_combined, map(_hash, array.flatten()), np.zeros(len(array), np.uint64))
    if _is_list(array.type):
        stops, items = _lists(array)
        lengths = np.diff(stops, prepend=0)
        numbers = np.arange(len(items), dtype=np.uint64) - np.repeat(stops - lengths, lengths).astype(np.uint64)
        totals = np.append(np.uint64(0), np.cumsum(_combined(numbers, _hash(items)), dtype=np.uint64))
        return _combined(lengths.astype(np.uint64), totals[stops] - totals[stops - lengths])
    if _is_variable(array.type):
        return _hash_bytes(array)
    words = _words(array)
    return reduce(_combined, (words[:, index] for index in range(words.shape[1])), np.zeros(len(array), np.uint64))


def _hash_bytes(array: pa.Array) -> _Hashes:
    """Return the hashes of strings or binaries; each step hashes the next word of all values that have one."""
    starts, lengths, data = byte_ranges(array)
    hashes = lengths.astype(np.uint64)
    words: npt.NDArray[np.uint64] = np.ndarray(
        shape=(max(0, len(data) - _WORD_BYTES + 1),), dtype="<u8", buffer=data, strides=(1,)
    )
    rows = np.flatnonzero(lengths)
    offset = 0
    while rows.size:
        word = words[starts[rows] + offset]
        left = lengths[rows] - offset
        if int(left.min()) < _WORD_BYTES:
            # Bytes after the end belong to the next value.
            unused = (_WORD_BYTES - np.minimum(left, _WORD_BYTES)).astype(np.uint64) * np.uint64(8)
            word = word << unused >> unused
        hashes[rows] = _combined(hashes[rows], word)
        offset += _WORD_BYTES
        rows = rows[left > _WORD_BYTES]
    return _mixed(hashes)


def _equal(ours: pa.Array, theirs: pa.Array) -> _Mask:
    ours, theirs = _plain(ours), _plain(theirs)
    if not ours.null_count and not theirs.null_count:
        return _equal_values(ours, theirs)
    ours_valid, theirs_valid = _valid(ours), _valid(theirs)
    return np.asarray((ours_valid == theirs_valid) & (~ours_valid | _equal_values(ours, theirs)))


def _equal_values(ours: pa.Array, theirs: pa.Array) -> _Mask:
    """Return which values are equal; the result for nulls is arbitrary."""
    if pa.types.is_null(ours.type):
        return np.ones(len(ours), np.bool_)
    if pa.types.is_struct(ours.type):
        members = zip(ours.flatten(), theirs.flatten(), strict=True)
        return np.asarray(np.logical_and.reduce([np.ones(len(ours), np.bool_), *(_equal(*pair) for pair in members)]))
    if _is_list(ours.type):
        return _equal_lists(ours, theirs)
    if _is_variable(ours.type):
        return np.asarray(pc.fill_null(pc.equal(ours, theirs), False).to_numpy(zero_copy_only=False))
    return np.asarray((_words(ours) == _words(theirs)).all(axis=1))


def _equal_lists(ours: pa.Array, theirs: pa.Array) -> _Mask:
    stops, items = _lists(ours)
    other_stops, other_items = _lists(theirs)
    lengths = np.diff(stops, prepend=0)
    other_lengths = np.diff(other_stops, prepend=0)
    equal = lengths == other_lengths
    compared = np.where(equal, lengths, 0)
    within = np.arange(compared.sum()) - np.repeat(np.cumsum(compared) - compared, compared)
    same_items = _equal(
        items.take(pa.array(np.repeat(stops - lengths, compared) + within)),
        other_items.take(pa.array(np.repeat(other_stops - other_lengths, compared) + within)),
    )
    differing = np.append(0, np.cumsum(~same_items))
    last = np.cumsum(compared)
    return np.asarray(equal & (differing[last] == differing[last - compared]))


def _plain(array: pa.Array) -> pa.Array:
    """Return the values that are compared: without extension types, dictionaries, and views."""
    array = storage_array(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type) or pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
    return array.cast(pa.binary()) if pa.types.is_binary_view(array.type) else array


def _valid(array: pa.Array) -> _Mask:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _is_variable(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype))


def _is_list(dtype: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(dtype)
        or pa.types.is_large_list(dtype)
        or pa.types.is_map(dtype)
        or pa.types.is_fixed_size_list(dtype)
    )


def _lists(array: Any) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return where each list ends, and the items of all lists; null lists have no items."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(_as_list(array)), 0)).astype(np.int64)
    return np.cumsum(lengths), _as_list(array).flatten()


def _as_list(array: pa.Array) -> pa.Array:
    return array.cast(pa.list_(array.type.field(0))) if pa.types.is_map(array.type) else array


def byte_ranges(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the start and the length of each value, and the bytes of all values, which are followed by zeros."""
    _, offsets_buffer, data = array.buffers()
    kind = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    if not len(array):
        offsets = np.zeros(1, np.int64)
    else:
        offsets = np.frombuffer(offsets_buffer, kind)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    copied = np.zeros(last - first + _WORD_BYTES, np.uint8)
    if last > first:
        copied[: last - first] = np.frombuffer(data, np.uint8)[first:last]
    return offsets[:-1] - first, np.diff(offsets), copied


def _words(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Return values of a fixed size as words, shape (num_values, num_words); shorter values are padded with zeros."""
    if pa.types.is_boolean(array.type):
        return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False)).astype(np.uint64)[:, None]
    num_bytes = array.type.byte_width
    num_words = max(1, -(-num_bytes // _WORD_BYTES))
    data = array.buffers()[1]
    if not len(array) or not num_bytes or data is None:
        return np.zeros((len(array), num_words), np.uint64)
    stored = np.frombuffer(data, np.uint8)[array.offset * num_bytes : (array.offset + len(array)) * num_bytes]
    if num_bytes in (1, 2, 4, _WORD_BYTES):
        return stored.view(f"<u{num_bytes}").astype(np.uint64, copy=False)[:, None]
    padded = np.zeros((len(array), num_words * _WORD_BYTES), np.uint8)
    padded[:, :num_bytes] = stored.reshape(len(array), num_bytes)
    return padded.view("<u8")


def _combined(hashes: _Hashes, others: _Hashes) -> _Hashes:
    """Return hashes of pairs; the order within a pair matters."""
    return _mixed((hashes + _GOLDEN) * _FIRST_FACTOR ^ others)


def _mixed(hashes: _Hashes) -> _Hashes:
    """Return hashes in which each bit depends on all bits of the given hashes: the last steps of SplitMix64."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * _FIRST_FACTOR
    hashes = (hashes ^ (hashes >> np.uint64(27))) * _SECOND_FACTOR
    return hashes ^ (hashes >> np.uint64(31))
