"""The extension type ``lance.bfloat16``: 16-bit floating-point numbers with as many exponent bits as float32.

A value is stored as ``fixed_size_binary(2)``, in little-endian order: the upper half of a float32. Conversion from
float32 rounds to nearest, ties to even; conversion to float32 is exact.

NumPy has no such type. Only conversions to and from NumPy arrays require the package ``ml_dtypes``, which provides such
a type.

**Source:** ``lance.arrow`` of pylance 14.0.2. Its ``to_numpy`` ignores the bounds of a slice; the one in this module
does not.
"""

from __future__ import annotations

import sys
from array import array as number_array
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from lance_core.arrow.registration import register
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.schema.logical_types import BFLOAT16

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BFloat16",
    "BFloat16Array",
    "BFloat16Scalar",
    "BFloat16Type",
    "array_of_bits",
    "bfloat16_array",
    "bits_of_array",
    "bits_of_floats",
    "floats_of_bits",
]

_NUM_BYTES: Final = 2
_BYTES: Final = bytes
_SHOWN_AT_EACH_END: Final = 10
_MAX_SHOWN: Final = 21
_QUIET_NAN: Final = 0x0040
_ABS_INFINITY: Final = 0x7F80_0000


class BFloat16:
    """A bfloat16 number; the given number is rounded to the nearest one."""

    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        self._value = float(_floats_of_values([value])[0])

    @classmethod
    def from_bytes(cls, bytes: bytes) -> BFloat16:  # the argument has pylance's name
        """Create a number from its two bytes, in little-endian order.

        Raises:
            InvalidInputError: there are not exactly two bytes.
            InvalidTypeError: the argument is not of type ``bytes``.
        """
        if not isinstance(bytes, _BYTES):
            raise InvalidTypeError(f"a bfloat16 number must be created from bytes, found {type(bytes).__name__}")
        if len(bytes) != _NUM_BYTES:
            raise InvalidInputError(f"a bfloat16 number has {_NUM_BYTES} bytes, found {len(bytes)}")
        return cls(float(floats_of_bits(np.frombuffer(bytes, "<u2"))[0]))

    def as_float(self) -> float:
        """Return the number as a Python float; the conversion is exact."""
        return self._value

    def __float__(self) -> float:
        return self._value

    def __lt__(self, other: object) -> bool:
        return self._value < other._value if isinstance(other, BFloat16) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self._value <= other._value if isinstance(other, BFloat16) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self._value > other._value if isinstance(other, BFloat16) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self._value >= other._value if isinstance(other, BFloat16) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat16) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        """Return the shortest decimal number that identifies the value, without an exponent."""
        return "NaN" if self._value != self._value else np.format_float_positional(np.float32(self._value), trim="-")


class BFloat16Scalar(pa.ExtensionScalar):  # type: ignore[misc]  # pyarrow has no types
    """One value of a :class:`BFloat16Array`."""

    def as_py(self, **_: object) -> BFloat16 | None:
        """Return the number; None for a null."""
        return None if self.value is None else BFloat16.from_bytes(self.value.as_py())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BFloat16Scalar):
            return self.as_py() == other.as_py()
        if isinstance(other, BFloat16):
            return self.as_py() == other
        # Only a program that has loaded ml_dtypes can have a number of its type.
        numbers = sys.modules.get("ml_dtypes")
        if numbers is not None and isinstance(other, numbers.bfloat16):
            return self.as_py() == BFloat16(float(other))
        return False

    def __hash__(self) -> int:
        return hash(self.as_py())


class BFloat16Array(pa.ExtensionArray):  # type: ignore[misc]  # pyarrow has no types
    """An array of :class:`BFloat16Type`; see :func:`bfloat16_array`."""

    def __repr__(self) -> str:
        return f"<lance_core.arrow.{type(self).__name__} object at {id(self):#018x}>\n{self}"

    def __str__(self) -> str:
        """Return the values, one per line; if there are more than 21, only the first ten and the last ten."""
        if len(self) <= _MAX_SHOWN:
            return "[\n" + _lines(self) + "\n]"
        return f"[\n{_lines(self[:_SHOWN_AT_EACH_END])},\n...\n{_lines(self[-_SHOWN_AT_EACH_END:])}\n]"

    def to_numpy(self, zero_copy_only: bool = False) -> np.ndarray[Any, Any]:
        """Return a numpy array of the type ``bfloat16`` of the package ``ml_dtypes``; no data is copied.

        Raises:
            InvalidInputError: the array contains nulls.
            ModuleNotFoundError: the package ``ml_dtypes`` is not installed.
        """
        if self.null_count > 0:
            raise InvalidInputError(
                f"numpy arrays cannot contain nulls; number of values: {len(self)}, of which null: {self.null_count}"
            )
        return bits_of_array(self).view(_numpy_type())

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any]) -> BFloat16Array:
        """Create an array from a one-dimensional numpy array of the type ``bfloat16`` of ``ml_dtypes``.

        Raises:
            InvalidInputError: the array has another type, or more than one dimension.
            ModuleNotFoundError: the package ``ml_dtypes`` is not installed.
        """
        if array.dtype != _numpy_type():
            raise InvalidInputError(f"the numpy array must be of type bfloat16, found {array.dtype}")
        if array.ndim != 1:
            raise InvalidInputError(f"the numpy array must have one dimension, found {array.ndim}")
        return array_of_bits(np.ascontiguousarray(array).view("<u2"), None)


