"""Operations on values: the order of floating-point numbers, LIKE, common types, and lists."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_core.predicate.coercion import adapt, arithmetic_type, common_type, convert
from lance_core.predicate.functions import FUNCTIONS
from lance_core.predicate.kernels import ARITHMETIC, all_of, any_of, is_member, like, order_keys

NEGATIVE_NAN = np.array([0xFFF8 << 48], np.uint64).view(np.float64)[0]


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()], ids=str)
def test_order_keys_ascend_with_the_values(dtype: pa.DataType) -> None:
    ascending = [NEGATIVE_NAN, -math.inf, -1.5, -1e-30, -0.0, 0.0, 1e-30, 1.5, math.inf, math.nan]
    values = pa.array(np.array(ascending).astype(dtype.to_pandas_dtype()))
    keys = order_keys(values, joins_zeros=False).to_pylist()
    assert keys == sorted(set(keys))
    joined = order_keys(values, joins_zeros=True).to_pylist()
    assert joined[4] == joined[5] == 0
    assert joined[:5] == sorted(set(joined[:5]))
    assert order_keys(values[-1], joins_zeros=True).as_py() == keys[-1]


def test_order_keys_of_a_slice_keep_nulls_and_order() -> None:
    values = pa.array([5.0, None, 1.0, 2.0]).slice(1)
    keys = order_keys(values, joins_zeros=False)
    assert keys.null_count == 1
    assert pc.less(keys[1], keys[2]).as_py()
    assert order_keys(pa.scalar(None, pa.float32()), joins_zeros=False).as_py() is None


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a%", "abc", True),
        ("a%", "xabc", False),
        ("%", "", True),
        ("_", "é", True),
        ("_", "", False),
        ("a%b", "a\n\nb", True),
        ("a.c", "abc", False),
        ("a\\%", "a%", True),
        ("a\\%", "ab", False),
        ("a\\\\", "a\\", True),
        ("a\\", "a\\", True),
        ("\\a", "a", True),
        ("(^$[*+?{|#-& ~", "(^$[*+?{|#-& ~", True),
        ("a", "a\n", False),
    ],
)
def test_like_matches_text_by_its_pattern(pattern: str, text: str, matches: bool) -> None:
    values = pa.array([text, None])
    assert like(pattern, ignores_case=False)(values).to_pylist() == [matches, None]


def test_ilike_ignores_case_and_a_null_pattern_gives_null() -> None:
    assert like("sTRASSe%", ignores_case=True)(pa.array(["Strasse 1", "street"])).to_pylist() == [True, False]
    assert like(None, ignores_case=False)(pa.array(["a", None])).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.uint32(), pa.int64(), pa.int64()),
        (pa.uint64(), pa.int8(), pa.decimal128(20, 0)),
        (pa.int64(), pa.float32(), pa.float32()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.binary(2), pa.binary(), pa.large_binary()),
        (pa.date32(), pa.date64(), pa.date64()),
        (pa.date32(), pa.timestamp("ms"), pa.timestamp("ns")),
        (pa.date32(), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns")),
        (pa.duration("s"), pa.duration("us"), pa.duration("us")),
        (pa.float16(), pa.int32(), pa.float16()),
        (pa.decimal128(5, -2), pa.decimal128(5, -2), pa.decimal256(76, 0)),
        (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("s")),
        (pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")),
        (pa.null(), pa.string(), pa.string()),
        (pa.null(), pa.null(), pa.bool_()),
        (pa.decimal128(10, 2), pa.int64(), pa.decimal256(76, 2)),
        (pa.string(), pa.binary(), pa.large_binary()),
        (pa.string(), pa.binary(2), None),
        (pa.string(), pa.int64(), None),
        (pa.bool_(), pa.int64(), None),
        (pa.decimal128(10, 2), pa.float64(), None),
        (pa.time32("s"), pa.date32(), None),
        (pa.list_(pa.int64()), pa.list_(pa.int64()), None),
        (pa.struct([]), pa.null(), None),
    ],
    ids=str,
)
def test_common_type_of_two_types_is_symmetric(
    left: pa.DataType, right: pa.DataType, common: pa.DataType | None
) -> None:
    assert common_type(left, right) == common_type(right, left) == common


def test_arithmetic_type_exists_only_for_two_numbers() -> None:
    assert arithmetic_type(pa.int8(), pa.int64()) == pa.int64()
    assert arithmetic_type(pa.int64(), pa.uint64()) is None
    assert arithmetic_type(pa.date32(), pa.int64()) is None


@pytest.mark.parametrize(
    ("literal", "dtype", "expected"),
    [
        (pa.scalar(5), pa.int8(), 5),
        (pa.scalar(300), pa.int8(), None),
        (pa.scalar(-1), pa.uint64(), None),
        (pa.scalar(5), pa.decimal128(10, 2), 5),
        (pa.scalar(10**18), pa.decimal128(10, 2), None),
        (pa.scalar(0.1), pa.float32(), float(np.float32(0.1))),
        (pa.scalar(0.1), pa.float16(), float(np.float16(0.1))),
        (pa.scalar(1e300), pa.float16(), None),
        (pa.scalar(1e-300), pa.float16(), None),
        (pa.scalar(1.0), pa.int64(), None),
        (pa.scalar("a"), pa.dictionary(pa.int8(), pa.string()), "a"),
        (pa.scalar("a"), pa.date32(), None),
        (pa.scalar(b"ab"), pa.binary(2), b"ab"),
        (pa.scalar(b"abc"), pa.binary(2), None),
        (pa.scalar(True), pa.int8(), None),
        (pa.scalar(1), pa.bool_(), None),
        (pa.scalar(1), pa.list_(pa.int8()), None),
    ],
    ids=str,
)
def test_literal_is_adapted_to_the_type_of_its_column(literal: pa.Scalar, dtype: pa.DataType, expected: object) -> None:
    found = adapt(literal, dtype)
    assert (None if found is None else found.as_py()) == expected


def test_null_literal_adapts_to_every_type() -> None:
    assert adapt(pa.scalar(None), pa.date32()).equals(pa.scalar(None, pa.date32()))


def test_timestamps_are_truncated_to_the_coarser_unit() -> None:
    assert convert(pa.array([-1, 1500], pa.timestamp("ms")), pa.timestamp("s")).cast(pa.int64()).to_pylist() == [0, 1]


def test_logical_operators_use_three_valued_logic() -> None:
    left = pa.array([True, True, True, False, False, None])
    right = pa.array([True, False, None, False, None, None])
    assert all_of(left, right).to_pylist() == [True, False, None, False, False, None]
    assert any_of(left, right).to_pylist() == [True, True, True, False, None, None]


@pytest.mark.parametrize(
    ("items", "negated", "expected"),
    [
        ([1, 2], False, [True, False, None]),
        ([1, None], False, [True, None, None]),
        ([1, None], True, [False, None, None]),
        ([None], True, [None, None, None]),
    ],
)
def test_list_membership_with_nulls_is_three_valued(items: list, negated: bool, expected: list) -> None:
    assert is_member(pa.array(items, pa.int64()), negated=negated)(pa.array([1, 5, None])).to_pylist() == expected


def test_nan_is_a_member_of_a_list_with_nan() -> None:
    test = is_member(pa.array([math.nan, 0.0]), negated=False)
    assert test(pa.array([math.nan, -0.0, 1.0])).to_pylist() == [True, True, False]


def test_remainder_has_the_sign_of_the_dividend() -> None:
    remainder = ARITHMETIC["%"]
    assert remainder(pa.array([7, -7, None]), pa.scalar(3)).to_pylist() == [1, -1, None]
    assert remainder(pa.array([7.5, -7.5, None]), pa.scalar(2.0)).to_pylist() == [1.5, -1.5, None]
    assert remainder(pa.scalar(7.0), pa.scalar(4.0)).as_py() == 3.0
    assert remainder(pa.scalar(7.0), pa.array([4.0, None])).to_pylist() == [3.0, None]


def test_upper_and_lower_convert_letters_outside_ascii() -> None:
    values = pa.array(["straße", "É", None, "a"])
    assert FUNCTIONS["upper"].kernel(values).to_pylist() == ["STRASSE", "É", None, "A"]
    assert FUNCTIONS["lower"].kernel(values).to_pylist() == ["straße", "é", None, "a"]
    assert FUNCTIONS["lower"].kernel(pa.scalar("ÀB")).as_py() == "àb"
    assert FUNCTIONS["lower"].kernel(pa.array([], pa.string())).to_pylist() == []
