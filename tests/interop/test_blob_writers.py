"""Blob writers, called directly: the same calls give the same bytes, descriptors, and errors in both libraries."""

from __future__ import annotations

import gc
from pathlib import Path

import lance
import lance.blob
import lance.file
import numpy as np
import pyarrow as pa
import pytest

import lance_core
import lance_core.blob
import lance_core.file
from lance_core.errors import InvalidInputError, InvalidTypeError, LanceError, NotSupportedError

MODULES = {"theirs": (lance, lance.blob, lance.file), "ours": (lance_core, lance_core.blob, lance_core.file)}
both = pytest.mark.parametrize("who", list(MODULES))
CHUNKED = pa.chunked_array([[b"c1", None], [], [b"", b"c4"]], pa.binary())
ARRAYS = [
    pa.array([b"one", None, b"", b"four"]),
    pa.array([b"hidden", b"large", None, b"x"], pa.large_binary()).slice(1),
    pa.array([b"view", None, b"a value that is too long to be inlined"], pa.binary_view()),
    pa.array([b"ab", None, b"cd"], pa.binary(2)),
    CHUNKED,
    pa.chunked_array([], pa.binary()),
]


BAD_OFFSETS = [None, pa.py_buffer(np.array([0, 5, 1], np.int32)), pa.py_buffer(b"abcdef")]


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _packed(session: object, blob_id: int = 1) -> object:
    writer = session.open_packed_blob_writer("sub/part.lance", blob_id)
    for data in (b"abc", bytearray(b"def"), memoryview(b"ghi"), [1, 2, 255], b""):
        writer.write_blob(data)
    for array in ARRAYS:
        writer.write_blobs(array)
    writer.write_blob(b"last")
    return writer


def _column(who: str, session: object) -> tuple[pa.Field, pa.Array]:
    """Return a column with every kind of blob value that a data file of a table may contain."""
    builder = MODULES[who][1].BlobDescriptorArrayBuilder("b")
    packed = session.open_packed_blob_writer("part.lance", 1)
    packed.write_blob(b"one")
    packed.write_blobs(pa.array([b"two!", None, b""]))
    builder.extend(packed.finish())
    dedicated = session.open_dedicated_blob_writer("part.lance", 2)
    dedicated.write(b"dedi")
    dedicated.write(bytearray(b"cated"))
    builder.append(dedicated.finish())
    for data in (b"", b"inline", bytearray(b"more"), b""):
        builder.append_inline(data)
    builder.append_null()
    builder.extend_packed(1, [1, 3], [2, 4])
    builder.append_dedicated(2, 9)
    builder.append_managed(f"data/part/1{'0' * 31}.blob", 2, 3)
    return builder.field, builder.finish()


VALUES = [b"one", b"two!", None, b"", b"dedicated", b"", b"inline", b"more", b"", None, b"ne", b"two!", b"dedicated"]
VALUES += [b"etw"]


def test_sidecars_and_descriptors_equal_those_of_pylance(tmp_path: Path) -> None:
    results = {}
    for who, (_, _, files) in MODULES.items():
        root = tmp_path / who
        session = files.LanceFileSession(str(root))
        writer = _packed(session)
        packed_path, packed_id = writer.path, writer.blob_id
        array = writer.finish_array("b")
        listed = _packed(session, 5).finish()
        dedicated = session.open_dedicated_blob_writer("sub/part.lance", 2**32 - 1)
        dedicated.write(b"dedi")
        dedicated.write([1, 2])
        paths = [path.split(who)[1] for path in (packed_path, dedicated.path)]
        numbers = (packed_id, dedicated.blob_id)
        whole = dedicated.finish()
        empty = session.open_packed_blob_writer("sub/part.lance", 9).finish_array("e")
        field = writer.field
        results[who] = (_files(root), array, field, repr(listed), repr(whole), empty, paths, numbers)
        assert packed_path == str(root)[1:] + paths[0]
        array.validate(full=True)
    assert results["ours"][1].type == results["theirs"][1].type
    assert results["ours"][2].equals(results["theirs"][2], check_metadata=True)
    assert results["ours"] == results["theirs"]


def test_descriptor_columns_from_blob_writers_equal_those_of_pylance(tmp_path: Path) -> None:
    columns = {}
    for who, (_, _, files) in MODULES.items():
        columns[who] = _column(who, files.LanceFileSession(tmp_path / who))
        columns[who][1].validate(full=True)
    (theirs_field, theirs), (ours_field, ours) = columns["theirs"], columns["ours"]
    assert ours_field.equals(theirs_field, check_metadata=True)
    assert ours.type == theirs.type
    assert ours.equals(theirs)


