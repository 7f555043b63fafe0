"""Arguments and simple results of the single-file classes, compared with those of pylance 14.0.2."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.file import LanceFileReader as TheirReader
from lance.file import LanceFileWriter as TheirWriter

from lance_core import LanceFileReader, LanceFileSession, LanceFileWriter
from lance_core.errors import InvalidInputError, InvalidTypeError, LanceError

VERSIONS = ["2.0", "2.1", "2.2"]
STRUCTS = [{"x": 1, "y": {"z": "q", "w": 5, "v": True}, "a.b": 7}]
TABLE = pa.table({"a": [1], "st": STRUCTS, "b": [2]}, metadata={"k": "v"})
LISTS = pa.table({"l": [[{"p": 1, "q": 2}, {"p": 3, "q": 4}], []]})
ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture(params=VERSIONS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return written(tmp_path, TABLE, version=request.param)


def written(directory: Path, table: pa.Table, version: str = "2.2") -> str:
    path = str(directory / "f.lance")
    with LanceFileWriter(path, table.schema, version=version) as writer:
        writer.write_batch(table)
        if version != "0.1":
            writer.add_schema_metadata("added", "later")
    return path


@pytest.mark.parametrize("columns", [None, ["b"]])
def test_rows_read_from_a_file_have_the_metadata_of_the_schema(path: str, columns: list[str] | None) -> None:
    ours, theirs = LanceFileReader(path, columns=columns), TheirReader(path, columns=columns)
    for read in (
        lambda file: file.read_all().to_table(),
        lambda file: file.read_all().to_batches(),
        lambda file: file.read_all().to_batches().read_next_batch(),
        lambda file: file.read_range(0, 1).to_table(),
        lambda file: file.take_rows([0]).to_table(),
        lambda file: file.take_rows([0]).to_batches().read_next_batch(),
    ):
        assert read(ours).schema.metadata == read(theirs).schema.metadata == {b"k": b"v", b"added": b"later"}


def test_rows_of_a_file_of_format_0_1_have_the_metadata_of_the_schema(tmp_path: Path) -> None:
    reader = LanceFileReader(written(tmp_path, TABLE.drop_columns(["st"]), "0.1"))
    assert reader.read_all().to_table().schema.metadata == {b"k": b"v"}
    assert reader.take_rows([0]).to_table().schema.metadata == {b"k": b"v"}


@pytest.mark.parametrize(
    "columns",
    [
        ["st.y.w", "st.x"],
        ["st.y.w", "a", "st.x"],
        ["b", "st.x", "a", "st.y.z"],
        ["st.y.w", "st.x", "st.y.z"],
        ["st.y.v", "st.y.z"],
        ["st.y.w", "st"],
        ["st.x", "st"],
        ["st.`a.b`", "st.x"],
        ["`st`.y.w", "`a`"],
    ],
)
def test_columns_and_struct_members_are_returned_in_the_requested_order(path: str, columns: list[str]) -> None:
    ours, theirs = LanceFileReader(path, columns=columns), TheirReader(path, columns=columns)
    assert ours.read_all().to_table().equals(theirs.read_all().to_table(), check_metadata=True)
    assert ours.take_rows([0]).to_table().equals(theirs.take_rows([0]).to_table(), check_metadata=True)


@pytest.mark.parametrize("version", ["0.1", *VERSIONS])
def test_members_of_list_items_are_returned_in_the_requested_order(tmp_path: Path, version: str) -> None:
    reader = LanceFileReader(written(tmp_path, LISTS, version), columns=["l.item.q", "l.item.p"])
    table = reader.read_all().to_table()
    assert table.to_pylist() == LISTS.to_pylist()
    assert [field.name for field in table.schema.field("l").type.value_type] == ["q", "p"]


@pytest.mark.parametrize("columns", ["st", b"st", [1], [None], 5, iter(["a"]), {"a"}])
def test_columns_that_are_not_a_list_of_strings_are_refused(path: str, columns: Any) -> None:
    for reader in (LanceFileReader, TheirReader):
        with pytest.raises(TypeError):
            reader(path, columns=columns)
    with pytest.raises(InvalidTypeError, match="column"):
        LanceFileReader(path, columns=columns)


def test_an_empty_list_of_columns_is_refused(path: str) -> None:
    for reader in (LanceFileReader, TheirReader):
        with pytest.raises(ValueError, match=r"columns? "):
            reader(path, columns=[]).read_all().to_table()
    with pytest.raises(InvalidInputError, match="columns must not be empty"):
        LanceFileReader(path, columns=[])


@pytest.mark.parametrize(
    ("path", "error"),
    [(b"f.lance", InvalidTypeError), (None, InvalidTypeError), (3, InvalidTypeError), ("", LanceError)],
)
def test_file_paths_that_are_not_strings_are_refused(path: Any, error: type[LanceError]) -> None:
    for make in (LanceFileReader, lambda each: LanceFileWriter(each, ROWS.schema)):
        with pytest.raises(error, match="path"):
            make(path)


@pytest.mark.parametrize("options", ["x", 5, [("a", "b")], {"a": 1}, {1: "a"}])
def test_storage_options_that_are_not_a_map_of_strings_are_refused(path: str, options: Any) -> None:
    for make in (lambda: LanceFileReader(path, options), lambda: LanceFileWriter(path, storage_options=options)):
        with pytest.raises(InvalidTypeError, match="storage_options"):
            make()


@pytest.mark.parametrize("name", ["batch_size", "batch_readahead"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, InvalidInputError),
        (-1, InvalidInputError),
        ("a", InvalidTypeError),
        (None, InvalidTypeError),
        (1.5, TypeError),
    ],
)
def test_batch_sizes_that_are_not_positive_integers_are_refused(
    path: str, name: str, value: Any, error: type[Exception]
) -> None:
    reader = LanceFileReader(path)
    for call in (lambda **size: reader.read_all(**size), lambda **size: reader.take_rows([0], **size)):
        with pytest.raises(error, match=name):
            call(**{name: value})
    with pytest.raises(error, match=name):
        reader.read_range(0, 1, **{name: value})


@pytest.mark.parametrize("index", [None, 1.0, "0"])
def test_global_buffer_indices_that_are_not_integers_are_refused(path: str, index: Any) -> None:
    with pytest.raises(InvalidTypeError, match="index"):
        LanceFileReader(path).read_global_buffer(index)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"schema": "x"}, InvalidTypeError),
        ({"schema": ROWS}, InvalidTypeError),
        ({"data_cache_bytes": 1.5}, InvalidTypeError),
        ({"data_cache_bytes": "a"}, InvalidTypeError),
        ({"data_cache_bytes": -1}, InvalidInputError),
        ({"max_page_bytes": "x"}, InvalidTypeError),
        ({"max_page_bytes": -1}, InvalidInputError),
        ({"version": 2.2}, InvalidTypeError),
        ({"version": "9"}, InvalidInputError),
    ],
)
def test_invalid_arguments_of_the_file_writer_are_refused(
    tmp_path: Path, arguments: dict[str, Any], error: type[LanceError]
) -> None:
    with pytest.raises(error):
        LanceFileWriter(str(tmp_path / "f.lance"), **{"schema": ROWS.schema, **arguments})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("batch", [None, [{"a": 1}], {"a": [1]}, pa.array([1]), "x"])
@pytest.mark.parametrize("schema", [None, ROWS.schema])
def test_batches_of_the_wrong_type_are_refused(tmp_path: Path, batch: Any, schema: pa.Schema | None) -> None:
    path = str(tmp_path / "f.lance")
    with LanceFileWriter(path, schema) as writer:
        with pytest.raises(InvalidTypeError, match="batch must be"):
            writer.write_batch(batch)
        writer.write_batch(ROWS)
    assert LanceFileReader(path).read_all().to_table().equals(ROWS)


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ((1, 2), InvalidTypeError),
        ((b"a", b"b"), InvalidTypeError),
        (("k", None), InvalidTypeError),
        (("k", "\ud800"), InvalidInputError),
    ],
)
def test_schema_metadata_that_is_not_text_is_refused(
    tmp_path: Path, entry: tuple[Any, Any], error: type[LanceError]
) -> None:
    with LanceFileWriter(str(tmp_path / "f.lance"), ROWS.schema) as writer, pytest.raises(error):
        writer.add_schema_metadata(*entry)


@pytest.mark.parametrize("data", ["text", None, 5, [256], ["a"]])
def test_global_buffers_that_are_not_bytes_are_refused(tmp_path: Path, data: Any) -> None:
    with LanceFileWriter(str(tmp_path / "f.lance"), ROWS.schema) as writer:
        with pytest.raises(InvalidTypeError, match="data must be bytes"):
            writer.add_global_buffer(data)
        assert writer.add_global_buffer([1, 2]) == 1
    assert LanceFileReader(str(tmp_path / "f.lance")).read_global_buffer(1) == b"\1\2"


@pytest.mark.parametrize("library", [(LanceFileWriter, LanceFileReader), (TheirWriter, TheirReader)])
def test_buffers_and_metadata_may_come_before_the_schema(tmp_path: Path, library: tuple[type, type]) -> None:
    make, read = library
    path = str(tmp_path / "f.lance")
    with make(path) as writer:
        assert [writer.add_global_buffer(data) for data in (b"one", b"")] == [1, 2]
        writer.add_schema_metadata("k", "early")
        writer.add_schema_metadata("m", "kept")
        writer.write_batch(ROWS.replace_schema_metadata({"k": "given", "other": "x"}))
        assert writer.add_global_buffer(b"three") == 3
    reader = read(path)
    assert [bytes(reader.read_global_buffer(index)) for index in (1, 2, 3)] == [b"one", b"", b"three"]
    assert reader.metadata().schema.metadata == {b"k": b"given", b"m": b"kept", b"other": b"x"}
    assert reader.read_all().to_table().equals(ROWS)


def test_buffers_without_rows_or_schema_create_no_file(tmp_path: Path) -> None:
    writer = LanceFileWriter(str(tmp_path / "f.lance"))
    writer.add_global_buffer(b"one")
    with pytest.raises(InvalidInputError, match="no schema"):
        writer.close()
    for late in (lambda: writer.add_global_buffer(b"two"), lambda: writer.add_schema_metadata("a", "b")):
        with pytest.raises(InvalidInputError):
            late()
    assert not list(tmp_path.iterdir())


def test_buffers_before_the_schema_are_refused_in_format_0_1(tmp_path: Path) -> None:
    writer = LanceFileWriter(str(tmp_path / "f.lance"), version="0.1")
    writer.add_global_buffer(b"one")
    with pytest.raises(LanceError, match="global buffers"):
        writer.write_batch(ROWS)
    del writer
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keep", [None, True, False])
def test_argument_keep_original_array_is_accepted_as_in_pylance(tmp_path: Path, keep: bool | None) -> None:
    for make in (LanceFileWriter, TheirWriter):
        with make(str(tmp_path / "f.lance"), ROWS.schema, keep_original_array=keep) as writer:
            writer.write_batch(ROWS)
        assert LanceFileReader(str(tmp_path / "f.lance")).num_rows() == 3


def test_file_readers_of_a_session_check_the_requested_columns(tmp_path: Path) -> None:
    written(tmp_path, TABLE)
    session = LanceFileSession(str(tmp_path))
    with pytest.raises(InvalidTypeError):
        session.open_reader("f.lance", columns="a")


@pytest.mark.parametrize("argument", ["data_cache_bytes", "max_page_bytes"])
@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_sizes_that_fit_into_64_bits_are_accepted(tmp_path: Path, argument: str, size: int) -> None:
    for writer_class, reader_class in ((LanceFileWriter, TheirReader), (TheirWriter, LanceFileReader)):
        path = str(tmp_path / writer_class.__module__)
        with writer_class(path, ROWS.schema, **{argument: size}) as writer:
            writer.write_batch(ROWS)
        assert reader_class(path).read_all().to_table().equals(ROWS)


@pytest.mark.parametrize("argument", ["data_cache_bytes", "max_page_bytes"])
def test_size_that_does_not_fit_into_64_bits_is_named_in_the_error(tmp_path: Path, argument: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{argument} must be at most {2**64 - 1}, found {2**64}"):
        LanceFileWriter(str(tmp_path / "f.lance"), ROWS.schema, **{argument: 2**64})


def test_batch_size_that_does_not_fit_into_64_bits_is_named_in_the_error(path: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^batch_size must be at most {2**63 - 1}, found {2**63}"):
        LanceFileReader(path).read_all(batch_size=2**63)
