"""Files in format 2.0 have the same bytes as in pylance, and are read with the same rows in both directions."""

from __future__ import annotations

import base64
import decimal
import random
import struct
import zlib
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any

from lance_core.errors import CorruptDataError, NotSupportedError, UnsupportedEncodingError, UnsupportedVersionError
from lance_core.file.file_bytes import run_steps
from lance_core.file.v2_0.assignment import column_owners
from lance_core.file.v2_0.fields import v2_0_sources
from lance_core.proto import pb20, pb_file2
from lance_core.schema.convert import schema_from_arrow
from tests.support.tables_v2_0 import (
    compact,
    open_ours,
    read_ours,
    read_theirs,
    take_ours,
    write_ours,
    write_theirs,
)

PACKED = pa.field(
    "p",
    pa.struct([("a", pa.int8()), ("b", pa.int64()), ("v", pa.list_(pa.float32(), 2))]),
    metadata={"lance-encoding:packed": "true"},
)
PACKED_ROW = {"a": 1, "b": 2, "v": [1.0, 2.0]}
BLOB = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
DEEP = pa.list_(
    pa.list_(
        pa.struct(
            [
                ("s", pa.string()),
                ("d", pa.dictionary(pa.int8(), pa.string())),
                ("f", pa.list_(pa.int32(), 2)),
                ("i", pa.int16()),
            ]
        )
    )
)
ONE = decimal.Decimal("1.23")

COLUMNS = {
    "int8": pa.array([1, None, 3, 4, 5, 6, 7], pa.int8()),
    "uint64": pa.array(range(7), pa.uint64()),
    "half": pa.array(np.arange(7, dtype=np.float16)),
    "float": pa.array([1.5, None] * 3 + [0.0], pa.float32()),
    "bool": pa.array([True, None, False, True, True, True, False]),
    "bools": pa.array([True] * 7),
    "null": pa.nulls(7),
    "nulls": pa.nulls(7, pa.int32()),
    "decimal128": pa.array([ONE, None] + [ONE] * 5, pa.decimal128(10, 2)),
    "decimal256": pa.array([ONE, None] + [ONE] * 5, pa.decimal256(60, 2)),
    "fixed_size_binary": pa.array([b"abc", None] + [b"xyz"] * 5, pa.binary(3)),
    "string": pa.array(["ab", None, "", "c", "d", "e", "f"]),
    "large_string": pa.array(["ab", None, "", "c", "d", "e", "f"], pa.large_string()),
    "binary": pa.array([b"ab", None, b"", b"c", b"d", b"e", b"f"]),
    "large_binary": pa.array([b"ab", None, b"", b"c", b"d", b"e", b"f"], pa.large_binary()),
    "null_strings": pa.nulls(7, pa.string()),
    "timestamp": pa.array(range(7), pa.timestamp("us", "+05:30")),
    "date32": pa.array(range(7), pa.date32()),
    "date64": pa.array([0] * 7, pa.date64()),
    "time32": pa.array(range(7), pa.time32("ms")),
    "time64": pa.array(range(7), pa.time64("ns")),
    "duration": pa.array(range(7), pa.duration("s")),
    "vector": pa.array([[1, 2], None, [3, None], [1, 2], [3, 4], [5, 6], [7, 8]], pa.list_(pa.int32(), 2)),
    "matrix": pa.array(
        [[[1, 2], [3, None]], None, [None, [5, 6]]] + [[[1, 2], [3, 4]]] * 4, pa.list_(pa.list_(pa.int8(), 2), 2)
    ),
    "bits": pa.array([[True, False, None]] * 7, pa.list_(pa.bool_(), 3)),
    "null_vectors": pa.array([[None, None]] * 7, pa.list_(pa.int32(), 2)),
    "decimals": pa.array([[ONE, None]] * 7, pa.list_(pa.decimal128(10, 2), 2)),
    "times": pa.array([[1, 2]] * 7, pa.list_(pa.timestamp("us", "+05:30"), 2)),
    "dictionary": pa.array(["a", "b", None, "a", "c", "b", "a"]).dictionary_encode(),
    "dictionary_null_item": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, None, 2, 1, 0], pa.int8()), pa.array([5, None, 7])
    ),
    "dictionary_nulls": pa.DictionaryArray.from_arrays(pa.array([None] * 7, pa.int16()), pa.array(["x"])),
    "dictionary_floats": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0, 1, 1, 1, 1], pa.uint32()), pa.array([1.5, 2.5])
    ),
    "list": pa.array([[1, 2], None, [], [3, None, 4], [5], [], None], pa.list_(pa.int32())),
    "large_list": pa.array([[1, 2], None, [], [3, None, 4], [5], [], None], pa.large_list(pa.int32())),
    "empty_lists": pa.array([[], None, [], [], [], None, None], pa.list_(pa.string())),
    "empty_deep_lists": pa.array([[], None, [], [], [], None, None], DEEP),
    "deep_lists": pa.array([[[{"s": "x", "d": "y", "f": [1, 2], "i": 3}], [], None], None, [], [], [], [], []], DEEP),
    "structs_in_list": pa.array(
        [[{"a": 1, "b": "x"}], None, [], [{"a": None, "b": None}, {"a": 3, "b": "y"}], [], [], []]
    ),
    "struct": pa.array([{"x": i, "y": {"z": str(i)}} for i in range(7)]),
    "empty_struct": pa.array([{}] * 7, pa.struct([])),
}


