"""Merges that would assign values of one column to another are refused by both libraries."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import LanceFragment, RowIdSequence

import lance_core
from lance_core.errors import LanceError, SchemaMismatchError

I64 = pa.int64()
LIBRARIES = pytest.mark.parametrize("library", [lance, lance_core])
SAME = pa.schema([("a", I64), ("b", I64)])


def _schema(*fields: tuple[str, pa.DataType] | tuple[str, pa.DataType, bool]) -> pa.Schema:
    return pa.schema([pa.field(*each) for each in fields])


def _create(uri: str) -> None:
    lance.write_dataset(pa.table({"a": pa.array([1, 2, None], I64), "b": [4, 5, 6]}), uri)


def _drop_b(uri: str) -> None:
    lance.dataset(uri).drop_columns(["b"])


def _drop_a(uri: str) -> None:
    lance.dataset(uri).drop_columns(["a"])


def _delete_all(uri: str) -> None:
    lance.dataset(uri).delete("true")


def _add_unstored(uri: str) -> None:
    lance.dataset(uri).add_columns(pa.field("c", I64))


def _add_file(library: ModuleType, uri: str, fragment: Any, table: pa.Table, field_id: int) -> None:
    """Store a column of a fragment in another file, which replaces the column in an existing file."""
    side = f"{uri}-side"
    lance.write_dataset(table, side, mode="overwrite")
    new = library.dataset(side).get_fragments()[0].metadata.files[0]
    shutil.copy(f"{side}/data/{new.path}", f"{uri}/data/{new.path}")
    new.fields, new.column_indices, old = [field_id], [0], fragment.files[0]
    old.fields = [-2 if each == field_id else each for each in old.fields]
    fragment.files = [*fragment.files, new]


def _merge(library: ModuleType, uri: str, schema: pa.Schema, change: Callable[[list[Any]], None] | None = None) -> None:
    dataset = library.dataset(uri)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    if change is not None:
        change(fragments)
    library.LanceDataset.commit(
        uri, library.LanceOperation.Merge(fragments, schema), read_version=lance.dataset(uri).version
    )


REFUSED = {
    "columns swapped": (None, _schema(("b", I64), ("a", I64))),
    "new column put first": (None, _schema(("n", I64), ("a", I64), ("b", I64))),
    "names shifted": (None, _schema(("b", I64), ("c", I64))),
    "first column left out": (None, _schema(("b", I64))),
    "required, with nulls": (None, _schema(("a", I64, False), ("b", I64))),
    "required, without nulls": (None, _schema(("a", I64), ("b", I64, False))),
    "another type": (None, _schema(("a", I64), ("b", pa.string()))),
    "id of a dropped column": (_drop_b, _schema(("a", I64), ("n", I64))),
    "id of a dropped column, another type": (_drop_b, _schema(("a", I64), ("n", pa.string()))),
    "numbered from 0 after a drop": (_drop_a, _schema(("b", I64))),
    "another type of a column of nulls": (_add_unstored, _schema(("a", I64), ("b", I64), ("c", pa.string()))),
    "swapped without rows": (_delete_all, _schema(("b", I64), ("a", I64))),
}


@pytest.mark.sampled(12)
@LIBRARIES
@pytest.mark.parametrize("case", REFUSED)
def test_a_merge_that_would_change_an_existing_field_is_refused(tmp_path: Path, library: ModuleType, case: str) -> None:
    uri = str(tmp_path / "t")
    _create(uri)
    prepare, schema = REFUSED[case]
    if prepare is not None:
        prepare(uri)
    before = lance.dataset(uri)
    with pytest.raises(OSError if library is lance else LanceError):
        _merge(library, uri, schema)
    after = lance.dataset(uri)
    assert (after.version, after.to_table()) == (before.version, before.to_table())


ALLOWED = {
    "renamed": (None, _schema(("x", I64), ("b", I64)), {"x": [1, 2, None], "b": [4, 5, 6]}),
    "last column left out": (None, _schema(("a", I64)), {"a": [1, 2, None]}),
    "added": (None, _schema(("a", I64), ("b", I64), ("c", I64)), {"a": [1, 2, None], "b": [4, 5, 6], "c": [None] * 3}),
    "column of nulls renamed": (
        _add_unstored,
        _schema(("a", I64), ("b", I64), ("d", I64)),
        {"a": [1, 2, None], "b": [4, 5, 6], "d": [None] * 3},
    ),
    "another type without rows": (_delete_all, _schema(("a", pa.string()), ("b", I64, False)), {"a": [], "b": []}),
}


@LIBRARIES
@pytest.mark.parametrize("case", ALLOWED)
def test_a_merge_may_rename_add_and_drop_fields(tmp_path: Path, library: ModuleType, case: str) -> None:
    uri = str(tmp_path / "t")
    _create(uri)
    prepare, schema, expected = ALLOWED[case]
    if prepare is not None:
        prepare(uri)
    _merge(library, uri, schema)
    assert lance.dataset(uri).to_table().to_pydict() == expected
    assert lance_core.dataset(uri).to_table().to_pydict() == expected


@LIBRARIES
@pytest.mark.parametrize(
    ("prepare", "field_id", "stored", "schema", "is_allowed"),
    [
        (None, 0, pa.table({"a": [7, 8, 9]}), _schema(("a", I64, False), ("b", I64)), True),
        (None, 0, pa.table({"q": ["x", "y", "z"]}), _schema(("q", pa.string()), ("b", I64)), True),
        (None, 0, pa.table({"b": [7, 8, 9]}), _schema(("b", I64)), False),
        (
            _add_unstored,
            2,
            pa.table({"c": ["x", "y", "z"]}),
            _schema(("a", I64), ("b", I64), ("c", pa.string())),
            True,
        ),
        (_drop_b, 1, pa.table({"n": [7, 8, 9]}), _schema(("a", I64), ("n", I64)), False),
    ],
    ids=["required", "other type and name", "name of another", "nulls to text", "id of a dropped column"],
)
def test_a_merge_may_change_a_field_only_if_every_fragment_rewrites_it(
    tmp_path: Path,
    library: ModuleType,
    prepare: Callable[[str], None] | None,
    field_id: int,
    stored: pa.Table,
    schema: pa.Schema,
    is_allowed: bool,
) -> None:
    uri = str(tmp_path / "t")
    _create(uri)
    if prepare is not None:
        prepare(uri)

    def change(fragments: list[Any]) -> None:
        for fragment in fragments:
            _add_file(library, uri, fragment, stored, field_id)

    if not is_allowed:
        with pytest.raises(OSError if library is lance else LanceError):
            _merge(library, uri, schema, change)
        return
    _merge(library, uri, schema, change)
    name = stored.column_names[0]
    assert lance.dataset(uri).to_table()[name].to_pylist() == stored[name].to_pylist()
    assert lance_core.dataset(uri).to_table()[name].to_pylist() == stored[name].to_pylist()


def test_a_merge_that_assigns_a_new_field_id_without_new_values_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    _create(uri)
    dataset = lance_core.dataset(uri)
    a, b = dataset.lance_schema.fields
    schema = dataclasses.replace(dataset.lance_schema, fields=(dataclasses.replace(a, id=7), b))
    with pytest.raises(SchemaMismatchError, match="'a' has id 0 and would get id 7, but fragment 0 stores no values"):
        _merge(lance_core, uri, schema)
    # The reference assigns a new id when it casts a column.
    lance.dataset(uri).alter_columns({"path": "a", "data_type": pa.int32()})
    assert [(each.name, each.id) for each in lance_core.dataset(uri).lance_schema.fields] == [("a", 2), ("b", 1)]


def _new_fragment(library: ModuleType, uri: str, row_ids: list[int] | None = None) -> Any:
    fragment = LanceFragment.create(uri, pa.table({"a": pa.array([9, 9, 9], I64), "b": [9, 9, 9]}))
    if row_ids is not None:
        fragment.row_id_meta = RowIdSequence(row_ids).to_inline_metadata()
    return fragment if library is lance else lance_core.FragmentMetadata.from_json(json.dumps(fragment.to_json()))


@LIBRARIES
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("new_id", [0, 7])
def test_new_fragments_of_a_merge_are_listed_after_existing_fragments(
    tmp_path: Path, library: ModuleType, position: int, new_id: int
) -> None:
    uri = str(tmp_path / "t")
    rows = pa.table({"a": [1, 2, 3, 4, 5, 6], "b": [1, 2, 3, 4, 5, 6]})
    lance.write_dataset(rows, uri, max_rows_per_file=3, enable_stable_row_ids=True)

    def insert(fragments: list[Any]) -> None:
        new = _new_fragment(library, uri)
        new.id = new_id
        fragments.insert(position, new)

    with pytest.raises((OSError, LanceError), match=r"fragment \d .*after a new fragment"):
        _merge(library, uri, SAME, insert)
    assert lance.dataset(uri).to_table() == rows


@LIBRARIES
def test_new_fragments_of_a_merge_with_given_row_ids_are_refused(tmp_path: Path, library: ModuleType) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2, 3], "b": [1, 2, 3]}), uri, enable_stable_row_ids=True)
    with pytest.raises((OSError, LanceError), match="row ids"):
        _merge(library, uri, SAME, lambda fragments: fragments.append(_new_fragment(library, uri, [0, 1, 2])))
    _merge(library, uri, SAME, lambda fragments: fragments.append(_new_fragment(library, uri)))
    assert lance.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == [0, 1, 2, 3, 4, 5]
    lance_core.dataset(uri).validate()
