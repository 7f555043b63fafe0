"""Fixed-size lists in fixed-size lists, to the maximum depth at which pylance 14.0.2 can read its own files."""

from pathlib import Path

import pyarrow as pa
import pytest
from lance.file import LanceFileReader as TheirReader
from lance.file import LanceFileWriter as TheirWriter

from lance_core import LanceFileReader, LanceFileWriter
from lance_core.errors import NotSupportedError

DEEPEST = {"2.0": 19, "2.1": 48, "2.2": 48}


def nested(depth: int) -> pa.Table:
    array = pa.array([7, None, 9], pa.int32())
    for _ in range(depth):
        array = pa.FixedSizeListArray.from_arrays(array, 1)
    return pa.table({"v": array})


@pytest.mark.parametrize("version", DEEPEST)
@pytest.mark.parametrize("writer", [LanceFileWriter, TheirWriter], ids=["lance_core", "pylance"])
def test_nested_vectors_of_the_maximum_depth_are_read_by_both_libraries(
    tmp_path: Path, version: str, writer: type
) -> None:
    table, path = nested(DEEPEST[version]), str(tmp_path / "f.lance")
    with writer(path, table.schema, version=version) as file:
        file.write_batch(table)
    for reader in (LanceFileReader, TheirReader):
        assert reader(path).read_all().to_table().equals(table)
        assert reader(path).take_rows([0, 2]).to_table().equals(table.take([0, 2]))


@pytest.mark.parametrize("version", DEEPEST)
def test_vectors_nested_deeper_than_the_maximum_are_refused_before_a_byte_is_written(
    tmp_path: Path, version: str
) -> None:
    path = tmp_path / "f.lance"
    for depth in (DEEPEST[version] + 1, 64, 65, 500):
        table = nested(depth)
        with pytest.raises(NotSupportedError, match="deep"):
            LanceFileWriter(str(path), table.schema, version=version).write_batch(table)
        assert not path.exists()
