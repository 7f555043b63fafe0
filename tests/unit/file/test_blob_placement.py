"""Where blob values are placed: aligned in the data file, or in sidecars that are written before the data file."""

import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, NotFoundError, NotSupportedError, StorageError
from lance_core.file.blob_sidecars import Sidecars, remove_sidecars, sidecar_name
from lance_core.file.blob_values import bytes_array, load_bytes
from lance_core.file.data_file_writer import DataFileWriter
from lance_core.file.families import open_writer
from lance_core.file.reader import FileReader
from lance_core.file.table_context import TableContext
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.blob_types import blob_array, blob_field
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

V1 = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
PATH = "data/f.lance"


def _write(store: MemoryStore, column: pa.Array, field: pa.Field, pack_bytes: int | None = None) -> None:
    table = TableContext(sidecars=Sidecars(store, PATH))
    config = WriteConfig(version=LanceFileVersion.V2_2, blob_pack_bytes=pack_bytes)
    with open_writer(store.create(PATH), schema_from_arrow(pa.schema([field])), config, table) as writer:
        writer.write_batch(pa.record_batch([column], schema=pa.schema([field])))
        writer.finish()


def _descriptors(store: MemoryStore) -> list[dict | None]:
    reader = FileReader.open(store, PATH)
    return reader.read_table(reader.schema.fields)["b"].to_pylist()


def _sizes(store: MemoryStore) -> dict[str, int]:
    return {info.path.rsplit("/", 1)[1]: info.num_bytes for info in store.list("data/f")}


def test_sidecar_names_are_reversed_binary_ids() -> None:
    assert sidecar_name(1) == "1" + "0" * 31 + ".blob"
    assert sidecar_name(2) == "01" + "0" * 30 + ".blob"
    assert sidecar_name(2**32 - 1) == "1" * 32 + ".blob"
    for wrong in (0, 2**32):
        with pytest.raises(CorruptDataError):
            sidecar_name(wrong)


