"""Data overlays are written by either library, and read, changed, and compacted by the other."""

import dataclasses
import datetime
import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter
from lance.optimize import Compaction as TheirCompaction

import lance_core
from lance_core.errors import (
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    SchemaMismatchError,
    UnsupportedFeatureFlagError,
)
from lance_core.optimize import Compaction
from lance_core.schema.convert import schema_from_arrow
from lance_core.table.overlay_files import OVERLAYS_VARIABLE

FLAG = 64
MOMENT = datetime.timedelta(0)


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERLAYS_VARIABLE, "1")


def make_table(root: Path, *, stable: bool = False, version: str = "2.1") -> str:
    path = str(root / "t")
    rows = {
        "a": pa.array(range(20), pa.int64()),
        "s": [f"s{row}" for row in range(20)],
        "v": pa.array([[row, row + 1] for row in range(20)], pa.list_(pa.int32())),
        "p": pa.array([None if row == 2 and version != "2.0" else {"x": row, "y": f"y{row}"} for row in range(20)]),
    }
    lance.write_dataset(
        pa.table(rows), path, max_rows_per_file=10, enable_stable_row_ids=stable, data_storage_version=version
    )
    return path


FIELDS = {"a": (0,), "s": (1,), "v": (3,), "x": (5,), "y": (6,)}
"""The fields that own a column in files of 2.1."""


def overlay_file(path: str, values: pa.Table, fields: list[int], version: str = "2.1") -> dict[str, object]:
    name = f"{uuid.uuid4()}.lance"
    with LanceFileWriter(f"{path}/data/{name}", values.schema, version=version) as writer:
        writer.write_batch(values)
    major, minor = map(int, version.split("."))
    return {
        "path": name,
        "fields": fields,
        "column_indices": list(range(len(fields))),
        "file_major_version": major,
        "file_minor_version": minor,
        "file_size_bytes": os.path.getsize(f"{path}/data/{name}"),
    }


def lay_with_theirs(path: str, fragment: int, values: pa.Table, fields: list[int], offsets: object) -> None:
    operation = lance.LanceOperation
    file = lance.fragment.DataFile(**overlay_file(path, values, fields))
    group = operation.DataOverlayGroup(fragment, [operation.DataOverlayFile(file, offsets)])
    lance.LanceDataset.commit(path, operation.DataOverlay([group]), read_version=lance.dataset(path).version)


def lay_with_ours(path: str, fragment: int, values: pa.Table, fields: list[int], offsets: object) -> None:
    operation = lance_core.LanceOperation
    file = lance_core.DataFile(**overlay_file(path, values, fields))
    group = operation.DataOverlayGroup(fragment, [operation.DataOverlayFile(file, offsets)])
    version = lance_core.dataset(path).version
    lance_core.LanceDataset.commit(path, operation.DataOverlay([group]), read_version=version)


SIDES = [pytest.param(lay_with_theirs, id="theirs"), pytest.param(lay_with_ours, id="ours")]
Lay = Callable[[str, int, pa.Table, list[int], object], None]


def numbers(*values: int | None) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def cover(path: str, lay: Lay) -> None:
    """Add overlays of each kind: overlapping ones, with one coverage per field, on lists, and on struct members."""
    lay(path, 0, numbers(100, 105, 109), [0], [0, 5, 9])
    lay(path, 0, pa.table({"a": pa.array([205, None], pa.int64()), "s": ["x1", "x6"]}), [0, 1], [[5, 6], [1, 6]])
    lay(path, 1, pa.table({"v": pa.array([[9, 9, 9], None], pa.list_(pa.int32()))}), [3], [0, 4])
    lay(path, 0, pa.table({"p": pa.array([{"x": 70}, {"x": 71}, {"x": 72}])}), [5], [1, 3, 4])
    lay(path, 1, pa.table({"p": pa.array([{"x": 80, "y": "z"}, None])}), [5, 6], [0, 9])