def _same_file(directory: Path, table: pa.Table) -> Path:
    theirs = write_theirs(directory / "theirs.lance", [table])
    ours = directory / "ours.lance"
    write_ours(ours, [table])
    assert ours.read_bytes() == theirs.read_bytes()
    expected = table.to_pylist()
    assert read_ours(ours).to_pylist() == expected
    assert read_theirs(ours).to_pylist() == expected
    return ours


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.sampled(20)
def test_a_column_of_each_type_has_the_same_bytes_as_in_pylance_and_is_read_back(tmp_path: Path, name: str) -> None:
    column = COLUMNS[name]
    _same_file(tmp_path, pa.table({name: column}))
    _same_file(tmp_path, pa.table({name: column.slice(0, 0)}))
    if name != "struct":
        # The reference panics on slices of nested structs.
        _same_file(tmp_path, pa.table({name: column.slice(2, 4)}))
    path = _same_file(tmp_path, pa.table({"first": pa.array(range(7)), name: column, "last": pa.array(["x"] * 7)}))
    for start, stop in ((0, 0), (0, 1), (0, 6), (1, 7), (2, 3), (3, 7), (7, 7)):
        assert read_ours(path, start, stop)[name].to_pylist() == column.slice(start, stop - start).to_pylist()
    for rows in ([], [0], [6], [0, 6], [1, 1, 3, 4], [0, 0, 6, 6], [2, 4, 5]):
        assert take_ours(path, rows)[name].to_pylist() == [column.to_pylist()[row] for row in rows]


def test_all_columns_in_one_file_have_the_same_bytes_as_in_pylance(tmp_path: Path) -> None:
    _same_file(tmp_path, pa.table(COLUMNS))


@pytest.mark.parametrize(
    ("field", "rows"),
    [
        (PACKED, [PACKED_ROW, PACKED_ROW]),
        (pa.field("s", pa.struct([PACKED])), [{"p": PACKED_ROW}]),
        (pa.field("l", pa.list_(PACKED.with_name("item"))), [[PACKED_ROW], [], None]),
        (BLOB, [b"x", None, b"", b"y" * 100]),
        (pa.field("s", pa.struct([BLOB])), [{"b": b"x"}, {"b": None}]),
        (pa.field("l", pa.list_(BLOB.with_name("item"))), [[b"x", b""], None, [None]]),
        (pa.field("n", pa.int32(), nullable=False), [1, 2]),
        (pa.field("t", pa.string(), metadata={"lance-encoding:compression": "none"}), ["a", None]),
        (pa.field("t", pa.string(), metadata={"lance-encoding:compression": "lz4"}), ["a" * 50, None]),
        (pa.field("t", pa.list_(pa.string()), metadata={"lance-encoding:compression": "zstd"}), [["a" * 50], None]),
    ],
)
def test_fields_with_metadata_are_written_with_the_same_bytes_as_in_pylance(
    tmp_path: Path, field: pa.Field, rows: list[object]
) -> None:
    schema = pa.schema([field, ("after", pa.int8())])
    table = pa.table([pa.array(rows, field.type), pa.array([7] * len(rows), pa.int8())], schema=schema)
    path = _same_file(tmp_path, table)
    assert take_ours(path, [len(rows) - 1]).to_pylist() == table.to_pylist()[-1:]


