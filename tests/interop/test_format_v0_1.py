"""Format 0.1 compared with pylance 14.0.2: bytes of files, nulls, page tables, statistics, dictionaries, pruning."""

import struct
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import LanceError, NotSupportedError, SchemaMismatchError, UnsupportedVersionError
from lance_core.file.describe import describe_file
from lance_core.file.file_bytes import FileBytes
from lance_core.file.reader import FileReader
from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
from lance_core.file.v0_1.statistics import read_statistics
from lance_core.file.v0_1.writer import LegacyFileWriter
from lance_core.file.write_config import WriteConfig
from lance_core.io.byte_range import ByteRange
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

ROWS = 2_500


def _every(step: int, value: object) -> list[object]:
    return [None if row % step == 0 else value(row) for row in range(ROWS)]


COLUMNS = {
    "int32": pa.array(_every(7, lambda row: row - 900), pa.int32()),
    "uint64": pa.array(_every(3, lambda row: 2**64 - 1 - row), pa.uint64()),
    "bool": pa.array(_every(3, lambda row: row % 2 == 0)),
    "float": pa.array(_every(5, lambda row: float("nan") if row % 4 == 1 else row - 5.5), pa.float32()),
    "double": pa.array(_every(2, lambda row: (0.0, -0.0)[row % 4 // 2])),
    "halffloat": pa.array(np.arange(ROWS).astype(np.float16)),
    "decimal128": pa.array(_every(4, lambda row: row - 1_000)).cast(pa.decimal128(30, 2)),
    "decimal256": pa.array(range(ROWS)).cast(pa.decimal256(40, 2)),
    "date32": pa.array(_every(9, lambda row: row), pa.int32()).cast(pa.date32()),
    "date64": pa.array([row * 86_400_000 for row in range(ROWS)], pa.int64()).cast(pa.date64()),
    "timestamp": pa.array(_every(9, lambda row: row), pa.int64()).cast(pa.timestamp("us", "+05:30")),
    "time64": pa.array(range(ROWS), pa.time64("ns")),
    "duration": pa.array(range(ROWS), pa.duration("s")),
    "binary(3)": pa.array(_every(9, lambda row: b"%03d" % (row % 1000)), pa.binary(3)),
    "string": pa.array(_every(5, lambda row: f"text {row}")),
    "long string": pa.array([("é" if row % 2 else "y") * (row % 100) + "€" for row in range(ROWS)]),
    "large_binary": pa.array([b"\xff" * (row % 100) for row in range(ROWS)], pa.large_binary()),
    "no values": pa.array([None] * ROWS, pa.string()),
    "null": pa.nulls(ROWS),
    "vector": pa.array([[row, None] for row in range(ROWS)], pa.list_(pa.float32(), 2)),
    "bool vector": pa.array([[True, False, row % 2 == 0] for row in range(ROWS)], pa.list_(pa.bool_(), 3)),
    "nested vector": pa.array([[[row % 9, 1], [2, 3]] for row in range(ROWS)], pa.list_(pa.list_(pa.int8(), 2), 2)),
    "list": pa.array(_every(11, lambda row: [f"{item}" for item in range(row % 4)])),
    "large_list": pa.array(_every(11, lambda row: list(range(row % 3))), pa.large_list(pa.int16())),
    "list of struct": pa.array(_every(11, lambda row: [{"x": [item], "y": str(row)} for item in range(row % 3)])),
    "struct": pa.array(_every(13, lambda row: {"x": row, "y": [row], "z": {"w": str(row)}})),
    "dictionary": pa.array([f"value {row % 9}" for row in range(ROWS)]).dictionary_encode(),
    "int dictionary": pa.array([row % 7 for row in range(ROWS)]).dictionary_encode(),
}


def bits(table: pa.Table) -> pa.Table:
    """Return the table with floats as integers, so that NaN equals itself."""
    integers = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    columns = [column.combine_chunks() for column in table.columns]
    return pa.table(
        [column.view(integers[column.type]) if column.type in integers else column for column in columns],
        names=table.column_names,
    )


def theirs(table: pa.Table, directory: Path, **options: object) -> Path:
    lance.write_dataset(table, str(directory), data_storage_version="legacy", **options)
    [path] = (directory / "data").iterdir()
    return path


def ours(table: pa.Table, **options: object) -> bytes:
    store = MemoryStore()
    writer = LegacyFileWriter(
        store.create("file"), schema_from_arrow(table.schema), WriteConfig(version=LanceFileVersion.V0_1, **options)
    )
    for batch in table.to_batches():
        writer.write_batch(batch)
    writer.finish()
    return bytes(store.get("file"))


def opened(path: Path, field_ids: list[int] | None = None) -> LegacyMetadataReader:
    return LegacyMetadataReader(FileBytes(LocalStore(), str(path)), field_ids)


def read(path: Path, **options: object) -> pa.Table:
    reader = FileReader.open(LocalStore(), str(path))
    return reader.read_table(reader.schema.fields, **options)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_each_type_has_the_same_bytes_as_in_pylance_and_is_read_back(tmp_path: Path, name: str) -> None:
    table = pa.table({"before": np.arange(ROWS, dtype=np.int16), "column": COLUMNS[name]})
    path = theirs(table, tmp_path / "t")
    assert ours(table) == path.read_bytes()
    expected = lance.dataset(str(tmp_path / "t")).to_table()
    assert bits(read(path)).equals(bits(expected))
    reader = FileReader.open(LocalStore(), str(path))
    assert bits(read(path, row_range=(1_000, 2_100))).equals(bits(expected.slice(1_000, 1_100)))
    rows = [0, 5, 5, 1_023, 1_024, 1_025, 2_499, 3]
    assert bits(reader.take(reader.schema.fields, rows)).equals(bits(expected.take(rows)))


@pytest.mark.parametrize("group_rows", [1, 10, 1_000, 5_000])
@pytest.mark.sampled(2)
def test_all_columns_in_one_file_have_the_same_bytes_as_in_pylance(tmp_path: Path, group_rows: int) -> None:
    table = pa.table(COLUMNS).slice(0, 300 if group_rows == 1 else ROWS).combine_chunks()
    path = theirs(table, tmp_path / "t", max_rows_per_group=group_rows)
    assert ours(table, max_rows_per_group=group_rows) == path.read_bytes()
    assert bits(read(path)).equals(bits(lance.dataset(str(tmp_path / "t")).to_table()))


@pytest.mark.parametrize("batch_rows", [pytest.param(1, marks=pytest.mark.slow), 700, 1_024, 1_500])
@pytest.mark.sampled(2)
def test_row_groups_do_not_depend_on_the_input_batches(batch_rows: int) -> None:
    table = pa.table(COLUMNS)
    pieces = pa.Table.from_batches(table.slice(0, ROWS).to_batches(max_chunksize=batch_rows))
    assert ours(pieces) == ours(table)


def test_slices_are_written_with_the_same_bytes_as_copies(tmp_path: Path) -> None:
    sliced = pa.table(COLUMNS).slice(3, 77)
    copied = pa.table({name: pa.concat_arrays([sliced[name].combine_chunks(), COLUMNS[name][:0]]) for name in COLUMNS})
    assert ours(sliced) == ours(copied)


def test_the_example_of_the_format_notes_has_the_documented_bytes() -> None:
    data = ours(pa.table({"a": pa.array([1, None, 3], pa.int32())}))
    assert len(data) == 311
    assert data[:28] == struct.pack("<iiiqq", 1, 0, 3, 0, 3)
    assert data[-16:] == struct.pack("<qHH4s", 172, 0, 2, b"LANC")


def test_string_offsets_are_absolute_and_stored_after_the_bytes(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1, 2, 3, 4], pa.int32()), "b": ["ab", None, "", "cd"]})
    data = ours(table, max_rows_per_group=3)
    assert data[12:14] == b"ab"
    assert struct.unpack("<4q", data[14:46]) == (12, 14, 14, 14)
    # The second batch: one int32, then its bytes and their offsets.
    assert data[50:52] == b"cd"
    assert struct.unpack("<2q", data[52:68]) == (50, 52)


