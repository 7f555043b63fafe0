"""Every Arrow type a data file may hold, as small arrays: with nulls at every level, and without.

Each entry is a function of no arguments, so that a test pays only for what it uses.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from lance.arrow import bfloat16_array

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PACKED", "REFUSED", "TYPES", "column", "table_of"]

PACKED: Final = {"lance-encoding:packed": "true"}
_BFLOAT16: Final = {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}


def _of(values: list[object], dtype: pa.DataType, metadata: dict[str, str] | None = None) -> Callable[[], pa.Table]:
    def make() -> pa.Table:
        return table_of(pa.array(values, dtype), metadata=metadata)

    return make


def table_of(array: pa.Array, *, metadata: dict[str, str] | None = None, nullable: bool = True) -> pa.Table:
    """Return a table with a column of row numbers and the array as column ``x``."""
    fields = [pa.field("i", pa.int32()), pa.field("x", array.type, nullable=nullable, metadata=metadata)]
    return pa.table([pa.array(np.arange(len(array), dtype=np.int32)), array], schema=pa.schema(fields))


def column(table: pa.Table) -> list[object]:
    """Return the values of the column."""
    return table["x"].to_pylist()


def _integers(dtype: pa.DataType) -> Callable[[], pa.Table]:
    info = np.iinfo(dtype.to_pandas_dtype())
    return _of([info.min, None, 0, info.max, 1], dtype)


def _packed(members: dict[str, tuple[pa.DataType, list[object]]]) -> Callable[[], pa.Table]:
    def make() -> pa.Table:
        fields = [pa.field(name, dtype, nullable=False) for name, (dtype, _) in members.items()]
        arrays = [pa.array(values, dtype) for dtype, values in members.values()]
        return table_of(pa.StructArray.from_arrays(arrays, fields=fields), metadata=PACKED, nullable=False)

    return make


def _nested_fixed_size_list() -> pa.Table:
    return table_of(pa.array([[[1, 2], [3, 4]], None, [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int8(), 2), 2)))


def _bfloat16_list() -> pa.Table:
    item = pa.field("item", pa.binary(2), metadata=_BFLOAT16)
    return table_of(pa.array([[b"ab", b"cd"], [b"ef", b"gh"]], pa.list_(item, 2)))


def _json() -> pa.Table:
    values = ['{"a":1,"b":[1,2.5,"x"]}', None, "[]", '"text"', "null", "-12345678901234", '{"z":{"y":true},"a":null}']
    return table_of(pa.array(values, pa.json_(pa.utf8())))


def _dictionary(dtype: pa.DataType, values: list[object], index: pa.DataType | None = None) -> Callable[[], pa.Table]:
    return _of(values, pa.dictionary(index or pa.int32(), dtype))


def _date(day: int) -> dt.date:
    return dt.date(2020, 2, day)


_MOMENT: Final = dt.datetime(2020, 2, 3, 4, 5, 6)
_POINT: Final = pa.struct([("x", pa.int32()), ("y", pa.string())])
_LIST_OF: Final = pa.list_

TYPES: Final[dict[str, Callable[[], pa.Table]]] = {
    **{
        str(dtype): _integers(dtype)
        for dtype in (
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
        )
    },
    "bool": _of([True, None, False], pa.bool_()),
    "float16": _of([np.float16(1.5), None, np.float16(-2), np.float16("inf")], pa.float16()),
    "float32": _of([1.5, None, float("-inf"), -0.0], pa.float32()),
    "float64": _of([1.5, None, 1e300, -0.0], pa.float64()),
    "bfloat16": _of([b"ab", None, b"cd"], pa.binary(2), _BFLOAT16),
    "decimal128": _of([decimal.Decimal("1.23"), None, decimal.Decimal("-4.56")], pa.decimal128(10, 2)),
    "decimal256": _of([decimal.Decimal("1.23"), None, decimal.Decimal("-4.56")], pa.decimal256(50, 2)),
    "decimal128 negative scale": _of([decimal.Decimal("12300"), None], pa.decimal128(10, -2)),
    "decimal256 negative scale": _of([decimal.Decimal("12300"), None], pa.decimal256(50, -2)),
    "string": _of(["a", None, "", "bcd" * 9], pa.string()),
    "large_string": _of(["a", None, "", "bcd" * 9], pa.large_string()),
    "binary": _of([b"a", None, b"", b"bcd" * 9], pa.binary()),
    "large_binary": _of([b"a", None, b"", b"bcd" * 9], pa.large_binary()),
    "string_view": _of(["a", None, "", "bcd" * 9], pa.string_view()),
    "binary_view": _of([b"a", None, b"", b"bcd" * 9], pa.binary_view()),
    "fixed_size_binary": _of([b"abc", None, b"xyz"], pa.binary(3)),
    "fixed_size_binary of no bytes": _of([b"", b"", b""], pa.binary(0)),
    "date32": _of([_date(1), None, _date(2)], pa.date32()),
    "date64": _of([_date(1), None, _date(2)], pa.date64()),
    **{f"time32 {unit}": _of([dt.time(1, 2, 3), None, dt.time(4, 5, 6)], pa.time32(unit)) for unit in ("s", "ms")},
    **{f"time64 {unit}": _of([dt.time(1, 2, 3), None, dt.time(4, 5, 6)], pa.time64(unit)) for unit in ("us", "ns")},
    **{f"timestamp {unit}": _of([_MOMENT, None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "timestamp with zone": _of([_MOMENT, None], pa.timestamp("us", "Europe/Berlin")),
    "timestamp with offset": _of([_MOMENT, None], pa.timestamp("ms", "+05:30")),
    **{f"duration {unit}": _of([5, None, -7], pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    "null": _of([None, None, None], pa.null()),
    "dictionary": _dictionary(pa.string(), ["a", None, "b", "a"]),
    "dictionary int8": _dictionary(pa.string(), ["a", None, "b", "a"], pa.int8()),
    "dictionary uint16": _dictionary(pa.string(), ["a", None, "b", "a"], pa.uint16()),
    "dictionary of int64": _dictionary(pa.int64(), [5, None, 6, 5]),
    "dictionary of double": _dictionary(pa.float64(), [5.5, None, 6.5, 5.5]),
    "dictionary of binary": _dictionary(pa.binary(), [b"a", None, b"b"]),
    "dictionary of large_string": _dictionary(pa.large_string(), ["a", None, "b"]),
    "dictionary of bool": _dictionary(pa.bool_(), [True, None, False]),
    "list": _of([[1, None], None, [], [3]], pa.list_(pa.int32())),
    "large_list": _of([["a", None], None, [], ["b"]], pa.large_list(pa.string())),
    "list of list": _of([[[1], None, []], None, [], [[2, 3]]], _LIST_OF(_LIST_OF(pa.int64()))),
    "list of struct": _of([[{"x": 1, "y": "a"}, None], None, []], pa.list_(_POINT)),
    "large_list of struct": _of([[{"x": 1, "y": "a"}, None], None, []], pa.large_list(_POINT)),
    "struct": _of([{"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 2, "y": ""}], _POINT),
    "struct with nulls": _of([{"x": 1, "y": "a"}, None, {"x": None, "y": None}], _POINT),
    "struct of struct": _of([{"s": {"x": 1, "y": "b"}}, {"s": {"x": 2, "y": None}}], pa.struct([("s", _POINT)])),
    "struct of list": _of([{"l": [1, 2]}, {"l": None}, {"l": []}], pa.struct([("l", pa.list_(pa.int32()))])),
    "empty struct": lambda: table_of(pa.array([{}, {}], pa.struct([])), nullable=False),
    "map": _of([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
    "map of struct": _of([[("a", {"x": 1, "y": "q"})], None, []], pa.map_(pa.string(), _POINT)),
    "fixed_size_list": _of([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float32(), 2)),
    "fixed_size_list of bool": _of([[True, False, True], None], pa.list_(pa.bool_(), 3)),
    "fixed_size_list of decimal": _of([[decimal.Decimal("1.5")]], pa.list_(pa.decimal128(5, 1), 1)),
    "fixed_size_list of timestamp": _of([[_MOMENT, _MOMENT], None], pa.list_(pa.timestamp("us", "+01:00"), 2)),
    "fixed_size_list of fixed_size_binary": _of([[b"ab", b"cd"], None], pa.list_(pa.binary(2), 2)),
    "fixed_size_list of fixed_size_list": _nested_fixed_size_list,
    "fixed_size_list of bfloat16": _bfloat16_list,
    "fixed_size_list of struct": _of(
        [[{"a": 1}, {"a": 2}], [{"a": 3}, {"a": 4}]], pa.list_(pa.struct([("a", pa.int32())]), 2)
    ),
    "packed struct": _packed({"a": (pa.int32(), [1, 2, 3]), "b": (pa.float64(), [0.5, 1.5, 2.5])}),
    "packed struct with strings": _packed({"a": (pa.int32(), [1, 2, 3]), "b": (pa.string(), ["p", "", "q" * 40])}),
    "json": _json,
    "extension": lambda: table_of(
        pa.array([b"0" * 16, None], pa.binary(16)),
        metadata={"ARROW:extension:name": "example.unregistered", "ARROW:extension:metadata": '{"a": 1}'},
    ),
    "uuid": lambda: table_of(pa.array([b"0" * 16, None], pa.uuid())),
    "bfloat16 of pylance": lambda: table_of(bfloat16_array([1.5, None, -2.0])),
    "bfloat16 vectors of pylance": lambda: table_of(
        pa.FixedSizeListArray.from_arrays(bfloat16_array([1.5, 2.5, -2.0, 0.5]), 2)
    ),
    "fixed shape tensor": lambda: table_of(
        pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    ),
}
"""Name of the kind → a table with column ``x`` of it."""

REFUSED: Final[dict[str, Callable[[], pa.Table]]] = {
    "interval": _of([pa.MonthDayNano([1, 2, 3])], pa.month_day_nano_interval()),
    "run end encoded": lambda: table_of(
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1, 2]))
    ),
    "list_view": _of([[1], None], pa.list_view(pa.int32())),
    "large_list_view": _of([[1], None], pa.large_list_view(pa.int32())),
    "dense union": lambda: table_of(
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    ),
    "decimal32": _of([decimal.Decimal("1.5")], pa.decimal32(5, 1)),
    "decimal64": _of([decimal.Decimal("1.5")], pa.decimal64(5, 1)),
    "fixed_size_list of string": _of([["a", "b"]], pa.list_(pa.string(), 2)),
    "fixed_size_list of list": _of([[[1], [2]]], pa.list_(pa.list_(pa.int32()), 2)),
    "fixed_size_list of nothing": _of([[], []], pa.list_(pa.int32(), 0)),
    "dictionary of struct": lambda: table_of(
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([{"a": 1}]))
    ),
    "dictionary of list": lambda: table_of(pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([[1]]))),
    "dictionary of timestamp": lambda: table_of(
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([_MOMENT], pa.timestamp("us")))
    ),
    "map with sorted keys": _of([[("a", 1)]], pa.map_(pa.string(), pa.int32(), keys_sorted=True)),
}
"""Kinds that no version holds."""
