"""Merges have the same rows, ids, fragments, transactions, results, and errors as in pylance."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidMergeError, SchemaMismatchError

LIBRARIES: dict[str, Any] = {"pylance": lance, "lance_core": lance_core}
COUNTS = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")
BLOB_V1 = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
Build = Callable[[Any], Any]


def rows(*keys: int, add: int = 0) -> pa.Table:
    """Return rows with a key and two values."""
    return pa.table(
        {
            "a": pa.array(keys, pa.int64()),
            "b": pa.array([f"v{key + add}" for key in keys], pa.string()),
            "c": pa.array([float(key + add) for key in keys], pa.float64()),
        }
    )


TABLE = rows(*range(10))
SOURCE = rows(20, 3, 8, 4, 21, add=100)
TWINS = pa.table({"a": pa.array([1, 1, 2, None, None], pa.int64()), "b": list("vwxyz"), "c": [1.0, 2.0, 3.0, 4.0, 5.0]})
OTHER_COLUMNS = pa.table({"b": [1, 2, 3], "a": pa.array([20, 3, 8], pa.int64()), "z": ["x", "y", "z"]})
REQUIRED = TABLE.cast(
    pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string()), pa.field("c", pa.float64())])
)


def upsert(merge: Any) -> Any:
    return merge.when_matched_update_all().when_not_matched_insert_all()


MERGES: dict[str, tuple[Build, pa.Table]] = {
    "upsert": (upsert, SOURCE),
    "upsert in another order of columns": (upsert, SOURCE.select(["c", "a", "b"])),
    "insert": (lambda merge: merge.when_not_matched_insert_all(), SOURCE),
    "update": (lambda merge: merge.when_matched_update_all(), SOURCE),
    "update if": (lambda merge: merge.when_matched_update_all("source.c > target.c + 50 and target.a > 3"), SOURCE),
    "update if, insert": (
        lambda merge: merge.when_matched_update_all("target.a > 3").when_not_matched_insert_all(),
        SOURCE,
    ),
    "update if null": (lambda merge: merge.when_matched_update_all("source.b > NULL"), SOURCE),
    "update if true": (lambda merge: merge.when_matched_update_all("true"), SOURCE),
    "delete": (lambda merge: merge.when_matched_delete(), SOURCE),
    "delete by key only": (lambda merge: merge.when_matched_delete(), SOURCE.select(["a"])),
    "delete by a source with other columns": (lambda merge: merge.when_matched_delete(), OTHER_COLUMNS),
    "delete rows without a source row, which has other columns": (
        lambda merge: merge.when_not_matched_by_source_delete("a > 4"),
        OTHER_COLUMNS,
    ),
    "insert from a source with other columns": (lambda merge: merge.when_not_matched_insert_all(), OTHER_COLUMNS),
    "delete, insert": (lambda merge: merge.when_matched_delete().when_not_matched_insert_all(), SOURCE),
    "last of update and delete": (lambda merge: merge.when_matched_update_all().when_matched_delete(), SOURCE),
    "last of fail and update": (lambda merge: merge.when_matched_fail().when_matched_update_all(), SOURCE),
    "fail": (lambda merge: merge.when_matched_fail(), SOURCE),
    "fail, insert": (lambda merge: merge.when_matched_fail().when_not_matched_insert_all(), SOURCE),
    "fail, insert without match": (
        lambda merge: merge.when_matched_fail().when_not_matched_insert_all(),
        rows(20, 30),
    ),
    "delete by source": (lambda merge: upsert(merge).when_not_matched_by_source_delete(), SOURCE),
    "delete by source if": (lambda merge: upsert(merge).when_not_matched_by_source_delete("a > 5"), SOURCE),
    "delete by source only": (lambda merge: merge.when_not_matched_by_source_delete("a > 5"), SOURCE),
    "replace a range": (
        lambda merge: merge.when_not_matched_insert_all().when_not_matched_by_source_delete("a < 4"),
        rows(0, 20),
    ),
    "update if, delete by source": (
        lambda merge: merge.when_matched_update_all("target.a > 3").when_not_matched_by_source_delete(),
        SOURCE,
    ),
    "nothing": (lambda merge: merge, SOURCE),
    "no rows": (upsert, rows()),
    "no match": (lambda merge: merge.when_matched_update_all(), rows(20)),
    "nothing to insert": (lambda merge: merge.when_not_matched_insert_all(), rows(2, 3)),
    "whole fragments": (upsert, rows(*range(8), add=7)),
    "same key twice": (upsert, rows(20, 3, 3)),
    "same new key twice": (upsert, rows(20, 20, 3)),
    "same key twice, insert": (lambda merge: merge.when_not_matched_insert_all(), rows(20, 20, 3, 3)),
    "same key twice, update one": (
        lambda merge: merge.when_matched_update_all("source.b = 'v7'"),
        pa.concat_tables([rows(3, add=4), rows(3)]),
    ),
    "same key twice, delete": (lambda merge: merge.when_matched_delete(), rows(3, 3)),
    "some columns": (upsert, SOURCE.select(["a", "b"])),
    "some columns, update": (lambda merge: merge.when_matched_update_all(), SOURCE.select(["b", "a"])),
    "some columns, update if": (lambda merge: merge.when_matched_update_all("target.c > 4"), SOURCE.select(["a", "b"])),
    "some columns, insert": (lambda merge: merge.when_not_matched_insert_all(), SOURCE.select(["a", "b"])),
    "some columns, delete by source": (
        lambda merge: upsert(merge).when_not_matched_by_source_delete("a > 8"),
        SOURCE.select(["a", "b"]),
    ),
    "columns in place": (
        lambda merge: merge.when_matched_update_all().write_mode("rewrite_columns"),
        SOURCE.select(["c", "a"]),
    ),
    "columns in place, update if": (
        lambda merge: merge.when_matched_update_all("target.c > 4").write_mode("rewrite_columns"),
        SOURCE.select(["a", "b"]),
    ),
    "columns in place, no match": (
        lambda merge: merge.when_matched_update_all().write_mode("rewrite_columns"),
        rows(20).select(["a", "b"]),
    ),
    "columns in place, same key twice": (
        lambda merge: merge.when_matched_update_all().write_mode("rewrite_columns"),
        rows(3, 3).select(["a", "b"]),
    ),
    "columns in place, insert": (lambda merge: upsert(merge).write_mode("rewrite_columns"), SOURCE.select(["a", "b"])),
    "columns in place, delete": (
        lambda merge: merge.when_matched_delete().write_mode("rewrite_columns"),
        SOURCE.select(["a", "b"]),
    ),
    "columns in place, delete by source": (
        lambda merge: merge.when_matched_update_all().when_not_matched_by_source_delete().write_mode("rewrite_columns"),
        SOURCE.select(["a", "b"]),
    ),
    "columns in place, all columns": (
        lambda merge: merge.when_matched_update_all().write_mode("rewrite_columns"),
        SOURCE,
    ),
    "columns in place, key column only": (
        lambda merge: merge.when_matched_update_all().write_mode("rewrite_columns"),
        SOURCE.select(["a"]),
    ),
    "key column only": (upsert, SOURCE.select(["a"])),
    "without key column": (upsert, SOURCE.select(["b", "c"])),
    "unknown column": (upsert, SOURCE.append_column("z", pa.array([1] * 5))),
    "other type of key": (upsert, SOURCE.set_column(0, "a", SOURCE["a"].cast(pa.int32()))),
    "other type": (upsert, SOURCE.set_column(2, "c", SOURCE["c"].cast(pa.float32()))),
    "unknown column in condition": (lambda merge: merge.when_matched_update_all("source.z > 1"), SOURCE),
    "no prefix in condition": (lambda merge: merge.when_matched_update_all("c > 1"), SOURCE),
    "malformed condition": (lambda merge: merge.when_matched_update_all("source.c >"), SOURCE),
    "number as condition": (lambda merge: merge.when_matched_update_all("source.c"), SOURCE),
    "missing column in condition": (
        lambda merge: merge.when_matched_update_all("source.c > 1"),
        SOURCE.select(["a", "b"]),
    ),
    "unknown column in deletion": (lambda merge: merge.when_not_matched_by_source_delete("z > 1"), SOURCE),
    "prefix in deletion": (lambda merge: merge.when_not_matched_by_source_delete("target.a > 1"), SOURCE),
    "without index": (lambda merge: upsert(merge).use_index(False), SOURCE),
    "unknown mode": (lambda merge: upsert(merge).write_mode("fast"), SOURCE),
    "unknown format": (lambda merge: upsert(merge).data_storage_version("9.9"), SOURCE),
    "other format": (lambda merge: upsert(merge).data_storage_version("2.0"), SOURCE),
    "unknown base": (lambda merge: upsert(merge).target_bases(["x"]), SOURCE),
    "no base": (lambda merge: upsert(merge).target_bases([]), SOURCE),
    "all bases": (lambda merge: upsert(merge).target_all_bases(), SOURCE),
    "all bases but the root": (lambda merge: upsert(merge).target_all_bases(False), SOURCE),
    "two choices of bases": (lambda merge: upsert(merge).target_all_bases().target_bases(["x"]), SOURCE),
}


def outcome(library: Any, uri: Path, build: Build, source: pa.Table, on: Any = "a") -> Any:
    """Return the result of a merge, or its error."""
    try:
        return build(library.dataset(uri).merge_insert(on)).execute(source)
    except Exception as error:  # noqa: BLE001  # compared with that of the other library
        return error


def same_outcomes(theirs: Any, ours: Any) -> None:
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), (theirs, ours)
        return
    assert {name: theirs[name] for name in COUNTS} == ours


def same_tables(tmp_path: Path) -> None:
    """Compare rows, ids, and fragments, as both libraries read them, and the last transactions."""
    same_rows(tmp_path)
    theirs, ours = (lance.dataset(tmp_path / name) for name in LIBRARIES)
    assert described(ours) == described(theirs)


def same_rows(tmp_path: Path) -> None:
    """Compare rows and ids, as both libraries read them."""
    theirs, ours = (lance.dataset(tmp_path / name) for name in LIBRARIES)
    ours.validate()
    assert ours.version == theirs.version
    lineage = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"] if ours.has_stable_row_ids else []
    columns = [*ours.schema.names, *lineage]
    found = [each.to_table(columns=columns).to_pylist() for each in (theirs, ours)]
    # The order of the new rows is arbitrary in pylance, and so are the ids of inserted rows.
    assert sorted(map(repr, found[0])) == sorted(map(repr, found[1]))
    mine = lance_core.dataset(tmp_path / "lance_core")
    assert mine.to_table(columns=columns).to_pylist() == found[1]


def described(dataset: lance.LanceDataset) -> list[Any]:
    """Return the fragments and the last transaction's record of them."""
    fragments = [
        (each.fragment_id, each.physical_rows, each.num_deletions, [file.fields for file in each.metadata.files])
        for each in dataset.get_fragments()
    ]
    operation = dataset.read_transaction(dataset.version).operation
    if not isinstance(operation, lance.LanceOperation.Update):
        return [fragments, type(operation)]
    changed = {
        each.id: each.deletion_file and each.deletion_file.num_deleted_rows for each in operation.updated_fragments
    }
    return [
        fragments,
        sorted(operation.removed_fragment_ids),
        changed,
        [each.physical_rows for each in operation.new_fragments],
        sorted(operation.fields_modified),
        sorted(operation.fields_for_preserving_frag_bitmap),
        operation.update_mode,
    ]


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stable ids": {"enable_stable_row_ids": True},
    "2.0": {"data_storage_version": "2.0"},
    "2.1": {"data_storage_version": "2.1", "enable_stable_row_ids": True},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.sampled(len(MERGES))