def test_list_pages_have_one_extra_offset_and_restart_their_offsets(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(ours(pa.table({"a": [[1, 2], [3], [4]]}), max_rows_per_group=2))
    metadata = opened(path)
    positions, lengths = metadata.page_table.pages(0)
    assert lengths.tolist() == [3, 2]
    second = int(positions[1])
    assert struct.unpack("<2i", path.read_bytes()[second : second + 8]) == (0, 1)
    assert metadata.page_table.pages(1)[1].tolist() == [3, 1]


def test_boolean_pages_start_at_byte_boundaries(tmp_path: Path) -> None:
    values = pa.array([row % 3 == 0 for row in range(25)])
    path = tmp_path / "file"
    path.write_bytes(ours(pa.table({"a": values}), max_rows_per_group=10))
    assert opened(path).page_table.pages(0)[0].tolist() == [0, 2, 4]
    assert read(path)["a"].combine_chunks().equals(values)
    assert read(path, row_range=(3, 24))["a"].combine_chunks().equals(values[3:24])


NULLS = {
    "int32": (pa.array([1, None], pa.int32()), [1, 0]),
    "timestamp": (pa.array([5, None], pa.timestamp("s")).cast(pa.timestamp("s")), None),
    "binary(2)": (pa.array([b"ab", None], pa.binary(2)), [b"ab", b"\0\0"]),
    "bool": (pa.array([True, None]), [True, False]),
    "string": (pa.array(["a", "", None]), ["a", None, None]),
    "list": (pa.array([[1], None]), [[1], []]),
    "struct": (pa.array([{"x": 1}, None]), [{"x": 1}, {"x": 0}]),
    "items": (pa.array([[1, None], None], pa.list_(pa.int8(), 2)), [[1, 0], [0, 0]]),
    "null": (pa.nulls(2), [None, None]),
}


@pytest.mark.parametrize("name", NULLS)
def test_nulls_are_read_back_as_in_pylance(tmp_path: Path, name: str) -> None:
    array, expected = NULLS[name]
    path = theirs(pa.table({"a": array}), tmp_path / "t")
    assert ours(pa.table({"a": array})) == path.read_bytes()
    found = read(path)["a"].combine_chunks()
    assert found.equals(lance.dataset(str(tmp_path / "t")).to_table()["a"].combine_chunks())
    if expected is not None:
        assert found.to_pylist() == expected


def test_empty_strings_are_kept_in_non_nullable_fields(tmp_path: Path) -> None:
    table = pa.table({"a": ["x", ""]}, schema=pa.schema([pa.field("a", pa.string(), nullable=False)]))
    path = theirs(table, tmp_path / "t")
    assert ours(table) == path.read_bytes()
    assert read(path)["a"].to_pylist() == ["x", ""]


def test_values_hidden_by_nulls_are_not_written() -> None:
    validity = pa.py_buffer(b"\x05")
    hidden = {
        "int": pa.Array.from_buffers(pa.int32(), 3, [validity, pa.py_buffer(np.array([1, 2, 3], np.int32))]),
        "bool": pa.Array.from_buffers(pa.bool_(), 3, [validity, pa.py_buffer(b"\x07")]),
        "string": pa.Array.from_buffers(
            pa.string(), 3, [validity, pa.py_buffer(np.array([0, 1, 2, 3], np.int32)), pa.py_buffer(b"abc")]
        ),
        "list": pa.Array.from_buffers(
            pa.list_(pa.int8()),
            3,
            [validity, pa.py_buffer(np.array([0, 1, 2, 3], np.int32))],
            children=[pa.array([1, 2, 3], pa.int8())],
        ),
        "struct": pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["x"], mask=pa.array([False, True, False])),
    }
    shown = {
        "int": pa.array([1, None, 3], pa.int32()),
        "bool": pa.array([True, None, True]),
        "string": pa.array(["a", None, "c"]),
        "list": pa.array([[1], None, [3]], pa.list_(pa.int8())),
        "struct": pa.array([{"x": 1}, None, {"x": 3}]),
    }
    assert ours(pa.table(hidden)) == ours(pa.table(shown))


