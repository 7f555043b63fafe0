"""Tables of vectors, and conversions of times, compared with pylance."""

from datetime import UTC, datetime, timedelta

import lance.util
import lance.vector
import numpy as np
import pandas as pd
import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.util import sanitize_ts, td_to_micros
from lance_core.vector import vec_to_table

VECTORS = [[1.0, 2.0, 3.0], [4, 5, 6], [7.5, 8.5, float("nan")]]


@pytest.mark.parametrize(
    ("data", "arguments"),
    [
        (VECTORS, {}),
        (VECTORS, {"names": "v"}),
        (VECTORS, {"names": ["v"], "ndim": 3}),
        (VECTORS, {"check_ndim": False}),
        (np.array(VECTORS), {}),
        ([np.array(vector) for vector in VECTORS], {"names": ("v",)}),
        (dict(zip("abc", VECTORS, strict=True)), {}),
        (dict(zip((1, 2, 3), VECTORS, strict=True)), {"names": ["key", "v"]}),
    ],
)
def test_vectors_are_converted_to_the_same_tables_as_in_pylance(data, arguments: dict) -> None:
    ours, theirs = vec_to_table(data, **arguments), lance.vector.vec_to_table(data, **arguments)
    assert ours.schema == theirs.schema
    assert repr(ours.to_pylist()) == repr(theirs.to_pylist())


@pytest.mark.parametrize(
    ("data", "arguments", "problem"),
    [
        ([[1.0], [1.0, 2.0]], {}, "vector 1 must have 1 dimension, found 2"),
        (VECTORS, {"ndim": 2}, "vector 0 must have 2 dimensions, found 3"),
        ({key: [1.0] for key in "ab"}, {"names": "ab"}, "names must be a list of 2 strings, found 'ab'"),
        ({key: [1.0] for key in "ab"}, {"names": ["ab"]}, "names must be a list of 2 strings"),
        (VECTORS, {"names": ["a", "b"]}, "names must be a list of 1 string"),
    ],
)
def test_invalid_vectors_and_names_are_refused(data, arguments: dict, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        vec_to_table(data, **arguments)
    with pytest.raises(ValueError, match=r"names|[Ee]xpected"):
        lance.vector.vec_to_table(data, **arguments)


def test_vectors_of_unsupported_types_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="data contains no vectors"):
        vec_to_table([])
    for convert in (lance.vector.vec_to_table, vec_to_table):
        with pytest.raises(NotImplementedError):
            convert("abc")
    with pytest.raises(NotSupportedError, match="found str"):
        vec_to_table("abc")


@pytest.mark.parametrize(
    "time",
    ["2026-01-31 23:59:59", datetime(2026, 1, 31, tzinfo=UTC), pd.Timestamp("2026-01-31 12:00:00.5")],
)
def test_times_are_converted_as_in_pylance(time) -> None:
    assert sanitize_ts(time) == lance.util.sanitize_ts(time)
    assert type(sanitize_ts(time)) is datetime


def test_unsupported_times_are_refused_as_in_pylance() -> None:
    for convert in (lance.util.sanitize_ts, sanitize_ts):
        with pytest.raises(ValueError, match="2026-01-31"):
            convert("2026-01-31")
        with pytest.raises(TypeError):
            convert(5)
    with pytest.raises(InvalidInputError, match="YYYY-MM-DD hh:mm:ss, found '2026-01-31'"):
        sanitize_ts("2026-01-31")
    with pytest.raises(InvalidTypeError, match="found int"):
        sanitize_ts(5)


@pytest.mark.parametrize("duration", [timedelta(0), timedelta(days=99, microseconds=1), -timedelta(seconds=1.5)])
def test_durations_are_converted_as_in_pylance(duration: timedelta) -> None:
    assert td_to_micros(duration) == lance.util.td_to_micros(duration)
