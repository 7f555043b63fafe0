"""Columns dropped, renamed, and cast by one library, in tables that the other reads and changes."""

from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidSchemaError, NotSupportedError, SchemaMismatchError

LIBRARIES = {"pylance": lance, "lance_core": lance_core}
VERSIONS = ["2.0", "2.1", "2.2"]
ROWS = pa.table(
    {
        "a": [1, 2, None],
        "b": ["x", "y", "z"],
        "s": pa.array([{"p": 1, "q": {"r": 1.5, "t": True}}, None, {"p": 3, "q": None}]),
        "l": pa.array([[{"u": 1, "v": 2}], [], None]),
    }
)

NO_NULL_STRUCTS = ROWS.set_column(
    2, "s", pa.array([{"p": n, "q": {"r": 1.5, "t": True}} for n in range(3)])
).set_column(3, "l", pa.array([[{"u": 1, "v": 2}], [], []]))


def rows(version: str) -> pa.Table:
    """Return the rows, without null structs for format 2.0, which cannot store them."""
    return NO_NULL_STRUCTS if version == "2.0" else ROWS


DROPS: dict[str, list[str]] = {
    "column": ["a"],
    "struct": ["s.q"],
    "members": ["s.q.r", "s.p"],
    "all members of a struct": ["s.q.r", "s.q.t"],
    "all members of a column": ["s.p", "s.q.r", "s.q.t"],
    "all members of the items": ["l.item.u", "l.item.v"],
    "items": ["l.item"],
    "twice": ["a", "a"],
    "column and member": ["s", "s.p"],
    "in backticks": ["`a`"],
    "nothing": [],
}
CHANGES: dict[str, list[dict[str, Any]]] = {
    "name": [{"path": "a", "name": "x"}],
    "name of a member": [{"path": "s.q.r", "name": "x"}],
    "name of a member of items": [{"path": "l.item.u", "name": "w"}],
    "exchanged names": [{"path": "a", "name": "b"}, {"path": "b", "name": "a"}],
    "moved names": [{"path": "a", "name": "b"}, {"path": "b", "name": "c"}],
    "last name": [{"path": "a", "name": "x"}, {"path": "a", "name": "y"}],
    "required": [{"path": "b", "nullable": False}],
    "nullable already": [{"path": "b", "nullable": True}],
    "type": [{"path": "a", "data_type": pa.int32()}],
    "same type": [{"path": "a", "data_type": pa.int64()}],
    "type and name": [{"path": "a", "data_type": pa.int8(), "name": "x", "nullable": True}],
    "types": [{"path": "a", "data_type": pa.uint16()}, {"path": "b", "data_type": pa.large_string()}],
    "types of members": [{"path": "s.p", "data_type": pa.int32()}, {"path": "s.q.r", "data_type": pa.float32()}],
    "nothing": [],
}


