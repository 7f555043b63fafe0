"""Fragments of several data files, in every format: structs whose members are in different files or missing."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError
from lance_core.file.read_config import ReadConfig
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore
from lance_core.repair.validation import validate_fragment
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import Field, Schema
from lance_core.schema.projection import project_by_ids
from lance_core.table.base_paths import FileLocator
from lance_core.table.fragment import Fragment
from lance_core.versions import LanceFileVersion
from lance_core.write.fragment_writer import NewDataFile

ROWS = pa.table(
    {
        "s": pa.array([{"a": i, "b": {"c": [i], "d": f"t{i}"}} for i in range(20)]),
        "n": pa.array(range(20)),
    }
)
SCHEMA = schema_from_arrow(ROWS.schema)
PARTS = ({"s.a", "n"}, {"s.b.c.item"}, {"s.b.d"})


def _written(store: MemoryStore, schema: Schema, version: str, rows: pa.Table) -> Fragment:
    config = WriteConfig(
        version=LanceFileVersion(version),
        data_cache_bytes=100 * len(schema.fields),
        max_page_bytes=1000,
        max_rows_per_group=6,
    )
    file = NewDataFile(FileLocator(store, "t").data_place(None), schema, config)
    file.write(rows.to_batches()[0])
    return file.finish()


def _pruned(value: dict[str, object], fields: tuple[Field, ...]) -> dict[str, object]:
    """Return the part of a row or struct that belongs to some fields."""
    return {
        field.name: _pruned(value[field.name], field.children) if field.is_struct else value[field.name]
        for field in fields
    }


def _only(schema: Schema) -> pa.Table:
    """Return the rows with only the fields of a schema."""
    rows = [_pruned(row, schema.fields) for row in ROWS.to_pylist()]
    return pa.Table.from_pylist(rows, schema=schema_to_arrow(schema))


def _fragment(store: MemoryStore, version: str, parts: tuple[set[str], ...] = PARTS) -> Fragment:
    files = []
    for part in parts:
        schema = project_by_ids(SCHEMA, frozenset(SCHEMA.field(path).id for path in part))
        files += _written(store, schema, version, _only(schema)).files
    return Fragment.of(files, physical_rows=20)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_struct_members_in_three_data_files_are_combined_into_one_struct(version: str) -> None:
    store = MemoryStore()
    fragment = _fragment(store, version)
    locator = FileLocator(store, "t")
    validate_fragment(fragment, SCHEMA, locator)
    reader = FragmentReader(fragment, locator)
    batches = list(reader.batches(SCHEMA, 3, 19, ReadConfig(batch_rows=5)))
    assert pa.Table.from_batches(batches).equals(ROWS.slice(3, 16))
    taken = reader.take(SCHEMA, np.array([19, 0, 7, 7]), SCHEMA)
    assert taken.to_pylist() == ROWS.take(pa.array([19, 0, 7, 7])).to_pylist()
    alone = project_by_ids(SCHEMA, frozenset({SCHEMA.field("s.b.d").id}))
    assert [
        row["s"]["b"]["d"]
        for batch in reader.batches(alone, 0, 3, ReadConfig(batch_rows=9))
        for row in batch.to_pylist()
    ] == [
        "t0",
        "t1",
        "t2",
    ]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_fragment_members_in_no_data_file_are_null(version: str) -> None:
    store = MemoryStore()
    reader = FragmentReader(_fragment(store, version, PARTS[:1]), FileLocator(store, "t"))
    [batch] = reader.batches(SCHEMA, 0, 20, ReadConfig(batch_rows=100))
    assert batch.to_pylist() == [{"s": {"a": i, "b": None}, "n": i} for i in range(20)]


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_column_in_two_data_files_raises_corrupt_data(version: str) -> None:
    store = MemoryStore()
    fragment = _fragment(store, version, ({"n"}, {"s.a", "n"}))
    with pytest.raises(CorruptDataError, match="stored in two data files"):
        validate_fragment(fragment, SCHEMA, FileLocator(store, "t"))


@pytest.mark.parametrize(("stored", "recorded"), [("2.0", "2.1"), ("0.1", "2.0"), ("2.2", "2.0"), ("2.1", "0.1")])
def test_data_file_whose_version_differs_from_the_recorded_version_raises_corrupt_data(
    stored: str, recorded: str
) -> None:
    store = MemoryStore()
    fragment = _fragment(store, stored, (set(ROWS.column_names),))
    [file] = fragment.files
    wrong = replace(file, file_version=LanceFileVersion(recorded), column_indices=())
    reader = FragmentReader(Fragment.of([wrong], physical_rows=20), FileLocator(store, "t"))
    with pytest.raises(CorruptDataError, match=f"has format {stored}, but the manifest records {recorded}"):
        reader.check()


def test_fragments_with_different_file_layouts_are_read_correctly() -> None:
    store = MemoryStore()
    locator = FileLocator(store, "t")
    layouts = [PARTS, (set().union(*PARTS),), PARTS[::-1], PARTS]
    for parts in layouts:
        reader = FragmentReader(_fragment(store, "2.2", parts), locator)
        [batch] = reader.batches(SCHEMA, 0, 20, ReadConfig(batch_rows=100))
        assert pa.Table.from_batches([batch]).equals(ROWS)


def test_extension_type_registered_between_two_reads_is_applied() -> None:
    class Marked(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
        def __init__(self) -> None:
            super().__init__(pa.int64(), "tests.marked_between_reads")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> pa.ExtensionType:
            return cls()

    store = MemoryStore()
    names = {"ARROW:extension:name": "tests.marked_between_reads", "ARROW:extension:metadata": ""}
    rows = pa.table([range(20)], schema=pa.schema([pa.field("n", pa.int64(), metadata=names)]))
    schema = schema_from_arrow(rows.schema)
    fragment = _written(store, schema, "2.2", rows)
    found = []
    for registers in (False, True):
        if registers:
            pa.register_extension_type(Marked())
        [batch] = FragmentReader(fragment, FileLocator(store, "t")).batches(schema, 0, 20, ReadConfig(batch_rows=100))
        found.append(batch.schema.field("n").type)
    pa.unregister_extension_type("tests.marked_between_reads")
    assert found == [pa.int64(), Marked()]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
def test_open_files_are_released_with_their_reader(version: str) -> None:
    store = MemoryStore()
    reader = FragmentReader(_fragment(store, version, (set(ROWS.column_names),)), FileLocator(store, "t"))
    gc.collect()
    gc.disable()
    try:
        assert sum(batch.num_rows for batch in reader.batches(SCHEMA, 0, 20, ReadConfig(batch_rows=7))) == 20
        gone = weakref.ref(reader)
        del reader
        assert gone() is None
    finally:
        gc.enable()
