"""bfloat16 numbers and arrays, compared with those of pylance."""

import math
import pickle
import random
import struct
import sys

import lance.arrow
import ml_dtypes
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lance_core.arrow import BFloat16, BFloat16Array, BFloat16Type, PandasBFloat16Array, bfloat16_array, cast
from lance_core.arrow import bfloat16 as bfloat16_module
from lance_core.errors import InvalidInputError, InvalidTypeError

VALUES = [1.1, None, -0.0, 3.4, float("nan"), float("inf"), 1e-40, 1e40]


def bits(array: pa.ExtensionArray) -> list[bytes | None]:
    return array.storage.to_pylist()


def random_floats(count: int, seed: int) -> list[float]:
    """Return numbers of every magnitude, and numbers at and near the midpoints between bfloat16 numbers."""
    source = random.Random(seed)
    anywhere = [struct.unpack("<d", source.randbytes(8))[0] for _ in range(count)]
    middles = [1 + 2**-8 + source.choice([0, 1, -1]) * 2.0 ** source.randrange(-60, -15) for _ in range(count)]
    even_middles = [1 + 3 * 2**-8 + source.choice([0, 1, -1]) * 2.0 ** source.randrange(-60, -15) for _ in range(count)]
    return [value for value in [*anywhere, *middles, *even_middles] if not math.isnan(value)]


def test_bfloat16_numbers_are_rounded_as_in_pylance() -> None:
    floats = random_floats(3000, seed=1)
    assert bits(bfloat16_array(floats)) == bits(lance.arrow.bfloat16_array(floats))
    assert [BFloat16(value).as_float() for value in floats] == [
        lance.arrow.BFloat16(value).as_float() for value in floats
    ]


@pytest.mark.parametrize("pattern", [0x7FC00001, 0x7F800001, 0xFF800001, 0xFFFFFFFF])
def test_every_nan_remains_nan_as_bfloat16(pattern: int) -> None:
    floats = np.array([pattern], "<u4").view("<f4")
    rounded = bfloat16_module.floats_of_bits(bfloat16_module.bits_of_floats(floats))
    assert np.isnan(rounded).all()


def test_every_bfloat16_number_has_the_same_text_and_bytes_as_in_pylance() -> None:
    for pattern in range(0, 65536, 7):
        raw = pattern.to_bytes(2, "little")
        ours, theirs = BFloat16.from_bytes(raw), lance.arrow.BFloat16.from_bytes(raw)
        assert len(str(ours)) == len(str(theirs))
        assert repr(ours) == str(ours)
        assert str(ours) == str(theirs) or float(str(ours)) == pytest.approx(float(str(theirs)), rel=1e-7)
        assert ours.as_float() == theirs.as_float() or math.isnan(theirs.as_float())


def test_bfloat16_numbers_are_ordered_by_value() -> None:
    one, two, nan = BFloat16(1), BFloat16(2.0), BFloat16(float("nan"))
    assert one < two <= two
    assert two > one >= one
    assert one == BFloat16(1.001)
    assert hash(one) == hash(BFloat16(1.001))
    assert one != two
    assert nan != nan
    assert not any([nan < one, nan > one, nan <= nan, nan >= nan])
    assert one != 1.0
    assert float(two) == 2.0


@pytest.mark.parametrize("compare", [lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b])
def test_comparing_the_order_of_bfloat16_numbers_and_floats_is_refused(compare) -> None:
    with pytest.raises(TypeError, match="not supported between"):
        compare(BFloat16(1), 1.0)


@pytest.mark.parametrize("value", ["1.5", None, b"ab", [1]])
def test_bfloat16_of_a_value_that_is_not_a_number_is_refused(value) -> None:
    with pytest.raises(InvalidTypeError, match="must be a number"):
        BFloat16(value)
    with pytest.raises(InvalidTypeError, match="must be a number"):
        bfloat16_array([1.0, value, 2.0] if value is not None else ["x"])


@pytest.mark.parametrize("values", [5, "12", iter([1.0])])
def test_bfloat16_array_of_a_value_that_is_not_a_sequence_is_refused(values) -> None:
    with pytest.raises(InvalidTypeError, match="must be a sequence of numbers"):
        bfloat16_array(values)


def test_bfloat16_number_is_read_from_two_bytes() -> None:
    assert BFloat16.from_bytes(b"\x80?").as_float() == 1.0
    with pytest.raises(InvalidInputError, match="has 2 bytes, found 3"):
        BFloat16.from_bytes(b"abc")
    with pytest.raises(InvalidTypeError, match="found bytearray"):
        BFloat16.from_bytes(bytearray(b"ab"))