def test_merges_by_both_libraries_leave_equal_tables(tmp_path: Path, merge: str, kind: str) -> None:
    build, source = MERGES[merge]
    outcomes = []
    for name, library in LIBRARIES.items():
        lance.write_dataset(TABLE, tmp_path / name, max_rows_per_file=4, **KINDS[kind])
        outcomes.append(outcome(library, tmp_path / name, build, source))
    same_outcomes(*outcomes)
    same_tables(tmp_path)


@pytest.mark.parametrize("second", LIBRARIES)
@pytest.mark.parametrize("first", LIBRARIES)
def test_both_libraries_merge_into_the_same_table_in_turn(tmp_path: Path, first: str, second: str) -> None:
    lance.write_dataset(TABLE, tmp_path, max_rows_per_file=4, enable_stable_row_ids=True)
    upsert(LIBRARIES[first].dataset(tmp_path).merge_insert("a")).execute(SOURCE)
    again = rows(20, 0, 30, 4, add=300)
    result = upsert(LIBRARIES[second].dataset(tmp_path).merge_insert("a")).execute(again)
    assert result == {"num_inserted_rows": 1, "num_updated_rows": 3, "num_deleted_rows": 0}
    expected = {key: f"v{key}" for key in range(10)}
    expected |= {key: f"v{key + 100}" for key in (20, 3, 8, 4, 21)} | {key: f"v{key + 300}" for key in (20, 0, 30, 4)}
    for library in LIBRARIES.values():
        table = library.dataset(tmp_path).to_table(columns=["a", "b", "_rowid"])
        assert dict(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True)) == expected
        assert len(set(table["_rowid"].to_pylist())) == len(expected)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize(
    "merge",
    [
        *("upsert", "update", "insert", "delete", "delete by source if"),
        *("some columns", "some columns, update", "some columns, delete by source", "columns in place"),
    ],
)
def test_indices_cover_the_same_fragments_after_a_merge(tmp_path: Path, merge: str, stable: bool) -> None:
    build, source = MERGES[merge]
    outcomes = []
    for name, library in LIBRARIES.items():
        lance.write_dataset(TABLE, tmp_path / name, max_rows_per_file=4, enable_stable_row_ids=stable)
        for column in ("a", "c"):
            lance.dataset(tmp_path / name).create_scalar_index(column, "BTREE")
        outcomes.append(outcome(library, tmp_path / name, build, source))
    same_outcomes(*outcomes)
    same_tables(tmp_path)
    covered = [
        {
            index.name: [sorted(segment.fragment_ids) for segment in index.segments]
            for index in lance.dataset(tmp_path / name).describe_indices()
        }
        for name in LIBRARIES
    ]
    assert covered[0] == covered[1]
    found = lance.dataset(tmp_path / "lance_core").to_table(filter="a = 3 or c = 103.0")
    assert found.num_rows == lance.dataset(tmp_path / "pylance").to_table(filter="a = 3 or c = 103.0").num_rows