def test_blobs_are_written_before_the_pages_of_their_batch(tmp_path: Path) -> None:
    table = pa.table([pa.array([b"x", None, b"", b"y"], BLOB.type)], schema=pa.schema([BLOB]))
    path = _same_file(tmp_path, table)
    assert path.read_bytes()[:65] == b"x" + b"H" * 63 + b"y"
    [column] = open_ours(path).columns([0])
    assert column.is_blob
    [buffer] = column.pages[0].buffers
    descriptors = struct.unpack("<8Q", path.read_bytes()[buffer.start : buffer.stop])
    assert descriptors == (0, 1, 1, 0, 0, 0, 64, 1)
    write_ours(tmp_path / "two.lance", [table, table])
    assert read_theirs(tmp_path / "two.lance").to_pylist() == table.to_pylist() * 2


@pytest.mark.parametrize("scheme", ["zstd", "lz4", "fsst"])
@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
@pytest.mark.sampled(4)
def test_compressed_strings_are_read_by_both_libraries(tmp_path: Path, scheme: str, dtype: pa.DataType) -> None:
    field = pa.field("t", dtype, metadata={"lance-encoding:compression": scheme})
    rows = [None if row % 11 == 3 else f"value {row * 7919} of some text" for row in range(3000)]
    table = pa.table([pa.array(rows).cast(dtype)], schema=pa.schema([field]))
    write_ours(tmp_path / "ours.lance", [table])
    assert read_theirs(tmp_path / "ours.lance").equals(table)
    assert take_ours(tmp_path / "ours.lance", [0, 3, 2999]).equals(table.take([0, 3, 2999]))
    if scheme == "fsst" and dtype in (pa.large_string(), pa.large_binary()):
        return
    write_theirs(tmp_path / "theirs.lance", [table])
    assert read_ours(tmp_path / "theirs.lance").equals(table)
    assert read_ours(tmp_path / "theirs.lance", 100, 200).equals(table.slice(100, 100))
    assert (tmp_path / "ours.lance").stat().st_size <= 1.05 * (tmp_path / "theirs.lance").stat().st_size


def test_pages_of_one_column_may_have_different_encodings(tmp_path: Path) -> None:
    strings = [None] * 120 + [f"{row % 5}" for row in range(120)] + [f"{row}" for row in range(120)] + [None, "a"]
    numbers = [None] * 120 + list(range(120)) + [None if row % 2 else row for row in range(122)]
    table = pa.table({"s": strings, "i": numbers, "l": pa.array([None if n is None else [n] for n in numbers])})
    batches = [compact(table.slice(start, 120)) for start in range(0, 362, 120)]
    write_ours(tmp_path / "ours.lance", batches, data_cache_bytes=0)
    write_theirs(tmp_path / "theirs.lance", batches, data_cache_bytes=1)
    for name in ("ours", "theirs"):
        path = tmp_path / f"{name}.lance"
        [column] = open_ours(path).columns([0])
        arms = [page.array_encoding.WhichOneof("array_encoding") for page in column.pages]
        assert arms == ["dictionary", "dictionary", "binary", "binary"]
        assert read_theirs(path).to_pylist() == table.to_pylist()
        assert read_ours(path).to_pylist() == table.to_pylist()
        assert read_ours(path, 100, 300).to_pylist() == table.slice(100, 200).to_pylist()
        assert take_ours(path, [0, 119, 120, 240, 361]).to_pylist() == table.take([0, 119, 120, 240, 361]).to_pylist()


def test_an_array_larger_than_a_page_is_split_as_in_pylance(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(np.arange(10_000.0)), "s": pa.array([f"{row}" for row in range(10_000)])})
    write_theirs(tmp_path / "theirs.lance", [table], data_cache_bytes=1, max_page_bytes=20_000)
    write_ours(tmp_path / "ours.lance", [table], data_cache_bytes=1, max_page_bytes=20_000)
    lengths = [
        [[page.length for page in column.pages] for column in open_ours(tmp_path / f"{name}.lance").columns([0, 1])]
        for name in ("theirs", "ours")
    ]
    assert lengths[0][0] == lengths[1][0] == [2500] * 4
    assert read_ours(tmp_path / "ours.lance").equals(table)
    assert read_theirs(tmp_path / "ours.lance").equals(table)