def same(tmp_path: Any) -> None:
    """Compare the two tables."""
    theirs, ours = (lance.dataset(tmp_path / name) for name in LIBRARIES)
    ours.validate()
    assert str(ours.lance_schema) == str(theirs.lance_schema)
    assert ours.to_table() == theirs.to_table()
    assert lance_core.dataset(tmp_path / "lance_core").to_table() == theirs.to_table()
    assert lance_core.dataset(tmp_path / "pylance").to_table() == theirs.to_table()
    for mine, other in zip(ours.get_fragments(), theirs.get_fragments(), strict=True):
        assert [(file.fields, file.column_indices) for file in mine.metadata.files] == [
            (file.fields, file.column_indices) for file in other.metadata.files
        ]
    kinds = [type(each.read_transaction(each.version).operation) for each in (ours, theirs)]
    assert kinds[0] is kinds[1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("columns", DROPS)
@pytest.mark.sampled(len(DROPS))
def test_dropping_columns_leaves_the_same_table_as_in_pylance(tmp_path: Any, columns: str, version: str) -> None:
    for name, library in LIBRARIES.items():
        lance.write_dataset(rows(version), tmp_path / name, data_storage_version=version, max_rows_per_file=2)
        library.dataset(tmp_path / name).drop_columns(DROPS[columns])
    same(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.sampled(len(CHANGES))
def test_altering_columns_leaves_the_same_table_as_in_pylance(
    tmp_path: Any, changes: str, stable: bool, version: str
) -> None:
    for name, library in LIBRARIES.items():
        lance.write_dataset(
            rows(version),
            tmp_path / name,
            data_storage_version=version,
            max_rows_per_file=2,
            enable_stable_row_ids=stable,
        )
        if (changes, version) != ("types of members", "2.0"):
            library.dataset(tmp_path / name).alter_columns(*CHANGES[changes])
    same(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_cast_in_format_2_0_or_of_a_list_member_stores_the_whole_column_in_one_file(
    tmp_path: Any, version: str
) -> None:
    """Pylance splits the column, which stores list lengths twice, and makes structs unreadable in format 2.0."""
    uri = tmp_path / "t"
    changes = [{"path": "l.item.u", "data_type": pa.int32()}, {"path": "s.q.r", "data_type": pa.float32()}]
    lance.write_dataset(rows(version), uri, data_storage_version=version, max_rows_per_file=2)
    lance_core.dataset(uri).alter_columns(*changes)
    lance.dataset(uri).validate()
    table = lance.dataset(uri).to_table()
    assert table.schema.field("l").type == pa.list_(pa.struct([("u", pa.int32()), ("v", pa.int64())]))
    assert table.to_pylist() == lance_core.dataset(uri).to_table().to_pylist() == rows(version).to_pylist()
    lance.dataset(uri).optimize.compact_files()
    assert lance_core.dataset(uri).to_table().to_pylist() == rows(version).to_pylist()


TYPES: list[pa.DataType] = [
    pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.string(), pa.large_string(), pa.binary(),
    pa.large_binary(), pa.binary(4), pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time64("us"), pa.duration("s"), pa.duration("ms"), pa.decimal128(10, 2), pa.decimal256(20, 4),
    pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.int32(), 2), pa.list_(pa.int64(), 3),
    pa.dictionary(pa.int8(), pa.string()), pa.struct([("p", pa.int32())]), pa.list_(pa.string()),
    pa.list_(pa.list_(pa.int32())),
]  # fmt: skip


@pytest.mark.sampled(10)
@pytest.mark.parametrize("before", TYPES, ids=str)
def test_columns_can_be_cast_to_the_same_types_as_in_pylance(tmp_path: Any, before: pa.DataType) -> None:
    lance.write_dataset(pa.table({"a": pa.nulls(1, before)}), tmp_path / "t", data_storage_version="2.2")
    accepted: dict[str, list[pa.DataType]] = {name: [] for name in LIBRARIES}
    for after in TYPES:
        for name, library in LIBRARIES.items():
            dataset = library.dataset(tmp_path / "t", version=1)
            dataset.restore()
            try:
                dataset.alter_columns({"path": "a", "data_type": after})
            except OSError:
                continue
            assert dataset.to_table().schema.field("a").type == after
            accepted[name].append(after)
    assert accepted["lance_core"] == accepted["pylance"]


VALUES: dict[str, tuple[pa.Array, pa.DataType]] = {
    "integers": (pa.array([1, -1, 127, None]), pa.int8()),
    "floats": (pa.array([1.5, 1e300, -1e300, float("nan"), None]), pa.float32()),
    "vectors": (pa.array([[1.5, 2.0], None, [-1.0, 4.0]], pa.list_(pa.float32(), 2)), pa.list_(pa.float16(), 2)),
    "lists": (pa.array([[1], [], None, [2, None]]), pa.large_list(pa.int16())),
    "lists as vectors": (pa.array([[1, 2], [3, 4]]), pa.list_(pa.int32(), 2)),
    "instants": (pa.array([1_700_000_000_123_456, None], pa.timestamp("us")), pa.timestamp("s")),
    "instants as days": (pa.array([1_700_000_000_123_456, None], pa.timestamp("us")), pa.date32()),
    "days as instants": (pa.array([19_000, None], pa.date32()), pa.timestamp("ms", "UTC")),
    "durations": (pa.array([1_500, None], pa.duration("ms")), pa.duration("s")),
    "times": (pa.array([3_600_000_001, None], pa.time64("us")), pa.time32("s")),
    "decimals": (pa.array([1, None], pa.decimal128(10, 2)), pa.decimal128(20, 4)),
    "texts": (pa.array(["a", "", None]), pa.large_string()),
    "values of a dictionary": (pa.array(["a", "b", None, "a"]).dictionary_encode(), pa.string()),
    "texts as a dictionary": (pa.array(["a", "b", None, "a"]), pa.dictionary(pa.int8(), pa.string())),
}


@pytest.mark.parametrize("values", VALUES)
def test_cast_values_equal_those_of_pylance(tmp_path: Any, values: str) -> None:
    array, data_type = VALUES[values]
    for name, library in LIBRARIES.items():
        lance.write_dataset(pa.table({"a": array}), tmp_path / name, data_storage_version="2.2")
        library.dataset(tmp_path / name).alter_columns({"path": "a", "data_type": data_type})
    theirs, ours = (lance.dataset(tmp_path / name).to_table()["a"] for name in LIBRARIES)
    assert ours.type == theirs.type == data_type
    # NaN is equal to itself as text.
    assert str(ours.to_pylist()) == str(theirs.to_pylist())


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda dataset: dataset.drop_columns(["zz"]), ValueError),
        (lambda dataset: dataset.drop_columns(["A"]), ValueError),
        (lambda dataset: dataset.drop_columns(["l.u"]), ValueError),
        (lambda dataset: dataset.drop_columns(["a", "b", "s", "l"]), ValueError),
        (lambda dataset: dataset.drop_columns("a"), TypeError),
        (lambda dataset: dataset.drop_columns([1]), TypeError),
        (lambda dataset: dataset.drop_columns(None), TypeError),
        (lambda dataset: dataset.drop_columns(["_rowid"]), ValueError),
        (lambda dataset: dataset.alter_columns({"path": "zz", "name": "x"}), OSError),
        (lambda dataset: dataset.alter_columns({"path": "a", "name": "x"}, {"path": "x", "name": "y"}), OSError),
        (lambda dataset: dataset.alter_columns({"path": "a", "name": "b"}), OSError),
        (lambda dataset: dataset.alter_columns({"path": "a", "name": "x.y"}), OSError),
        (lambda dataset: dataset.alter_columns({"path": "a", "nullable": False}), OSError),
        (lambda dataset: dataset.alter_columns({"path": "s.p", "nullable": False}), OSError),
        (lambda dataset: dataset.alter_columns({"path": "l.item", "nullable": False}), OSError),
        (lambda dataset: dataset.alter_columns({"path": "a", "data_type": pa.string()}), OSError),
        (lambda dataset: dataset.alter_columns({"path": "b", "data_type": pa.string(), "nullable": False}), OSError),
        (lambda dataset: dataset.alter_columns({"path": "a"}), ValueError),
        (lambda dataset: dataset.alter_columns({"name": "a"}), ValueError),
        (lambda dataset: dataset.alter_columns({"path": "a", "foo": "x"}), ValueError),
        (lambda dataset: dataset.alter_columns([{"path": "a", "name": "x"}]), TypeError),
        (lambda dataset: dataset.alter_columns({"path": "a", "data_type": "int32"}), TypeError),
        (lambda dataset: dataset.alter_columns({"path": "a", "nullable": 1}), TypeError),
    ],
)
def test_invalid_changes_raise_the_same_error_class_as_in_pylance_and_change_nothing(
    tmp_path: Any, call: Any, error: type[Exception]
) -> None:
    lance.write_dataset(ROWS, tmp_path / "t")
    for library in LIBRARIES.values():
        with pytest.raises(error):
            call(library.dataset(tmp_path / "t"))
    assert lance_core.dataset(tmp_path / "t").latest_version == 1