@pytest.mark.parametrize("builder", list(MODULES))
@pytest.mark.parametrize("writer", list(MODULES))
def test_files_with_descriptors_from_blob_writers_are_read_by_lance_core_and_pylance(
    tmp_path: Path, writer: str, builder: str
) -> None:
    """One library builds the column, another writes the file, and both read the table."""
    _, _, files = MODULES[writer]
    uri = str(tmp_path / "table")
    schema = pa.schema([pa.field("i", pa.int32(), nullable=False), lance.blob_field("b")])
    start = pa.table([pa.array([0], pa.int32()), lance.blob_array([b"first"])], schema=schema)
    lance.write_dataset(start, uri)
    session = files.LanceFileSession(f"{uri}/data")
    field, array = _column(builder, MODULES[builder][2].LanceFileSession(f"{uri}/data"))
    given = pa.schema([schema.field("i"), field])
    rows = pa.record_batch([pa.array(range(1, len(array) + 1), pa.int32()), array], schema=given)
    with session.open_writer("part.lance", schema=given, version="2.2") as file:
        file.write_batch(rows)
    size = (tmp_path / "table" / "data" / "part.lance").stat().st_size
    data_file = {"fields": [0, 1], "column_indices": [0, 1], "file_major_version": 2, "file_minor_version": 2}
    if writer == "theirs":
        fragment = lance.fragment.FragmentMetadata(
            id=0,
            files=[lance.fragment.DataFile(path="part.lance", file_size_bytes=size, **data_file)],
            physical_rows=len(array),
        )
        lance.LanceDataset.commit(uri, lance.LanceOperation.Append([fragment]), read_version=1)
    else:
        mine = lance_core.DataFile(path="part.lance", file_size_bytes=size, **data_file)
        fragment = lance_core.FragmentMetadata(id=0, files=[mine], physical_rows=len(array))
        lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append([fragment]), read_version=1)
    expected = [b"first", *VALUES]
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    ours.validate()
    assert ours.to_table().to_pylist() == theirs.to_table().to_pylist()
    for library in (theirs, ours):
        taken = library.take_blobs("b", indices=list(range(len(expected))))
        assert [None if value is None else value.readall() for value in taken] == expected
        assert library.to_table(blob_handling="all_binary")["b"].to_pylist() == expected


def test_files_with_descriptors_from_blob_writers_have_the_same_bytes_as_in_pylance(tmp_path: Path) -> None:
    """The reference writes the two metadata entries of the field in random order; one of its files equals ours."""
    contents = {}
    for who, num_files in (("ours", 1), ("theirs", 40)):
        session = MODULES[who][2].LanceFileSession(tmp_path / who)
        field, array = _column(who, session)
        for number in range(num_files):
            with session.open_writer(f"part{number}.lance", schema=pa.schema([field]), version="2.2") as file:
                file.write_batch(pa.record_batch([array], schema=pa.schema([field])))
        contents[who] = {path.read_bytes() for path in (tmp_path / who).glob("*.lance")}
    assert contents["ours"] < contents["theirs"]


@pytest.mark.parametrize("writer", [lance, lance_core], ids=list(MODULES))
def test_blob_descriptors_inside_structs_and_lists_are_read_by_both_libraries(tmp_path: Path, writer: object) -> None:
    builder = lance_core.BlobDescriptorArrayBuilder("b")
    for value in (b"a", b"", b"hidden"):
        builder.append_inline(value)
    builder.append_null()
    field, array = builder.field, builder.finish()
    mask = pa.array([False, False, True, False])
    struct = pa.StructArray.from_arrays(
        [array, pa.array(range(4))], fields=[field, pa.field("k", pa.int64())], mask=mask
    )
    offsets = pa.array([0, 1, 1, 2, 4], pa.int32())
    items = pa.ListArray.from_arrays(offsets, array, type=pa.list_(field.with_name("item")))
    uri = str(tmp_path / "table")
    rows = pa.table({"s": struct, "l": items})
    for mode in ("create", "append"):
        writer.write_dataset(rows, uri, mode=mode, data_storage_version="2.2")
    for library in (lance, lance_core):
        found = library.dataset(uri).to_table(blob_handling="all_binary")
        assert found["s"].to_pylist() == [{"b": b"a", "k": 0}, {"b": b"", "k": 1}, None, {"b": None, "k": 3}] * 2
        assert found["l"].to_pylist() == [[b"a"], [], [b""], [b"hidden", None]] * 2