def test_items_and_bytes_of_null_values_are_kept(tmp_path: Path) -> None:
    offsets = pa.py_buffer(np.array([0, 2, 4, 6], np.int32))
    items = pa.array([1, 2, 3, 4, 5, 6], pa.int8())
    hidden = pa.Array.from_buffers(pa.list_(pa.int8()), 3, [pa.py_buffer(b"\x05"), offsets], children=[items])
    path = _same_file(tmp_path, pa.table({"l": hidden}))
    assert take_ours(path, [1, 2])["l"].to_pylist() == [None, [5, 6]]


def test_data_files_list_the_same_field_ids_and_columns_as_in_pylance(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("v", pa.list_(pa.float32(), 2)), PACKED, ("i", pa.int32())])
    table = pa.table([pa.array([[1, 2]], schema[0].type), pa.array([PACKED_ROW], PACKED.type), [5]], schema=schema)
    written = write_ours(tmp_path / "ours.lance", [table])
    assert (written.field_ids, written.column_indices) == ((0, 1, 5), (0, 1, 2))
    dataset = lance.write_dataset(table, tmp_path / "d.lance", data_storage_version="2.0")
    [data_file] = dataset.get_fragments()[0].data_files()
    assert (tuple(data_file.fields), tuple(data_file.column_indices)) == (written.field_ids, written.column_indices)
    owners = [owner.id for top in schema_from_arrow(schema).fields for owner in column_owners(top)]
    assert tuple(owners) == written.field_ids


def test_single_members_of_structs_are_read(tmp_path: Path) -> None:
    struct_type = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.list_(pa.int8()))])
    rows = [{"a": row, "b": f"{row}", "c": [row]} for row in range(5)]
    schema = pa.schema([pa.field("s", struct_type), PACKED])
    table = pa.table([pa.array(rows, struct_type), pa.array([PACKED_ROW] * 5, PACKED.type)], schema=schema)
    path = write_theirs(tmp_path / "theirs.lance", [table])
    stored = open_ours(path).schema
    [chosen] = stored.project(["s.b"]).fields
    packed = stored.field("p").with_children([stored.field("p.v")])
    assert read_ours(path, fields=[chosen, packed]).to_pylist() == [
        {"s": {"b": f"{row}"}, "p": {"v": [1.0, 2.0]}} for row in range(5)
    ]


def test_files_with_a_footer_of_format_0_3_or_2_0_are_read(tmp_path: Path) -> None:
    path = _same_file(tmp_path, pa.table({"a": [1, None, 3]}))
    content = path.read_bytes()
    assert content[-8:] == b"\0\0\3\0LANC"
    path.write_bytes(content[:-8] + b"\2\0\0\0LANC")
    assert read_ours(path)["a"].to_pylist() == [1, None, 3]


def test_the_example_of_the_format_notes_has_the_documented_bytes(tmp_path: Path) -> None:
    path = _same_file(tmp_path, pa.table({"a": pa.array([1, None, 3], pa.int32())}))
    content = path.read_bytes()
    assert len(content) == 348
    assert content[:64] == b"\x05" + b"H" * 63
    assert content[128:159].hex() == "0a1b0a191201612" + "0ffffffffffffffffff012a05696e743332300138011003"


def test_files_with_unusual_section_offsets_and_padding_are_read(tmp_path: Path) -> None:
    path = _same_file(tmp_path, pa.table({"a": pa.array([1, None, 3], pa.int32())}))
    content = path.read_bytes()
    start = len(content) - 40
    first, columns, buffers, *rest = struct.unpack("<QQQIIHH4s", content[start:])
    junk = b"?" * 13
    moved = content[:first] + junk + content[first:start]
    table = struct.pack("<QQ", first + 13, struct.unpack("<QQ", content[columns : columns + 16])[1])
    moved = moved[: columns + 13] + table + moved[columns + 29 :]
    footer = struct.pack("<QQQIIHH4s", first + 13, columns + 13, buffers + 13, *rest)
    path.write_bytes(moved + footer)
    assert read_theirs(path)["a"].to_pylist() == [1, None, 3]
    assert read_ours(path)["a"].to_pylist() == [1, None, 3]


