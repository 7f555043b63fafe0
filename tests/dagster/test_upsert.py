"""Write mode ``upsert``: rows are replaced by key in ingests, by the IO manager, and by the table resource."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pandas as pd
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_pipelines import (
    DatasetDeclaration,
    FunctionSource,
    LanceIOManager,
    LanceTableResource,
    SchemaMode,
    SourceContext,
    WriteMode,
    build_definitions,
)
from lance_pipelines.frames.staging import stage_reader
from lance_pipelines.ingest.write_commit import commit_staged

KEY = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})


def rows(values: dict[int | None, str]) -> pa.Table:
    return pa.table({"id": pa.array(list(values), pa.int64()), "name": pa.array(list(values.values()), pa.string())})


class Users:
    """A dataset into which each run upserts different rows."""

    def __init__(self, directory: Path, instance: dg.DagsterInstance, **declared: Any) -> None:
        self.directory, self.uri, self.instance = directory, str(directory / "users.lance"), instance
        self.rows = rows({})
        declared = {"upsert_by": "id", **declared}
        self.declaration = DatasetDeclaration(
            key="lake/users",
            uri=self.uri,
            source=FunctionSource(function=lambda context: self.rows),
            mode=WriteMode.UPSERT,
            **declared,
        )
        self._job = build_definitions([self.declaration]).resolve_job_def("lake__users__ingest")

    def ingest(self, new: pa.Table, **options: Any) -> dg.ExecuteInProcessResult:
        self.rows = new
        config = {"ops": {"lake__users": {"config": options.pop("config", {})}}}
        return self._job.execute_in_process(instance=self.instance, run_config=config, raise_on_error=False, **options)

    def failure(self, new: pa.Table, **options: Any) -> str:
        (event,) = self.ingest(new, **options).get_step_failure_events()
        return str(event.step_failure_data.user_failure_data.description)

    def files(self) -> list[Path]:
        return sorted((self.directory / "users.lance" / "data").glob("*"))

    def found(self) -> dict[int, str]:
        read = lance.dataset(self.uri).to_table().to_pylist()
        assert len({row["id"] for row in read}) == len(read)
        return {row["id"]: row["name"] for row in read}


def test_each_run_replaces_rows_by_key_and_adds_the_rest_in_one_version(tmp_path, instance) -> None:
    users = Users(tmp_path, instance)
    assert users.ingest(rows({1: "a", 2: "b"})).success
    result = users.ingest(rows({3: "c", 2: "B"}))
    assert users.found() == {1: "a", 2: "B", 3: "c"}
    assert lance.dataset(users.uri).version == 2
    (event,) = result.get_asset_materialization_events()
    metadata = event.materialization.metadata
    assert metadata["lance/summary"].value == "upsert: +1 row, 1 updated, v2"
    assert metadata["dagster/row_count"].value == 3


def test_an_upsert_of_the_same_rows_changes_nothing_but_the_version(tmp_path, instance) -> None:
    users = Users(tmp_path, instance)
    for _ in range(3):
        assert users.ingest(rows({1: "a", 2: "b"})).success
    assert users.found() == {1: "a", 2: "b"}
    assert users.ingest(rows({})).success
    assert lance.dataset(users.uri).version == 3


def test_upsert_keys_may_be_several_columns_or_the_declared_primary_key(tmp_path, instance) -> None:
    users = Users(tmp_path, instance, upsert_by=())
    schema = pa.schema([KEY, pa.field("name", pa.string())])
    assert users.ingest(rows({1: "a", 2: "b"}).cast(schema)).success
    assert users.ingest(rows({2: "B"})).success
    assert users.found() == {1: "a", 2: "B"}
    pairs = Users(tmp_path / "pairs", instance, upsert_by=["id", "name"])
    assert pairs.ingest(rows({1: "a", 2: "b"})).success
    assert pairs.ingest(rows({1: "a", 3: "c"})).success
    assert pairs.found() == {1: "a", 2: "b", 3: "c"}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("new", "message"),
    [
        (pa.concat_tables([rows({7: "x"}), rows({8: "y", 7: "z"})]), "several source rows have the key id = 7"),
        (rows({7: "x", None: "y"}), "row 1 has a null in its key (id = None)"),
    ],
)
def test_rows_with_a_repeated_key_fail_the_step_and_leave_no_files(
    tmp_path, instance, new: pa.Table, message: str, is_first: bool
) -> None:
    users = Users(tmp_path, instance)
    if not is_first:
        users.ingest(rows({1: "a"}))
    files = users.files()
    assert message in users.failure(new)
    assert users.files() == files


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"upsert_by": "ID_"}, "dataset lake__users: upsert_by: unknown key column 'ID_'; the table has: id, name"),
        ({"upsert_by": ()}, "mode upsert requires upsert_by, or a primary key that the schema declares"),
    ],
)
def test_a_key_column_that_the_rows_lack_fails_the_run(tmp_path, instance, declared, message) -> None:
    users = Users(tmp_path, instance, **declared)
    assert message in users.failure(rows({1: "a"}))
    assert not users.files()


def test_a_source_that_lacks_a_column_is_refused(tmp_path, instance) -> None:
    users = Users(tmp_path, instance, schema_mode=SchemaMode.ADD)
    users.ingest(rows({1: "a"}))
    assert "column 'name' of the dataset is not in the source" in users.failure(pa.table({"id": [1]}))
    more = rows({1: "b"}).append_column("age", pa.array([3]))
    assert users.ingest(more).success
    assert lance.dataset(users.uri).to_table().to_pylist() == [{"id": 1, "name": "b", "age": 3}]


def test_schema_mode_overwrite_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="schema_mode overwrite requires mode overwrite or create"):
        DatasetDeclaration(key="u", uri="/u", mode=WriteMode.UPSERT, upsert_by="id", schema_mode=SchemaMode.OVERWRITE)


def test_a_run_may_choose_mode_upsert_and_the_keys(tmp_path, instance) -> None:
    users = Users(tmp_path, instance, upsert_by=())
    config = {"mode": "upsert", "upsert_by": ["name"]}
    users.ingest(rows({1: "a", 2: "b"}), config=config)
    assert users.ingest(rows({5: "b"}), config=config).success
    assert users.found() == {1: "a", 5: "b"}


def test_upsert_into_a_dataset_with_stable_row_ids_keeps_the_row_ids_and_leaves_no_files(tmp_path, instance) -> None:
    users = Users(tmp_path, instance)
    lance.write_dataset(rows({1: "a", 2: "b"}), users.uri, enable_stable_row_ids=True)
    assert users.ingest(rows({3: "c", 2: "B"})).success
    found = lance.dataset(users.uri).to_table(with_row_id=True).to_pylist()
    assert {row["id"]: (row["name"], row["_rowid"]) for row in found} == {1: ("a", 0), 2: ("B", 1), 3: ("c", 2)}
    assert len(users.files()) == 2


def test_a_run_for_partitions_upserts_only_their_rows(tmp_path, instance) -> None:
    def of_day(context: SourceContext) -> pa.Table:
        return pa.table({"id": [1, 2], "day": list(context.partition_keys) * 2, "run": [context.run_id] * 2})

    declaration = DatasetDeclaration(
        key="days",
        uri=str(tmp_path / "days.lance"),
        source=FunctionSource(function=of_day),
        mode=WriteMode.UPSERT,
        upsert_by=("id", "day"),
        partitions=dg.StaticPartitionsDefinition(["mon", "tue"]),
        partition_by="day",
    )
    job = build_definitions([declaration]).resolve_job_def("days__ingest")
    for key in ("mon", "tue", "mon"):
        last = job.execute_in_process(instance=instance, partition_key=key)
    found = lance.dataset(declaration.uri).to_table().to_pylist()
    assert sorted((row["id"], row["day"], row["run"] == last.run_id) for row in found) == [
        (1, "mon", True), (1, "tue", False), (2, "mon", True), (2, "tue", False),
    ]  # fmt: skip


def test_concurrent_upserts_never_add_a_key_twice(tmp_path, instance) -> None:
    users = Users(tmp_path, instance)
    users.ingest(rows({0: "first"}))
    staged = [
        stage_reader(
            rows(dict.fromkeys(range(writer, writer + 5), f"{writer}")).to_reader(),
            users.declaration,
            run_id=f"run-{writer}",
            step_key="write",
        )
        for writer in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda each: commit_staged(each, discard=lambda *_: None), staged))
    assert sorted(outcome.version for outcome in outcomes) == [2, 3, 4, 5]
    assert users.found().keys() == set(range(8))
    for each in staged:
        assert commit_staged(each, discard=lambda *_: None).repeated


def test_io_manager_upserts_the_frame_of_an_asset(tmp_path, instance) -> None:
    frames = [pd.DataFrame({"id": [1, 2], "v": ["a", "b"]}), pd.DataFrame({"v": ["B", "c"], "id": [2, 3]})]

    @dg.asset(metadata={"lance/mode": "upsert", "lance/upsert_by": ["id"]})
    def users() -> pd.DataFrame:
        return frames.pop(0)

    resources = {"io_manager": LanceIOManager(base_uri=str(tmp_path))}
    for _ in range(2):
        result = dg.materialize([users], resources=resources, instance=instance)
    assert lance_core.dataset(tmp_path / "users.lance").to_table().sort_by("id").to_pylist() == [
        {"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 3, "v": "c"},
    ]  # fmt: skip
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["lance/summary"].value == "upsert: +1 row, 1 updated, v2"


def test_table_resource_upserts_a_frame(tmp_path, instance) -> None:
    @dg.asset
    def users(table: LanceTableResource) -> dg.MaterializeResult:
        table.write(rows({1: "a", 2: "b"}), mode="upsert", upsert_by="id")
        return table.write(rows({2: "B"}), mode="upsert", upsert_by="id")

    table = LanceTableResource(asset="users", uri=str(tmp_path / "users.lance"))
    assert dg.materialize([users], resources={"table": table}, instance=instance).success
    assert lance_core.dataset(tmp_path / "users.lance").to_table()["name"].to_pylist() == ["a", "B"]
