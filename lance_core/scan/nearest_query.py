"""NearestQuery: the checked argument ``nearest`` of a scan, which requests the rows with the nearest vectors.

A search adds columns to its result, which are specified here:

===============  ==========================================================================================
column           value
===============  ==========================================================================================
``query_index``  index of the query vector, if several are given; the first column
``_distance``    distance between the row's vector and the query; the last column unless requested elsewhere
===============  ==========================================================================================

**Source:** ``LanceDataset.scanner`` and ``ScannerBuilder.nearest`` of pylance 14.0.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.public.arguments import whole_number
from lance_core.scan.distances import Metric, compute_type
from lance_core.schema.extension_types import storage_array
from lance_core.schema.field import Field, Schema, trail_of
from lance_core.schema.logical_types import arrow_type
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["DISTANCE_FIELD", "QUERY_INDEX_FIELD", "SCORE_IDS", "NearestQuery"]

DISTANCE_FIELD: Final = Field(id=-103, name="_distance", logical_type="float")
QUERY_INDEX_FIELD: Final = Field(id=-104, name="query_index", logical_type="int32", nullable=False)
SCORE_IDS: Final = frozenset({DISTANCE_FIELD.id, QUERY_INDEX_FIELD.id})

_DEFAULT_K: Final = 10

_LOWEST: Final[Mapping[str, int]] = {
    "nprobes": 1,
    "minimum_nprobes": 0,
    "maximum_nprobes": 0,
    "refine_factor": 1,
    "ef": 1,
    "query_parallelism": -1,
}
"""Arguments that tune the search of an index, and their lowest values. They are checked, but have no effect."""

_APPROX_MODES: Final = ("fast", "normal", "accurate")

_REQUIRED: Final = ("column", "q")

_ARGUMENTS: Final = (
    *_REQUIRED,
    *("k", "metric", "distance_range", "use_index", "approx_mode", "search_effort"),
    *_LOWEST,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearestQuery:
    """A checked search for nearest vectors.

    Attributes:
        column: path of the column that contains the vectors.
        queries: for each ranking, the vectors to compare with, shape (num_vectors, dimension), in the type in which
            distances are computed. Each has one vector, unless every row contains a list of vectors.
        metric: how distances are measured.
        k: maximum number of rows in each ranking.
        lower: rows with a smaller distance are omitted; None means that there is no such limit.
        upper: rows with this or a larger distance are omitted; None means that there is no such limit.
        is_batch: whether several query vectors, each with a ranking of its own, were given as a list.
    """

    column: str
    queries: tuple[npt.NDArray[Any], ...]
    metric: Metric
    k: int
    lower: np.float32 | None
    upper: np.float32 | None
    is_batch: bool

    @classmethod
    def of(cls, schema: Schema, nearest: object, limit: int | None) -> Self:
        """Check the argument.

        Args:
            schema: schema of the table.
            nearest: the argument as given.
            limit: the ``limit`` of the scan, which is the default for ``k``.

        Raises:
            InvalidInputError: the column is unknown, the query does not fit the column, or a value is out of range.
            InvalidTypeError: an argument is unknown, missing, or has the wrong type; or the column has no vectors.
        """
        given = _given(nearest)
        column, dtype = _vector_column(schema, given["column"])
        is_multivector = pa.types.is_list(dtype)
        vector_type = dtype.value_type if is_multivector else dtype
        element = _element_type(column, vector_type.value_type)
        metric = _metric(given.get("metric"), column, element)
        vectors, is_nested = _query_vectors(given["q"])
        if vectors.shape[1] != vector_type.list_size:
            raise InvalidInputError(
                f"nearest: column {column!r} has vectors of {counted(vector_type.list_size, 'element')}, but the "
                f"query has {vectors.shape[1]}"
            )
        queries = _converted(vectors, element)
        _check_index_arguments(given)
        lower, upper = _bounds(given.get("distance_range"))
        is_batch = is_nested and not is_multivector
        names = schema.names
        for added in (DISTANCE_FIELD, *[QUERY_INDEX_FIELD] * is_batch):
            if added.name in names:
                raise InvalidInputError(
                    f"nearest: the result has a column {added.name!r}, but the table already has a column of this name"
                )
        return cls(
            column=column,
            queries=tuple(queries[:, None]) if is_batch else (queries,),
            metric=metric,
            k=_number_of_rows(given.get("k"), limit),
            lower=lower,
            upper=upper,
            is_batch=is_batch,
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields that the search adds."""
        return (QUERY_INDEX_FIELD, DISTANCE_FIELD) if self.is_batch else (DISTANCE_FIELD,)

    def with_fields(self, schema: Schema) -> Schema:
        """Return a schema with the fields that the search adds."""
        return Schema(fields=(*schema.fields, *self.fields), metadata=schema.metadata)

    def columns(
        self, schema: Schema, columns: Sequence[str] | dict[str, str] | None, *, adds_distance: bool
    ) -> Sequence[str] | dict[str, str] | None:
        """Return the names of the columns of the result.

        Args:
            schema: schema of the table.
            columns: the ``columns`` argument of the scan.
            adds_distance: whether ``_distance`` is returned if it is not among the columns.
        """
        if isinstance(columns, (str, bytes)):
            return columns
        if isinstance(columns, dict):
            names = self.columns(schema, list(columns), adds_distance=adds_distance)
            return {name: columns.get(name, name) for name in names or ()}
        names = list(schema.names if columns is None else columns)
        if adds_distance and DISTANCE_FIELD.name not in names:
            names.append(DISTANCE_FIELD.name)
        first = QUERY_INDEX_FIELD.name
        return [first, *(name for name in names if name != first)] if self.is_batch else names