def test_a_cast_of_a_value_that_does_not_fit_fails_and_leaves_no_files(tmp_path: Any) -> None:
    uri = tmp_path / "t"
    lance.write_dataset(pa.table({"a": [1, 2, 3, 1 << 40]}), uri, max_rows_per_file=1)
    files = set((uri / "data").iterdir())
    with pytest.raises(SchemaMismatchError, match="column 'a': a value cannot be cast from int64 to int32"):
        lance_core.dataset(uri).alter_columns({"path": "a", "data_type": pa.int32()})
    assert set((uri / "data").iterdir()) == files
    assert lance_core.dataset(uri).latest_version == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_cast_ignores_values_of_deleted_rows_that_do_not_fit(tmp_path: Any, library: str) -> None:
    uri = tmp_path / "t"
    lance.write_dataset(pa.table({"a": [1 << 40, 2, 3, 1 << 41]}), uri)
    lance_core.dataset(uri).delete("a > 3")
    dataset = lance_core.dataset(uri)
    dataset.alter_columns({"path": "a", "data_type": pa.int32()})
    assert LIBRARIES[library].dataset(uri).to_table()["a"].to_pylist() == [2, 3]
    lance.dataset(uri).validate()


def test_deleted_nulls_of_a_required_column_are_not_cast(tmp_path: Any) -> None:
    lance_core.write_dataset(pa.table({"a": [1, None, 3]}), tmp_path / "t")
    dataset = lance_core.dataset(tmp_path / "t")
    dataset.delete("a is null")
    dataset.alter_columns({"path": "a", "nullable": False})
    dataset.alter_columns({"path": "a", "data_type": pa.int32()})
    for library in LIBRARIES.values():
        assert library.dataset(tmp_path / "t").to_table()["a"].to_pylist() == [1, 3]


