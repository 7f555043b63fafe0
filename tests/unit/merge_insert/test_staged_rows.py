"""Upserts of rows that were already written as fragments, compared with merges by pylance."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidMergeError, NotSupportedError, RetryableCommitConflictError
from lance_core.merge_insert import staged_rows
from lance_core.metadata import UpsertPlanner, check_new_keys, commit_upsert, key_columns
from lance_core.public.fragment_conversion import fragment_records

FORMATS = ("0.1", "2.0", "2.1", "2.2")


def rows(ids: list[int], tag: str) -> pa.Table:
    tags = pa.array([f"{tag}{number}" for number in ids], pa.string())
    return pa.table({"id": pa.array(ids, pa.int64()), "tag": tags})


def stage(new: pa.Table, uri: str, **options: object) -> list[lance_core.FragmentMetadata]:
    return lance_core.write_fragments(new, uri, mode="append", **options)


def upsert(uri: str, new: pa.Table, *, on: tuple[str, ...] = ("id",), **options: object):
    dataset = lance_core.dataset(uri)
    fragments = stage(new, uri, **options)
    check_new_keys(dataset, fragments, on)
    with UpsertPlanner(fragments, on) as planner:
        return commit_upsert(dataset, planner, transaction_uuid=str(uuid.uuid4()), properties={"by": "test"})


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("version", FORMATS)
def test_upsert_of_staged_rows_gives_the_same_rows_as_a_merge_by_pylance(
    tmp_path: Path, version: str, stable_row_ids: bool
) -> None:
    if stable_row_ids and version == "0.1":
        pytest.skip("pylance writes no stable row ids in format 0.1")
    rng = random.Random(f"{version}{stable_row_ids}")
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for uri in (ours, theirs):
        lance.write_dataset(
            rows(list(range(40)), "old"),
            uri,
            max_rows_per_file=7,
            data_storage_version=version,
            enable_stable_row_ids=stable_row_ids,
        )
    for step in range(4):
        new = rows(rng.sample(range(80), 25), f"s{step}-")
        expected = lance.dataset(theirs).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        counts = expected.execute(new)
        done = upsert(ours, new, max_rows_per_file=6)
        assert (done.rows_inserted, done.rows_updated) == (counts["num_inserted_rows"], counts["num_updated_rows"])
        assert done.uses_new_files is not stable_row_ids
        found = lance.dataset(ours)
        assert found.to_table().sort_by("id") == lance.dataset(theirs).to_table().sort_by("id")
        assert found.read_transaction(found.version).transaction_properties == {"by": "test"}


def test_replaced_rows_keep_stable_row_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows([1, 2, 3], "old"), uri, enable_stable_row_ids=True)
    upsert(uri, rows([9, 3, 1], "new"))
    found = lance.dataset(uri).to_table(with_row_id=True).to_pylist()
    assert {row["id"]: row["_rowid"] for row in found} == {1: 0, 2: 1, 3: 2, 9: 3}
    assert {row["id"]: row["tag"] for row in found} == {1: "new1", 2: "old2", 3: "new3", 9: "new9"}


def test_repeated_commit_of_an_upsert_finds_its_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    before = lance_core.write_dataset(rows([1, 2], "old"), uri)
    made_by = str(uuid.uuid4())
    with UpsertPlanner(stage(rows([2, 3], "new"), uri), ["id"]) as planner:
        first = commit_upsert(before, planner, transaction_uuid=made_by)
        again = commit_upsert(before, planner, transaction_uuid=made_by)
    assert first.version == again.version == lance_core.dataset(uri).version == 2


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_upsert_planned_before_rows_were_added_conflicts_and_succeeds_when_planned_again(
    tmp_path: Path, stable_row_ids: bool
) -> None:
    uri = str(tmp_path / "t")
    before = lance_core.write_dataset(rows([1, 2], "old"), uri, enable_stable_row_ids=stable_row_ids)
    made_by = str(uuid.uuid4())
    with UpsertPlanner(stage(rows([2, 3], "new"), uri), ["id"]) as planner:
        lance.write_dataset(rows([3], "other"), uri, mode="append")
        with pytest.raises(RetryableCommitConflictError):
            commit_upsert(before, planner, transaction_uuid=made_by)
        done = commit_upsert(lance_core.dataset(uri), planner, transaction_uuid=made_by)
    assert (done.rows_inserted, done.rows_updated) == (0, 2)
    found = lance.dataset(uri).to_table().to_pylist()
    assert {row["id"]: row["tag"] for row in found} == {1: "old1", 2: "new2", 3: "new3"}
    assert len(found) == 3


def test_upsert_by_the_primary_key_conflicts_with_a_concurrent_merge_by_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, pa.field("tag", pa.string())])
    before = lance.write_dataset(rows([1], "old").cast(schema), uri)
    assert key_columns(before.schema) == ("id",)
    upsert(uri, rows([2], "ours").cast(schema))
    theirs = before.merge_insert(["id"]).when_matched_update_all().when_not_matched_insert_all()
    theirs.execute(rows([2], "theirs").cast(schema))
    found = lance.dataset(uri).to_table().to_pylist()
    assert sorted((row["id"], row["tag"]) for row in found) == [(1, "old1"), (2, "theirs2")]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([4, 1, 4], "several source rows have the key id = 4"),
        ([1, None, 2], r"row 1 has a null in its key \(id = None\)"),
    ],
)
@pytest.mark.parametrize("is_new", [False, True])
def test_repeated_and_incomplete_keys_of_new_rows_are_refused(
    tmp_path: Path, keys: list[int | None], message: str, is_new: bool
) -> None:
    uri = str(tmp_path / "t")
    new = pa.table({"tag": ["a", "b", "c"], "id": pa.array(keys, pa.int64())})
    dataset = None if is_new else lance_core.write_dataset(new.slice(0, 0), uri)
    fragments = stage(new, uri, max_rows_per_file=2) if dataset else lance_core.write_fragments(new, uri)
    with pytest.raises(InvalidMergeError, match=message):
        check_new_keys(dataset or uri, fragments, ["id"], schema=new.schema)


def test_keys_that_exceed_the_memory_limit_are_checked_in_blocks(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    numbers = list(range(200_000))
    dataset = lance_core.write_dataset(rows([], "x"), uri)
    fine = fragment_records(stage(rows(numbers, "x"), uri))
    repeated = fragment_records(stage(rows([*numbers, 7], "x"), uri))
    view = dataset.view
    staged_rows.check_new_keys(view.schema, fine, view.locator, ["id"], memory_bytes=1 << 20)
    with pytest.raises(InvalidMergeError, match="the key id = 7"):
        staged_rows.check_new_keys(view.schema, repeated, view.locator, ["id"], memory_bytes=1 << 20)


def test_upsert_of_blobs_into_a_table_with_stable_row_ids_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("b", pa.large_binary(), True, {"lance-encoding:blob": "true"})]
    )
    new = pa.table({"id": [1], "b": [b"x"]}).cast(schema)
    lance_core.write_dataset(new, uri, enable_stable_row_ids=True)
    with pytest.raises(NotSupportedError, match="stable row ids and blob columns"):
        upsert(uri, new)


def test_blobs_are_upserted_without_being_copied(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("b", pa.large_binary(), True, {"lance-encoding:blob": "true"})]
    )
    lance_core.write_dataset(pa.table({"id": [1, 2], "b": [b"x", b"y"]}).cast(schema), uri)
    upsert(uri, pa.table({"id": [2, 3], "b": [b"new", b"z"]}).cast(schema))
    dataset = lance_core.dataset(uri)
    blobs = dataset.take_blobs("b", indices=[0, 1, 2])
    assert dict(zip(dataset.to_table(["id"])["id"].to_pylist(), (blob.read() for blob in blobs), strict=True)) == {
        1: b"x",
        2: b"new",
        3: b"z",
    }