MEMBERS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "s": [{"x": number, "y": {"z": str(number), "w": number}} for number in range(6)],
        "l": [[number] for number in range(6)],
    }
)
SOME_MEMBERS = pa.table({"id": pa.array([4, 2, 30], pa.int64()), "s": [{"y": {"w": 9}}, {"y": {"w": 8}}, None]})
MEMBER_MERGES: dict[str, Build] = {
    "upsert": upsert,
    "update": lambda merge: merge.when_matched_update_all(),
    "update if": lambda merge: merge.when_matched_update_all("target.id > 3"),
    "insert": lambda merge: merge.when_not_matched_insert_all(),
    "delete": lambda merge: merge.when_matched_delete(),
    "delete by source": lambda merge: upsert(merge).when_not_matched_by_source_delete(),
    "columns in place": lambda merge: merge.when_matched_update_all().write_mode("rewrite_columns"),
}


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("merge", MEMBER_MERGES)
@pytest.mark.sampled(len(MEMBER_MERGES))
def test_source_that_lacks_some_members_of_a_struct_changes_only_the_other_members(
    tmp_path: Path, merge: str, stable: bool
) -> None:
    outcomes = []
    for name, library in LIBRARIES.items():
        lance.write_dataset(MEMBERS, tmp_path / name, max_rows_per_file=4, enable_stable_row_ids=stable)
        lance.dataset(tmp_path / name).delete("id in (0, 3)")
        outcomes.append(outcome(library, tmp_path / name, MEMBER_MERGES[merge], SOME_MEMBERS, "id"))
    same_outcomes(*outcomes)
    # New files of ours contain all members; pylance omits those that the source lacks.
    same_rows(tmp_path)
    if "update" in merge:
        same_tables(tmp_path)


