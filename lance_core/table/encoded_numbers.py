"""Packed lists of 64-bit numbers: a base with 16- or 32-bit offsets, or 64-bit numbers if the range is too large.

=========  =====================================  =============
form       condition                              bytes/number
=========  =====================================  =============
u16_array  highest - lowest < 2 ** 16             2
u32_array  highest - lowest < 2 ** 32             4
u64_array  otherwise; there is no base            8
=========  =====================================  =============

**Source:** ``lance.table.EncodedU64Array``; the choice of form follows pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids
from lance_core.wording import counted

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["PackedNumbers", "encode_numbers"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"
_Positions: TypeAlias = "npt.NDArray[np.int64]"

_WIDTHS: Final = {"u16_array": "<u2", "u32_array": "<u4", "u64_array": "<u8"}
_MAX: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class PackedNumbers:
    """A list of numbers in its stored form.

    Attributes:
        base: number to add to every offset.
        offsets: the stored offsets, shape (num_numbers,); a view of the bytes in the message.
    """

    base: int
    offsets: npt.NDArray[Any]

    @classmethod
    def parse(cls, message: pb_rowids.EncodedU64Array, what: str) -> Self:
        """Parse the message without unpacking the numbers.

        Raises:
            CorruptDataError: the data ends within an offset, or a number has more than 64 bits.
        """
        form = message.WhichOneof("array")
        if form is None:
            return cls(0, np.empty(0, "<u2"))
        dtype = np.dtype(_WIDTHS[form])
        base, data = {
            "u16_array": (message.u16_array.base, message.u16_array.offsets),
            "u32_array": (message.u32_array.base, message.u32_array.offsets),
            "u64_array": (0, message.u64_array.values),
        }[form]
        if len(data) % dtype.itemsize:
            raise CorruptDataError(
                f"{what}: a list of numbers has {counted(len(data), 'byte')}, expected a multiple of {dtype.itemsize}"
            )
        numbers = cls(base, np.frombuffer(data, dtype))
        if len(numbers) and numbers.high > _MAX:
            raise CorruptDataError(f"{what}: number {numbers.high} has more than 64 bits")
        return numbers

    def __len__(self) -> int:
        """Return the length of the list."""
        return len(self.offsets)

    @property
    def low(self) -> int:
        """The smallest number; the list must not be empty."""
        return self.base + int(self.offsets.min())

    @property
    def high(self) -> int:
        """The largest number; the list must not be empty."""
        return self.base + int(self.offsets.max())

    @property
    def is_ascending(self) -> bool:
        """Whether every number is larger than the one before."""
        return bool((self.offsets[1:] > self.offsets[:-1]).all())

    def at(self, positions: _Positions) -> _Numbers:
        """Return the numbers at some positions as a new array."""
        return self.offsets[positions].astype(np.uint64) + np.uint64(self.base)

    def offsets_of(self, numbers: _Numbers) -> npt.NDArray[Any]:
        """Convert numbers, which must be between the smallest and the largest number of the list, to offsets."""
        return (numbers - np.uint64(self.base)).astype(self.offsets.dtype)


def encode_numbers(numbers: _Numbers, low: int, high: int) -> pb_rowids.EncodedU64Array:
    """Encode a list in the narrowest form.

    Args:
        numbers: one or more numbers, in any order.
        low: the smallest number.
        high: the largest number.
    """
    if high - low >= 2**32:
        plain = pb_rowids.EncodedU64Array.U64Array(values=numbers.astype("<u8").tobytes())
        return pb_rowids.EncodedU64Array(u64_array=plain)
    offsets = numbers - np.uint64(low)
    if high - low < 2**16:
        narrow = pb_rowids.EncodedU64Array.U16Array(base=low, offsets=offsets.astype("<u2").tobytes())
        return pb_rowids.EncodedU64Array(u16_array=narrow)
    wide = pb_rowids.EncodedU64Array.U32Array(base=low, offsets=offsets.astype("<u4").tobytes())
    return pb_rowids.EncodedU64Array(u32_array=wide)
