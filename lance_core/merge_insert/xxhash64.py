"""XXH64 hashes of many binary values at once, with seed 0.

Source: the specification of xxHash; key filters of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["xxhash64"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"

_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5: Final = np.uint64(0x27D4EB2F165667C5)
_LANES: Final = 4
_STRIPE_BYTES: Final = 32


def xxhash64(
    starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint64]:
    """Return the hash of each value, shape (num_values,).

    Args:
        starts: where each value starts in the data.
        lengths: the number of bytes of each value.
        data: the bytes of all values.
    """
    hashes = np.full(len(starts), _P5)
    at = starts.copy()
    long = np.flatnonzero(lengths >= _STRIPE_BYTES)
    if long.size:
        hashes[long] = _stripes(at[long], lengths[long] // _STRIPE_BYTES, data)
        at[long] += lengths[long] // _STRIPE_BYTES * _STRIPE_BYTES
    hashes += lengths.astype(np.uint64)
    stops = starts + lengths
    for size, step in ((8, _add_word), (4, _add_half), (1, _add_byte)):
        rows = np.flatnonzero(stops - at >= size)
        while rows.size:
            hashes[rows] = step(hashes[rows], _read(data, at[rows], size))
            at[rows] += size
            rows = rows[stops[rows] - at[rows] >= size]
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _stripes(at: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> _Numbers:
    """Return the hashes of the stripes of 32 bytes with which long values begin."""
    with np.errstate(over="ignore"):
        lanes = np.array([_P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1], np.uint64)
    lanes = np.repeat(lanes[None, :], len(at), axis=0)
    rows = np.arange(len(at))
    for stripe in range(int(counts.max())):
        rows = rows[counts[rows] > stripe]
        for lane in range(_LANES):
            lanes[rows, lane] = _round(lanes[rows, lane], _read(data, at[rows] + stripe * _STRIPE_BYTES + 8 * lane, 8))
    rotations = (1, 7, 12, 18)
    hashes = np.zeros(len(at), np.uint64)
    for lane, bits in enumerate(rotations):
        hashes += _rotated(lanes[:, lane], bits)
    for lane in range(_LANES):
        hashes = (hashes ^ _round(np.zeros(len(at), np.uint64), lanes[:, lane])) * _P1 + _P4
    return hashes


def _read(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: int) -> _Numbers:
    numbers: npt.NDArray[np.uint64] = np.ndarray(
        shape=(max(0, len(data) - size + 1),), dtype=f"<u{size}", buffer=data, strides=(1,)
    )
    return numbers[at].astype(np.uint64)


def _add_word(hashes: _Numbers, words: _Numbers) -> _Numbers:
    return _rotated(hashes ^ _round(np.zeros_like(words), words), 27) * _P1 + _P4


def _add_half(hashes: _Numbers, halves: _Numbers) -> _Numbers:
    return _rotated(hashes ^ (halves * _P1), 23) * _P2 + _P3


def _add_byte(hashes: _Numbers, values: _Numbers) -> _Numbers:
    return _rotated(hashes ^ (values * _P5), 11) * _P1


def _round(lane: _Numbers, words: _Numbers) -> _Numbers:
    return _rotated(lane + words * _P2, 31) * _P1


def _rotated(numbers: _Numbers, bits: int) -> _Numbers:
    return (numbers << np.uint64(bits)) | (numbers >> np.uint64(64 - bits))