@pytest.mark.parametrize("num_values", [1, 300])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 100_000])
def test_inline_blobs_start_at_multiples_of_64(num_values: int, size: int) -> None:
    store = MemoryStore()
    values = [bytes([row % 256]) * size for row in range(min(num_values, 2_000_000 // size + 1))]
    _write(store, pa.array(values, pa.large_binary()), V1)
    reader = FileReader.open(store, PATH)
    data = store.get(PATH).to_pybytes()
    [column] = reader.read_table(reader.schema.fields).columns
    assert column.to_pylist() == values
    step = -(-size // 64) * 64
    assert [data[row * step : row * step + size] for row in range(len(values))] == values


def test_shared_sidecars_are_filled_in_row_order() -> None:
    store = MemoryStore()
    sizes = [20, 50, 60, 15, 200, 5]
    field = blob_field("b", inline_size_threshold=0)
    _write(store, blob_array([b"x" * size for size in sizes]), field, pack_bytes=80)
    found = [(row["kind"], row["blob_id"], row["position"]) for row in _descriptors(store)]
    assert found == [(1, 1, 0), (1, 1, 20), (1, 2, 0), (1, 2, 60), (1, 3, 0), (1, 4, 0)]
    assert [_sizes(store)[sidecar_name(number)] for number in (1, 2, 3, 4)] == [70, 75, 200, 5]


def test_shared_sidecar_continues_in_the_next_batch() -> None:
    store = MemoryStore()
    field = blob_field("b", inline_size_threshold=0)
    table = TableContext(sidecars=Sidecars(store, PATH))
    schema = pa.schema([field])
    config = WriteConfig(version=LanceFileVersion.V2_2)
    with open_writer(store.create(PATH), schema_from_arrow(schema), config, table) as writer:
        for value in (b"abc", b"de"):
            writer.write_batch(pa.record_batch([blob_array([value])], schema=schema))
        writer.finish()
    assert [(row["blob_id"], row["position"]) for row in _descriptors(store)] == [(1, 0), (1, 3)]
    assert _sizes(store) == {sidecar_name(1): 5}


class _Ordered(MemoryStore):
    """Records the order in which objects appear, and fails to create some objects."""

    def __init__(self, refused: str = "") -> None:
        super().__init__()
        self.made: list[str] = []
        self.refused = refused

    def create(self, path):
        stream = super().create(path)
        commit = stream.commit

        def recorded(*, durable: bool = True) -> None:
            if self.refused and path.endswith(self.refused):
                raise StorageError("no space left", path=path)
            commit(durable=durable)
            self.made.append(path)

        stream.commit = recorded
        return stream


LARGE = blob_field("b", inline_size_threshold=1, dedicated_size_threshold=10)


def test_sidecars_are_durable_before_the_data_file_is_visible() -> None:
    store = _Ordered()
    _write(store, blob_array([b"shared", b"a value of its own", b"shared too"]), LARGE)
    assert len(store.made) == 3
    assert store.made[-1] == PATH


def _write_all(writer: DataFileWriter, rows: pa.RecordBatch) -> None:
    writer.write_batch(rows)
    writer.finish()


@pytest.mark.parametrize("refused", [sidecar_name(1), sidecar_name(2), PATH])
def test_failed_blob_file_leaves_no_sidecars(refused: str) -> None:
    store = _Ordered(refused)
    sidecars = Sidecars(store, PATH)
    schema = pa.schema([LARGE])
    config = WriteConfig(version=LanceFileVersion.V2_2)
    table = TableContext(sidecars=sidecars)
    writer = open_writer(store.create(PATH), schema_from_arrow(schema), config, table)
    rows = pa.record_batch([blob_array([b"shared", b"a value of its own"])], schema=schema)
    with pytest.raises(StorageError):
        _write_all(writer, rows)
    writer.abort()
    sidecars.abort()
    sidecars.abort()
    assert _sizes(store) == {}
    with pytest.raises(NotFoundError):
        store.head(PATH)


def test_remove_sidecars_removes_only_the_sidecars_of_its_data_file() -> None:
    store = MemoryStore()
    _write(store, blob_array([b"shared"]), LARGE)
    remove_sidecars(store, "data/other.lance")
    remove_sidecars(store, "data/f")
    assert len(_sizes(store)) == 1
    remove_sidecars(store, PATH)
    assert _sizes(store) == {}


def test_blobs_in_null_structs_are_not_written() -> None:
    store = MemoryStore()
    values = pa.array([b"seen", b"hidden"], pa.large_binary())
    struct = pa.StructArray.from_arrays([values], fields=[V1], mask=pa.array([False, True]))
    _write(store, struct, pa.field("b", struct.type))
    assert b"hidden" not in store.get(PATH).to_pybytes()
    assert _descriptors(store) == [{"b": b"seen"}, None]


def test_blobs_of_a_sliced_array_are_placed_correctly() -> None:
    store = MemoryStore()
    column = blob_array([b"no", b"one", None, b"", b"two", b"no"]).slice(1, 4)
    _write(store, column, blob_field("b"))
    found = _descriptors(store)
    assert [row and row["size"] for row in found] == [3, None, 0, 3]
    data = store.get(PATH).to_pybytes()
    assert [data[row["position"] :][:3] for row in (found[0], found[3])] == [b"one", b"two"]


def test_blobs_that_cannot_be_placed_are_refused() -> None:
    with pytest.raises(NotSupportedError, match="outside the table"):
        _write(MemoryStore(), blob_array(["file:///a"]), blob_field("b"))
    wrong = blob_field("b").with_metadata({"lance-encoding:blob-inline-size-threshold": "many"})
    with pytest.raises(InvalidInputError, match="must be a whole number of bytes with at most 20 digits, found 'many'"):
        _write(MemoryStore(), blob_array([b"x"]), wrong)


def _described(rows: list[tuple[int, int] | None]) -> pa.StructArray:
    dtype = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
    return pa.array([None if row is None else {"position": row[0], "size": row[1]} for row in rows], dtype)


def test_blob_descriptors_are_checked_before_they_are_read() -> None:
    def read(ranges):
        assert all(part.stop <= 100 for part in ranges)
        return [pa.py_buffer(bytes(part.num_bytes)) for part in ranges]

    assert load_bytes(_described([(0, 2), None, (1, 0), (0, 0)]), read, 100, "f").to_pylist() == [
        b"\0\0",
        None,
        None,
        b"",
    ]
    for rows in ([(99, 2)], [(2**64 - 1, 1)], [(2**64 - 1, 2**64 - 1)], [(0, 2**63)], [(0, 60), (0, 60)]):
        with pytest.raises(CorruptDataError):
            load_bytes(_described(rows), read, 100, "f")


def test_bytes_array_contains_the_values_of_all_buffers_and_nulls() -> None:
    buffers = [pa.py_buffer(b"ab"), pa.py_buffer(b"c")]
    valid = np.array([True, True, False, True])
    assert bytes_array(buffers, np.array([2, 0, 0, 1]), valid).to_pylist() == [b"ab", b"", None, b"c"]
    assert bytes_array([], np.zeros(2, np.int64), None).to_pylist() == [b"", b""]