def test_bfloat16_array_contains_numbers_and_nulls() -> None:
    array = bfloat16_array(VALUES)
    theirs = lance.arrow.bfloat16_array(VALUES)
    assert type(array) is BFloat16Array
    assert array.type.extension_name == theirs.type.extension_name == "lance.bfloat16"
    assert bits(array) == bits(theirs)
    assert array.null_count == 1
    assert str(array) == str(theirs)
    assert repr(array).startswith("<lance_core.arrow.BFloat16Array object at 0x")
    assert bits(bfloat16_array([])) == []
    assert bits(bfloat16_array(np.array([1.0, 2.0]))) == bits(lance.arrow.bfloat16_array(np.array([1.0, 2.0])))
    assert str(bfloat16_array([BFloat16(1.5)])) == "[\n  1.5\n]"


@pytest.mark.parametrize("count", [0, 21, 22, 40])
def test_long_bfloat16_arrays_are_abbreviated_as_in_pylance(count: int) -> None:
    values = [float(value) for value in range(count)]
    assert str(bfloat16_array(values)) == str(lance.arrow.bfloat16_array(values))


def test_bfloat16_scalars_can_be_tested_for_equality_with_numbers_of_each_kind() -> None:
    one, other, null = bfloat16_array([1.0, 2.0, None])
    assert one.as_py() == BFloat16(1.0)
    assert null.as_py() is None
    assert one == BFloat16(1.0)
    assert one == bfloat16_array([1.0])[0]
    assert one == ml_dtypes.bfloat16(1.0)
    assert one != other
    assert one != 1.0
    assert null == bfloat16_array([None])[0]
    assert hash(one) == hash(bfloat16_array([1.0])[0])


def test_bfloat16_scalars_can_be_compared_without_ml_dtypes(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "ml_dtypes")
    assert bfloat16_array([1.0])[0] != 1.0


def test_conversion_of_a_bfloat16_slice_to_numpy_shares_memory() -> None:
    array = bfloat16_array([1.0, 2.0, 3.0, 4.0])[1:3]
    values = array.to_numpy()
    assert values.dtype == ml_dtypes.bfloat16
    assert values.tolist() == [2.0, 3.0]
    assert values.ctypes.data == array.storage.buffers()[1].address + 2
    assert bfloat16_array([]).to_numpy().tolist() == []


def test_conversion_of_bfloat16_nulls_to_numpy_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="number of values: 2, of which null: 1"):
        bfloat16_array([1.0, None]).to_numpy()


def test_bfloat16_array_is_created_from_a_numpy_array() -> None:
    values = np.arange(6, dtype=ml_dtypes.bfloat16)
    assert bits(BFloat16Array.from_numpy(values)) == bits(lance.arrow.BFloat16Array.from_numpy(values))
    assert BFloat16Array.from_numpy(values[::2]).to_numpy().tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(InvalidInputError, match="must be of type bfloat16, found float64"):
        BFloat16Array.from_numpy(np.array([1.0]))
    with pytest.raises(InvalidInputError, match="must have one dimension, found 2"):
        BFloat16Array.from_numpy(values.reshape(2, 3))


def test_error_about_missing_ml_dtypes_names_the_package(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ModuleNotFoundError, match="pip install ml_dtypes"):
        bfloat16_array([1.0]).to_numpy()


def test_bfloat16_types_can_be_compared_and_pickled() -> None:
    array = bfloat16_array(VALUES)
    assert BFloat16Type() == array.type == pickle.loads(pickle.dumps(array.type))
    assert bits(pickle.loads(pickle.dumps(array))) == bits(array)
    with pytest.raises(TypeError, match=r"must be fixed_size_binary\[2\], found binary"):
        BFloat16Type.__arrow_ext_deserialize__(pa.binary(), b"")


@pytest.mark.parametrize("dtype", [pa.float16(), pa.float32(), pa.float64()])
def test_casts_between_floats_and_bfloat16_equal_those_of_pylance(dtype: pa.DataType) -> None:
    floats = pa.array([1.1, -2.5, 0.1, 65504.0, 1 + 2**-8, float("nan")]).cast(dtype)
    ours, theirs = cast(floats, BFloat16Type()), lance.arrow.cast(floats, lance.arrow.BFloat16Type())
    assert bits(ours) == bits(theirs)
    assert str(cast(ours, dtype)) == str(lance.arrow.cast(theirs, dtype))


@pytest.mark.parametrize("name", ["bfloat16", "bf16"])
def test_cast_accepts_type_names(name: str) -> None:
    numbers = cast(pa.array([1.5, None]), name)
    assert numbers.type == BFloat16Type()
    assert cast(numbers, "float").to_pylist() == [1.5, None]
    assert cast(numbers, name) is numbers
    assert cast(pa.array([1, 2]), "string").to_pylist() == ["1", "2"]


def test_cast_of_a_slice_keeps_its_nulls_and_bounds() -> None:
    floats = pa.array([0.0, 1.5, None, 2.5, 9.0])[1:4]
    assert cast(cast(floats, "bf16"), pa.float64()).to_pylist() == [1.5, None, 2.5]
    assert cast(cast(pa.array([0.0, 1.5, None, 2.5]), "bf16")[1:3], pa.float32()).to_pylist() == [1.5, None]