def test_the_page_table_starts_at_the_first_field_of_the_manifest(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(3_000)}), uri, data_storage_version="legacy")
    lance.dataset(uri).add_columns({"b": "a * 2", "c": "cast(a as string)"})
    [fragment] = lance.dataset(uri).get_fragments()
    _, added = fragment.metadata.files
    path = tmp_path / "t" / "data" / added.path
    for field_ids in (list(added.fields), None):
        assert opened(path, field_ids).page_table.first_id == 1
    assert read(path)["b"].to_pylist() == list(range(0, 6_000, 2))
    assert lance_core.dataset(uri).to_table().equals(lance.dataset(uri).to_table())


def test_statistics_contain_field_names_with_renumbered_ids(tmp_path: Path) -> None:
    members = [pa.field("x", pa.int64()), pa.field("y", pa.list_(pa.int8())), pa.field("z", pa.string())]
    table = pa.table(
        {
            "s": pa.array([{"x": 4, "y": [1], "z": "q"}, {"x": None, "y": [], "z": ""}], pa.struct(members)),
            "skipped": pa.array([1, 2], pa.time32("s")),
            "t": ["b", "a"],
        }
    )
    path = theirs(table, tmp_path / "t")
    assert ours(table) == path.read_bytes()
    metadata = opened(path)
    assert metadata.statistics_schema is not None
    assert [(top.name, top.id) for top in metadata.statistics_schema.fields] == [("1", 0), ("4", 4), ("6", 8)]
    assert {field_id: found.to_pylist() for field_id, found in read_statistics(metadata).items()} == {
        1: [{"null_count": 1, "min_value": 4, "max_value": 4}],
        4: [{"null_count": 0, "min_value": None, "max_value": "q"}],
        6: [{"null_count": 0, "min_value": "a", "max_value": "b"}],
    }
    assert read_statistics(metadata, [4]).keys() == {4}