def test_managed_blobs_are_read_from_tables_and_clones(tmp_path: Path) -> None:
    """The reference writes managed blobs into tables that enable them; a clone finds them in its source."""
    uri = str(tmp_path / "table")
    (tmp_path / "table" / "data").mkdir(parents=True)
    (tmp_path / "table" / "data" / "f.bin").write_bytes(b"0123456")
    builder = lance_core.BlobDescriptorArrayBuilder("b")
    for offset, size in ((1, 3), (0, 7), (3, 0), (2, 4)):
        builder.append_managed("data/f.bin", offset, size)
    builder.append_null()
    schema = pa.schema([builder.field], metadata={"lance.blob.managed": "true"})
    lance.write_dataset(pa.table([builder.finish()], schema=schema), uri, data_storage_version="2.2")
    lance.dataset(uri).shallow_clone(str(tmp_path / "clone"), 1)
    for place in (uri, str(tmp_path / "clone")):
        dataset = lance_core.dataset(place)
        assert dataset.to_table().to_pylist() == lance.dataset(place).to_table().to_pylist()
        found = [None if file is None else file.read() for file in dataset.take_blobs("b", indices=[0, 1, 2, 3, 4])]
        assert found == [b"123", b"0123456", b"", b"2345", None]
        assert dataset.to_table(blob_handling="all_binary")["b"].to_pylist() == found
        dataset.validate()


@both
def test_rows_with_prepared_descriptors_create_and_extend_tables(tmp_path: Path, who: str) -> None:
    top, blob, _ = MODULES[who]
    builder = blob.BlobDescriptorArrayBuilder("b")
    for value in (b"x" * 100_000, b"", b"z"):
        builder.append_inline(value)
    builder.append_null()
    numbers = pa.array(range(4))
    fields = [pa.field("i", pa.int64()), builder.field, pa.field("j", pa.int64())]
    rows = pa.table([numbers, builder.finish(), numbers], schema=pa.schema(fields))
    uri = str(tmp_path / "table")
    top.write_dataset(rows, uri, data_storage_version="2.2")
    top.write_dataset(rows, uri, mode="append")
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert [field.id() for field in theirs.lance_schema.fields()] == [0, 1, 4]
    assert ours.to_table().to_pylist() == theirs.to_table().to_pylist()
    for library in (theirs, ours):
        found = library.to_table(blob_handling="all_binary")["b"].to_pylist()
        assert found == [b"x" * 100_000, b"", b"z", None] * 2
    ours.validate()


def test_descriptors_of_other_files_are_refused_by_table_writes(tmp_path: Path) -> None:
    builder = lance_core.BlobDescriptorArrayBuilder("b")
    builder.append_dedicated(1, 5)
    schema = pa.schema([builder.field])
    rows = pa.table([builder.finish()], schema=schema)
    with pytest.raises(NotSupportedError, match="data file with a known name"):
        lance_core.write_dataset(rows, str(tmp_path / "t"), data_storage_version="2.2")
    for version in ("0.1", "2.0", "2.1"):
        with pytest.raises(NotSupportedError, match=r"2\.2"):
            lance_core.LanceFileWriter(str(tmp_path / "f.lance"), schema, version=version)


WRONG = {
    "no kind": {"kind": None},
    "unknown kind": {"kind": 6},
    "no data": {"kind": 0},
    "no blob_id": {"kind": 1, "blob_size": 1, "position": 0},
    "blob id 0": {"kind": 2, "blob_id": 0, "blob_size": 1},
    "no position": {"kind": 1, "blob_id": 1, "blob_size": 1},
    "no blob_size": {"kind": 2, "blob_id": 1},
    "no uri": {"kind": 3},
    "empty uri": {"kind": 3, "uri": ""},
    "does not allow a blob_id": {"kind": 4, "blob_id": 1, "uri": "a", "position": 0, "blob_size": 1},
    "kind 5 but no blob_id": {"kind": 5, "uri": "a", "position": 0, "blob_size": 1},
    "must be a relative path": {"kind": 4, "uri": "../a", "position": 0, "blob_size": 1},
    "above 2\\^64 - 1": {"kind": 1, "blob_id": 1, "blob_size": 2, "position": 2**64 - 1},
}


@pytest.mark.parametrize("problem", list(WRONG))
def test_descriptors_that_refer_to_no_blob_are_refused(tmp_path: Path, problem: str) -> None:
    field = lance_core.BlobDescriptorArrayBuilder("100%d").field
    good = {"kind": 0, "data": b"x"}
    array = pa.array([None, good, WRONG[problem]], field.type)
    with lance_core.LanceFileWriter(str(tmp_path / "f.lance"), pa.schema([field]), version="2.2") as writer:
        batch = pa.record_batch([array], schema=pa.schema([field]))
        with pytest.raises(InvalidInputError, match=problem):
            writer.write_batch(batch)
        raise_later = pytest.raises(InvalidInputError, match="earlier write failed")
        with raise_later:
            writer.write_batch(batch)
        writer._writer.abort()
        writer.closed = True