class BFloat16Type(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """The extension type ``lance.bfloat16``, stored as ``fixed_size_binary(2)``.

    Attributes:
        pandas_type: the pandas extension type, which ``pandas_bfloat16`` sets when it is imported; None without pandas.
    """

    pandas_type: ClassVar[object] = None

    def __init__(self) -> None:
        pa.ExtensionType.__init__(self, pa.binary(_NUM_BYTES), BFLOAT16)

    def __arrow_ext_serialize__(self) -> bytes:  # pyarrow's name
        """Return an empty string, because the type has no parameters."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BFloat16Type:  # pyarrow's name
        """Create the type for a column read from a file or received from another library."""
        if storage_type != pa.binary(_NUM_BYTES):
            raise TypeError(f"the storage type of {BFLOAT16} must be fixed_size_binary[2], found {storage_type}")
        return cls()

    def __arrow_ext_class__(self) -> type[BFloat16Array]:  # pyarrow's name
        """Return the array class of the type."""
        return BFloat16Array

    def __arrow_ext_scalar_class__(self) -> type[BFloat16Scalar]:  # pyarrow's name
        """Return the scalar class of the type."""
        return BFloat16Scalar

    def to_pandas_dtype(self) -> object:
        """Return the pandas extension type; requires pandas."""
        if self.pandas_type is None:
            raise ModuleNotFoundError("the pandas extension type of bfloat16 requires pandas", name="pandas")
        return self.pandas_type


def bfloat16_array(values: Sequence[Any]) -> BFloat16Array:
    """Build an array from numbers, which are rounded, and None.

    Raises:
        InvalidTypeError: a value is not a number, or the values are not a sequence.
    """
    if isinstance(values, str) or not hasattr(values, "__getitem__"):
        raise InvalidTypeError(f"the values must be a sequence of numbers, found {type(values).__name__}")
    is_null = np.array([value is None for value in values], bool)
    floats = _floats_of_values([0 if value is None else value for value in values])
    return array_of_bits(bits_of_floats(floats), is_null)


def bits_of_floats(floats: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return float32 values as the bits of bfloat16 numbers, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(floats, "<f4").view("<u4")
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    # Rounding could turn a NaN into infinity; the bit of quiet NaNs prevents that.
    is_nan = (bits & 0x7FFF_FFFF) > _ABS_INFINITY
    return np.where(is_nan, (bits >> 16) | _QUIET_NAN, rounded).astype("<u2")


def floats_of_bits(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bits of bfloat16 numbers as float32 values; inverse of :func:`bits_of_floats`."""
    return (bits.astype("<u4") << 16).view("<f4")


def bits_of_array(array: pa.ExtensionArray) -> np.ndarray[Any, Any]:
    """Return the bits of all values of an array, as ``uint16``; no data is copied. The bits of nulls are arbitrary."""
    buffer = array.storage.buffers()[1]
    if not len(array) or buffer is None:
        return np.zeros(len(array), "<u2")
    return np.frombuffer(buffer, "<u2", len(array), array.offset * _NUM_BYTES)


def array_of_bits(bits: np.ndarray[Any, Any], is_null: np.ndarray[Any, Any] | None) -> BFloat16Array:
    """Build an array from bits; ``is_null`` marks the nulls, and None means that there are none."""
    valid = pa.array(~is_null).buffers()[1] if is_null is not None and is_null.any() else None
    storage = pa.Array.from_buffers(pa.binary(_NUM_BYTES), len(bits), [valid, pa.py_buffer(bits)])
    array: BFloat16Array = pa.ExtensionArray.from_storage(BFloat16Type(), storage)
    return array


def _floats_of_values(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    try:
        # This converts only numbers; numpy would also parse strings.
        floats = np.frombuffer(number_array("d", values), "f8")
    except TypeError as error:
        raise InvalidTypeError(f"a bfloat16 value must be a number: {error}") from error
    with np.errstate(over="ignore"):
        single = floats.astype("<f4")
    return floats_of_bits(bits_of_floats(single))


def _lines(array: BFloat16Array) -> str:
    return ",\n".join(f"  {value}" for value in array.to_pylist())


def _numpy_type() -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(import_module("ml_dtypes").bfloat16)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "numpy has no bfloat16 type; install the package that adds it with 'pip install ml_dtypes'",
            name=error.name,
        ) from error
    return dtype


register(BFloat16Type())