def test_the_maximum_of_a_string_column_is_rounded_up_when_any_value_was_truncated(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(ours(pa.table({"a": ["a" * 100, "b" * 10]})))
    [found] = read_statistics(opened(path))[0].to_pylist()
    assert found == {"null_count": 0, "min_value": "a" * 64, "max_value": "bbbbbbbbbc"}


@pytest.mark.parametrize("dtype", [pa.decimal128(38, 2), pa.decimal128(10, 2), pa.decimal128(1, 0)], ids=str)
@pytest.mark.parametrize("library", [lance, lance_core], ids=["theirs", "ours"])
def test_batches_of_null_decimals_have_unknown_bounds(tmp_path: Path, dtype: pa.DataType, library: ModuleType) -> None:
    uri = str(tmp_path / "t")
    values = pa.array([None, None, 1, None], pa.int8()).cast(pa.decimal128(38, 0)).cast(dtype)
    table = pa.table({"id": range(4), "d": values})
    library.write_dataset(table, uri, data_storage_version="legacy", max_rows_per_group=2)
    [path] = (tmp_path / "t" / "data").iterdir()
    assert read_statistics(opened(path))[1].to_pylist() == [
        {"null_count": 2, "min_value": None, "max_value": None},
        {"null_count": 1, "min_value": Decimal(1), "max_value": Decimal(1)},
    ]
    dataset = lance_core.dataset(uri)
    assert dataset.to_table(filter="d > 0")["id"].to_pylist() == [2]
    assert dataset.to_table(filter="d >= 0 and id < 2").num_rows == 2
    assert dataset.count_rows("d > 5 or id = 3") == 1
    assert "null_count=2, min_value=None, max_value=None" in describe_file(FileReader.open(LocalStore(), str(path)))
    assert dataset.delete("d > 0")["num_deleted_rows"] == 1
    assert dataset.count_rows() == lance.dataset(uri).count_rows() == 3


@pytest.mark.parametrize("dtype", [pa.date32(), pa.date64()], ids=str)
def test_batches_of_null_dates_have_statistics(tmp_path: Path, dtype: pa.DataType) -> None:
    path = theirs(pa.table({"d": pa.nulls(3, dtype)}), tmp_path / "t")
    assert f"min_value={dtype} value {-(2 ** (dtype.bit_width - 1))}" in describe_file(
        FileReader.open(LocalStore(), str(path))
    )


def test_files_of_types_without_statistics_have_no_statistics(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1, 2], pa.time32("s"))})
    path = theirs(table, tmp_path / "t")
    assert ours(table) == path.read_bytes()
    assert opened(path).statistics_schema is None
    assert read_statistics(opened(path)) == {}


def test_dictionaries_of_several_batches_are_merged(tmp_path: Path) -> None:
    batches = [pa.array(["a", "b"]), pa.array(["c", "b"]), pa.array(["d", "a"])]
    table = pa.table({"d": pa.chunked_array([batch.dictionary_encode() for batch in batches])})
    uri = str(tmp_path / "t")
    lance_core.write_dataset(table, uri, data_storage_version="0.1")
    expected = ["a", "b", "c", "b", "d", "a"]
    for library in (lance, lance_core):
        assert library.dataset(uri).to_table()["d"].to_pylist() == expected


@pytest.mark.parametrize("array", [["a", None], [1, None]])
def test_writing_dictionaries_with_nulls_is_refused(array: list[object]) -> None:
    with pytest.raises(SchemaMismatchError, match=r"'d'.*format 2\.0"):
        ours(pa.table({"d": pa.array(array).dictionary_encode()}))


def test_writing_null_structs_around_dictionaries_is_refused() -> None:
    member = pa.array(["a", "b"]).dictionary_encode()
    array = pa.StructArray.from_arrays([member], ["d"], mask=pa.array([False, True]))
    with pytest.raises(SchemaMismatchError, match="'d'"):
        ours(pa.table({"s": array}))