def test_merge_into_a_branch_leaves_the_main_branch_unchanged(tmp_path: Path) -> None:
    for name, library in LIBRARIES.items():
        main = lance.write_dataset(TABLE, tmp_path / name, max_rows_per_file=4)
        main.create_branch("b")
        branch = library.dataset(tmp_path / name).checkout_version(("b", None))
        assert upsert(branch.merge_insert("a")).execute(SOURCE)["num_updated_rows"] == 3
        assert lance.dataset(tmp_path / name).to_table() == TABLE
    theirs, ours = (lance.dataset(tmp_path / name).checkout_version(("b", None)) for name in LIBRARIES)
    assert ours.to_table().sort_by("a") == theirs.to_table().sort_by("a")
    assert described(ours) == described(theirs)


TABLES: dict[str, tuple[pa.Table, pa.Table, Any]] = {
    "keys twice in the table": (TWINS, rows(1, 3, add=100), "a"),
    "null keys": (TWINS, pa.table({"a": pa.array([2, None], pa.int64()), "b": ["P", "Q"], "c": [1.0, 2.0]}), "a"),
    "several keys": (
        TABLE,
        pa.table({"a": [3, 4, 30], "b": ["v3", "v5", "x"], "c": [99.0, 98.0, 97.0]}),
        ["a", "b"],
    ),
    "all columns are keys": (
        TABLE,
        pa.table({"a": [3, 4, 30], "b": ["v3", "v5", "x"], "c": [3.0, 98.0, 97.0]}),
        ["c", "a", "b"],
    ),
    "several keys, one null": (
        TWINS,
        pa.table({"a": pa.array([None, 2], pa.int64()), "b": ["y", None], "c": [1.0, 2.0]}),
        ["a", "b"],
    ),
    "repeated key column": (TABLE, SOURCE, ["a", "a"]),
    "other case": (TABLE, SOURCE, "A"),
    "key columns from an iterator": (TABLE, SOURCE, ("a",)),
    "unknown key column": (TABLE, SOURCE, "z"),
    "no key column": (TABLE, SOURCE, []),
    "no primary key": (TABLE, SOURCE, None),
    "member as key": (
        pa.table({"s": [{"x": 1}, {"x": 2}], "v": [1, 2]}),
        pa.table({"s": [{"x": 2}], "v": [3]}),
        "s.x",
    ),
    "number as key column": (TABLE, SOURCE, 3),
    "number among key columns": (TABLE, SOURCE, ["a", 3]),
    "nullable source": (REQUIRED, SOURCE, "a"),
    "null in required column": (
        REQUIRED,
        pa.table({"a": pa.array([3, None], pa.int64()), "b": ["x", "y"], "c": [1.0, 2.0]}),
        "a",
    ),
    "missing required column": (REQUIRED, SOURCE.select(["b", "c"]), "b"),
    "empty table": (TABLE.slice(0, 0), SOURCE, "a"),
}


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.sampled(len(TABLES))
def test_merges_match_the_same_rows_as_pylance(tmp_path: Path, table: str, stable: bool) -> None:
    before, source, on = TABLES[table]
    outcomes = []
    for name, library in LIBRARIES.items():
        lance.write_dataset(before, tmp_path / name, max_rows_per_file=4, enable_stable_row_ids=stable)
        outcomes.append(outcome(library, tmp_path / name, upsert, source, on))
    same_outcomes(*outcomes)
    same_tables(tmp_path)


