"""Deletes by one implementation, in tables that the other reads and changes."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.io.object_store import PutOutcome
from lance_core.table.paths import ManifestName
from lance_core.table.version_log import VersionLog

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "text": [f"row {number}" for number in range(100)]})
BOTH = pytest.mark.parametrize(
    ("first", "second"), [(lance, lance_core), (lance_core, lance), (lance_core, lance_core)]
)


def _write(uri: Path) -> str:
    lance.write_dataset(ROWS, str(uri), max_rows_per_file=25)
    return str(uri)


def _same(uri: str) -> list[int]:
    """Return the ids, which must be equal in both libraries."""
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    theirs.validate()
    ours.validate()
    assert ours.to_table().equals(theirs.to_table())
    assert ours.count_rows() == theirs.count_rows() == ours.to_table().num_rows
    return ours.to_table()["id"].to_pylist()


@BOTH
def test_deletes_of_lance_core_and_pylance_in_turn_leave_the_same_rows(
    tmp_path: Path, first: ModuleType, second: ModuleType
) -> None:
    uri = _write(tmp_path / "t")
    left = set(range(100))
    steps: list[tuple[str, Callable[[int], bool]]] = [
        ("id = 3", lambda number: number == 3),
        ("id % 7 = 0", lambda number: number % 7 == 0),
        ("id between 25 and 49", lambda number: 25 <= number <= 49),
        ("id = 1000", lambda number: False),
        ("text like '%9' or id < 5", lambda number: number % 10 == 9 or number < 5),
        ("id < 25 and id is not null", lambda number: number < 25),
    ]
    for number, (predicate, gone) in enumerate(steps):
        library = (first, second)[number % 2]
        found = {each for each in left if gone(each)}
        assert library.dataset(uri).delete(predicate) == {"num_deleted_rows": len(found)}
        left -= found
        assert _same(uri) == sorted(left)
    second.write_dataset(ROWS.slice(0, 2), uri, mode="append")
    first.dataset(uri).truncate_table()
    assert _same(uri) == []


@pytest.mark.parametrize(
    "predicate", ["id = 3", "id > 90 or id < 30", "id < 0", "true", "id >= 25 and id < 50", "text = 'row 5'"]
)
def test_the_transaction_of_a_delete_equals_that_of_pylance(tmp_path: Path, predicate: str) -> None:
    uri = _write(tmp_path / "theirs")
    shutil.copytree(uri, tmp_path / "ours")
    ours = str(tmp_path / "ours")
    assert lance_core.dataset(ours).delete(predicate) == lance.dataset(uri).delete(predicate)
    expected, found = (lance.dataset(each).read_transaction(2).operation for each in (uri, ours))
    assert found.predicate == expected.predicate
    assert sorted(found.deleted_fragment_ids) == sorted(expected.deleted_fragment_ids)
    described = [
        sorted(
            (each.id, each.physical_rows, each.deletion_file.file_type, each.deletion_file.num_deleted_rows)
            for each in operation.updated_fragments
        )
        for operation in (expected, found)
    ]
    assert described[0] == described[1]


@pytest.mark.parametrize(
    ("num_rows", "more"), [(1, 1), (4999, 1), (4999, 2), (10, 4990), (10, 4991), (1, 5000), (5000, 1), (8000, 100)]
)
@pytest.mark.sampled(5)
def test_deletion_files_have_the_type_that_pylance_chooses(tmp_path: Path, num_rows: int, more: int) -> None:
    names = []
    for library in (lance, lance_core):
        uri = str(tmp_path / library.__name__)
        lance.write_dataset(pa.table({"id": range(20_000)}), uri)
        library.dataset(uri).delete(f"id < {num_rows}")
        names.append([path.suffix for path in Path(uri, "_deletions").iterdir()])
        library.dataset(uri).delete(f"id >= 10000 and id < {10_000 + more}")
        assert _same(uri) == [*range(num_rows, 10_000), *range(10_000 + more, 20_000)]
        names[-1] += sorted(path.suffix for path in Path(uri, "_deletions").iterdir())
    assert names[0] == names[1]


@BOTH
def test_deletes_through_stale_handles_are_merged(tmp_path: Path, first: ModuleType, second: ModuleType) -> None:
    """Deletes of different rows of a fragment are merged; a second delete of the same rows finds none."""
    uri = _write(tmp_path / "t")
    stale = [second.dataset(uri) for _ in range(4)]
    assert first.dataset(uri).delete("id in (1, 2, 60)") == {"num_deleted_rows": 3}
    assert stale[0].delete("id in (3, 4, 61)") == {"num_deleted_rows": 3}
    assert stale[1].delete("id in (2, 5)") == {"num_deleted_rows": 1}
    assert stale[2].delete("id >= 75") == {"num_deleted_rows": 25}
    assert first.dataset(uri).delete("id between 0 and 24") == {"num_deleted_rows": 20}
    assert stale[3].delete("id between 20 and 30") == {"num_deleted_rows": 6}
    assert _same(uri) == [number for number in range(31, 75) if number not in (60, 61)]


@BOTH
def test_a_merged_delete_of_the_last_rows_removes_the_fragment(
    tmp_path: Path, first: ModuleType, second: ModuleType
) -> None:
    uri = _write(tmp_path / "t")
    stale = second.dataset(uri)
    first.dataset(uri).delete("id < 10")
    assert stale.delete("id >= 10 and id < 25") == {"num_deleted_rows": 15}
    assert [fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()] == [1, 2, 3]
    assert _same(uri) == list(range(25, 100))


def test_deletes_of_separate_fragments_are_committed_together(tmp_path: Path) -> None:
    for library in (lance, lance_core):
        uri = _write(tmp_path / library.__name__)
        changed = [fragment.delete("id % 2 = 0 and id < 75") for fragment in library.dataset(uri).get_fragments()[:3]]
        operation = library.LanceOperation.Delete(changed, [3], "id % 2 = 0 or id >= 75")
        library.LanceDataset.commit(uri, operation, read_version=1)
        assert _same(uri) == [number for number in range(75) if number % 2]


def test_deletes_keep_stable_row_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, max_rows_per_file=25, enable_stable_row_ids=True)
    lance_core.dataset(uri).delete("id % 5 = 0 or id > 80")
    found = lance.dataset(uri).to_table(columns=["id"], with_row_id=True)
    assert found["_rowid"].to_pylist() == found["id"].to_pylist() == [n for n in range(81) if n % 5]
    lance.dataset(uri).optimize.compact_files()
    lance_core.dataset(uri).delete("id < 10")
    assert _same(uri) == [number for number in range(10, 81) if number % 5]


def test_an_index_does_not_return_deleted_rows(tmp_path: Path) -> None:
    uri = _write(tmp_path / "t")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance_core.dataset(uri).delete("id in (7, 8)")
    assert lance.dataset(uri).to_table(filter="id in (6, 7, 8, 9)")["id"].to_pylist() == [6, 9]
    assert lance.dataset(uri).has_index


def _update(dataset: lance.LanceDataset) -> None:
    dataset.update({"value": "7"}, where="id IN (2, 3)")


def _upsert(dataset: lance.LanceDataset) -> None:
    rows = pa.table({"id": pa.array([2, 3, 100]), "value": pa.array([7, 7, 7])})
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


@pytest.mark.parametrize("change", [_update, _upsert])
@pytest.mark.parametrize("condition", ["id = 1", "id IN (1, 8)"])
def test_delete_succeeds_if_pylance_immediately_moves_rows_of_the_new_version(
    condition: str, change: Callable[[lance.LanceDataset], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "table.lance")
    lance_core.write_dataset(pa.table({"id": range(10), "value": range(10)}), uri)
    create = VersionLog.create

    def create_and_change(log: VersionLog, name: ManifestName, data: bytes, *more: Any) -> PutOutcome:
        monkeypatch.undo()
        outcome = create(log, name, data, *more)
        # The file name of the delete is gone from the next version, which also moves rows of the same fragment.
        change(lance.dataset(uri))
        return outcome

    dataset = lance_core.dataset(uri)
    monkeypatch.setattr(VersionLog, "create", create_and_change)
    deleted = {1} if condition == "id = 1" else {1, 8}
    assert dataset.delete(condition) == {"num_deleted_rows": len(deleted)}
    expected = {number: number for number in range(10) if number not in deleted} | {2: 7, 3: 7}
    if change is _upsert:
        expected[100] = 7
    for table in (dataset.to_table(), lance.dataset(uri).to_table()):
        assert dict(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True)) == expected
    assert len(dataset.version_refs()) == 3, "the repeated delete found no rows"
