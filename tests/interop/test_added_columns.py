"""Columns added by one library, and read and changed by the other."""

from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core

LIBRARIES = {"pylance": lance, "lance_core": lance_core}
ROWS = pa.table({"a": [1, 2, 3], "s": [{"x": 1}, None, {"x": 3}]})
COLUMNS: dict[str, Any] = {
    "field": pa.field("b", pa.int64(), metadata={"k": "v"}),
    "nested": [
        pa.field("b", pa.list_(pa.struct([pa.field("z", pa.int8(), nullable=False)]))),
        pa.field("c", pa.string()),
    ],
    "schema": pa.schema([pa.field("b", pa.float32())], metadata={"q": "r"}),
    "member": [pa.field("b", pa.int8()), pa.field("s", pa.struct([pa.field("y", pa.string())]))],
    "nothing": pa.schema([]),
}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_added_columns_have_the_same_schema_and_rows_as_in_pylance(tmp_path: Any, columns: str, stable: bool) -> None:
    for name, library in LIBRARIES.items():
        lance.write_dataset(ROWS, tmp_path / name, enable_stable_row_ids=stable, max_rows_per_file=2)
        library.dataset(tmp_path / name).add_columns(COLUMNS[columns])
    theirs, ours = (lance.dataset(tmp_path / name) for name in LIBRARIES)
    ours.validate()
    assert str(ours.lance_schema) == str(theirs.lance_schema)
    assert ours.to_table() == theirs.to_table() == lance_core.dataset(tmp_path / "lance_core").to_table()
    assert [each.metadata.files[0].fields for each in ours.get_fragments()] == [
        each.metadata.files[0].fields for each in theirs.get_fragments()
    ]


@pytest.mark.parametrize("adding", LIBRARIES)
@pytest.mark.parametrize("continuing", LIBRARIES)
def test_either_library_can_append_delete_and_compact_after_a_column_was_added(
    uri: str, adding: str, continuing: str
) -> None:
    lance.write_dataset(ROWS, uri)
    LIBRARIES[adding].dataset(uri).add_columns(pa.field("b", pa.string()))
    library = LIBRARIES[continuing]
    library.write_dataset(pa.table({"a": [4], "s": [{"x": 4}], "b": ["new"]}), uri, mode="append")
    library.dataset(uri).delete("a = 1")
    library.dataset(uri).optimize.compact_files()
    for each in LIBRARIES.values():
        assert each.dataset(uri).to_table(columns=["a", "b"]).to_pydict() == {"a": [2, 3, 4], "b": [None, None, "new"]}


REQUIRED = pa.schema([pa.field("b", pa.int64(), nullable=False, metadata={"k": "v"})], metadata={"m": "n"})
VALUES: dict[str, Any] = {
    "expressions": {"b": "a * 2", "c": "upper('x') || cast(a as string)"},
    "a struct": {"b": "s"},
    "a member": {"b": "s.x + 1"},
    "a constant": {"b": "1"},
    "nothing": {},
    "table": pa.table({"b": [5, None, 7], "c": [["x"], [], None]}),
    "function": lambda batch: pa.record_batch({"b": [len(batch.schema.names)] * batch.num_rows}),
    "required": pa.table({"b": [5, 6, 7]}, schema=REQUIRED),
    "vectors": pa.table({"b": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2))}),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("deleted", [None, "a = 1", "a = 2", "a > 1"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.sampled(3 * len(VALUES))
def test_added_values_equal_those_of_pylance(tmp_path: Any, values: str, deleted: str | None, version: str) -> None:
    rows = ROWS.set_column(1, "s", pa.array([{"x": 1}, {"x": 2}, {"x": 3}]))
    for name, library in LIBRARIES.items():
        lance.write_dataset(rows, tmp_path / name, max_rows_per_file=2, data_storage_version=version)
        if deleted is not None:
            lance.dataset(tmp_path / name).delete(deleted)
        dataset = library.dataset(tmp_path / name)
        given = VALUES[values]
        dataset.add_columns(given.slice(0, dataset.count_rows()) if isinstance(given, pa.Table) else given)
    theirs, ours = (lance.dataset(tmp_path / name) for name in LIBRARIES)
    ours.validate()
    assert str(ours.lance_schema) == str(theirs.lance_schema)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.to_table() == theirs.to_table() == lance_core.dataset(tmp_path / "lance_core").to_table()
    for mine, other in zip(ours.get_fragments(), theirs.get_fragments(), strict=True):
        assert [each.fields for each in mine.metadata.files] == [each.fields for each in other.metadata.files]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_function_receives_the_requested_columns_and_batch_size(tmp_path: Any, library: str) -> None:
    lance.write_dataset(ROWS, tmp_path / "t")
    dataset = LIBRARIES[library].dataset(tmp_path / "t")
    seen: list[Any] = []

    @LIBRARIES[library].batch_udf(pa.schema([("b", pa.uint64())]))
    def addresses(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append((batch.schema.names, batch.num_rows))
        return pa.record_batch({"b": batch["_rowid"]})

    dataset.add_columns(addresses, read_columns=["a", "_rowid"], batch_size=2)
    assert seen == [(["a", "_rowid"], 2), (["a", "_rowid"], 1)]
    assert LIBRARIES[library].dataset(tmp_path / "t").to_table()["b"].to_pylist() == [0, 1, 2]


def test_values_of_a_new_member_of_a_struct_are_stored(tmp_path: Any) -> None:
    lance_core.write_dataset(ROWS.slice(0, 1), tmp_path / "t", data_storage_version="2.2")
    dataset = lance_core.dataset(tmp_path / "t")
    dataset.add_columns(pa.table({"s": [{"y": "new"}]}))
    for library in LIBRARIES.values():
        assert library.dataset(tmp_path / "t").to_table()["s"].to_pylist() == [{"x": 1, "y": "new"}]


@pytest.mark.parametrize("blobs", ["2.1", "2.2"])
def test_added_json_and_blobs_are_read_by_both_libraries(tmp_path: Any, blobs: str) -> None:
    lance.write_dataset(ROWS, tmp_path / "t", data_storage_version=blobs)
    fields = [pa.field("j", pa.json_()), pa.field("d", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]
    values = pa.table([pa.array(['{"k":1}', None, "[]"], pa.json_()), [b"1", b"22", b"333"]], schema=pa.schema(fields))
    lance_core.dataset(tmp_path / "t").add_columns(values)
    for library in LIBRARIES.values():
        dataset = library.dataset(tmp_path / "t")
        assert dataset.to_table(columns=["j"])["j"].to_pylist() == ['{"k":1}', None, "[]"]
        assert [each.readall() for each in dataset.take_blobs("d", indices=[0, 1, 2])] == [b"1", b"22", b"333"]