def test_source_rows_that_match_the_same_table_row_are_named_in_the_error(tmp_path: Path) -> None:
    lance.write_dataset(TABLE, tmp_path)
    merge = upsert(lance_core.dataset(tmp_path).merge_insert(["a", "b"]))
    with pytest.raises(InvalidMergeError, match="several source rows with the key a = 3, b = 'v3' match the same row"):
        merge.execute(rows(20, 3, 4, 3))
    with pytest.raises(InvalidMergeError, match="when_matched 'fail' does not allow: a = 4, b = 'v4'"):
        merge.when_matched_fail().execute(rows(20, 4))
    assert lance_core.dataset(tmp_path).version == 1
    assert len(list((tmp_path / "data").iterdir())) == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_merge_computed_by_one_library_can_be_committed_by_the_other(tmp_path: Path, library: str) -> None:
    lance.write_dataset(TABLE, tmp_path, max_rows_per_file=4)
    merge = upsert(LIBRARIES[library].dataset(tmp_path).merge_insert("a"))
    transaction, result = merge.execute_uncommitted(SOURCE)
    assert result == {"num_inserted_rows": 2, "num_updated_rows": 3, "num_deleted_rows": 0}
    assert lance.dataset(tmp_path).version == 1
    committed = LIBRARIES[library].LanceDataset.commit(str(tmp_path), transaction)
    assert committed.version == 2
    for each in LIBRARIES.values():
        table = each.dataset(tmp_path).to_table().sort_by("a")
        assert table["b"].to_pylist() == [
            "v0", "v1", "v2", "v103", "v104", "v5", "v6", "v7", "v108", "v9", "v120", "v121"
        ]  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_merge_updates_and_inserts_blobs(tmp_path: Path, library: str, version: str) -> None:
    """A blob in format 2.2 is declared as a struct, and the given blobs may lack some of its members."""
    field = lance_core.blob_field("b") if version == "2.2" else BLOB_V1

    def blobs(*values: bytes | None) -> pa.Array:
        return lance_core.blob_array(values) if version == "2.2" else pa.array(values, pa.large_binary())

    uri = str(tmp_path / "t")
    schema = pa.schema([pa.field("a", pa.int64()), field])
    old = pa.table([pa.array([0, 1, 2], pa.int64()), blobs(b"x" * 70_000, b"y", None)], schema=schema)
    new = pa.table([pa.array([1, 2, 3], pa.int64()), blobs(None, b"z" * 70_000, b"w")], schema=schema)
    lance.write_dataset(old, uri, data_storage_version=version)

    merged = upsert(LIBRARIES[library].dataset(uri).merge_insert("a")).execute(new)

    assert [merged[name] for name in COUNTS] == [1, 2, 0]
    for opened in LIBRARIES.values():
        found = opened.dataset(uri).to_table(blob_handling="all_binary").sort_by("a")["b"].to_pylist()
        assert found == [b"x" * 70_000, None, b"z" * 70_000, b"w"]