def _given(nearest: object) -> Mapping[str, Any]:
    if not isinstance(nearest, Mapping):
        raise InvalidTypeError(f"nearest must be a dictionary, found {type(nearest).__name__}", argument="nearest")
    unknown = [name for name in nearest if name not in _ARGUMENTS]
    if unknown:
        raise InvalidTypeError(
            f"nearest: unknown argument {unknown[0]!r}; valid arguments are: {', '.join(_ARGUMENTS)}",
            argument="nearest",
        )
    for name in _REQUIRED:
        if name not in nearest:
            raise InvalidTypeError(f"nearest: the argument {name!r} is missing", argument="nearest")
    return nearest


def _vector_column(schema: Schema, column: object) -> tuple[str, pa.DataType]:
    """Return the path of the column and its type: a fixed-size list, or a list of fixed-size lists."""
    if not isinstance(column, str):
        raise InvalidTypeError(f"nearest: the column name must be a string, found {column!r:.40}", argument="nearest")
    trail = trail_of(schema.fields, column)
    if not trail:
        raise InvalidInputError(f"nearest: the table has no column {column!r}")
    dtype = arrow_type(trail[-1])
    vector_type = dtype.value_type if pa.types.is_list(dtype) else dtype
    if not pa.types.is_fixed_size_list(vector_type) or any(not parent.is_struct for parent in trail[:-1]):
        raise InvalidTypeError(f"nearest: column {column!r} must contain vectors, but its type is {dtype}")
    return column, dtype


def _element_type(column: str, dtype: pa.DataType) -> np.dtype[Any]:
    if not (pa.types.is_floating(dtype) or pa.types.is_uint8(dtype)):
        raise InvalidInputError(
            f"nearest: the vectors of column {column!r} must consist of float16, float32, float64, or uint8 values, "
            f"but their type is {dtype}"
        )
    element: np.dtype[Any] = np.dtype(dtype.to_pandas_dtype())
    return element


def _metric(name: object, column: str, element: np.dtype[Any]) -> Metric:
    is_bits = element == np.uint8
    if name is None:
        return Metric.HAMMING if is_bits else Metric.L2
    text = "l2" if str(name).lower() == "euclidean" else str(name).lower()
    metric = next((each for each in Metric if each.value == text), None)
    if metric is None:
        known = ", ".join(each.value for each in Metric)
        raise InvalidInputError(f"nearest: unknown metric {name!r}; valid metrics are: {known}")
    if is_bits is not (metric is Metric.HAMMING):
        raise InvalidInputError(
            f"nearest: metric {metric.value!r} does not support the vectors of column {column!r}, which consist of "
            f"{element} values"
        )
    return metric