@pytest.mark.parametrize(
    ("field", "rows", "version"),
    [
        (pa.field("x", pa.struct([("a", pa.int8())])), [{"a": 1}, None], "2.1"),
        (pa.field("x", pa.list_(pa.struct([("a", pa.int8())]))), [[None]], "2.1"),
        (pa.field("x", pa.map_(pa.string(), pa.int8())), [[("a", 1)]], "2.2"),
        (pa.field("x", pa.list_(pa.struct([("a", pa.int8())]), 2)), [[{"a": 1}, {"a": 2}]], "2.2"),
        (PACKED, [PACKED_ROW, None], "2.1"),
        (pa.field("x", pa.struct([("a", pa.string())]), metadata={"packed": "true"}), [{"a": "x"}], "2.2"),
    ],
)
def test_types_that_format_2_0_cannot_store_are_refused_with_a_suggested_version(
    tmp_path: Path, field: pa.Field, rows: list[object], version: str
) -> None:
    table = pa.table([pa.array(rows, field.type)], schema=pa.schema([field]))
    with pytest.raises(UnsupportedVersionError, match=version.replace(".", r"\.")):
        write_ours(tmp_path / "ours.lance", [table])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("field", "rows", "words"),
    [
        (PACKED, [{**PACKED_ROW, "a": None}], "nulls in the members of a packed struct"),
        (PACKED, [{**PACKED_ROW, "v": [None, 1.0]}], "nulls in the members of a packed struct"),
        (
            pa.field("x", pa.struct([("a", pa.bool_())]), metadata={"packed": "TRUE"}),
            [{"a": True}],
            "member 'a' of type bool in a packed struct",
        ),
    ],
)
def test_packed_structs_that_no_version_can_store_are_refused_in_format_2_0(
    tmp_path: Path, field: pa.Field, rows: list[object], words: str
) -> None:
    table = pa.table([pa.array(rows, field.type)], schema=pa.schema([field]))
    with pytest.raises(UnsupportedVersionError, match=words):
        write_ours(tmp_path / "ours.lance", [table])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [pa.list_(pa.string(), 2), pa.month_day_nano_interval(), pa.decimal32(3, 1)])
def test_types_that_no_version_can_store_are_refused(tmp_path: Path, dtype: pa.DataType) -> None:
    with pytest.raises(NotSupportedError):
        write_ours(tmp_path / "ours.lance", [pa.table({"x": pa.nulls(1, dtype)})])


# Written by pylance 0.10.18: write_dataset(table of int32 [1, None, 3] and float64, use_experimental_writer=True).
EXPERIMENTAL = (
    "eNqFkN0KgmAMhp2mfAyDGBEGERJ00oGJnVRYKRFERPfgHyGIgtVBF9WldC/dQX9O6KzBeLa98G4MpCqUd6pV+VjxzKsgPNyiLOkk"
    "62AoA5fmOMX+OAvyKLGSPCriND+eLL8sg+uGW+pQmwg1bAggiQRqwiRZALoITQLj7eOQjdZfH50QxdfHI2nIh+2YBXPJxBl2CQLz"
    "WQeM1DQ/TxwbpoA9gtCAX1GLi0uYJR+1pdzZZMGsl92YtY5Q8QOZf7f3D+sXQOg78g=="
)


def test_the_experimental_layout_of_release_0_10_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "experimental.lance"
    path.write_bytes(zlib.decompress(base64.b64decode(EXPERIMENTAL)))
    assert path.read_bytes()[-8:] == b"\0\0\3\0LANC"
    with pytest.raises(CorruptDataError):
        read_ours(path)


def _with_page(path: Path, change: object) -> None:
    """Rewrite the metadata of the only column of a file."""
    content = path.read_bytes()
    start = len(content) - 40
    first, columns, buffers, num_buffers, num_columns, *rest = struct.unpack("<QQQIIHH4s", content[start:])
    position, size = struct.unpack("<QQ", content[columns : columns + 16])
    message = pb_file2.ColumnMetadata.FromString(content[position : position + size])
    change(message)
    data = message.SerializeToString()
    table = content[buffers : buffers + 16 * num_buffers]
    end = first + len(data)
    tail = struct.pack("<QQ", first, len(data)) + table
    path.write_bytes(
        content[:first] + data + tail + struct.pack("<QQQIIHH4s", first, end, end + 16, num_buffers, num_columns, *rest)
    )


def _indirect(message: pb_file2.ColumnMetadata) -> None:
    message.pages[0].encoding.indirect.buffer_location = 0


def _none(message: pb_file2.ColumnMetadata) -> None:
    message.pages[0].encoding.none.SetInParent()


