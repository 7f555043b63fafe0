"""Dictionary columns: pages of plain keys, and one list of values for the whole file.

The values of several batches are joined: new values are appended, so that keys written earlier keep their meaning.
Keys cannot be null, so rows cannot be null.

**Source:** behavior of pylance 14.0.2, which writes the dictionary of the first batch only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.leaf_arrays import is_variable_width, validity_of
from lance_core.errors import CorruptDataError, InvalidInputError, SchemaMismatchError
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DictionaryUnion", "can_be_dictionary_value", "decode_dictionary"]


def can_be_dictionary_value(dtype: pa.DataType) -> bool:
    """Return whether dictionaries of this value type are supported: integers, strings and binaries."""
    return bool(pa.types.is_integer(dtype) or is_variable_width(dtype))


def decode_dictionary(dtype: pa.DictionaryType, keys: pa.Array, values: pa.Array) -> pa.DictionaryArray:
    """Decode keys to their values.

    Raises:
        CorruptDataError: a key is out of range.
    """
    if len(keys):
        bounds = pc.min_max(keys)
        if bounds["min"].as_py() < 0 or bounds["max"].as_py() >= len(values):
            raise CorruptDataError(
                f"dictionary keys range from {bounds['min']} to {bounds['max']}, but the dictionary has "
                f"{counted(len(values), 'value')}"
            )
    return pa.DictionaryArray.from_arrays(keys, values, ordered=dtype.ordered, safe=False)


class DictionaryUnion:
    """The dictionary of one column, which grows batch by batch.

    Args:
        dtype: type of the column.
        where: path of the column, for messages.
        values: initial values of the dictionary; empty by default.
    """

    __slots__ = ("_dtype", "_where", "values")

    def __init__(self, dtype: pa.DictionaryType, where: str, values: pa.Array | None = None) -> None:
        """See the class docstring."""
        self._dtype = dtype
        self._where = where
        self.values: pa.Array = values if values is not None else pa.array([], dtype.value_type)

    def keys(self, array: pa.DictionaryArray, visible: NDArray[np.bool_] | None) -> pa.Array:
        """Return the rows as keys into :attr:`values`, after adding new values to it; a view if no keys change.

        Args:
            array: rows of the column.
            visible: mask of the rows that are not below a null struct, shape (len(array),); None = all rows.

        Raises:
            SchemaMismatchError: a row is null or refers to a null value.
            InvalidInputError: there are too many values for the index type.
        """
        validity = validity_of(array)
        if any(mask is not None and not mask.all() for mask in (validity, visible)):
            raise SchemaMismatchError(
                f"column {self._where!r}: format 0.1 cannot store nulls in a dictionary column; use format 2.0 or "
                "later, or cast the column to its value type",
                column=self._where,
            )
        indices = array.indices
        if not len(indices):
            return indices
        given = array.dictionary
        if not len(self.values) and not given.null_count:
            self.values = given
        if given.equals(self.values):
            return indices
        return self._translated(indices, given)

    def _translated(self, indices: pa.Array, given: pa.Array) -> pa.Array:
        used = pc.unique(indices)
        wanted = given.take(used)
        known = pc.index_in(wanted, value_set=self.values)
        if known.null_count:
            new = wanted.filter(known.is_null()).unique()
            self._extend(new)
            known = pc.index_in(wanted, value_set=self.values)
        new_keys = np.zeros(len(given), np.int64)
        new_keys[used.to_numpy()] = known.to_numpy()
        return pa.array(new_keys[indices.to_numpy()]).cast(self._dtype.index_type)

    def _extend(self, new: pa.Array) -> None:
        index_type = self._dtype.index_type
        most = 1 << (index_type.bit_width - pa.types.is_signed_integer(index_type))
        if len(self.values) + len(new) > most:
            raise InvalidInputError(
                f"column {self._where!r}: the dictionaries of all batches together have "
                f"{counted(len(self.values) + len(new), 'value')}, but keys of type {index_type} can address "
                f"only {most}",
                column=self._where,
            )
        self.values = pa.concat_arrays([self.values, new])