def test_cast_converts_the_items_of_fixed_size_lists() -> None:
    vectors = pa.array([[9.0, 9.0], [1.0, 2.0], None, [3.0, None]], pa.list_(pa.float32(), 2))[1:]
    numbers = cast(vectors, pa.list_(BFloat16Type(), 2))
    assert numbers.type.value_type == BFloat16Type()
    assert cast(numbers, pa.list_(pa.float64(), 2)).to_pylist() == [[1.0, 2.0], None, [3.0, None]]
    assert cast(vectors, pa.list_(pa.float16(), 2)).to_pylist() == [[1.0, 2.0], None, [3.0, None]]
    with pytest.raises(InvalidInputError, match="the sizes of the lists differ"):
        cast(vectors, pa.list_(BFloat16Type(), 3))


def test_cast_converts_each_chunk() -> None:
    chunks = cast(pa.chunked_array([[1.0], [2.0, None]]), "bf16")
    assert chunks.type == BFloat16Type()
    assert cast(chunks, pa.float32()).to_pylist() == [1.0, 2.0, None]


def test_cast_accepts_the_arguments_of_pyarrow() -> None:
    assert cast(pa.array([1.5]), pa.int32(), safe=False).to_pylist() == [1]
    with pytest.raises(pa.ArrowInvalid, match="truncated"):
        cast(pa.array([1.5]), pa.int32())


@pytest.mark.parametrize(("given", "target"), [(bfloat16_array([1.0]), pa.int32()), (pa.array([1]), BFloat16Type())])
def test_cast_between_bfloat16_and_integers_is_refused(given: pa.Array, target: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match="not a floating-point type"):
        cast(given, target)


def test_pandas_dataframes_can_contain_bfloat16_columns() -> None:
    frame = pa.table({"x": bfloat16_array([1.5, None, 2.0])}).to_pandas()
    assert type(frame["x"].array) is PandasBFloat16Array
    assert str(frame["x"].dtype) == "lance.bfloat16"
    assert frame["x"][0] == BFloat16(1.5)
    assert frame["x"].isna().tolist() == [False, True, False]
    assert frame["x"].to_numpy().tolist() == [BFloat16(1.5), None, BFloat16(2.0)]
    assert bits(pa.array(frame["x"])) == bits(bfloat16_array([1.5, None, 2.0]))
    assert frame["x"].array.nbytes > 0
    back = pa.Table.from_pandas(frame, preserve_index=False)
    assert back.schema.field("x").type == BFloat16Type()


def test_pandas_bfloat16_arrays_support_selection() -> None:
    array = PandasBFloat16Array(bfloat16_array([1.0, 2.0, 3.0, 4.0]))
    assert array[np.int64(-1)] == BFloat16(4)
    assert array[1:3].to_numpy().tolist() == [2.0, 3.0]
    assert array[::-2].to_numpy().tolist() == [4.0, 2.0]
    assert array[[0, -1]].to_numpy().tolist() == [1.0, 4.0]
    assert array[np.array([True, False, False, True])].to_numpy().tolist() == [1.0, 4.0]
    assert array.take([0, -1]).to_numpy().tolist() == [1.0, 4.0]
    assert list(array.take([0, -1], allow_fill=True)) == [BFloat16(1), None]
    assert list(array.take([0, -1], allow_fill=True, fill_value=BFloat16(9))) == [BFloat16(1), BFloat16(9)]
    with pytest.raises(ValueError, match="-1 means a missing value"):
        array.take([0, -2], allow_fill=True)
    with pytest.raises(IndexError):
        array.take([4])
    assert list(array.copy()) == list(array)
    series = pd.Series(array)
    assert pd.concat([series, series.iloc[:1]]).to_numpy().tolist() == [1.0, 2.0, 3.0, 4.0, 1.0]
    assert series.reindex([0, 9]).isna().tolist() == [False, True]


def test_pandas_bfloat16_arrays_are_built_from_sequences_and_chunks() -> None:
    assert list(PandasBFloat16Array._from_sequence([1.5, None, pd.NA])) == [BFloat16(1.5), None, None]
    assert len(PandasBFloat16Array(pa.chunked_array([], BFloat16Type()))) == 0
    chunks = pa.chunked_array([bfloat16_array([1.0]), bfloat16_array([2.0])])
    assert PandasBFloat16Array(chunks).to_numpy().tolist() == [1.0, 2.0]
    values = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert PandasBFloat16Array.from_numpy(values).to_numpy().tolist() == [1.0, 2.0]


def test_pandas_bfloat16_dtype_refuses_names_of_other_dtypes() -> None:
    dtype = BFloat16Type().to_pandas_dtype()
    assert type(dtype).construct_from_string("lance.bfloat16") == dtype
    with pytest.raises(TypeError, match="'float16'"):
        type(dtype).construct_from_string("float16")
