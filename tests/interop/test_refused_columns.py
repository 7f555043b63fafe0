"""Columns that cannot be read back are refused before anything is written, with an error that names the column."""

import os
from decimal import Decimal

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import NotSupportedError
from lance_core.file.lance_file import LanceFileWriter

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]
NOTHING = pa.array([b""] * 12, pa.binary(0))
PAIRS = pa.FixedSizeListArray.from_arrays(NOTHING, 2)


def blob(array, value="true"):
    return pa.table([array], schema=pa.schema([pa.field("x", array.type, metadata={"lance-encoding:blob": value})]))


NO_BLOBS = {
    "int64": pa.array([1, None]),
    "no rows": pa.array([], pa.int64()),
    "bool": pa.array([True]),
    "string": pa.array(["a", None]),
    "large_string": pa.array(["a", None], pa.large_string()),
    "decimal": pa.array([Decimal(1)]),
    "fixed-size binary": pa.array([b"ab"], pa.binary(2)),
    "null": pa.nulls(3),
    "list": pa.array([[b"a"]], pa.list_(pa.large_binary())),
    "fixed-size list": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
    "struct": pa.array([{"a": b"x"}], pa.struct([("a", pa.large_binary())])),
    "dictionary": pa.array(["a"]).dictionary_encode(),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
    "descriptors": pa.array([(0, 1)], pa.struct([("position", pa.uint64()), ("size", pa.uint64())])),
}


def assert_refused(table, where, version, match):
    path = str(where / "nothing" / "here")
    with pytest.raises(NotSupportedError, match=match):
        lance_core.write_dataset(table, path, data_storage_version=version)
    assert not os.listdir(where)
    with pytest.raises(NotSupportedError, match=match):
        LanceFileWriter(path, table.schema, version=version)
    assert not os.listdir(where)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("name", NO_BLOBS)
@pytest.mark.sampled(40)
def test_blob_columns_of_unsupported_types_are_refused(tmp_path, name, value, version):
    if version == "0.1":
        with pytest.raises(NotSupportedError, match=r"'x'.*blob"):
            lance_core.write_dataset(blob(NO_BLOBS[name], value), tmp_path / "x", data_storage_version=version)
        assert not os.listdir(tmp_path)
        return
    assert_refused(blob(NO_BLOBS[name], value), tmp_path, version, r"'x'.*blob")


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1"])
def test_blobs_of_type_binary_are_refused_before_format_2_2(tmp_path, version):
    with pytest.raises(NotSupportedError, match="use large_binary"):
        lance_core.write_dataset(blob(pa.array([b"a"])), tmp_path / "x", data_storage_version=version)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_writing_scanned_blob_descriptors_as_a_table_is_refused(tmp_path, version):
    lance_core.write_dataset(
        blob(pa.array([b"a", None], pa.large_binary())), tmp_path / "x", data_storage_version=version
    )
    shown = lance_core.dataset(tmp_path / "x").to_table()
    with pytest.raises(NotSupportedError, match="descriptors"):
        lance_core.write_dataset(shown, tmp_path / "y", data_storage_version=version)
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "array",
    [
        PAIRS,
        pa.FixedSizeListArray.from_arrays(PAIRS, 3),
        pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), PAIRS),
        pa.StructArray.from_arrays([PAIRS], ["a"]),
    ],
    ids=["plain", "nested", "in a list", "in a struct"],
)
def test_fixed_size_lists_of_width_zero_are_refused(tmp_path, array, version):
    table = pa.table({"x": array})
    if version == "0.1":
        with pytest.raises(NotSupportedError, match="width 0"):
            lance_core.write_dataset(table, tmp_path / "x", data_storage_version=version)
        assert not os.listdir(tmp_path)
        return
    assert_refused(table, tmp_path, version, "'x.*width 0")
