"""Damaged blobs: descriptors that refer to missing bytes, and tables whose files are damaged at any position.

The table stores blobs in every possible location: in the data file, in dedicated and packed sidecars, and in external
files. Reading it must return rows, possibly with other bytes, or raise a ``LanceError``; see
``tests/support/hostile.py``.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core import Blob, blob_array, blob_field
from lance_core.errors import CorruptDataError, LanceError, NotFoundError
from lance_core.file import blob_placement
from lance_core.io.memory_store import MemoryStore
from lance_core.io.uri import resolve
from tests.support.hostile import bounded_memory, sampled, time_limit

BAD = [(2**60, 3), (0, 2**60), (2**64 - 1, 1), (2**63, 2**63), (100_000, 1)]
OUTSIDE = "memory://hostile-blobs/outside.bin"
V1_FIELD = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
V1_VALUES = [None if row % 5 == 4 else bytes([row]) * (row * 7 % 90) for row in range(40)]
V2_VALUES = [
    *(bytes([row]) * (row * 7 % 60) for row in range(12)),
    None,
    *(bytes([row]) * (100 + row) for row in range(8)),
    b"",
    *(bytes([row]) * 600 for row in range(2)),
    Blob.from_uri(OUTSIDE, 10, 20),
    Blob.from_uri(OUTSIDE),
    None,
]
NUM_BITS = 400
NUM_CUTS = 80


@dataclass(frozen=True)
class Table:
    """An intact table in memory.

    Attributes:
        uri: where it is.
        store: holds it, and the file outside of it.
        objects: its data file and sidecars, and the file outside.
        rows: of the blob column, as values.
    """

    uri: str
    store: MemoryStore
    objects: dict[str, bytes]
    rows: list[bytes | None]

    def ending(self, suffix: str) -> list[str]:
        return [path for path in self.objects if path.endswith(suffix)]


def _table(name: str) -> Table:
    uri = f"memory://hostile-blobs/{name}"
    store, root = resolve(uri)
    assert isinstance(store, MemoryStore)
    store.put(resolve(OUTSIDE)[1], bytes(range(100)))
    if name == "v2":
        field = blob_field("b", inline_size_threshold=64, dedicated_size_threshold=500, pack_file_size_threshold=512)
        array, version = blob_array(V2_VALUES), "2.2"
    else:
        field, array, version = V1_FIELD, pa.array(V1_VALUES, pa.large_binary()), name.rsplit("-", 1)[1]
    schema = pa.schema([pa.field("i", pa.int64()), field])
    table = pa.table([pa.array(range(len(array))), array], schema=schema)
    settings = {"mode": "overwrite", "data_storage_version": version, "allow_external_blob_outside_bases": name == "v2"}
    dataset = lance_core.write_dataset(table, uri, **settings)
    paths = [info.path for info in store.list_recursive(store.join(root, "data"))]
    current = dataset.get_fragments()[0].data_files()[0].path.removesuffix(".lance")
    paths = [path for path in paths if current in path]
    objects = {path: bytes(store.get(path)) for path in [*paths, resolve(OUTSIDE)[1]]}
    return Table(uri, store, objects, dataset.to_table(blob_handling="all_binary")["b"].to_pylist())


@pytest.fixture(params=["v2", "v1-2.0", "v1-2.1"])
def table(request: pytest.FixtureRequest) -> Table:
    return _table(request.param)


def _read(table: Table) -> list[bytes | None]:
    """Read the blobs in every way: descriptors, values, file objects, ranges, and the validation of the table."""
    dataset = lance_core.dataset(table.uri)
    num_rows = len(table.rows)
    described = dataset.to_table()
    assert described.num_rows == num_rows
    described.validate()
    values = dataset.to_table(blob_handling="all_binary")
    values.validate(full=True)
    found = values["b"].to_pylist()
    rows = list(range(num_rows))
    taken = dataset.take_blobs("b", indices=rows)
    assert [None if file is None else file.read() for file in taken] == found
    some = rows[:: max(1, num_rows // 5)]
    assert [value for _, value in dataset.read_blobs("b", indices=some)] == [found[row] for row in some]
    dataset.validate()
    return found


def _outcome(table: Table, path: str, data: bytes | None, what: str) -> str:
    """Return the outcome of reading when one object has other bytes or is missing; raise if it is not permitted."""
    if data is None:
        table.store.delete(path)
    else:
        table.store.put(path, data)
    try:
        with time_limit():
            return "equal" if _read(table) == table.rows else "other values"
    except LanceError as error:
        return type(error).__name__
    except BaseException as error:
        raise AssertionError(f"{path}, {what}: {type(error).__name__}: {error}") from error
    finally:
        table.store.put(path, table.objects[path])


def _sweep(table: Table, path: str, num_bits: int, num_cuts: int) -> Counter[str]:
    data, outcomes = table.objects[path], Counter[str]()
    with bounded_memory(sum(map(len, table.objects.values()))):
        for bit in sampled(range(len(data) * 8), num_bits):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            outcomes[_outcome(table, path, bytes(changed), f"bit {bit}")] += 1
        for stop in sampled(range(len(data)), num_cuts) if num_cuts else ():
            result = _outcome(table, path, data[:stop], f"cut at {stop}")
            assert result == "CorruptDataError", f"{path}, cut at {stop}: {result}"
    return outcomes


def test_the_intact_table_has_blobs_in_every_location(table: Table) -> None:
    assert _read(table) == table.rows
    if table.uri.endswith("v2"):
        kinds = lance_core.dataset(table.uri).to_table()["b"].to_pylist()
        assert Counter(value and value["kind"] for value in kinds) == {0: 13, 1: 8, 2: 2, 3: 2, None: 2}
        assert len(table.ending(".blob")) == 4
    else:
        assert len(table.objects) == 2


@pytest.mark.slow
def test_damaged_data_files_of_blobs_give_rows_or_raise_lance_errors(table: Table) -> None:
    [path] = table.ending(".lance")
    outcomes = _sweep(table, path, NUM_BITS, NUM_CUTS)
    assert outcomes["CorruptDataError"] > NUM_BITS // 20
    assert outcomes["equal"] + outcomes["other values"] > NUM_BITS // 20


@pytest.mark.slow
def test_damaged_sidecars_and_external_files_change_only_values_or_raise_lance_errors() -> None:
    table = _table("v2")
    for path in table.ending(".blob"):
        # Each bit belongs to one value: no other value differs.
        assert set(_sweep(table, path, 20, 10)) == {"other values"}
        assert _outcome(table, path, table.objects[path] + b"more", "longer") == "equal"
        assert _outcome(table, path, None, "missing") == "NotFoundError"
        assert _outcome(table, path, b"", "empty") == "CorruptDataError"
    [path] = table.ending("outside.bin")
    assert set(_sweep(table, path, 20, 0)) == {"other values"}
    assert _outcome(table, path, None, "missing") == "NotFoundError"
    assert _outcome(table, path, table.objects[path][:29], "short") == "CorruptDataError"
    # A value that consists of an entire file equals the file.
    assert _outcome(table, path, table.objects[path][:30], "whole") == "other values"


Change = Callable[[dict[str, np.ndarray]], None]


def _all_sizes(columns: dict[str, np.ndarray]) -> None:
    columns["size"][:] = 2**64 - 1


def _ends_that_wrap(columns: dict[str, np.ndarray]) -> None:
    columns["position"][:] = ~columns["size"] + np.uint64(1)


def _next_sidecar(columns: dict[str, np.ndarray]) -> None:
    columns["blob_id"][columns["kind"] == 1] = 2**32 - 1


def _no_sidecar(columns: dict[str, np.ndarray]) -> None:
    columns["blob_id"][columns["kind"] == 2] = 0


def _unknown_kinds(columns: dict[str, np.ndarray]) -> None:
    columns["kind"][:] = 255


def _everything_outside(columns: dict[str, np.ndarray]) -> None:
    columns["kind"][:] = 3


def _everything_managed(columns: dict[str, np.ndarray]) -> None:
    columns["kind"][:] = 4


def _unknown_bases(columns: dict[str, np.ndarray]) -> None:
    columns["kind"][:] = 5
    columns["blob_id"][:] = 77


@pytest.mark.parametrize(
    "change",
    [
        _all_sizes,
        _ends_that_wrap,
        _next_sidecar,
        _no_sidecar,
        _unknown_kinds,
        _everything_outside,
        _everything_managed,
        _unknown_bases,
    ],
)
def test_invalid_blob_descriptors_in_well_formed_files_give_values_or_raise_lance_errors(
    monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    """The file is intact, but its descriptors are invalid."""
    place = blob_placement.BlobPlacement.place

    def placed(self: blob_placement.BlobPlacement, array: pa.Array, sink: object) -> pa.Array:
        good = place(self, array, sink)
        columns = {name: good.field(name).to_numpy().copy() for name in ("kind", "position", "size", "blob_id")}
        change(columns)
        members = [pa.array(columns[name]) for name in columns] + [good.field("blob_uri")]
        return pa.StructArray.from_arrays(members, fields=list(good.type), mask=good.is_null())

    monkeypatch.setattr(blob_placement.BlobPlacement, "place", placed)
    uri = "memory://hostile-blobs/wrong"
    field = blob_field("b", inline_size_threshold=64, dedicated_size_threshold=500)
    array = blob_array([value for value in V2_VALUES if not isinstance(value, Blob)])
    lance_core.write_dataset(pa.table([array], schema=pa.schema([field])), uri, mode="overwrite")
    dataset = lance_core.dataset(uri)
    assert dataset.to_table().num_rows == len(array)
    rows = list(range(len(array)))

    def read_files() -> list[bytes | None]:
        return [None if file is None else file.read() for file in dataset.take_blobs("b", indices=rows)]

    with bounded_memory(10_000), time_limit():
        for act in (lambda: dataset.to_table(blob_handling="all_binary"), read_files, dataset.validate):
            if change is _everything_outside and act == dataset.validate:
                # Files outside the table are not examined.
                continue
            with pytest.raises(LanceError) as raised:
                act()
            assert isinstance(raised.value, (CorruptDataError, NotFoundError)) or change is _unknown_kinds


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(("position", "size"), BAD)
def test_a_blob_that_lies_outside_its_file_raises_corrupt_data(
    tmp_path, monkeypatch, version: str, position: int, size: int
) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([b"one", b"two"], pa.large_binary())], schema=pa.schema([field]))
    bad = (np.array([0, position], np.uint64), np.array([1, size], np.uint64))
    monkeypatch.setattr(blob_placement, "place_values", lambda *_: bad)
    path = str(tmp_path / "f.lance")
    with lance_core.LanceFileWriter(path, rows.schema, version=version) as writer:
        writer.write_batch(rows)
    reader = lance_core.LanceFileReader(path)
    with pytest.raises(CorruptDataError):
        reader.read_all().to_table()
    with pytest.raises(CorruptDataError):
        reader.take_rows([1]).to_table()
    assert reader.take_rows([0]).to_table()["b"].to_pylist()[0] is not None
