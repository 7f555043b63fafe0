"""Single data files: lance_core and pylance 14.0.2 read each other's files.

Every type times {no nulls, nulls, all null, no rows}, in both directions; full read, projection, row range, single
rows; one page and many.
"""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file.lance_file import LanceFileReader, LanceFileWriter
from lance_core.file.reader import FileReader
from lance_core.io.local_store import LocalStore
from lance_core.proto import pb_file
from lance_core.schema.convert import schema_to_proto

reference = pytest.importorskip("lance.file", reason="pylance is the other implementation")

SEED = 20240917
NUM_ROWS = 300

FIXED_WIDTH = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.duration("ms")),
    *(pa.decimal128(20, 3), pa.decimal256(50, 5), pa.binary(5), pa.binary(300)),
]
VARIABLE_WIDTH = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
PERSON = pa.struct([("name", pa.string()), ("age", pa.int32())])
NESTED = [
    pa.null(),
    pa.list_(pa.float32(), 3),
    pa.list_(pa.float32(), 100),
    pa.list_(pa.bool_(), 3),
    pa.list_(pa.list_(pa.int16(), 2), 2),
    pa.list_(pa.int32()),
    pa.large_list(pa.int64()),
    pa.list_(pa.string()),
    pa.list_(pa.list_(pa.int8())),
    pa.list_(pa.list_(pa.float32(), 4)),
    PERSON,
    pa.struct([("in", PERSON), ("x", pa.float64())]),
    pa.struct([("l", pa.list_(pa.int32())), ("s", pa.string())]),
    pa.list_(PERSON),
    pa.list_(pa.struct([("x", pa.list_(pa.int16()))])),
    pa.map_(pa.string(), pa.int32()),
    pa.map_(pa.int32(), pa.list_(pa.string())),
    pa.dictionary(pa.int32(), pa.string()),
]
ALL_TYPES = [*FIXED_WIDTH, *VARIABLE_WIDTH, *NESTED]
NULL_RATES = {"no_nulls": 0.0, "nulls": 0.3, "all_null": 1.0, "no_rows": None}

every_type = pytest.mark.parametrize("dtype", ALL_TYPES, ids=str)
every_filling = pytest.mark.parametrize("filling", NULL_RATES)


def _scalar(rng: np.random.Generator, dtype: pa.DataType, null_rate: float) -> Any:
    """One Python value of the type, or None."""
    if pa.types.is_null(dtype) or rng.random() < null_rate:
        return None
    if pa.types.is_struct(dtype):
        return {field.name: _scalar(rng, field.type, null_rate) for field in dtype}
    if pa.types.is_map(dtype):
        keys = {_scalar(rng, dtype.key_type, 0.0) for _ in range(rng.integers(0, 4))}
        return [(key, _scalar(rng, dtype.item_type, null_rate)) for key in sorted(keys)]
    if pa.types.is_fixed_size_list(dtype):
        return [_scalar(rng, dtype.value_type, null_rate) for _ in range(dtype.list_size)]
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return [_scalar(rng, dtype.value_type, null_rate) for _ in range(rng.integers(0, 5))]
    if pa.types.is_dictionary(dtype):
        return f"category {rng.integers(0, 7)}"
    if pa.types.is_boolean(dtype):
        return bool(rng.integers(0, 2))
    if pa.types.is_floating(dtype):
        return float(np.float16(rng.normal()))
    if pa.types.is_decimal(dtype):
        return decimal.Decimal(int(rng.integers(-(10**9), 10**9))).scaleb(-dtype.scale)
    if pa.types.is_fixed_size_binary(dtype):
        return rng.bytes(dtype.byte_width)
    if dtype in (pa.string(), pa.large_string()):
        return "é" * int(rng.integers(0, 12))
    if dtype in (pa.binary(), pa.large_binary()):
        return rng.bytes(int(rng.integers(0, 30)))
    # date64 counts milliseconds, but must represent whole days.
    return int(rng.integers(0, 100)) * (86_400_000 if pa.types.is_date64(dtype) else 1)


def _array(dtype: pa.DataType, num_rows: int, null_rate: float, seed: int = SEED) -> pa.Array:
    rng = np.random.default_rng(seed)
    values = [_scalar(rng, dtype, null_rate) for _ in range(num_rows)]
    if pa.types.is_temporal(dtype):
        storage = pa.int32() if dtype.bit_width == 32 else pa.int64()
        return pa.array(values, storage).cast(dtype)
    return pa.array(values, dtype)


def _table(dtype: pa.DataType, filling: str) -> pa.Table:
    null_rate = NULL_RATES[filling]
    num_rows = 0 if null_rate is None else NUM_ROWS
    # A second column detects reads of a wrong column or of shifted rows.
    number = pa.array(np.arange(num_rows), pa.int64())
    return pa.table({"c": _array(dtype, num_rows, null_rate or 0.0), "number": number})


