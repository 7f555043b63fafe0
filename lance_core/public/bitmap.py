"""Bitmap: a set of fragment ids or row positions, with the interface of ``lance.bitmap.Bitmap``.

Operands may be any iterables of integers. Ids are unsigned 32-bit integers, and iteration is in ascending order.

Source: methods and errors of pylance 14.0.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from operator import index
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyroaring import BitMap

from lance_core.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from typing import NoReturn, Self

__all__ = ["Bitmap"]

_LARGEST: Final = 2**32 - 1


class Bitmap(MutableSet[int]):
    """A set of integers from 0 to 2**32 - 1, stored as a Roaring bitmap.

    Args:
        values: integers in any order, or an Arrow array of integers without nulls; None for an empty set.

    Raises:
        InvalidTypeError: a value is not an integer, or the values cannot be iterated over.
        InvalidInputError: a value is out of range, or null.
    """

    __slots__ = ("_bits",)

    def __init__(self, values: Iterable[int] | pa.Array | pa.ChunkedArray | None = None) -> None:
        """Copy the values."""
        self._bits = BitMap() if values is None else _bits(values).copy()

    def __contains__(self, value: object) -> bool:
        """Return whether the set contains a value; False for everything that is not an integer in range."""
        return isinstance(value, int) and 0 <= value <= _LARGEST and value in self._bits

    def __iter__(self) -> Iterator[int]:
        """Iterate over the values in ascending order."""
        return iter(self._bits)

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._bits)

    def __repr__(self) -> str:
        """Return a representation with all values."""
        return f"Bitmap({{{', '.join(map(str, self._bits))}}})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling."""
        return _restored, (self._bits.serialize(),)

    def __eq__(self, other: object) -> bool:
        """Return whether an iterable contains the same values."""
        operand = _operand(other)
        return NotImplemented if operand is None else bool(self._bits == operand)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __le__(self, other: Iterable[int]) -> bool:
        """Return whether the other iterable contains all values of this set."""
        operand = _operand(other)
        return NotImplemented if operand is None else bool(self._bits <= operand)

    def __lt__(self, other: Iterable[int]) -> bool:
        """Return whether the other iterable contains all values of this set, and others."""
        operand = _operand(other)
        return NotImplemented if operand is None else bool(self._bits < operand)

    def __ge__(self, other: Iterable[int]) -> bool:
        """Return whether this set contains all values of the other iterable."""
        operand = _operand(other)
        return NotImplemented if operand is None else bool(self._bits >= operand)

    def __gt__(self, other: Iterable[int]) -> bool:
        """Return whether this set contains all values of the other iterable, and others."""
        operand = _operand(other)
        return NotImplemented if operand is None else bool(self._bits > operand)

    def __and__(self, other: Iterable[int]) -> Bitmap:
        """Return the values that this set and the other iterable have in common."""
        operand = _operand(other)
        return NotImplemented if operand is None else _of(self._bits & operand)

    def __or__(self, other: Iterable[Any]) -> Bitmap:
        """Return the values of this set and those of the other iterable."""
        operand = _operand(other)
        return NotImplemented if operand is None else _of(self._bits | operand)

    def __sub__(self, other: Iterable[Any]) -> Bitmap:
        """Return the values that the other iterable does not contain."""
        operand = _operand(other)
        return NotImplemented if operand is None else _of(self._bits - operand)

    def __xor__(self, other: Iterable[Any]) -> Bitmap:
        """Return the values that are in this set or in the other iterable, but not in both."""
        operand = _operand(other)
        return NotImplemented if operand is None else _of(self._bits ^ operand)

    def __rsub__(self, other: Iterable[Any]) -> Bitmap:
        """Return the values of the other iterable that this set does not contain."""
        operand = _operand(other)
        return NotImplemented if operand is None else _of(operand - self._bits)

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __iand__(self, other: Iterable[Any]) -> Self:  # type: ignore[misc]  # takes any iterable
        """Keep the common values."""
        self._bits &= _bits(other)
        return self

    def __ior__(self, other: Iterable[int]) -> Self:  # type: ignore[override,misc]  # takes any iterable
        """Add the values of an iterable."""
        self._bits |= _bits(other)
        return self

    def __isub__(self, other: Iterable[Any]) -> Self:
        """Remove the values of an iterable."""
        self._bits -= _bits(other)
        return self

    def __ixor__(self, other: Iterable[int]) -> Self:  # type: ignore[override,misc]  # takes any iterable
        """Keep the values that only one of the two contains."""
        self._bits ^= _bits(other)
        return self

    def intersection(self, other: Iterable[int]) -> Bitmap:
        """Return the values that this set and the other iterable have in common."""
        return _of(self._bits & _bits(other))

    def union(self, other: Iterable[int]) -> Bitmap:
        """Return the values of this set and those of the other iterable."""
        return _of(self._bits | _bits(other))

    def difference(self, other: Iterable[int]) -> Bitmap:
        """Return the values that the other iterable does not contain."""
        return _of(self._bits - _bits(other))

    def symmetric_difference(self, other: Iterable[int]) -> Bitmap:
        """Return the values that are in this set or in the other iterable, but not in both."""
        return _of(self._bits ^ _bits(other))

    def issubset(self, other: Iterable[int]) -> bool:
        """Return whether the other iterable contains all values of this set."""
        return bool(self._bits <= _bits(other))

    def issuperset(self, other: Iterable[int]) -> bool:
        """Return whether this set contains all values of the other iterable."""
        return bool(self._bits >= _bits(other))

    def isdisjoint(self, other: Iterable[Any]) -> bool:
        """Return whether this set and the other iterable have no values in common."""
        return not self._bits.intersect(_bits(other))

    def copy(self) -> Bitmap:
        """Return a copy."""
        return Bitmap(self)

    def add(self, value: int) -> None:
        """Add a value."""
        self._bits |= _bits((value,))

    def discard(self, value: int) -> None:
        """Remove a value if the set contains it."""
        self._bits.discard(_checked(value))

    def remove(self, value: int) -> None:
        """Remove a value.

        Raises:
            KeyError: the set does not contain the value.
        """
        if value not in self:
            raise KeyError(value)
        self._bits.remove(value)

    def pop(self) -> int:
        """Remove and return the smallest value.

        Raises:
            KeyError: the set is empty.
        """
        if not self._bits:
            raise KeyError("pop from an empty Bitmap")
        return int(self._bits.pop())

    def clear(self) -> None:
        """Remove all values."""
        self._bits.clear()

    def update(self, values: Iterable[int]) -> None:
        """Add the values of an iterable."""
        self._bits |= _bits(values)