INTS = pa.array([1, 2, 300, None], pa.int64())
MOMENTS = pa.array([1_000, 2_000, None], pa.timestamp("us", "UTC"))
TEXTS = pa.array(["a", "b", None])
KEY_TYPES: dict[str, tuple[pa.Array, pa.Array]] = {
    "narrower": (INTS, pa.array([2, 3, None], pa.int32())),
    "wider": (INTS.cast(pa.int16()), pa.array([2, 300, 300 + (1 << 16), None], pa.int64())),
    "unsigned": (INTS, pa.array([2, 1 << 63], pa.uint64())),
    "float": (INTS, pa.array([2.0, 2.5, 300.0, float("nan")])),
    "integer for float": (pa.array([2.0, 3.5, None]), pa.array([2, 3, None], pa.int64())),
    "double for float": (
        pa.array([2.0, 0.1, float("nan")], pa.float32()),
        pa.array([2.0, 0.1, float("nan")], pa.float64()),
    ),
    "large text": (TEXTS, TEXTS.slice(1).cast(pa.large_string())),
    "text for large text": (TEXTS.cast(pa.large_string()), TEXTS.slice(1)),
    "large bytes": (pa.array([b"a", b"b"]), pa.array([b"b"], pa.large_binary())),
    "dictionary": (TEXTS, TEXTS.slice(1).dictionary_encode()),
    "text for dictionary": (TEXTS.dictionary_encode(), TEXTS.slice(1)),
    "other dictionary": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["a", "b"]),
        pa.array([str(number) for number in range(500)] + ["b"]).dictionary_encode(),
    ),
    "other unit": (MOMENTS, pa.array([2, 3], pa.timestamp("ms", "UTC"))),
    "finer unit": (MOMENTS, pa.array([2_000_000], pa.timestamp("ns", "UTC"))),
    "other zone": (MOMENTS, MOMENTS.cast(pa.timestamp("us", "Europe/Berlin"))),
}


@pytest.mark.parametrize("keys", KEY_TYPES)
def test_merge_deletes_rows_by_keys_of_another_type(tmp_path: Path, keys: str) -> None:
    stored, given = KEY_TYPES[keys]
    left = []
    for name, library in LIBRARIES.items():
        uri = tmp_path / name
        lance.write_dataset(pa.table({"k": stored, "v": range(len(stored))}), uri)
        merge = library.dataset(uri).merge_insert("k").when_matched_delete()
        deleted = merge.execute(pa.table({"k": given}))["num_deleted_rows"]
        left.append((deleted, lance.dataset(uri).to_table()["v"].to_pylist()))
    assert left[0] == left[1]
    assert left[0][0] > 0


@pytest.mark.parametrize("given", [["1"], [b"1"], [True], [{"x": 1}]], ids=["text", "bytes", "bool", "struct"])
def test_merge_keys_that_cannot_be_compared_are_refused(tmp_path: Path, given: list[object]) -> None:
    """Pylance converts numbers to text and compares the digits."""
    lance.write_dataset(pa.table({"k": INTS}), tmp_path)
    merge = lance_core.dataset(tmp_path).merge_insert("k").when_matched_delete()
    with pytest.raises(SchemaMismatchError, match="expected type int64"):
        merge.execute(pa.table({"k": given}))