def _no_slash(message: pb_file2.ColumnMetadata) -> None:
    direct = message.pages[0].encoding.direct
    direct.encoding = direct.encoding.replace(b"/lance.", b"?lance.")


def _longer(message: pb_file2.ColumnMetadata) -> None:
    message.pages[0].length += 1


def _behind_the_end(message: pb_file2.ColumnMetadata) -> None:
    message.pages[0].buffer_offsets[0] = 1 << 40


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_indirect, UnsupportedEncodingError),
        (_none, CorruptDataError),
        (_no_slash, UnsupportedEncodingError),
        (_longer, CorruptDataError),
        (_behind_the_end, CorruptDataError),
    ],
)
def test_pages_with_inconsistent_metadata_are_refused(tmp_path: Path, change: object, error: type[Exception]) -> None:
    path = _same_file(tmp_path, pa.table({"a": pa.array([1, None, 3], pa.int32())}))
    _with_page(path, change)
    with pytest.raises(error):
        read_ours(path)


def test_column_metadata_with_other_wrapper_messages_is_read(tmp_path: Path) -> None:
    path = _same_file(tmp_path, pa.table({"a": pa.array([1, None, 3], pa.int32())}))

    def wrap(message: pb_file2.ColumnMetadata) -> None:
        column = Any.FromString(message.encoding.direct.encoding)
        inner = pb20.ColumnEncoding.FromString(column.value)
        column.value = pb20.ColumnEncoding(zone_index=pb20.ZoneIndex(inner=inner)).SerializeToString()
        message.encoding.direct.encoding = column.SerializeToString()
        page = Any.FromString(message.pages[0].encoding.direct.encoding)
        page.type_url = f"type.googleapis.com{page.type_url}"
        message.pages[0].encoding.direct.encoding = page.SerializeToString()
        message.pages.add().CopyFrom(message.pages[0])
        message.pages[1].length = 0

    _with_page(path, wrap)
    assert read_ours(path)["a"].to_pylist() == [1, None, 3]


def test_a_struct_has_exactly_one_header_page(tmp_path: Path) -> None:
    path = _same_file(tmp_path, pa.table({"s": pa.array([{}, {}], pa.struct([]))}))
    _with_page(path, lambda message: message.pages.add().CopyFrom(message.pages[0]))
    with pytest.raises(CorruptDataError, match="2 header pages"):
        read_ours(path)


def test_a_struct_with_packed_set_to_false_is_read_according_to_its_page_encoding(tmp_path: Path) -> None:
    field = pa.field("p", PACKED.type, metadata={"packed": "false"})
    schema = pa.schema([field, ("i", pa.int8())])
    table = pa.table([pa.array([PACKED_ROW], PACKED.type), pa.array([1], pa.int8())], schema=schema)
    assert read_ours(write_theirs(tmp_path / "theirs.lance", [table])).to_pylist() == table.to_pylist()


def test_list_columns_without_items_raise_corrupt_data(tmp_path: Path) -> None:
    path = _same_file(tmp_path, pa.table({"a": pa.array([1, 2, 3], pa.int8())}))
    metadata = open_ours(path)
    field = schema_from_arrow(pa.schema([("l", pa.list_(pa.int8()))])).fields[0]
    with pytest.raises(CorruptDataError):
        v2_0_sources(metadata, [field], {0: 0, 1: 0})


def test_a_random_take_reads_two_extents_per_row_and_column(tmp_path: Path) -> None:
    num_rows = 4000
    table = pa.table(
        {
            "i": pa.array([None if row % 3 == 0 else row for row in range(num_rows)]),
            "s": pa.array([f"{row}" * 400 for row in range(num_rows)]),
        }
    )
    write_ours(tmp_path / "ours.lance", [table])
    metadata = open_ours(tmp_path / "ours.lance")
    for source in v2_0_sources(metadata, metadata.schema.fields):
        read: list[int] = []

        def fetch(ranges: list[object], read: list[int] = read) -> list[pa.Buffer]:
            read.extend(part.num_bytes for part in ranges)
            return metadata.read(ranges)

        rng = random.Random(1)
        for _ in range(20):
            read.clear()
            row = rng.randrange(num_rows)
            [array] = run_steps(source.take_steps(np.array([row])), fetch)
            assert array.to_pylist() == [table[source.field.name][row].as_py()]
            assert len(read) <= 2
            assert sum(read) <= 16 + 400 * 4