def same(path: str, **options: object) -> pa.Table:
    """Return the rows, which must be equal in both libraries."""
    theirs = lance.dataset(path).to_table(**options)
    ours = lance_core.dataset(path).to_table(**options)
    assert ours.to_pylist() == theirs.to_pylist()
    assert ours.schema == theirs.schema
    return ours


def flags(path: str) -> int:
    manifest = lance_core.dataset(path).manifest.message
    assert manifest.reader_feature_flags & FLAG == manifest.writer_feature_flags & FLAG
    return manifest.reader_feature_flags & FLAG


def overlays(path: str) -> list[tuple[int, list[int], int]]:
    fragments = lance_core.dataset(path).manifest.message.fragments
    return [
        (fragment.id, list(each.data_file.fields), each.committed_version)
        for fragment in fragments
        for each in fragment.overlays
    ]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("lay", SIDES)
@pytest.mark.sampled(2)
def test_scans_takes_and_filters_return_overlaid_values(tmp_path: Path, lay: Lay, *, stable: bool) -> None:
    path = make_table(tmp_path, stable=stable)
    cover(path, lay)
    rows = same(path).to_pydict()
    assert rows["a"][:10] == [100, 1, 2, 3, 4, 205, None, 7, 8, 109]
    assert rows["s"][:7] == ["s0", "x1", "s2", "s3", "s4", "s5", "x6"]
    assert rows["v"][10] == [9, 9, 9]
    assert rows["v"][14] is None
    assert rows["p"][1:5] == [{"x": 70, "y": "y1"}, None, {"x": 71, "y": "y3"}, {"x": 72, "y": "y4"}]
    assert rows["p"][19] == {"x": None, "y": None}
    for columns in (["a"], ["s", "p.x"], ["p"], ["v", "a"]):
        same(path, columns=columns)
    for predicate in ("a > 100", "a IS NULL", "s = 'x1'", "s = 's1'", "p.x = 72", "a = 5"):
        same(path, filter=predicate)
        same(path, filter=predicate, columns=["s"])
    same(path, batch_size=3)
    same(path, with_row_id=True, limit=7, offset=3)
    picks = [19, 0, 5, 6, 6, 14]
    assert lance_core.dataset(path).take(picks).to_pylist() == lance.dataset(path).take(picks).to_pylist()
    ours = lance_core.dataset(path)
    ours.validate()
    lance.dataset(path).validate()
    assert flags(path) == FLAG
    assert ours.get_fragment(0).to_table().to_pylist() == lance.dataset(path).get_fragment(0).to_table().to_pylist()