def _of(bits: BitMap) -> Bitmap:
    bitmap = Bitmap()
    bitmap._bits = bits
    return bitmap


def _restored(data: bytes) -> Bitmap:
    return _of(BitMap.deserialize(data))


def _operand(other: object) -> BitMap | None:
    """Return the values of an operand; None if it is not an iterable of numbers that a set may contain."""
    if not isinstance(other, Iterable):
        return None
    try:
        return _bits(other)
    except InvalidInputError:
        return None


def _bits(values: Any) -> BitMap:
    """Return values as a Roaring bitmap, which the caller must not change."""
    if isinstance(values, Bitmap):
        return values._bits
    if isinstance(values, BitMap):
        return values
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.null_count:
            raise InvalidInputError(f"a Bitmap cannot contain nulls, found {values.null_count}")
        if not pa.types.is_integer(values.type) and len(values):
            raise InvalidTypeError(f"the values of a Bitmap must be integers, found {values.type}", argument="values")
        try:
            return BitMap(values.cast(pa.uint32()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid as error:
            _out_of_range(error)
    try:
        return BitMap(map(_checked, values))
    except TypeError as error:
        if isinstance(error, InvalidTypeError):
            raise
        raise InvalidTypeError(f"the values of a Bitmap must be iterable: {error}", argument="values") from error


def _checked(value: Any) -> int:
    try:
        number = index(value)
    except TypeError as error:
        raise InvalidTypeError(f"the values of a Bitmap must be integers: {error}", argument="values") from error
    if not 0 <= number <= _LARGEST:
        _out_of_range(number)
    return number


def _out_of_range(found: object) -> NoReturn:
    raise InvalidInputError(f"the values of a Bitmap must be numbers from 0 to {_LARGEST}, found {found}")