def _write(writer_class: Any, path: Path, table: pa.Table, *, num_parts: int = 1, **options: Any) -> None:
    with writer_class(str(path), table.schema, **options) as writer:
        step = max(1, -(-table.num_rows // num_parts))
        for start in range(0, table.num_rows, step):
            for batch in table.slice(start, step).to_batches():
                # pylance 14.0.2 panics on slices of nested structs, so it receives copies.
                writer.write_batch(batch if writer_class is LanceFileWriter else _copied(batch))


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def _same(found: pa.Table, expected: pa.Table) -> None:
    assert found.column_names == expected.column_names
    assert found.num_rows == expected.num_rows
    for name in expected.column_names:
        left, right = found[name], expected[name]
        assert left.type == right.type, name
        if pa.types.is_dictionary(right.type):
            left, right = left.cast(right.type.value_type), right.cast(right.type.value_type)
        for chunk in left.chunks:
            chunk.validate(full=True)
        assert left.equals(right), name


def _check_reads(reader_class: Any, path: Path, table: pa.Table) -> None:
    """Check that full reads, projections, row ranges, and single rows equal the table."""
    reader = reader_class(str(path))
    assert reader.num_rows() == table.num_rows
    _same(reader.read_all(batch_size=37).to_table(), table)
    _same(reader_class(str(path), columns=["c"]).read_all().to_table(), table.select(["c"]))
    if table.num_rows:
        _same(reader.read_range(91, 150).to_table(), table.slice(91, 150))
        rows = [0, 1, 90, 100, 101, table.num_rows - 1]
        _same(reader.take_rows(rows).to_table(), table.take(rows))


@every_filling
@every_type
@pytest.mark.sampled(60)
def test_pylance_reads_data_files_of_lance_core(tmp_path: Path, dtype: pa.DataType, filling: str) -> None:
    table = _table(dtype, filling)
    _write(LanceFileWriter, tmp_path / "f.lance", table)
    _check_reads(reference.LanceFileReader, tmp_path / "f.lance", table)
    _check_reads(LanceFileReader, tmp_path / "f.lance", table)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@every_filling
@every_type
@pytest.mark.sampled(72)
def test_lance_core_reads_data_files_of_pylance(tmp_path: Path, dtype: pa.DataType, filling: str, version: str) -> None:
    if pa.types.is_map(dtype) and version == "2.1":
        pytest.skip("maps exist from 2.2 on")
    table = _table(dtype, filling)
    _write(reference.LanceFileWriter, tmp_path / "f.lance", table, version=version)
    _check_reads(LanceFileReader, tmp_path / "f.lance", table)


@pytest.mark.parametrize("filling", ["no_nulls", "nulls"])
@every_type
@pytest.mark.sampled(12)
def test_columns_of_many_pages_are_read_by_lance_core_and_pylance(
    tmp_path: Path, dtype: pa.DataType, filling: str
) -> None:
    table = _table(dtype, filling)
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    _write(LanceFileWriter, ours, table, num_parts=3, data_cache_bytes=0)
    assert len(LanceFileReader(str(ours)).metadata().columns[0].pages) == 3
    _check_reads(reference.LanceFileReader, ours, table)
    _check_reads(LanceFileReader, ours, table)
    _write(reference.LanceFileWriter, theirs, table, num_parts=3, data_cache_bytes=1)
    _check_reads(LanceFileReader, theirs, table)


@pytest.mark.parametrize("num_parts", [1, 3])
@pytest.mark.parametrize("filling", NULL_RATES)
def test_fixed_size_lists_of_structs_are_read_by_lance_core_and_pylance(
    tmp_path: Path, filling: str, num_parts: int
) -> None:
    # pylance 14.0.2 does not read such a column together with others, and not slices of its input.
    table = _table(pa.list_(PERSON, 2), filling).select(["c"])
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    _write(LanceFileWriter, ours, table, num_parts=num_parts, data_cache_bytes=0)
    _write(reference.LanceFileWriter, theirs, table, num_parts=num_parts, data_cache_bytes=1)
    _same(reference.LanceFileReader(str(ours)).read_all().to_table(), table)
    for path in (ours, theirs):
        _check_reads(LanceFileReader, path, table)


@pytest.mark.parametrize("dtype", [pa.int32(), pa.string(), PERSON, pa.list_(pa.string())], ids=str)
def test_pages_that_differ_in_nulls_are_read_by_lance_core_and_pylance(tmp_path: Path, dtype: pa.DataType) -> None:
    parts = [_array(dtype, 100, rate, SEED + index) for index, rate in enumerate((0.0, 0.5, 1.0, 0.0))]
    table = pa.table({"c": pa.chunked_array(parts), "number": np.arange(400)})
    _write(LanceFileWriter, tmp_path / "f.lance", table, data_cache_bytes=0)
    _check_reads(reference.LanceFileReader, tmp_path / "f.lance", table)
    _check_reads(LanceFileReader, tmp_path / "f.lance", table)


@every_type
@pytest.mark.sampled(24)
def test_sliced_input_is_written_with_only_the_rows_of_the_slice(tmp_path: Path, dtype: pa.DataType) -> None:
    table = _table(dtype, "nulls")
    _write(LanceFileWriter, tmp_path / "f.lance", table.slice(13, 250))
    _same(reference.LanceFileReader(str(tmp_path / "f.lance")).read_all().to_table(), table.slice(13, 250))


LONG = [None if i % 7 == 3 else b"" if i % 7 == 5 else bytes([i]) * (400 + 150 * i) for i in range(250)]


@pytest.mark.parametrize(
    "metadata", [None, {"lance-encoding:compression": "zstd"}, {"lance-encoding:compression": "lz4"}]
)
@pytest.mark.parametrize("kind", ["plain", "list", "struct"])
def test_long_values_are_compressed_individually(tmp_path: Path, kind: str, metadata: dict[str, str] | None) -> None:
    leaf = pa.field("c" if kind == "plain" else "v", pa.large_binary(), metadata=metadata)
    values: list[Any] = LONG
    if kind == "list":
        leaf = pa.field("c", pa.list_(leaf))
        values = [None if i % 11 == 0 else LONG[i : i + i % 3] for i in range(len(LONG))]
    elif kind == "struct":
        leaf = pa.field("c", pa.struct([leaf]))
        values = [None if i % 11 == 0 else {"v": value} for i, value in enumerate(LONG)]
    table = pa.table([pa.array(values, leaf.type)], schema=pa.schema([leaf]))
    _write(LanceFileWriter, tmp_path / "f", table)
    assert (tmp_path / "f").stat().st_size < 60_000
    _check_reads(reference.LanceFileReader, tmp_path / "f", table)
    _check_reads(LanceFileReader, tmp_path / "f", table)


def test_floating_point_values_are_preserved_bit_for_bit(tmp_path: Path) -> None:
    values = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 5e-324], np.float64)
    values = np.concatenate([values, np.array([0x7FF8DEADBEEF0001], np.uint64).view(np.float64)])
    table = pa.table({"f": values, "same": np.full(7, -0.0)})
    _write(LanceFileWriter, tmp_path / "f.lance", table)
    for reader in (reference.LanceFileReader, LanceFileReader):
        found = reader(str(tmp_path / "f.lance")).read_all().to_table()
        for name in table.column_names:
            bits = [found[name].to_numpy().view(np.uint64), table[name].to_numpy().view(np.uint64)]
            np.testing.assert_array_equal(*bits)