def test_filters_find_overlaid_values_of_a_column_that_is_stored_with_a_dictionary(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table(
        {"a": pa.array(range(5000), pa.int64()), "s": [f"a repeated value {row % 5}" for row in range(5000)]}
    )
    lance.write_dataset(rows, path, data_storage_version="2.1")
    lay_with_theirs(path, 0, pa.table({"s": ["new", None, "a repeated value 1"]}), [1], [7, 8, 4000])
    assert same(path, filter="s = 'new' or s is null")["a"].to_pylist() == [7, 8]
    assert same(path, filter="s = 'a repeated value 1'", columns=["s"]).num_rows == 1001


def test_data_overlays_of_lance_core_and_pylance_have_equal_row_versions(tmp_path: Path) -> None:
    columns = ["a", "_row_last_updated_at_version", "_row_created_at_version"]
    found = []
    for lay in (lay_with_theirs, lay_with_ours):
        path = make_table(tmp_path, stable=True)
        cover(path, lay)
        found.append((overlays(path), lance.dataset(path).to_table(columns=columns).to_pydict()))
        shutil.rmtree(path)
    assert found[0] == found[1]


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_data_overlays_of_other_file_versions_are_read_by_both_libraries(tmp_path: Path, version: str) -> None:
    path = make_table(tmp_path, version=version)
    operation = lance_core.LanceOperation
    file = lance_core.DataFile(**overlay_file(path, numbers(50, 51), [0], version))
    group = operation.DataOverlayGroup(0, [operation.DataOverlayFile(file, [3, 8])])
    lance_core.LanceDataset.commit(path, operation.DataOverlay([group]), read_version=1)
    assert same(path)["a"].to_pylist()[:10] == [0, 1, 2, 50, 4, 5, 6, 7, 51, 9]


def test_an_overlay_of_one_struct_member_keeps_the_other_members(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    lay_with_theirs(path, 0, pa.table({"x": pa.array([7, 8], pa.int64())}), [5], [2, 3])
    assert same(path)["p"].to_pylist()[2:4] == [None, {"x": 8, "y": "y3"}]


# ── other operations ──────────────────────────────────────────────────────────────────────────────


def as_planned(change: Callable[[lance.LanceDataset], object]) -> Callable[[object, str], None]:
    """Apply a change planned by the reference, committed by the reference or by this library."""

    def make(library: object, path: str) -> None:
        dataset = lance.dataset(path)
        if library is lance:
            change(dataset)
            return
        twin = f"{path}-twin"
        shutil.copytree(path, twin)
        change(lance.dataset(twin))
        operation = lance_core.dataset(twin).read_transaction(dataset.version + 1).operation
        for directory in ("data", "_deletions"):
            if os.path.exists(f"{twin}/{directory}"):
                shutil.copytree(f"{twin}/{directory}", f"{path}/{directory}", dirs_exist_ok=True)
        shutil.rmtree(twin)
        lance_core.LanceDataset.commit(path, operation, read_version=dataset.version)

    return make


CHANGES: dict[str, Callable[[object, str], object]] = {
    "append": lambda library, path: library.write_dataset(
        library.dataset(path).to_table(limit=2), path, mode="append", max_rows_per_file=10
    ),
    "delete": lambda library, path: library.dataset(path).delete("a = 205 OR a IS NULL OR s = 's15'"),
    "add column": as_planned(lambda dataset: dataset.add_columns({"n": "a + 1"})),
    "drop column": as_planned(lambda dataset: dataset.drop_columns(["a"])),
    "rename": as_planned(lambda dataset: dataset.alter_columns({"path": "a", "name": "b"})),
    "update rows": as_planned(lambda dataset: dataset.update({"a": "a + 1000"}, where="a IN (4, 100, 205)")),
    "restore": lambda library, path: library.dataset(path, version=3).restore(),
    "restore before": lambda library, path: library.dataset(path, version=1).restore(),
    "overwrite": lambda library, path: library.write_dataset(numbers(1, 2), path, mode="overwrite"),
    "config": lambda library, path: library.dataset(path).update_config({"k": "v"}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.sampled(5)
def test_table_after_a_change_has_the_same_overlays_as_in_pylance(tmp_path: Path, change: str) -> None:
    found = []
    for library in (lance, lance_core):
        path = make_table(tmp_path)
        cover(path, lay_with_theirs)
        CHANGES[change](library, path)
        rows = same(path).to_pylist()
        found.append((overlays(path), flags(path), rows))
        lance_core.dataset(path).validate()
        shutil.rmtree(path)
    assert found[0] == found[1]


@pytest.mark.parametrize("compactor", [lance, lance_core])
@pytest.mark.parametrize("stable", [False, True])
def test_compaction_materializes_data_overlays(tmp_path: Path, compactor: object, *, stable: bool) -> None:
    path = make_table(tmp_path, stable=stable)
    cover(path, lay_with_theirs)
    lance.dataset(path).create_scalar_index("a", "BTREE")
    before = same(path).to_pylist()
    compactor.dataset(path).optimize.compact_files()
    assert same(path).to_pylist() == before
    assert overlays(path) == []
    assert flags(path) == 0
    for value in (100, 105, 205, 5):
        rows = lance.dataset(path).to_table(filter=f"a = {value}").num_rows
        assert rows == sum(row["a"] == value for row in before)


def test_fragments_with_many_overlays_are_compacted(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    options = {"target_rows_per_fragment": 10}
    for row in range(10):
        lay_with_ours(path, 0, numbers(row + 50), [0], [row])
    assert Compaction.plan(lance_core.dataset(path), options).tasks == []
    lay_with_theirs(path, 0, numbers(77), [0], [2])
    ours, theirs = (
        plan(library.dataset(path), options)
        for plan, library in ((Compaction.plan, lance_core), (TheirCompaction.plan, lance))
    )
    assert [[fragment.id for fragment in task.fragments] for task in ours.tasks] == [[0]]
    # Planned by one library, and executed by the other.
    task = lance.optimize.CompactionTask.from_json(ours.tasks[0].json())
    result = lance_core.optimize.RewriteResult.from_json(task.execute(lance.dataset(path)).json())
    Compaction.commit(lance_core.dataset(path), [result])
    assert theirs.num_tasks() == 1
    assert same(path)["a"].to_pylist()[10:14] == [50, 51, 77, 53]
    assert overlays(path) == []


def test_data_replacement_removes_overlays_of_the_replaced_columns(tmp_path: Path) -> None:
    found = []
    for library in (lance, lance_core):
        path = make_table(tmp_path)
        cover(path, lay_with_theirs)
        file = library.fragment.DataFile if library is lance else library.DataFile
        name = overlay_file(path, pa.table({"b": pa.array(range(10), pa.int64())}), [7])
        lance.dataset(path).add_columns(pa.schema([pa.field("b", pa.int64())]))
        lay_with_theirs(path, 0, pa.table({"b": pa.array([4], pa.int64())}), [7], [1])
        operation = library.LanceOperation
        replacement = operation.DataReplacement([operation.DataReplacementGroup(0, file(**name))])
        library.LanceDataset.commit(path, replacement, read_version=library.dataset(path).version)
        found.append((overlays(path), same(path).to_pylist()))
        shutil.rmtree(path)
    assert found[0] == found[1]
    assert [row["b"] for row in found[1][1][:3]] == [0, 1, 2]


def test_update_columns_removes_overlays_of_the_updated_columns(tmp_path: Path) -> None:
    """The reference writes the column, and either library commits."""
    found = []
    for library in (lance, lance_core):
        path = make_table(tmp_path)
        cover(path, lay_with_theirs)
        dataset = lance.dataset(path)
        values = pa.table({"s": ["s0", "s3"], "a": pa.array([-1, -3], pa.int64())})
        metadata, fields = dataset.get_fragment(0).update_columns(values, left_on="s", right_on="s")
        if library is lance_core:
            metadata = _ours(metadata)
        update = library.LanceOperation.Update(
            updated_fragments=[metadata], fields_modified=fields, update_mode="rewrite_columns"
        )
        library.LanceDataset.commit(path, update, read_version=dataset.version)
        found.append((overlays(path), same(path).to_pylist()))
        shutil.rmtree(path)
    assert found[0] == found[1]
    assert found[0][0][0] == (0, [-2, 1], 3)


def test_overlays_that_are_newer_than_a_replacement_are_kept(tmp_path: Path) -> None:
    """The new file was planned before the overlay, and committed after it."""
    found = []
    for library in (lance, lance_core):
        path = str(tmp_path / library.__name__)
        lance.write_dataset(numbers(*range(10)), path, data_storage_version="2.1")
        lay_with_theirs(path, 0, numbers(70, 71), [0], [0, 1])
        file = library.fragment.DataFile if library is lance else library.DataFile
        new_file = file(**overlay_file(path, numbers(*range(1000, 1010)), [0]))
        lay_with_ours(path, 0, numbers(5), [0], [1])
        operation = library.LanceOperation
        replacement = operation.DataReplacement([operation.DataReplacementGroup(0, new_file)])
        library.LanceDataset.commit(path, replacement, read_version=2)
        found.append((overlays(path), same(path)["a"].to_pylist()[:3]))
    assert found[0] == found[1] == ([(0, [0], 3)], [1000, 5, 1002])


def test_fragment_json_with_overlays_is_exchanged_with_pylance(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    cover(path, lay_with_theirs)
    theirs, ours = (library.dataset(path).get_fragment(0).metadata for library in (lance, lance_core))
    assert ours.to_json()["overlays"] == theirs.to_json()["overlays"]
    assert _ours(theirs) == ours
    assert lance.FragmentMetadata.from_json(json.dumps(ours.to_json())).to_json() == theirs.to_json()


def test_moved_rows_are_not_added_to_an_index_that_is_older_than_their_overlay(tmp_path: Path) -> None:
    path = make_table(tmp_path, stable=True)
    lance.dataset(path).create_scalar_index("s", "BITMAP")
    lay_with_ours(path, 0, pa.table({"s": ["new5"]}), [1], [5])
    dataset = lance.dataset(path)
    captured = dataset.update({"a": "a + 1000"}, where="a IN (4, 5)")
    assert captured["num_rows_updated"] == 2
    # The same update, committed by this library.
    transaction = lance.dataset(path).read_transaction(4)
    lance.dataset(path, version=3).restore()
    update = transaction.operation
    ours = lance_core.LanceOperation.Update(
        updated_fragments=[_ours(each) for each in update.updated_fragments],
        new_fragments=[_ours(each) for each in update.new_fragments],
        fields_for_preserving_frag_bitmap=update.fields_for_preserving_frag_bitmap,
        update_mode=update.update_mode,
    )
    lance_core.LanceDataset.commit(path, ours, read_version=5)
    for value, expected in (("new5", 1), ("s5", 0), ("s4", 1)):
        assert lance.dataset(path).to_table(filter=f"s = '{value}'").num_rows == expected


def _ours(metadata: lance.FragmentMetadata) -> lance_core.FragmentMetadata:
    document = metadata.to_json()
    return lance_core.FragmentMetadata.from_json(document)


# ── locations and maintenance ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("library", [lance, lance_core])
@pytest.mark.parametrize("kind", ["shallow", "deep", "branch"])
def test_clones_and_branches_keep_their_overlays(tmp_path: Path, library: object, kind: str) -> None:
    path = make_table(tmp_path)
    cover(path, lay_with_theirs)
    before = same(path).to_pylist()
    dataset = library.dataset(path)
    if kind == "branch":
        dataset.create_branch("b", dataset.version)
        target = f"{path}/tree/b"
    else:
        target = str(tmp_path / "copy")
        (dataset.shallow_clone if kind == "shallow" else dataset.deep_clone)(target, dataset.version)
    if kind == "deep":
        shutil.rmtree(path)
    assert same(target).to_pylist() == before
    lance_core.dataset(target).validate()


@pytest.mark.parametrize("library", [lance, lance_core])
def test_cleanup_keeps_overlays_that_are_in_use(tmp_path: Path, library: object) -> None:
    path = make_table(tmp_path)
    cover(path, lay_with_ours)
    before = same(path).to_pylist()
    library.dataset(path).cleanup_old_versions(older_than=MOMENT, delete_unverified=True)
    assert same(path).to_pylist() == before
    library.dataset(path).optimize.compact_files()
    library.dataset(path).cleanup_old_versions(older_than=MOMENT, delete_unverified=True)
    assert same(path).to_pylist() == before
    assert len(os.listdir(f"{path}/data")) == 1


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tables_with_overlays_are_refused_unless_enabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_table(tmp_path)
    lay_with_ours(path, 0, numbers(1), [0], [0])
    monkeypatch.delenv(OVERLAYS_VARIABLE)
    with pytest.raises(UnsupportedFeatureFlagError, match="64"):
        lance_core.dataset(path)
    with pytest.raises(ValueError, match="64"):
        lance.dataset(path)
    assert lance_core.dataset(path, version=1).count_rows() == 20
    shutil.rmtree(path)
    make_table(tmp_path)
    with pytest.raises(UnsupportedFeatureFlagError, match=OVERLAYS_VARIABLE):
        lay_with_ours(path, 0, numbers(1), [0], [0])


@pytest.mark.parametrize(
    ("fragment", "fields", "offsets", "error"),
    [
        (7, [0], [0], InvalidInputError),
        (0, [0], [15], InvalidInputError),
        (0, [99], [0], SchemaMismatchError),
        (0, [0], [[0], [1]], InvalidInputError),
        (0, [0], [0, 0], InvalidInputError),
    ],
)
def test_overlays_that_do_not_fit_the_table_are_refused(
    tmp_path: Path, fragment: int, fields: list[int], offsets: object, error: type[Exception]
) -> None:
    path = make_table(tmp_path)
    with pytest.raises(error):
        lay_with_ours(path, fragment, numbers(1), fields, offsets)
    assert lance_core.dataset(path).version == 1


def test_overlay_whose_file_is_missing_or_has_a_wrong_size_is_refused(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    document = overlay_file(path, numbers(1), [0])

    def lay(**changes: object) -> None:
        file = lance_core.DataFile(**{**document, **changes})
        group = lance_core.LanceOperation.DataOverlayGroup(0, [lance_core.LanceOperation.DataOverlayFile(file, [0])])
        operation = lance_core.LanceOperation.DataOverlay([group])
        lance_core.LanceDataset.commit(path, operation, read_version=1)

    with pytest.raises(NotFoundError, match=r"fragment 0: overlay .*/data/gone\.lance does not exist"):
        lay(path="gone.lance")
    with pytest.raises(InvalidInputError, match=f"has {document['file_size_bytes']} bytes, but the fragment records 7"):
        lay(file_size_bytes=7)
    assert lance_core.dataset(path).version == 1


def test_an_overlay_with_too_few_values_raises_corrupt_data(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    lay_with_theirs(path, 0, numbers(1), [0], [0, 1])
    dataset = lance_core.dataset(path)
    assert dataset.to_table(columns=["s"]).num_rows == 20
    with pytest.raises(CorruptDataError, match="but has 1 value"):
        dataset.to_table()
    with pytest.raises(CorruptDataError, match="but has 1 value"):
        dataset.validate()


def test_overlay_offsets_beyond_the_row_count_are_ignored(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    lay_with_theirs(path, 0, numbers(50, 51), [0], [3, 4_000_000_000])
    assert np.array_equal(same(path)["a"].to_pylist()[:5], [0, 1, 2, 50, 4])
    lance_core.dataset(path).validate()


def test_the_id_of_a_dropped_column_is_not_reused_while_an_overlay_lists_it(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(6), "b": range(6)}), path)
    lance.dataset(path).add_columns({"c": "a * 10"})
    lay_with_ours(path, 0, pa.table({"b": [55, 66], "c": [1001, 1002]}), [1, 2], [1, 4])
    dataset = lance_core.dataset(path)
    narrow = dataclasses.replace(dataset.lance_schema, fields=dataset.lance_schema.fields[:2])
    operation = lance_core.LanceOperation
    dataset = lance_core.LanceDataset.commit(path, operation.Project(narrow, True), read_version=dataset.version)
    assert dataset.max_field_id == lance.dataset(path).max_field_id == 2
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]

    def with_field(field_id: int) -> object:
        new = schema_from_arrow(pa.schema([("z", pa.int64())])).with_ids(field_id).fields[0]
        wide = dataclasses.replace(dataset.lance_schema, fields=(*dataset.lance_schema.fields, new))
        return operation.Merge(fragments, wide, True)

    with pytest.raises(InvalidInputError, match=r"has id 2.* start at 3"):
        lance_core.LanceDataset.commit(path, with_field(2), read_version=dataset.version)
    lance_core.LanceDataset.commit(path, with_field(3), read_version=dataset.version)
    assert same(path)["z"].to_pylist() == [None] * 6
