"""bfloat16 numbers as an extension type of pandas; the type is registered with pandas as ``lance.bfloat16``.

Importing this module requires pandas.

**Source:** ``PandasBFloat16Array`` of pylance 14.0.2. The methods for selecting, copying, and joining arrays are
additional; pandas needs them to sort, join, and write frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # no types
import pyarrow as pa
from pandas.api.extensions import (  # type: ignore[import-untyped]  # no types
    ExtensionArray,
    ExtensionDtype,
    register_extension_dtype,
)

from lance_core.arrow.bfloat16 import BFloat16, BFloat16Array, BFloat16Type, bfloat16_array
from lance_core.schema.logical_types import BFLOAT16

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    # In the body of the class below, ``type`` is an attribute that pandas requires.
    ArrayClass: TypeAlias = type["PandasBFloat16Array"]

__all__ = ["PandasBFloat16Array", "PandasBFloat16Type"]


@register_extension_dtype
class PandasBFloat16Type(ExtensionDtype):  # type: ignore[misc]  # pandas has no types
    """The pandas type ``lance.bfloat16``."""

    kind: Final = "f"
    na_value: Final = None
    name: Final = BFLOAT16
    names: Final = None
    type: Final = BFloat16
    _is_numeric: Final = True

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> PandasBFloat16Array:  # pandas' name
        """Create a pandas array for an Arrow array."""
        return PandasBFloat16Array(array)

    @classmethod
    def construct_array_type(cls) -> ArrayClass:
        """Return the array class of the type."""
        return PandasBFloat16Array

    @classmethod
    def construct_from_string(cls, string: str) -> PandasBFloat16Type:
        """Return the type with the given name.

        Raises:
            TypeError: the name is that of another type; pandas expects this error.
        """
        if string != BFLOAT16:
            raise TypeError(f"cannot construct a {cls.__name__} from {string!r}")
        return cls()


class PandasBFloat16Array(ExtensionArray):  # type: ignore[misc]  # pandas has no types
    """A pandas array of bfloat16 numbers, backed by a :class:`~lance_core.arrow.BFloat16Array`.

    Attributes:
        data: the Arrow array.
        dtype: the pandas type.
    """

    dtype: Final = PandasBFloat16Type()

    def __init__(self, data: pa.Array | pa.ChunkedArray) -> None:
        self.data = pa.concat_arrays(_chunks(data)) if isinstance(data, pa.ChunkedArray) else data

    @classmethod
    def _from_sequence(
        cls, scalars: Sequence[Any], *, dtype: PandasBFloat16Type | None = None, copy: bool = False
    ) -> PandasBFloat16Array:
        values = [None if value is None or value is pd.NA else value for value in scalars]
        return cls(bfloat16_array(values))

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[PandasBFloat16Array]) -> PandasBFloat16Array:
        return cls(pa.concat_arrays([each.data for each in to_concat]))

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any]) -> PandasBFloat16Array:
        """Create an array from a numpy array; see :meth:`BFloat16Array.from_numpy`."""
        return cls(BFloat16Array.from_numpy(array))

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, np.integer)):
            return self.data[int(item)].as_py()
        if isinstance(item, slice):
            start, stop, step = item.indices(len(self))
            if step == 1:
                return type(self)(self.data[start:stop])
            item = np.arange(start, stop, step)
        selected = pd.api.indexers.check_array_indexer(self, item)
        if selected.dtype == bool:
            selected = np.flatnonzero(selected)
        return self.take(selected)

    def __len__(self) -> int:
        return len(self.data)

    @property
    def nbytes(self) -> int:
        """The number of bytes that the values occupy."""
        return int(self.data.nbytes)

    def isna(self) -> np.ndarray[Any, Any]:
        """Return a boolean array that marks the nulls; NaN is not a null."""
        return np.asarray(self.data.is_null())

    def take(
        self, indices: Any, *, allow_fill: bool = False, fill_value: BFloat16 | float | None = None
    ) -> PandasBFloat16Array:
        """Return the values at the given positions; see :meth:`pandas.api.extensions.ExtensionArray.take`."""
        at = np.asarray(indices, np.int64)
        if not allow_fill:
            return type(self)(self.data.take(pa.array(np.where(at < 0, at + len(self), at))))
        if (at < -1).any():
            raise ValueError(
                f"with allow_fill, -1 means a missing value; other negative indices are invalid, found {at.min()}"
            )
        taken = self.data.take(pa.array(at, mask=at < 0))
        if fill_value is None or pd.isna(fill_value):
            return type(self)(taken)
        return self._from_sequence(
            [fill_value if index < 0 else value for index, value in zip(at, taken.to_pylist(), strict=True)]
        )

    def copy(self) -> PandasBFloat16Array:
        """Return an array that shares the values of this one; they cannot be changed in place."""
        return type(self)(self.data)

    def to_numpy(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]:
        """Return a numpy array; see :meth:`BFloat16Array.to_numpy`. If there are nulls, it contains Python objects."""
        values: np.ndarray[Any, Any] = self.data.to_numpy() if not self.data.null_count else self.__array__()
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:  # numpy's name
        """Return the values as Python objects, or as another type to which numpy converts them."""
        return np.array(self.data.to_pylist(), object).astype(dtype or object)

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:  # pandas' name
        """Return the Arrow array."""
        return self.data


def _chunks(data: pa.ChunkedArray) -> list[pa.Array]:
    return data.chunks or [pa.ExtensionArray.from_storage(BFloat16Type(), pa.array([], pa.binary(2)))]


BFloat16Type.pandas_type = PandasBFloat16Type()