def test_pages_of_struct_members_may_have_different_boundaries(tmp_path: Path) -> None:
    # pylance ends the pages of each leaf by the size of that leaf.
    rng = np.random.default_rng(SEED)
    dtype = pa.struct([("small", pa.int8()), ("large", pa.binary())])
    rows = [{"small": int(rng.integers(0, 100)), "large": rng.bytes(400)} for _ in range(400)]
    table = pa.table({"c": pa.array(rows, dtype), "number": np.arange(400)})
    _write(reference.LanceFileWriter, tmp_path / "f.lance", table, num_parts=40, data_cache_bytes=20_000)
    pages = [len(column.pages) for column in LanceFileReader(str(tmp_path / "f.lance")).metadata().columns]
    assert pages[0] != pages[1]
    _check_reads(LanceFileReader, tmp_path / "f.lance", table)


def test_a_nested_projection_returns_the_same_columns_as_pylance(tmp_path: Path) -> None:
    table = _table(pa.struct([("in", PERSON), ("x", pa.float64())]), "nulls")
    _write(LanceFileWriter, tmp_path / "f.lance", table)
    for columns in (["c.in.age"], ["c.x", "number"]):
        theirs = reference.LanceFileReader(str(tmp_path / "f.lance"), columns=columns).read_all().to_table()
        _same(LanceFileReader(str(tmp_path / "f.lance"), columns=columns).read_all().to_table(), theirs)


