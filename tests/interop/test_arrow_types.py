"""Columns of bfloat16 numbers and images keep their extension types when one library writes and the other reads."""

import subprocess
import sys

import lance
import lance.arrow
import numpy as np
import pyarrow as pa
import pytest

import lance_core
import lance_core.arrow
from tests.support.extension_registry import NAMES, types_of

VERSIONS = ["2.0", "2.1", "2.2"]


def rows(library) -> pa.Table:
    """Return a column of each type, with nulls where the type supports them, and vectors of bfloat16."""
    pixels = np.arange(4 * 2 * 2 * 3, dtype=np.uint8).reshape(4, 2, 2, 3)
    tensor = library.ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(pixels))
    numbers = library.bfloat16_array([1.1, None, float("nan"), -0.0])
    return pa.table(
        {
            "number": numbers,
            "vector": pa.FixedSizeListArray.from_arrays(library.bfloat16_array([0.5 * n for n in range(8)]), 2),
            "uri": library.ImageArray.from_array(pa.array(["/a", None, "/c", ""])),
            "large_uri": library.ImageArray.from_array(pa.array(["/a", None, "/c", ""], pa.large_string())),
            "file": library.ImageArray.from_array(pa.array([b"a", None, b"\0" * 99, b""])),
            "large_file": library.ImageArray.from_array(pa.array([b"a", None, b"\0" * 99, b""], pa.large_binary())),
            "pixels": tensor,
            "nested": pa.StructArray.from_arrays([numbers, tensor], names=["number", "pixels"]),
            "list": pa.ListArray.from_arrays([0, 1, 1, 3, 4], numbers),
        }
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("module", [lance.arrow, lance_core.arrow], ids=["types of pylance", "types of lance_core"])
def test_columns_are_read_with_their_types_by_lance_core_and_pylance(tmp_path, module, version: str) -> None:
    with types_of(module):
        given = rows(module)
        for writer in (lance, lance_core):
            uri = str(tmp_path / writer.__name__)
            writer.write_dataset(given, uri, data_storage_version=version)
            for reader in (lance, lance_core):
                dataset = reader.dataset(uri)
                assert dataset.schema.types == given.schema.types
                found = dataset.to_table()
                assert found.schema.types == given.schema.types
                for column, expected in zip(found.columns, given.columns, strict=True):
                    assert type(column.chunk(0)) is type(expected.chunk(0))
                    assert column.combine_chunks().equals(expected.combine_chunks())
                assert [*found["pixels"].type.shape] == [2, 2, 3]
                taken = dataset.take([3, 0], columns=["number", "uri", "pixels"])
                assert repr(taken.to_pylist()) == repr(
                    given.select(["number", "uri", "pixels"]).take([3, 0]).to_pylist()
                )


def test_rows_of_one_library_are_appended_to_a_table_of_the_other(tmp_path) -> None:
    uri = str(tmp_path / "t")
    with types_of(lance_core.arrow):
        lance.write_dataset(rows(lance_core.arrow), uri)
        lance_core.write_dataset(rows(lance.arrow), uri, mode="append")
        lance_core.write_dataset(rows(lance_core.arrow), uri, mode="append")
        found = lance_core.dataset(uri).to_table()
        assert repr(found.to_pylist()) == repr(rows(lance_core.arrow).to_pylist() * 3)


def test_arrays_of_one_library_are_cast_by_the_other() -> None:
    numbers = lance.arrow.bfloat16_array([1.5, 2.5])
    assert lance_core.arrow.cast(numbers, pa.float32()).to_pylist() == [1.5, 2.5]


def test_columns_have_their_storage_types_until_the_arrow_module_is_imported(tmp_path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(lance.arrow).select(["number"]), uri)
    program = f"""
import lance_core
uri = {uri!r}
assert str(lance_core.dataset(uri).schema.field("number").type) == "fixed_size_binary[2]"
lance_core.arrow.BFloat16Type
table = lance_core.dataset(uri).to_table()
assert table.schema.field("number").type == lance_core.arrow.BFloat16Type()
assert str(table["number"][0]) == "1.1015625"
assert str(table.to_pandas()["number"].dtype) == "lance.bfloat16"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_type_registered_by_another_library_remains_registered() -> None:
    program = """
import lance.arrow, lance_core.arrow, pyarrow as pa
schema = pa.schema({"x": lance_core.arrow.BFloat16Type()})
assert type(pa.ipc.read_schema(schema.serialize()).field("x").type) is lance.arrow.BFloat16Type
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_every_type_of_the_arrow_module_is_registered() -> None:
    program = f"""
import lance_core.arrow, pyarrow as pa
for name in {NAMES!r}:
    pa.unregister_extension_type(name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
