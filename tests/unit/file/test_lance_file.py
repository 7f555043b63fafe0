"""LanceFileReader and LanceFileWriter have the names and behavior of those in ``lance.file`` of pylance."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, NotFoundError, NotSupportedError
from lance_core.file.lance_file import LanceFileReader, LanceFileWriter, stable_version
from lance_core.io.uri import resolve

TABLE = pa.table({"a": pa.array([1, 2, 3], pa.int32()), "b": ["x", None, "z"]})


@pytest.fixture
def path() -> str:
    return f"memory://{uuid.uuid4()}/f.lance"


def test_table_survives_a_round_trip_through_a_lance_file(path: str) -> None:
    with LanceFileWriter(path, TABLE.schema) as writer:
        writer.write_batch(TABLE)
        writer.write_batch(TABLE.to_batches()[0])
    assert writer.size_bytes is not None
    assert writer.closed
    assert writer.close() is None
    reader = LanceFileReader(path)
    assert reader.num_rows() == 6
    assert reader.read_all().to_table().equals(pa.concat_tables([TABLE, TABLE]))
    assert [batch.num_rows for batch in reader.read_all(batch_size=4).to_batches()] == [4, 2]
    assert reader.read_range(1, 3).to_table().equals(pa.concat_tables([TABLE, TABLE]).slice(1, 3))
    assert reader.take_rows([1, 5]).to_table()["b"].to_pylist() == [None, "z"]
    assert LanceFileReader(path, columns=["b"]).read_all().to_table().column_names == ["b"]


def test_lance_file_writer_takes_its_schema_from_the_first_batch(path: str) -> None:
    with LanceFileWriter(path) as writer:
        writer.write_batch(TABLE)
    assert LanceFileReader(path).metadata().schema == TABLE.schema


def test_lance_file_writer_without_schema_and_batch_refuses_to_close(path: str) -> None:
    with pytest.raises(InvalidInputError, match="no schema"):
        LanceFileWriter(path).close()


def test_exception_in_a_lance_file_writer_block_leaves_no_file(path: str) -> None:
    def write_half() -> None:
        with LanceFileWriter(path, TABLE.schema) as writer:
            writer.write_batch(TABLE)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_half()
    with pytest.raises(NotFoundError):
        LanceFileReader(path)


def test_lance_file_misuse_raises_value_errors_as_in_pylance(path: str) -> None:
    with LanceFileWriter(path, TABLE.schema) as writer:
        writer.write_batch(TABLE)
    reader = LanceFileReader(path)
    for mistake in (
        lambda: reader.read_range(2, 5),
        lambda: reader.take_rows([0, 7]),
        lambda: reader.take_rows([1, 1]),
        lambda: reader.take_rows([2, 1]),
        lambda: reader.read_global_buffer(9),
        lambda: reader.read_all(batch_size=0),
        lambda: LanceFileReader(path, columns=["zz"]),
        lambda: LanceFileWriter(path, TABLE.schema, version="9.9"),
    ):
        with pytest.raises(ValueError, match=r"."):
            mistake()


def test_lance_file_with_unsupported_options_raises_not_supported(path: str) -> None:
    with pytest.raises(NotSupportedError, match="namespaces"):
        LanceFileReader(path, table_id=["t"])
    with pytest.raises(NotSupportedError, match=r"2\.3"):
        LanceFileWriter(path, TABLE.schema, version="2.3")


def test_data_cache_is_divided_among_the_columns(path: str) -> None:
    table = pa.table({"a": pa.array(range(100), pa.int64()), "b": pa.array(range(100), pa.int64())})
    with LanceFileWriter(path, table.schema, data_cache_bytes=800) as writer:
        for start in range(0, 100, 10):
            writer.write_batch(table.slice(start, 10))
    assert [len(column.pages) for column in LanceFileReader(path).metadata().columns] == [2, 2]


def test_error_while_streaming_batches_keeps_its_type(path: str) -> None:
    with LanceFileWriter(path, TABLE.schema) as writer:
        writer.write_batch(TABLE)
    store, location = resolve(path)
    data = bytearray(store.get(location))
    # The first buffer of the first page contains the words with the sizes of its chunks.
    data[:4] = b"\xff\xff\xff\xff"
    store.put(location, bytes(data))
    results = LanceFileReader(path).read_all()
    with pytest.raises(CorruptDataError, match="column 0, page 0") as caught:
        results.to_table()
    assert location in str(caught.value)


def test_lance_file_writer_writes_the_stable_version_by_default(path: str) -> None:
    with LanceFileWriter(path, TABLE.schema) as writer:
        writer.write_batch(TABLE)
    metadata = LanceFileReader(path).metadata()
    assert f"{metadata.major_version}.{metadata.minor_version}" == stable_version() == "2.2"