SCHEMAS = [
    *(pa.schema([("c", dtype)]) for dtype in ALL_TYPES),
    pa.schema([pa.field("c", pa.list_(pa.field("q", pa.int8(), nullable=False)), nullable=False)]),
    pa.schema([pa.field("c", pa.int8(), metadata={"k": "v"})], metadata={"owner": "me"}),
    pa.schema([("c", pa.struct([]))]),
    pa.schema([("c", pa.list_(PERSON, 2))]),
    pa.schema([("c", pa.timestamp("us", "+05:30")), ("d", pa.string_view()), ("e", pa.list_(pa.binary_view()))]),
    pa.schema([("c", pa.list_(pa.list_(PERSON))), ("d", pa.large_list(PERSON)), ("e", pa.list_(pa.null()))]),
    pa.schema([pa.field("c", pa.int8(), False, metadata={"lance-schema:unenforced-primary-key": "true"})]),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_schema_messages_of_files_equal_those_of_pylance(tmp_path: Path, schema: pa.Schema) -> None:
    _write(reference.LanceFileWriter, tmp_path / "f.lance", schema.empty_table())
    theirs = FileReader.open(LocalStore(), str(tmp_path / "f.lance"))
    descriptor = pb_file.FileDescriptor.FromString(bytes(theirs.metadata.global_buffer(0)))
    _write(LanceFileWriter, tmp_path / "g.lance", schema.empty_table())
    ours = FileReader.open(LocalStore(), str(tmp_path / "g.lance"))
    assert schema_to_proto(ours.schema) == descriptor.schema
    if all(len(node.metadata) < 2 for node in ours.schema.walk()):
        assert bytes(ours.metadata.global_buffer(0)) == bytes(theirs.metadata.global_buffer(0))
    assert reference.LanceFileReader(str(tmp_path / "g.lance")).metadata().schema == theirs_schema(tmp_path)


def theirs_schema(directory: Path) -> pa.Schema:
    """Return the schema that pylance reports for its own file."""
    return reference.LanceFileReader(str(directory / "f.lance")).metadata().schema


def test_file_metadata_and_statistics_agree_with_pylance(tmp_path: Path) -> None:
    table = _table(PERSON, "nulls").replace_schema_metadata({"k": "v"})
    path = str(tmp_path / "f.lance")
    with reference.LanceFileWriter(path, table.schema) as writer:
        writer.write_batch(table)
        assert writer.add_global_buffer(b"hello") == 1
    ours, theirs = LanceFileReader(path), reference.LanceFileReader(path)
    for name in (
        *("num_rows", "num_data_bytes", "num_column_metadata_bytes", "num_global_buffer_bytes"),
        *("major_version", "minor_version"),
    ):
        assert getattr(ours.metadata(), name) == getattr(theirs.metadata(), name), name
    assert ours.metadata().schema.equals(theirs.metadata().schema, check_metadata=True)
    for our_column, their_column in zip(ours.metadata().columns, theirs.metadata().columns, strict=True):
        for our_page, their_page in zip(our_column.pages, their_column.pages, strict=True):
            assert [(b.position, b.size) for b in our_page.buffers] == [
                (b.position, b.size) for b in their_page.buffers
            ]
    sizes = [(c.num_pages, c.size_bytes) for c in ours.file_statistics().columns]
    assert sizes == [(c.num_pages, c.size_bytes) for c in theirs.file_statistics().columns]
    assert ours.read_global_buffer(1) == theirs.read_global_buffer(1) == b"hello"


def test_pylance_reads_global_buffers_and_schema_metadata_of_lance_core(tmp_path: Path) -> None:
    path = str(tmp_path / "f.lance")
    with LanceFileWriter(path, pa.schema([("a", pa.int32())])) as writer:
        writer.write_batch(pa.record_batch({"a": pa.array([1, 2], pa.int32())}))
        assert writer.add_global_buffer(b"hello") == 1
        assert writer.add_global_buffer(b"x" * 100) == 2
        writer.add_schema_metadata("k", "v")
        assert writer.close() == 2
    reader = reference.LanceFileReader(path)
    assert reader.read_global_buffer(1) == b"hello"
    assert reader.read_global_buffer(2) == b"x" * 100
    assert reader.metadata().schema.metadata == {b"k": b"v"}
    assert writer.size_bytes == Path(path).stat().st_size


@pytest.mark.parametrize("writer", [LanceFileWriter, reference.LanceFileWriter])
def test_extension_types_are_read_by_lance_core_and_pylance(tmp_path: Path, writer: Any) -> None:
    storage = pa.array([b"0123456789abcdef", None], pa.binary(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    nested = pa.StructArray.from_arrays([uuids], names=["u"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), nested)
    table = pa.table({"u": uuids, "s": nested, "l": lists})
    _write(writer, tmp_path / "f.lance", table)
    for reader in (LanceFileReader, reference.LanceFileReader):
        assert reader(str(tmp_path / "f.lance")).read_all().to_table().equals(table)