@both
def test_invalid_arguments_of_blob_writers_are_refused_by_both_libraries(tmp_path: Path, who: str) -> None:
    _, blob, files = MODULES[who]
    session = files.LanceFileSession(str(tmp_path))
    opens = (session.open_packed_blob_writer, session.open_dedicated_blob_writer)
    for open_writer in opens:
        for path in ("part", "part.txt", "", "part.LANCE"):
            with pytest.raises(ValueError, match=r"\.lance"):
                open_writer(path, 1)
        with pytest.raises(ValueError, match=r"(?i)blob id 0"):
            open_writer("part.lance", 0)
        for number in (-1, 2**32):
            with pytest.raises((OverflowError, InvalidInputError)):
                open_writer("part.lance", number)
        for number in ("1", 1.5, None):
            with pytest.raises(TypeError):
                open_writer("part.lance", number)
    packed, dedicated = (open_writer("part.lance", 1 + at) for at, open_writer in enumerate(opens))
    for data in ("text", None, 5):
        for write in (packed.write_blob, dedicated.write):
            with pytest.raises(TypeError):
                write(data)
    for array in (pa.array(["a"]), pa.array([1]), pa.chunked_array([], pa.string()), [b"a"]):
        with pytest.raises((ValueError, TypeError)):
            packed.write_blobs(array)
    with pytest.raises(ValueError, match="field"):
        _ = packed.field
    assert packed.finish() == []
    dedicated.finish()
    for call in (packed.finish, lambda: packed.finish_array("b"), lambda: packed.write_blob(b""), dedicated.finish):
        with pytest.raises(ValueError, match=r"already finished"):
            call()
    with pytest.raises(ValueError, match=r"already finished"):
        packed.write_blobs(pa.array([b"a"]))
    builder = blob.BlobDescriptorArrayBuilder("b")
    for uri in ("", "/a", "../a", "a/../b", "a//b", "a/", ".", "s3://b/a", "a\\b", "a\0b", "a\nb"):
        with pytest.raises(ValueError, match="anaged"):
            builder.append_managed(uri, 0, 1)
    for offset, size in ((2**64 - 1, 5), (0, 2**64), (-1, 1)):
        with pytest.raises((ValueError, OverflowError)):
            builder.append_managed("a", offset, size)
    with pytest.raises((ValueError, OverflowError)):
        builder.extend_packed(1, [2**64 - 1], [5])
    with pytest.raises(ValueError, match="same length"):
        builder.extend_packed(1, [1, 2], [5])
    for call in (lambda: builder.append(None), lambda: builder.extend([None]), lambda: builder.append_inline("x")):
        with pytest.raises(TypeError):
            call()
    assert len(builder.finish()) == 0
    with pytest.raises(ValueError, match=r"already finished"):
        builder.append_null()
    assert builder.field.name == "b"


def test_arguments_of_the_wrong_type_for_blob_writers_raise_typed_errors(tmp_path: Path) -> None:
    session = lance_core.LanceFileSession(tmp_path)
    writer = session.open_packed_blob_writer("part.lance", 1)
    for data in ([256], [-1]):
        with pytest.raises(InvalidInputError):
            writer.write_blob(data)
    builder = lance_core.BlobDescriptorArrayBuilder("b")
    calls = (
        lambda: writer.write_blob(["a"]),
        lambda: writer.finish_array(1),
        lambda: lance_core.BlobDescriptorArrayBuilder(1),
        lambda: builder.append_managed(1, 0, 1),
        lambda: builder.append_dedicated(1, None),
    )
    for call in calls:
        with pytest.raises(InvalidTypeError):
            call()
    for offsets in ([-1], ["a"], [None], [2**64]):
        with pytest.raises(LanceError):
            builder.extend_packed(1, offsets, [1])
    broken = pa.Array.from_buffers(pa.binary(), 2, BAD_OFFSETS)
    with pytest.raises(InvalidInputError, match="malformed"):
        writer.write_blobs(broken)
    assert writer.finish() == []


def test_unfinished_blob_writers_leave_no_file(tmp_path: Path) -> None:
    session = lance_core.LanceFileSession(tmp_path)
    packed = session.open_packed_blob_writer("part.lance", 1)
    packed.write_blob(b"abc")
    dedicated = session.open_dedicated_blob_writer("part.lance", 2)
    dedicated.write(b"abc")
    assert not list(tmp_path.rglob("[01]*.blob"))
    del packed, dedicated
    gc.collect()
    assert _files(tmp_path) == {}


def test_a_sidecar_with_the_same_number_is_replaced(tmp_path: Path) -> None:
    for _, _, files in MODULES.values():
        for content in (b"first", b"2"):
            writer = files.LanceFileSession(tmp_path).open_dedicated_blob_writer("part.lance", 3)
            writer.write(content)
            writer.finish()
        assert list(_files(tmp_path).values()) == [b"2"]
