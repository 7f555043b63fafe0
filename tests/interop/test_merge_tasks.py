"""Merges divided into tasks: the same rows, ids, and fragments as a merge in one process."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, InvalidMergeError, NotSupportedError, RetryableCommitConflictError
from lance_core.metadata import CommittedMerge, MergePlanner, MergeRules
from lance_core.proto import pb_transaction

ROWS = 40


def table(start: int = 0, stop: int = ROWS, **changes: Any) -> pa.Table:
    ids = list(range(start, stop))
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.int64()),
        "word": pa.array([f"word {number}" for number in ids], pa.string()),
        "score": pa.array([number / 2 for number in ids], pa.float64()),
    }
    return pa.table(columns | changes)


def write_table(uri: str, data: pa.Table | None = None, **options: Any) -> lance_core.LanceDataset:
    """Four fragments, of which one has deleted rows."""
    dataset = lance_core.write_dataset(table() if data is None else data, uri, max_rows_per_file=10, **options)
    dataset.delete("id in (3, 5)")
    return dataset


def sent(thing: Any) -> Any:
    """Return an object as another process receives it."""
    return pickle.loads(pickle.dumps(thing))


def prepare(dataset: lance_core.LanceDataset, planner: MergePlanner, num_tasks: int = 3) -> tuple[list[Any], list[Any]]:
    """Execute all tasks that are necessary, and return them."""
    searches, writes = [], []
    while tasks := planner.searches(dataset, num_tasks):
        planner.add_searches([sent(sent(task).execute(lance_core.dataset(dataset.uri))) for task in tasks])
        searches += tasks
    if tasks := planner.writes(dataset):
        results = [sent(sent(task).execute(lance_core.dataset(dataset.uri), file_token="ab" * 8)) for task in tasks]
        planner.add_writes(dataset, tasks, results)
        writes += tasks
    return searches, writes


def planned(uri: str, source: pa.Table, *, rows_per_fragment: int = 7, on: Any = "id", **rules: Any) -> MergePlanner:
    dataset = lance_core.dataset(uri)
    planner = MergePlanner(dataset, MergeRules.of(dataset, on, **rules), source.schema)
    if source.num_rows:
        planner.stage(lance_core.write_fragments(source, uri, mode=planner.mode, max_rows_per_file=rows_per_fragment))
    return planner


def merge(uri: str, source: pa.Table, **options: Any) -> CommittedMerge:
    planner = planned(uri, source, **options)
    dataset = lance_core.dataset(uri)
    prepare(dataset, planner)
    made = planner.commit(dataset)
    assert dataset.version == made.version
    return made


def builder(uri: str, on: Any = "id", **rules: Any) -> Any:
    """Return the builder of the same merge by one process."""
    made = lance_core.dataset(uri).merge_insert(on)
    matched = rules.get("when_matched", "update")
    if matched == "update":
        made = made.when_matched_update_all(rules.get("condition"))
    elif matched != "nothing":
        made = getattr(made, f"when_matched_{matched}")()
    if rules.get("when_not_matched", "insert") == "insert":
        made = made.when_not_matched_insert_all()
    if rules.get("when_not_matched_by_source") == "delete":
        made = made.when_not_matched_by_source_delete(rules.get("delete_condition"))
    return made


def content(uri: str) -> Any:
    dataset = lance.dataset(uri)
    dataset.validate()
    columns = [*dataset.schema.names]
    if dataset.has_stable_row_ids:
        columns += ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = dataset.to_table(columns=columns).to_pylist()
    counts = sorted(fragment.count_rows() for fragment in dataset.get_fragments())
    return sorted(rows, key=repr), sum(counts), lance_core.dataset(uri).stats.dataset_stats()


RULES: dict[str, dict[str, Any]] = {
    "upsert": {},
    "update_only": {"when_not_matched": "nothing"},
    "insert_only": {"when_matched": "nothing"},
    "conditional": {"condition": "source.score > 20 and target.id < 36"},
    "delete": {"when_matched": "delete", "when_not_matched": "nothing"},
    "delete_and_insert": {"when_matched": "delete"},
    "replace": {"when_not_matched_by_source": "delete"},
    "replace_some": {"when_not_matched_by_source": "delete", "delete_condition": "id < 8"},
    "only_by_source": {
        "when_matched": "nothing",
        "when_not_matched": "nothing",
        "when_not_matched_by_source": "delete",
    },
}
SOURCES = {
    "mixed": table(30, 50).set_column(1, "word", pa.array([f"new {number}" for number in range(30, 50)])),
    "all_known": table(10, 20).set_column(2, "score", pa.array([-1.0] * 10)),
    "all_new": table(100, 120),
    "partial": table(30, 50).drop_columns(["word"]),
    "reordered": table(30, 50).select(["score", "id", "word"]),
    "empty": table(0, 0),
    "null_keys": table(35, 45, id=pa.array([35, None, None, *range(38, 45)], pa.int64())),
}


@pytest.mark.sampled(30)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("rules", RULES)
def test_merge_by_tasks_has_the_same_result_as_a_merge_by_one_process(
    uri: str, rules: str, kind: str, stable: bool
) -> None:
    write_table(uri, enable_stable_row_ids=stable)
    other = f"{uri}-alone"
    shutil.copytree(uri, other)
    source = SOURCES[kind]
    done = merge(uri, source, **RULES[rules])
    expected = builder(other, **RULES[rules]).execute(source)
    assert {
        "num_inserted_rows": done.num_inserted,
        "num_updated_rows": done.num_updated,
        "num_deleted_rows": done.num_deleted,
    } == expected
    ours, theirs = content(uri), content(other)
    if stable:
        # The ids of inserted rows depend on the division into fragments.
        known = {row["_rowid"] for row in theirs[0] if row["_row_created_at_version"] == 1}
        new = [sorted(row["_rowid"] for row in rows if row["_rowid"] not in known) for rows in (ours[0], theirs[0])]
        assert new[0] == new[1]
        for rows in (ours[0], theirs[0]):
            rows[:] = sorted(({**row, "_rowid": min(row["_rowid"], 100)} for row in rows), key=repr)
    assert ours[:2] == theirs[:2]
    assert ours[2]["num_deleted_rows"] == theirs[2]["num_deleted_rows"]


def test_complete_source_rows_are_written_only_once(uri: str) -> None:
    write_table(uri)
    planner = planned(uri, SOURCES["mixed"])
    dataset = lance_core.dataset(uri)
    searches, writes = prepare(dataset, planner)
    assert len(searches) == 3
    assert not writes
    staged = {path.name for path in Path(uri, "data").iterdir()}
    planner.commit(dataset)
    assert {path.name for path in Path(uri, "data").iterdir()} == staged


def test_only_new_fragments_with_rows_that_the_merge_does_not_insert_are_rewritten(uri: str) -> None:
    write_table(uri)
    planner = planned(uri, table(36, 57), when_matched="nothing")
    _, writes = prepare(lance_core.dataset(uri), planner)
    assert [task.index for task in writes] == [0]
    assert merge(uri, table(30, 37), when_matched="nothing").num_inserted == 0


@pytest.mark.parametrize("new", [False, True], ids=["known", "new"])
def test_repeated_source_key_is_named_in_the_error(uri: str, new: bool) -> None:
    write_table(uri)
    source = pa.concat_tables([table(30, 50), table(45, 46) if new else table(31, 32)])
    with pytest.raises(InvalidMergeError, match=r"several source rows have the key id = 45" if new else "id = 31"):
        merge(uri, source, rows_per_fragment=1000)
    assert lance_core.dataset(uri).version == 2


def test_repeated_null_source_keys_match_nothing(uri: str) -> None:
    write_table(uri)
    assert merge(uri, SOURCES["null_keys"]).num_inserted == 7


@pytest.mark.parametrize("stable", [False, True])
def test_source_row_replaces_every_target_row_with_the_same_key(uri: str, stable: bool) -> None:
    data = pa.concat_tables([table(0, 20), table(5, 10), table(0, 20)])
    write_table(uri, data, enable_stable_row_ids=stable)
    other = f"{uri}-alone"
    shutil.copytree(uri, other)
    source = SOURCES["all_known"].slice(0, 4)
    assert merge(uri, source).num_updated == builder(other).execute(source)["num_updated_rows"] == 8
    assert content(uri)[0] == content(other)[0]


def test_matched_row_fails_a_merge_whose_when_matched_setting_is_fail(uri: str) -> None:
    write_table(uri)
    with pytest.raises(InvalidMergeError, match="when_matched 'fail' does not allow: id = 30"):
        merge(uri, SOURCES["mixed"], when_matched="fail")
    assert merge(uri, SOURCES["all_new"], when_matched="fail").num_inserted == 20


def test_source_that_lacks_some_members_of_a_struct_is_refused(uri: str) -> None:
    data = pa.table({"id": [1, 2], "pair": [{"x": 1, "y": 2}, None]})
    lance_core.write_dataset(data, uri)
    source = pa.table({"id": [1], "pair": [{"x": 5}]})
    with pytest.raises(NotSupportedError, match="lacks members of a struct"):
        planned(uri, source)


def test_merge_by_the_primary_key_records_the_inserted_keys(uri: str) -> None:
    field = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    data = table().cast(pa.schema([field, *list(table().schema)[1:]]))
    write_table(uri, data)
    other = f"{uri}-alone"
    shutil.copytree(uri, other)
    source = table(30, 50).cast(data.schema)
    merge(uri, source, on=None)
    builder(other, on=None).execute(source)
    filters = []
    for each in (uri, other):
        transaction = lance_core.dataset(each).read_transaction(3)
        assert transaction is not None
        filters.append(
            pb_transaction.Transaction.KeyExistenceFilter.FromString(transaction.operation.inserted_rows)  # type: ignore[attr-defined]
        )
    assert filters[0] == filters[1]


@pytest.fixture
def planner(uri: str) -> MergePlanner:
    """Return the planner of an upsert whose tasks were all executed."""
    write_table(uri)
    planner = planned(uri, SOURCES["mixed"])
    prepare(lance_core.dataset(uri, version=2), planner)
    return planner


def test_merge_after_a_conflict_searches_only_changed_fragments(uri: str, planner: MergePlanner) -> None:
    before = lance_core.dataset(uri)
    lance.write_dataset(table(45, 48), uri, mode="append")
    with pytest.raises(RetryableCommitConflictError):
        planner.commit(before)
    latest = lance_core.dataset(uri)
    searches, writes = prepare(latest, planner)
    assert [task.fragment_ids for task in searches] == [(4,)]
    assert not writes
    done = planner.commit(latest)
    assert (done.num_inserted, done.num_updated) == (7, 13)
    ids = sorted(lance.dataset(uri).to_table()["id"].to_pylist())
    assert ids == [number for number in range(50) if number not in (3, 5)]
    lance.dataset(uri).validate()


def test_concurrent_delete_of_different_rows_is_merged(uri: str) -> None:
    write_table(uri)
    planner = planned(uri, SOURCES["all_known"])
    before = lance_core.dataset(uri)
    prepare(before, planner)
    lance.dataset(uri).delete("id = 25")
    planner.commit(before)
    assert len(lance.dataset(uri).to_table()) == ROWS - 3


def test_repeated_commit_of_the_same_transaction_returns_its_version(uri: str, planner: MergePlanner) -> None:
    uuid = "6b1d2f0e-2f0c-4f58-9a39-0d2b4c5c1a11"
    before = lance_core.dataset(uri)
    done = planner.commit(lance_core.dataset(uri), transaction_uuid=uuid, properties={"run": "7"})
    again = planner.commit(before, transaction_uuid=uuid)
    assert done.version == again.version == lance_core.dataset(uri).version == 3
    transaction = lance_core.dataset(uri).read_transaction(3)
    assert transaction is not None
    assert transaction.transaction_properties["run"] == "7"


def test_unknown_merge_actions_are_refused(uri: str) -> None:
    dataset = write_table(uri)
    for wrong in (
        {"when_matched": "replace"},
        {"when_not_matched": "update"},
        {"when_not_matched_by_source": "insert"},
        {"when_matched": "nothing", "condition": "true"},
        {"delete_condition": "true"},
        {"when_matched": "nothing", "when_not_matched": "nothing"},
    ):
        with pytest.raises(InvalidInputError):
            MergeRules.of(dataset, "id", **wrong)  # type: ignore[arg-type]
