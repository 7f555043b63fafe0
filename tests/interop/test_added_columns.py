"""Columns of nulls that one library adds, and the other reads and continues."""

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
def test_both_libraries_make_the_same_schema_and_read_the_same_rows(tmp_path: Any, columns: str, stable: bool) -> None:
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
def test_either_library_appends_deletes_and_compacts_after_a_column_was_added(
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
