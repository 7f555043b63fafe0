"""Decimal bounds in statistics: a bound with too many digits is treated as unknown."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lance_core.encodings.v0_1.statistics import decimal_bounds


@pytest.mark.parametrize("precision", [1, 18, 19, 20, 37, 38])
def test_decimal_bounds_beyond_the_precision_of_their_type_become_null(precision: int) -> None:
    limit = 10**precision
    numbers = [-(2**127), -limit, 1 - limit, -1, 0, 1, limit - 1, limit, 2**127 - 1]
    words = pa.array([number.to_bytes(16, "little", signed=True) for number in numbers], pa.binary(16))
    dtype = pa.decimal128(precision)
    expected = [None, None, *(Decimal(number) for number in numbers[2:7]), None, None]
    for array, wanted in ((words, expected), (words.slice(2, 5), expected[2:7]), (words[:0], [])):
        found = decimal_bounds(dtype, array)
        found.validate(full=True)
        assert found.to_pylist() == wanted