def test_cast_converts_deleted_rows_whose_values_fit_the_new_type(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filling the gaps of deleted rows once took longer than the cast itself."""
    lance_core.write_dataset(pa.table({"a": range(1000)}), tmp_path / "t")
    dataset = lance_core.dataset(tmp_path / "t")
    dataset.delete("a % 100 = 7")
    monkeypatch.setattr("lance_core.columns.alter.with_deleted_rows", pytest.fail)
    dataset.alter_columns({"path": "a", "data_type": pa.int32()})
    assert dataset.to_table()["a"].to_pylist() == [number for number in range(1000) if number % 100 != 7]


@pytest.mark.parametrize("changing", LIBRARIES)
@pytest.mark.parametrize("continuing", LIBRARIES)
def test_either_library_can_append_delete_and_compact_after_columns_were_changed(
    uri: str, changing: str, continuing: str
) -> None:
    lance.write_dataset(ROWS, uri)
    dataset = LIBRARIES[changing].dataset(uri)
    dataset.alter_columns({"path": "a", "name": "id"}, {"path": "b", "data_type": pa.large_string()})
    dataset.drop_columns(["s.q", "l"])
    library = LIBRARIES[continuing]
    more = pa.table({"id": [4], "b": pa.array(["new"], pa.large_string()), "s": [{"p": 4}]})
    library.write_dataset(more, uri, mode="append")
    library.dataset(uri).delete("id = 1")
    library.dataset(uri).optimize.compact_files()
    for each in LIBRARIES.values():
        assert each.dataset(uri).to_table().to_pydict() == {
            "id": [2, None, 4],
            "b": ["y", "z", "new"],
            "s": [None, {"p": 3}, {"p": 4}],
        }


def test_one_member_of_the_structs_in_a_list_can_be_dropped(tmp_path: Any) -> None:
    for version in VERSIONS:
        uri = tmp_path / version
        lance.write_dataset(NO_NULL_STRUCTS, uri, data_storage_version=version)
        lance_core.dataset(uri).drop_columns(["l.item.u"])
        for library in LIBRARIES.values():
            assert library.dataset(uri).to_table()["l"].to_pylist() == [[{"v": 2}], [], []]


def test_metadata_of_a_field_whose_type_changes_is_kept(tmp_path: Any) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"unit": "m"})])
    lance.write_dataset(pa.table({"a": [1]}, schema=schema), tmp_path / "t")
    dataset = lance_core.dataset(tmp_path / "t")
    dataset.alter_columns({"path": "a", "data_type": pa.int32()})
    assert dataset.schema.field("a").metadata == {b"unit": b"m"}


def test_column_names_that_would_make_a_table_ambiguous_are_rejected(tmp_path: Any) -> None:
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t")
    with pytest.raises(InvalidSchemaError, match="reserved"):
        dataset.alter_columns({"path": "a", "name": "_rowid"})
    with pytest.raises(InvalidSchemaError, match="'q' would have more than one field named 't'"):
        dataset.alter_columns({"path": "s.q.r", "name": "t"})
    assert dataset.latest_version == 1


def test_dropping_and_casting_parts_of_maps_is_refused(tmp_path: Any) -> None:
    rows = pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "z": [1]})
    dataset = lance_core.write_dataset(rows, tmp_path / "t", data_storage_version="2.2")
    with pytest.raises(ValueError, match="a part of the map 'm'"):
        dataset.drop_columns(["m.entries.key"])
    with pytest.raises(NotSupportedError, match="stored as a part of 'm'"):
        dataset.alter_columns({"path": "m.entries.value", "data_type": pa.int32()})


def test_a_column_becomes_required_unless_rows_with_nulls_are_appended_meanwhile(tmp_path: Any) -> None:
    dataset = lance_core.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "t")
    stale = lance_core.dataset(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [3]}), tmp_path / "t", mode="append")
    stale.alter_columns({"path": "a", "nullable": False})
    assert stale.version == 3
    assert not stale.schema.field("a").nullable
    stale.alter_columns({"path": "a", "nullable": True})
    lance.write_dataset(pa.table({"a": pa.array([None], pa.int64())}), tmp_path / "t", mode="append")
    with pytest.raises(SchemaMismatchError, match="contains nulls"):
        dataset.alter_columns({"path": "a", "nullable": False})


def test_a_cast_includes_rows_that_are_appended_meanwhile(tmp_path: Any) -> None:
    lance.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "t")
    stale = lance_core.dataset(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [3]}), tmp_path / "t", mode="append")
    stale.alter_columns({"path": "a", "data_type": pa.int16()})
    assert lance.dataset(tmp_path / "t").to_table() == pa.table({"a": pa.array([1, 2, 3], pa.int16())})
    assert len(list((tmp_path / "t" / "data").iterdir())) == 4


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_lists_that_pylance_splits_across_files_are_read(tmp_path: Any, version: str) -> None:
    uri = tmp_path / "t"
    lance.write_dataset(ROWS, uri, data_storage_version=version, max_rows_per_file=2)
    lance.dataset(uri).alter_columns({"path": "l.item.u", "data_type": pa.int32()})
    for columns in (["l"], None):
        theirs, ours = (library.dataset(uri).to_table(columns=columns) for library in LIBRARIES.values())
        assert ours == theirs
    assert lance_core.dataset(uri).take([2, 0], columns=["l"]) == lance.dataset(uri).take([2, 0], columns=["l"])
    lance_core.dataset(uri).optimize.compact_files()
    assert lance.dataset(uri).to_table() == ours