@pytest.mark.parametrize("value_type", [pa.bool_(), pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_writing_dictionaries_of_floats_is_refused(tmp_path: Path, value_type: pa.DataType) -> None:
    store = MemoryStore()
    arrow = pa.schema([("d", pa.dictionary(pa.int8(), value_type))])
    with pytest.raises(UnsupportedVersionError, match=r"2\.0"):
        LegacyFileWriter(store.create("file"), schema_from_arrow(arrow), WriteConfig(version=LanceFileVersion.V0_1))
    with pytest.raises(UnsupportedVersionError, match=r"2\.0" if value_type == pa.bool_() else "pylance cannot open"):
        lance_core.write_dataset(arrow.empty_table(), str(tmp_path / "t"), data_storage_version="0.1")


@pytest.mark.parametrize("index_type", [pa.int8(), pa.uint32(), pa.int64()], ids=str)
@pytest.mark.parametrize("value_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_dictionaries_of_floats_that_pylance_cannot_open_are_read(
    tmp_path: Path, value_type: pa.DataType, index_type: pa.DataType
) -> None:
    values = pa.array(np.array([1.5, np.nan, -0.0, np.inf, 7]).astype(value_type.to_pandas_dtype()))
    keys = pa.array([0, 4, 1, 2, 3, 3, 0] * 100, index_type)
    struct = pa.StructArray.from_arrays([pa.DictionaryArray.from_arrays(keys, values)], names=["e"])
    table = pa.table({"d": pa.DictionaryArray.from_arrays(keys, values), "s": struct, "k": range(len(keys))})
    uri = str(tmp_path / "t")
    lance.write_dataset(table, uri, data_storage_version="0.1", max_rows_per_group=64)
    with pytest.raises(ValueError, match="v1 dictionary values do not support"):
        lance.dataset(uri)
    dataset = lance_core.dataset(uri)
    for found, rows in ((dataset.to_table(), slice(None)), (dataset.take([3, 64, 699]), [3, 64, 699])):
        for column in (found["d"], found["s"].combine_chunks().field("e")):
            combined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            assert combined.type == table["d"].type
            bits = np.dtype(f"u{value_type.bit_width // 8}")
            expected = values.take(keys).to_numpy(zero_copy_only=False)[rows]
            decoded = combined.dictionary_decode().to_numpy(zero_copy_only=False)
            assert decoded.view(bits).tolist() == expected.view(bits).tolist()
    dataset.validate()
    with pytest.raises(UnsupportedVersionError, match="pylance cannot open"):
        lance_core.write_dataset(table, uri, mode="append")
    dataset.delete("k >= 3")
    assert lance_core.dataset(uri).to_table()["k"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize(
    "values",
    [
        *(pa.array([1, 2, 100], dtype) for dtype in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32())),
        *(pa.array([1, 2, 100], dtype) for dtype in (pa.uint32(), pa.int64(), pa.uint64())),
        *(pa.array(["a", "b", ""], dtype) for dtype in (pa.string(), pa.large_string())),
        *(pa.array([b"a", b"b", b"c"], dtype) for dtype in (pa.binary(), pa.large_binary())),
    ],
    ids=lambda values: str(values.type),
)
def test_dictionaries_of_every_supported_type_are_read_by_both_libraries(tmp_path: Path, values: pa.Array) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1, 0], pa.int16()), values)
    for name, writer in (("theirs", lance), ("ours", lance_core)):
        uri = str(tmp_path / name)
        writer.write_dataset(pa.table({"d": column}), uri, data_storage_version="0.1")
        for library in (lance, lance_core):
            found = library.dataset(uri).to_table()["d"].combine_chunks()
            assert found.type == column.type
            assert found.to_pylist() == column.to_pylist()


def test_dictionaries_with_more_values_than_their_keys_can_index_are_refused() -> None:
    batches = [pa.array([f"{number} {row}" for row in range(100)]) for number in range(2)]
    chunks = [pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), batch) for batch in batches]
    with pytest.raises(LanceError, match=r"200 values, but keys of type int8 can address only 128"):
        ours(pa.table({"d": pa.chunked_array(chunks)}))


