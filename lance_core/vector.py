"""Vectors as Arrow tables; the name follows ``lance.vector``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["vec_to_table"]


def vec_to_table(
    data: dict[Any, Any] | list[Any] | np.ndarray[Any, Any],
    names: str | Sequence[str] | None = None,
    ndim: int | None = None,
    check_ndim: bool = True,
) -> pa.Table:
    """Create a table with a column of vectors, which are fixed-size lists of float32.

    Args:
        data: vectors by id, or a list of vectors, or an array with one vector per row.
        names: names of the columns. For a dictionary, those of the ids and the vectors, by default ``id`` and
            ``vector``; otherwise, that of the vectors, by default ``vector``.
        ndim: number of dimensions; by default, that of the first vector.
        check_ndim: whether to check first that all vectors have this number of dimensions.

    Raises:
        InvalidInputError: the number of names is wrong, there are no vectors, or their numbers of dimensions differ.
        NotSupportedError: the data is of another type.
    """
    if not isinstance(data, (dict, list, np.ndarray)):
        raise NotSupportedError(f"data must be a dict, a list, or a numpy array, found {type(data).__name__}")
    has_ids = isinstance(data, dict)
    default = ["id", "vector"] if has_ids else ["vector"]
    columns = default if names is None else [names] if isinstance(names, str) and not has_ids else names
    if isinstance(columns, str) or len(columns) != len(default):
        raise InvalidInputError(f"names must be a list of {counted(len(default), 'string')}, found {names!r}")
    vectors = _vectors(list(data.values()) if isinstance(data, dict) else data, ndim, check_ndim)
    arrays = [pa.array(list(data)), vectors] if has_ids else [vectors]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _vectors(values: list[Any] | np.ndarray[Any, Any], ndim: int | None, check_ndim: bool) -> pa.FixedSizeListArray:
    if not len(values):
        raise InvalidInputError("data contains no vectors")
    expected = len(values[0]) if ndim is None else ndim
    if check_ndim:
        for number, vector in enumerate(values):
            if len(vector) != expected:
                raise InvalidInputError(
                    f"vector {number} must have {counted(expected, 'dimension')}, found {len(vector)}"
                )
    return pa.FixedSizeListArray.from_arrays(pa.array(np.array(values, dtype=np.float32).ravel()), expected)