def _query_vectors(query: Any) -> tuple[npt.NDArray[np.float64], bool]:
    """Return the query vectors, shape (num_vectors, dimension), and whether they were given as a list of vectors."""
    is_list = isinstance(query, (list, tuple, np.ndarray)) and len(query) > 0
    if not is_list or not isinstance(query[0], (list, tuple, np.ndarray, pa.Array)):
        return _query_vector(query)[None], False
    vectors = [_query_vector(each) for each in query]
    for each in vectors:
        if len(each) != len(vectors[0]):
            raise InvalidInputError(
                f"nearest: all query vectors must have the same length, found {len(vectors[0])} and {len(each)}"
            )
    return np.stack(vectors), True


def _query_vector(query: Any) -> npt.NDArray[np.float64]:
    """Return one query vector; nulls become NaN."""
    if isinstance(query, pa.ExtensionScalar):
        query = query.value
    if isinstance(query, (pa.ListScalar, pa.FixedSizeListScalar)):
        query = query.values
    if isinstance(query, (list, tuple, np.ndarray)):
        try:
            vector = np.asarray(query).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"nearest: the query vector must consist of numbers: {error}") from error
        if vector.ndim != 1:
            raise InvalidInputError(f"nearest: expected a query vector, found an array of shape {vector.shape}")
        return vector
    if not isinstance(query, pa.Array):
        try:
            query = pa.array(query)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidTypeError(
                f"nearest: the query must be a vector, found {type(query).__name__}", argument="nearest"
            ) from error
    values = storage_array(query)
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise InvalidTypeError(
            f"nearest: the query vector must consist of numbers, found {values.type}", argument="nearest"
        )
    numbers: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _converted(vectors: npt.NDArray[np.float64], element: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the query vectors in the type in which distances are computed."""
    if element == np.uint8 and not np.all((vectors > -1) & (vectors < 256)):
        raise InvalidInputError("nearest: the values of a query for uint8 vectors must be between 0 and 255")
    with np.errstate(over="ignore"):
        return vectors.astype(element).astype(compute_type(element))


def _number_of_rows(k: object, limit: int | None) -> int:
    name, value = ("limit", limit) if k is None and limit is not None else ("k", _DEFAULT_K if k is None else k)
    number = whole_number(name, value)
    if number < 1:
        raise InvalidInputError(f"nearest: {name} must be at least 1, found {number}")
    return number


def _bounds(distance_range: Any) -> tuple[np.float32 | None, np.float32 | None]:
    if distance_range is None:
        return None, None
    try:
        lower, upper = distance_range
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"nearest: distance_range must consist of a lower and an upper bound, found {distance_range!r:.60}"
        ) from error
    return _bound(lower), _bound(upper)


def _bound(value: Any) -> np.float32 | None:
    try:
        return None if value is None else np.float32(value)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"nearest: distance_range must consist of numbers, found {value!r:.40}") from error


def _check_index_arguments(given: Mapping[str, Any]) -> None:
    """Check the arguments that tune the search of an index."""
    for name, lowest in _LOWEST.items():
        value = given.get(name)
        if value is not None and whole_number(name, value) < lowest:
            raise InvalidInputError(f"nearest: {name} must be at least {lowest}, found {value}")
    least, most = given.get("minimum_nprobes"), given.get("maximum_nprobes")
    if least is not None and most is not None and least > most:
        raise InvalidInputError(f"nearest: minimum_nprobes ({least}) must not exceed maximum_nprobes ({most})")
    mode = given.get("approx_mode", "normal")
    if mode not in _APPROX_MODES:
        raise InvalidInputError(f"nearest: unknown approx_mode {mode!r}; valid modes are: {', '.join(_APPROX_MODES)}")
    effort = given.get("search_effort")
    if effort is not None and not (math.isfinite(effort) and 0 <= effort <= 1):
        raise InvalidInputError(f"nearest: search_effort must be from 0 to 1, found {effort}")