def test_a_file_in_format_0_1_has_no_global_buffers() -> None:
    store = MemoryStore()
    schema = schema_from_arrow(pa.schema([("a", pa.int8())]))
    with (
        LegacyFileWriter(store.create("file"), schema, WriteConfig(version=LanceFileVersion.V0_1)) as writer,
        pytest.raises(NotSupportedError, match=r"2\.0"),
    ):
        writer.add_global_buffer(b"x")
    assert list(store.list_recursive("")) == []


def test_a_file_without_a_schema_is_read_with_the_fields_of_the_caller(tmp_path: Path) -> None:
    table = pa.table({"a": range(2_000), "b": [f"{row}" for row in range(2_000)]})
    data = bytearray(ours(table))
    [start] = struct.unpack("<q", data[-16:-8])
    # The first field of the message is the position of the manifest, a tag and a varint, which can be removed.
    assert data[start + 4] == 0x08
    data[start + 4] = 0x20  # field 4 is reserved
    path = tmp_path / "file"
    path.write_bytes(data)
    metadata = opened(path, [0, 1])
    assert metadata.schema.fields == ()
    fields = schema_from_arrow(table.schema).fields
    reader = FileReader.open(LocalStore(), str(path), field_ids=[0, 1])
    assert reader.read_table(fields).equals(table)


class CountingReads:
    """A local store that records the requested ranges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.num_bytes = 0
        original = LocalStore.get_ranges

        def get_ranges(store: LocalStore, path: str, ranges: list[ByteRange]) -> list[pa.Buffer]:
            if path.endswith(".lance"):
                self.num_bytes += sum(each.num_bytes for each in ranges)
            return original(store, path, ranges)

        monkeypatch.setattr(LocalStore, "get_ranges", get_ranges)


PREDICATES = [
    "a = 77777",
    "a > 190000 and s < 'k0195000'",
    "st.x in (3, 150)",
    "5 > a",
    "f = 1000.0",
    "a = 5 or a = 150000",
    "a between 100 and 200",
    "s = 'k0000007' and f > 0.5",
    "d = date '1975-01-01'",
    "f between 1000 and 1010",
    "f > 1000 and (s is not null and f <= 1010)",
    "a is null",
    "nulls is null and f is null",
    "sparse is not null",
    "not (sparse is null) and f is not null",
    "sorted is false and s = 'k0199999'",
    "not sorted and s = 'k0199999'",
]
UNPRUNED = [
    "f > 28000",
    "not (a = 3)",
    "nulls = 0",
    "nulls = 5001 and nulls is not null",
    "a + 1 = 4",
    "sparse is null",
    "a is not null",
    "not (a is null)",
    "b",
    "not b",
]


@pytest.fixture(scope="module", params=["lance_core", "pylance"])
def long_table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    num_rows = 200_000
    numbers = np.arange(num_rows)
    fractions = numbers / 7
    fractions[::50_000] = np.nan
    table = pa.table(
        {
            "a": numbers,
            "s": [f"k{number:07d}" for number in range(num_rows)],
            "st": pa.StructArray.from_arrays([pa.array(numbers // 1000)], ["x"]),
            "f": fractions,
            "b": numbers % 2048 < 1024,
            "d": pa.array(numbers // 20, pa.int32()).cast(pa.date32()),
            "sorted": numbers < 190_000,
            "nulls": pa.array(numbers, mask=numbers % 1000 == 0),
            "sparse": [f"v{number}" if 40_000 <= number < 45_000 else None for number in range(num_rows)],
        }
    )
    uri = str(tmp_path_factory.mktemp("pruning") / "t")
    write = lance_core.write_dataset if request.param == "lance_core" else lance.write_dataset
    write(table, uri, data_storage_version="0.1", max_rows_per_file=120_000)
    lance_core.dataset(uri).delete("a % 1000 = 77 or a between 60000 and 70000")
    return uri


@pytest.mark.parametrize("predicate", [*PREDICATES, *UNPRUNED])
@pytest.mark.sampled(4)
def test_pruning_by_statistics_skips_batches_and_loses_no_rows(
    long_table: str, predicate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = lance_core.dataset(long_table)
    reads = CountingReads(monkeypatch)
    plain = dataset.to_table(filter=predicate, use_stats=False)
    without = reads.num_bytes
    reads.num_bytes = 0
    pruned = dataset.to_table(filter=predicate)
    assert bits(pruned).equals(bits(plain))
    assert bits(lance.dataset(long_table).to_table(filter=predicate, use_stats=False)).equals(bits(plain))
    assert dataset.count_rows(predicate) == plain.num_rows
    if predicate in PREDICATES:
        assert reads.num_bytes < without / 2
