"""Data files of 2.0 tables equal those of pylance 14.0.2 byte for byte, for one batch of rows."""

import struct
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.proto import pb_file

WORDS = pa.array(["a", "b", None, "a"]).dictionary_encode()
OFFSETS = pa.array([0, 1, 2, 4, 4], pa.int32())
NUMBERS = pa.array([1, 2, 3, 4])


def one(field: pa.Field, values: pa.Array | list[object]) -> pa.Table:
    array = values if isinstance(values, pa.Array) else pa.array(values, field.type)
    return pa.table([array], schema=pa.schema([field]))


DICTIONARIES = {
    "top": pa.table({"d": WORDS}),
    "list": pa.table({"l": pa.ListArray.from_arrays(OFFSETS, WORDS)}),
    "large list": pa.table({"l": pa.LargeListArray.from_arrays(OFFSETS.cast(pa.int64()), WORDS)}),
    "struct": pa.table({"s": pa.StructArray.from_arrays([WORDS, NUMBERS], ["d", "x"])}),
    "list of structs": pa.table(
        {"l": pa.ListArray.from_arrays(OFFSETS, pa.StructArray.from_arrays([WORDS], ["d"]))},
    ),
    "several": pa.table({"a": NUMBERS, "d": WORDS, "e": pa.array([1, 2, 1, 3]).dictionary_encode()}),
}
OTHERS = {
    "columns": pa.table({"a": NUMBERS, "s": ["x", "y", "z", None], "f": [0.5, None, 1.5, 2.0], "b": [True] * 4}),
    "extension": one(
        pa.field("u", pa.binary(2), metadata={"ARROW:extension:name": "own.kind"}),
        [b"ab", b"cd"],
    ),
    "packed struct": one(
        pa.field("p", pa.struct([("x", pa.int32()), ("y", pa.float64())]), metadata={"packed": "true"}),
        [{"x": 1, "y": 0.5}, {"x": 2, "y": 1.5}],
    ),
    "zstd": one(pa.field("z", pa.string(), metadata={"lance-encoding:compression": "zstd"}), ["abc" * 20] * 50),
    "blob": one(pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), [b"abc", None, b"", b"de"]),
}


def written(module: object, table: pa.Table, uri: Path, version: str) -> bytes:
    module.write_dataset(table, str(uri), data_storage_version=version)  # type: ignore[attr-defined]
    [path] = (uri / "data").glob("*.lance")
    return path.read_bytes()


@pytest.mark.parametrize("name", [*DICTIONARIES, *OTHERS])
def test_data_files_of_tables_in_format_2_0_equal_those_of_pylance(tmp_path: Path, name: str) -> None:
    table = {**DICTIONARIES, **OTHERS}[name]
    assert written(lance_core, table, tmp_path / "a", "2.0") == written(lance, table, tmp_path / "b", "2.0")


def test_files_with_json_equal_those_of_pylance_except_for_the_order_of_metadata(tmp_path: Path) -> None:
    # pylance writes two metadata keys in either order, and omits the length of an empty value.
    table = pa.table({"j": pa.array(['{"a": 1}', None, "[1, 2]"], pa.json_())})
    parts = []
    for module in (lance, lance_core):
        content = written(module, table, tmp_path / module.__name__, "2.0")
        columns, _, buffers = struct.unpack_from("<QQQ", content, len(content) - 40)
        start, size = struct.unpack_from("<QQ", content, buffers)
        column_bytes = content[columns : columns + struct.unpack_from("<QQ", content, buffers - 16)[1]]
        parts.append((content[:start], pb_file.FileDescriptor.FromString(content[start : start + size]), column_bytes))
    assert parts[0] == parts[1]


@pytest.mark.parametrize("name", DICTIONARIES)
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_table_fields_contain_as_many_dictionary_messages_as_in_pylance(
    tmp_path: Path, name: str, version: str
) -> None:
    mark = b"\x42\x00"
    table = DICTIONARIES[name]
    ours, theirs = (written(module, table, tmp_path / module.__name__, version) for module in (lance_core, lance))
    assert ours.count(mark) >= 1
    assert ours.count(mark) == theirs.count(mark)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_file_outside_a_table_contains_no_dictionary_message(tmp_path: Path, version: str) -> None:
    path = str(tmp_path / "f.lance")
    with lance_core.LanceFileWriter(path, DICTIONARIES["top"].schema, version=version) as writer:
        writer.write_batch(DICTIONARIES["top"])
    assert b"\x42\x00" not in Path(path).read_bytes()
