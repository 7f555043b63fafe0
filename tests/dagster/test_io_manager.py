"""Assets that are stored and loaded by LanceIOManager: frames, locations, pinned versions, leases, retries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Optional

import dagster as dg
import duckdb
import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.loader import LoadingContextForTest

import lance_core
from lance_pipelines import LanceIOManager, LanceTableResource
from lance_pipelines.io_managers import lance_io_manager as module

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "word": ["one", None, "three"]})

FRAMES: dict[str, tuple[Any, Callable[[pa.Table], Any], Callable[[Any], pa.Table]]] = {
    "pyarrow.Table": (pa.Table, lambda rows: rows, lambda frame: frame),
    "pyarrow.RecordBatchReader": (pa.RecordBatchReader, pa.Table.to_reader, pa.RecordBatchReader.read_all),
    "pandas.DataFrame": (
        pd.DataFrame,
        pa.Table.to_pandas,
        lambda frame: pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None),
    ),
    "polars.DataFrame": (pl.DataFrame, pl.from_arrow, pl.DataFrame.to_arrow),
    "polars.LazyFrame": (
        pl.LazyFrame,
        lambda rows: pl.from_arrow(rows).lazy(),
        lambda frame: frame.collect().to_arrow(),
    ),
    "duckdb relation": (
        duckdb.DuckDBPyRelation,
        lambda rows: duckdb.connect().from_arrow(rows),
        lambda frame: pa.RecordBatchReader.from_stream(frame).read_all(),
    ),
}
EVERY_FRAME = pytest.mark.parametrize("name", FRAMES)


class Lake:
    """A directory of datasets, an instance, and runs in it."""

    def __init__(self, directory: Path, instance: dg.DagsterInstance) -> None:
        self.directory = directory
        self.instance = instance
        self.io_manager = LanceIOManager(base_uri=str(directory))

    def uri(self, *key: str) -> str:
        return f"{self.directory.joinpath(*key)}.lance"

    def run(self, *assets: Any, select: Any = None, raise_on_error: bool = True, **resources: Any):
        return dg.materialize(
            assets,
            selection=select,
            resources={"io_manager": self.io_manager, **resources},
            instance=self.instance,
            raise_on_error=raise_on_error,
        )

    def materialization(self, *key: str) -> dg.AssetMaterialization:
        (record,) = self.instance.fetch_materializations(dg.AssetKey(key), limit=1).records
        assert record.asset_materialization is not None
        return record.asset_materialization

    def messages(self, run_id: str) -> list[str]:
        return [
            entry.dagster_event.message
            for entry in self.instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
            if entry.dagster_event is not None and entry.dagster_event.message.startswith("Reads")
        ]


@pytest.fixture
def lake(tmp_path: Path, instance: dg.DagsterInstance) -> Lake:
    return Lake(tmp_path / "lake", instance)


def source_of(rows: list[pa.Table]) -> dg.AssetsDefinition:
    """Return an asset that returns the next of these tables in each run."""

    @dg.asset
    def numbers() -> pa.Table:
        return rows.pop(0)

    return numbers


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


# ── Frames ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@EVERY_FRAME
def test_stored_frame_is_loaded_with_the_same_rows(lake: Lake, name: str) -> None:
    frame_type, make, rows_of = FRAMES[name]
    seen = []

    def first():
        return make(ROWS)

    def second(first):
        seen.append(rows_of(first))
        assert isinstance(first, frame_type)
        return ids(1)

    first.__annotations__ = {"return": frame_type}
    second.__annotations__ = {"first": frame_type}
    lake.run(dg.asset(first), dg.asset(second))
    assert seen[0].to_pylist() == ROWS.to_pylist()
    assert lance.dataset(lake.uri("first")).to_table().to_pylist() == ROWS.to_pylist()


@EVERY_FRAME
def test_input_loads_only_the_columns_and_rows_of_its_metadata(lake: Lake, name: str) -> None:
    frame_type, _, rows_of = FRAMES[name]
    seen = []

    @dg.asset
    def first() -> pa.Table:
        return ROWS

    def second(first):
        seen.append(rows_of(first))
        return ids(1)

    second.__annotations__ = {"first": frame_type}
    chosen = dg.AssetIn(metadata={"columns": ["word"], "filter": "id >= 2"})
    lake.run(first, dg.asset(second, ins={"first": chosen}))
    assert seen[0].to_pylist() == [{"word": None}, {"word": "three"}]


def test_parameter_without_annotation_is_loaded_as_a_table(lake: Lake) -> None:
    seen = []

    @dg.asset
    def second(numbers):
        seen.append(numbers)
        return numbers

    lake.run(source_of([ids(1, 2)]), second)
    assert seen[0].equals(ids(1, 2))


def test_dataset_is_loaded_as_a_handle_on_the_version(lake: Lake) -> None:
    @dg.asset
    def second(numbers: lance_core.LanceDataset) -> pa.Table:
        assert numbers.version == 1
        return numbers.to_table(filter="id = 2")

    lake.run(source_of([ids(1, 2)]), second)
    assert lance.dataset(lake.uri("second")).to_table().equals(ids(2))


def test_rows_of_a_reader_are_written_as_they_are_produced(lake: Lake) -> None:
    files = []
    data = Path(lake.uri("stream")) / "data"

    @dg.asset
    def stream() -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(4):
                files.append(len(list(data.glob("*.lance"))))
                yield from ids(*range(1000 * number, 1000 * number + 1000)).to_batches()

        return pa.RecordBatchReader.from_batches(ids().schema, batches())

    lake.io_manager = LanceIOManager(base_uri=str(lake.directory), max_rows_per_file=1000)
    lake.run(stream)
    assert files[0] == 0
    assert files[3] >= 2
    assert lance.dataset(lake.uri("stream")).count_rows() == 4000


def test_lazy_frame_reads_only_what_its_query_needs(lake: Lake) -> None:
    seen = []

    @dg.asset
    def second(first: pl.LazyFrame) -> pl.LazyFrame:
        seen.append(first.filter(pl.col("id") > 1).select("word").head(1).collect().to_dicts())
        seen.append(first.head(2).select("id").collect().to_dicts())
        return first.filter(pl.col("word").is_not_null())

    @dg.asset
    def first() -> pa.Table:
        return ROWS

    lake.run(first, second)
    assert seen == [[{"word": None}], [{"id": 1}, {"id": 2}]]
    assert lance.dataset(lake.uri("second")).to_table().to_pylist() == [ROWS.to_pylist()[0], ROWS.to_pylist()[2]]


def test_duckdb_relation_can_be_executed_repeatedly(lake: Lake) -> None:
    @dg.asset
    def second(numbers: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        assert numbers.count("id").fetchall() == [(3,)]
        assert numbers.filter("id > 1").order("id").fetchall() == [(2,), (3,)]
        return numbers.aggregate("sum(id)::BIGINT AS total")

    lake.run(source_of([ids(1, 2, 3)]), second)
    assert lance.dataset(lake.uri("second")).to_table().to_pylist() == [{"total": 6}]


def test_named_index_of_pandas_becomes_columns(lake: Lake) -> None:
    @dg.asset
    def named() -> pd.DataFrame:
        return pd.DataFrame({"id": [1, 2]}, index=pd.Index(["a", "b"], name="code"))

    @dg.asset
    def unnamed() -> pd.DataFrame:
        return pd.DataFrame({"id": [1, 2]}, index=[7, 8])

    lake.run(named, unnamed)
    assert lance.dataset(lake.uri("named")).to_table().to_pydict() == {"code": ["a", "b"], "id": [1, 2]}
    assert lance.dataset(lake.uri("unnamed")).to_table().to_pydict() == {"id": [1, 2]}


def test_frame_without_rows_creates_a_dataset_without_rows(lake: Lake) -> None:
    lake.run(source_of([ids()]))
    assert lance.dataset(lake.uri("numbers")).to_table().equals(ids())


# ── What is stored ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_key_with_prefix_and_dash_becomes_a_path_below_the_base_uri(lake: Lake) -> None:
    @dg.asset(key=dg.AssetKey(["raw-data", "2026", "daily-events"]))
    def events() -> pa.Table:
        return ids(1)

    lake.run(events)
    assert Path(lake.uri("raw-data", "2026", "daily-events")).is_dir()
    assert lake.io_manager.dataset_uri("raw-data/2026/daily-events") == lake.uri("raw-data", "2026", "daily-events")


@pytest.mark.parametrize("part", ["..", "a/b", "../../etc"])
def test_asset_key_cannot_refer_to_a_location_outside_the_base_uri(part: str) -> None:
    uri = LanceIOManager(base_uri="/lake").dataset_uri(dg.AssetKey([part]))
    assert uri.removeprefix("/lake/").count("/") == 0
    assert ".." not in uri


def test_asset_metadata_overrides_the_location_and_the_mode(lake: Lake, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere.lance")
    rows = [ids(1), ids(2)]

    @dg.asset(metadata={"lance/uri": elsewhere, "lance/mode": "append"})
    def log() -> pa.Table:
        return rows.pop(0)

    @dg.asset
    def reader(log: pa.Table) -> pa.Table:
        return log

    for _ in range(2):
        lake.run(log, reader)
    assert lance.dataset(elsewhere).to_table().equals(ids(1, 2))
    assert lance.dataset(lake.uri("reader")).to_table().equals(ids(1, 2))


def test_second_run_replaces_the_rows_by_default(lake: Lake) -> None:
    numbers = source_of([ids(1), pa.table({"other": ["x"]})])
    lake.run(numbers)
    lake.run(numbers)
    assert lance.dataset(lake.uri("numbers")).to_table().to_pydict() == {"other": ["x"]}
    assert lance.dataset(lake.uri("numbers")).version == 2


def test_appended_rows_get_the_types_of_the_dataset(lake: Lake) -> None:
    lance_core.write_dataset(ROWS, lake.uri("first"))
    frames = [pl.DataFrame({"word": ["four"], "id": [4]}), pd.DataFrame({"id": [5], "word": [None]})]

    @dg.asset(metadata={"lance/mode": "append"})
    def first():
        return frames.pop(0)

    lake.run(first)
    lake.run(first)
    stored = lance.dataset(lake.uri("first")).to_table()
    assert stored.schema.equals(ROWS.schema)
    assert stored.to_pylist()[3:] == [{"id": 4, "word": "four"}, {"id": 5, "word": None}]


def test_appended_rows_that_do_not_fit_the_schema_leave_no_files_behind(lake: Lake) -> None:
    lance_core.write_dataset(ROWS, lake.uri("first"))
    before = set(Path(lake.uri("first")).rglob("*"))

    @dg.asset(metadata={"lance/mode": "append"})
    def first() -> pa.Table:
        return ids(4)

    result = lake.run(first, raise_on_error=False)
    (failure,) = result.get_step_failure_events()
    assert "first: column 'word' of the dataset is not in the source" in failure.step_failure_data.error_display_string
    assert set(Path(lake.uri("first")).rglob("*")) == before


def test_materialization_has_statistics_and_the_logical_data_version(lake: Lake) -> None:
    lake.run(source_of([ids(1, 2, 3)]))
    event = lake.materialization("numbers")
    transaction = lance_core.dataset(lake.uri("numbers")).read_transaction(1)
    assert event.tags["dagster/data_version"] == f"1-{transaction.uuid[:8]}"
    shown = {key: value.value for key, value in event.metadata.items()}
    assert (shown["dagster/row_count"], shown["lance/version"], shown["lance/fragments"]) == (3, 1, 1)
    assert shown["lance/summary"] == "overwrite: 3 rows, v1"
    assert shown["dagster/uri"] == lake.uri("numbers")


def test_metadata_of_the_asset_takes_precedence_over_settings_of_the_io_manager(lake: Lake) -> None:
    @dg.asset
    def numbers():
        return dg.Output(ids(1), metadata={"dagster/row_count": 77})

    lake.run(numbers)
    assert lake.materialization("numbers").metadata["dagster/row_count"].value == 77


def test_commit_contains_the_id_of_its_run(lake: Lake) -> None:
    result = lake.run(source_of([ids(1)]))
    properties = lance_core.dataset(lake.uri("numbers")).read_transaction(1).transaction_properties
    assert (properties["dagster.run_id"], properties["dagster.step_key"]) == (result.run_id, "numbers")


@pytest.mark.parametrize("annotation", [Optional[pd.DataFrame], pd.DataFrame | None])  # noqa: UP045  # both forms
def test_optional_annotation_loads_the_annotated_type(lake: Lake, annotation: Any) -> None:
    def reader(numbers):
        assert isinstance(numbers, pd.DataFrame)
        return numbers

    reader.__annotations__["numbers"] = annotation
    assert lake.run(source_of([ids(1)]), dg.asset(reader)).success


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (pd.DataFrame({"id": [1, "a"]}), "Conversion failed for column id with type object"),
        (pd.DataFrame([[1, 2]], columns=["id", "id"]), "Arrow data: Duplicate column names found: ['id', 'id']"),
        (None, "numbers: expected a data frame, found None"),
        ({"id": [1]}, "frames of type builtins.dict are not supported; supported types: pyarrow.Table, "),
    ],
)
def test_output_that_is_not_a_frame_is_rejected(lake: Lake, returned: object, message: str) -> None:
    @dg.asset
    def numbers():
        return returned

    (failure,) = lake.run(numbers, raise_on_error=False).get_step_failure_events()
    assert message in failure.step_failure_data.error_display_string


def test_input_of_an_unsupported_type_is_rejected(lake: Lake) -> None:
    @dg.asset
    def second(numbers: bytes) -> pa.Table:
        return ids(1)

    result = lake.run(source_of([ids(1)]), second, raise_on_error=False)
    (failure,) = result.get_step_failure_events()
    assert "numbers: frames of type builtins.bytes are not supported" in failure.step_failure_data.error_display_string


def test_output_of_an_op_is_rejected(lake: Lake) -> None:
    @dg.op
    def make() -> pa.Table:
        return ids(1)

    @dg.job(resource_defs={"io_manager": lake.io_manager})
    def plain():
        make()

    with pytest.raises(dg.DagsterInvariantViolationError, match="'result' is not an asset"):
        plain.execute_in_process(instance=lake.instance)


def test_unknown_mode_is_rejected_and_named_in_the_error(lake: Lake) -> None:
    lake.io_manager = LanceIOManager(base_uri=str(lake.directory), mode="replace")
    (failure,) = lake.run(source_of([ids(1)]), raise_on_error=False).get_step_failure_events()
    assert "unknown mode 'replace'; expected one of append, overwrite" in failure.step_failure_data.error_display_string


def test_stored_value_can_be_loaded_outside_a_run(lake: Lake) -> None:
    numbers = source_of([ids(1, 2)])
    lake.run(numbers)
    defs = dg.Definitions([numbers], resources={"io_manager": lake.io_manager})
    assert defs.load_asset_value("numbers", python_type=pl.DataFrame, instance=lake.instance)["id"].to_list() == [1, 2]
    assert lance.dataset(lake.uri("numbers")).tags.list() == {}


def test_storage_options_are_read_from_the_environment_and_never_shown(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_SECRET", "canary-Passw0rd")
    lake.io_manager = LanceIOManager(base_uri=str(lake.directory), storage_options={"secret": dg.EnvVar("LAKE_SECRET")})
    seen = []

    @dg.asset
    def second(numbers: lance_core.LanceDataset) -> pa.Table:
        seen.append(numbers.storage_options)
        return ids(1)

    result = lake.run(source_of([ids(1)]), second)
    assert seen == [{"secret": "canary-Passw0rd"}]
    assert "canary" not in repr(lake.instance.all_logs(result.run_id)) + repr(lake.io_manager)


# ── Pinned reads ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_step_reads_the_recorded_version_after_commits_of_other_writers(lake: Lake) -> None:
    seen = []

    @dg.asset
    def second(numbers: pa.Table) -> pa.Table:
        seen.append(numbers["id"].to_pylist())
        return numbers

    numbers = source_of([ids(1), ids(2)])
    lake.run(numbers)
    lance.write_dataset(ids(9), lake.uri("numbers"), mode="append")
    result = lake.run(second, numbers, select=[second])
    assert seen == [[1]]
    recorded = lake.materialization("numbers").tags["dagster/data_version"]
    assert lake.messages(result.run_id) == [f"Reads numbers at version 1 (data version {recorded})"]
    assert lake.materialization("second").tags["dagster/input_data_version/numbers"] == recorded
    lake.run(numbers)
    lake.run(second, numbers, select=[second])
    assert seen == [[1], [2]]


@EVERY_FRAME
def test_frame_keeps_its_version_while_another_run_commits_and_cleans_up(lake: Lake, name: str) -> None:
    frame_type, _, rows_of = FRAMES[name]
    seen, leases = [], []
    numbers = source_of([ids(1, 2), ids(3)])

    def second(numbers_frame):
        other = lance_core.dataset(lake.uri("numbers"))
        leases.append(len(other.tags.list()))
        lake.run(numbers)
        other.checkout_latest()
        other.cleanup_old_versions(timedelta(0))
        seen.append(rows_of(numbers_frame)["id"].to_pylist())
        return ids(1)

    second.__annotations__ = {"numbers_frame": frame_type}
    lake.run(numbers)
    lake.run(dg.asset(second, ins={"numbers_frame": dg.AssetIn("numbers")}), numbers, select=["second"])
    assert (seen, leases) == ([[1, 2]], [1])
    after = lance_core.dataset(lake.uri("numbers"))
    assert after.tags.list() == {}
    assert [each["version"] for each in after.version_refs()] == [1, 2]
    after.cleanup_old_versions(timedelta(0))
    assert [each["version"] for each in after.version_refs()] == [2]


def test_compacted_version_is_read_in_place_of_the_recorded_one(lake: Lake) -> None:
    seen = []

    @dg.asset
    def second(numbers: lance_core.LanceDataset) -> pa.Table:
        seen.append((numbers.version, numbers.to_table()["id"].to_pylist()))
        return ids(1)

    @dg.asset(metadata={"lance/mode": "append"})
    def numbers() -> pa.Table:
        return ids(1)

    lake.run(numbers)
    lake.run(numbers)
    reference = lance.dataset(lake.uri("numbers"))
    reference.optimize.compact_files()
    reference.cleanup_old_versions(timedelta(0))
    assert [each["version"] for each in lance.dataset(lake.uri("numbers")).versions()] == [4]
    lance.write_dataset(ids(9), lake.uri("numbers"), mode="append")
    lake.run(second, numbers, select=[second])
    assert seen == [(4, [1, 1])]


def test_missing_recorded_version_raises_an_error_with_its_data_version(lake: Lake) -> None:
    @dg.asset
    def second(numbers: pa.Table) -> pa.Table:
        return numbers

    numbers = source_of([ids(1)])
    lake.run(numbers)
    recorded = lake.materialization("numbers").tags["dagster/data_version"]
    lance.write_dataset(ids(9), lake.uri("numbers"), mode="overwrite").cleanup_old_versions(timedelta(0))
    (failure,) = lake.run(second, numbers, select=[second], raise_on_error=False).get_step_failure_events()
    text = failure.step_failure_data.error_display_string
    assert f"the version that was recorded as the input (data version {recorded}) no longer exists" in text
    assert "start a new run" in text


def test_recreated_dataset_is_not_mistaken_for_the_recorded_version(lake: Lake) -> None:
    @dg.asset
    def second(numbers: pa.Table) -> pa.Table:
        return numbers

    numbers = source_of([ids(1)])
    lake.run(numbers)
    lance_core.LanceDataset.drop(lake.uri("numbers"))
    lance_core.write_dataset(ids(9), lake.uri("numbers"))
    (failure,) = lake.run(second, numbers, select=[second], raise_on_error=False).get_step_failure_events()
    assert "no longer exists" in failure.step_failure_data.error_display_string


def test_asset_without_a_recorded_data_version_is_read_at_its_latest_version(lake: Lake) -> None:
    for number in (1, 2):
        lance_core.write_dataset(ids(number), lake.uri("outside"), mode="append")

    @dg.asset
    def second(outside: pa.Table) -> pa.Table:
        return outside

    result = lake.run(second, dg.AssetSpec("outside"))
    assert lance.dataset(lake.uri("second")).to_table().equals(ids(1, 2))
    assert lake.messages(result.run_id) == ["Reads outside at version 2 (the latest: no data version is recorded)"]


# ── Retries ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Flaky:
    """A downstream asset that fails the given number of times, and the rows that each attempt has read."""

    def __init__(self, lake: Lake, failures: int, retry_policy: dg.RetryPolicy | None = None) -> None:
        self.lake = lake
        self.seen: list[list[int]] = []
        self.left = failures

        def second(numbers):
            self.seen.append(numbers["id"].to_pylist())
            if self.left:
                self.left -= 1
                self.between()
                raise RuntimeError("not yet")
            return numbers

        second.__annotations__ = {"numbers": pa.Table, "return": pa.Table}
        self.asset = dg.asset(second, retry_policy=retry_policy)
        self.numbers = source_of([ids(1), ids(2), ids(3)])

    def between(self) -> None:
        """Runs while the step is running."""

    def run(self, parent: str | None = None, select: list[str] | None = None) -> dg.DagsterRun:
        """Run the downstream asset, as a re-execution of the parent run if one is given."""
        defs = dg.Definitions(
            [self.asset, self.numbers],
            resources={"io_manager": self.lake.io_manager},
            executor=dg.in_process_executor,
        )
        job = defs.resolve_implicit_global_asset_job_def().get_subset(
            asset_selection={dg.AssetKey(key) for key in select or ["second"]}
        )
        run = self.lake.instance.create_run_for_job(
            job_def=job,
            parent_run_id=parent,
            root_run_id=parent,
            asset_selection=frozenset(dg.AssetKey(key) for key in select or ["second"]),
        )
        execute_run(InMemoryJob(job), run, self.lake.instance)
        found = self.lake.instance.get_run_by_id(run.run_id)
        assert found is not None
        return found


def test_rerun_of_a_failed_run_reads_the_same_version_again(lake: Lake) -> None:
    flaky = Flaky(lake, failures=2)
    lake.run(flaky.numbers)
    old = lake.materialization("numbers").tags["dagster/data_version"]
    failed = flaky.run()
    lake.run(flaky.numbers)
    failed_again = flaky.run(parent=failed.run_id)
    done = flaky.run(parent=failed_again.run_id)
    assert (failed.is_success, failed_again.is_success, done.is_success) == (False, False, True)
    assert flaky.seen == [[1], [1], [1]]
    assert lake.messages(done.run_id) == [
        f"Reads numbers at version 1 (data version {old}, as in run {failed_again.run_id})"
    ]
    assert lake.materialization("second").tags["dagster/input_data_version/numbers"] == old
    new_run = flaky.run()
    assert (new_run.is_success, flaky.seen[-1]) == (True, [2])


def test_output_of_a_rerun_is_stale_when_its_input_has_changed(lake: Lake) -> None:
    flaky = Flaky(lake, failures=1)
    lake.run(flaky.numbers)
    first = lake.instance.fetch_materializations(dg.AssetKey("numbers"), limit=1).records[0].storage_id
    failed = flaky.run()
    lake.run(flaky.numbers)
    flaky.run(parent=failed.run_id)
    assert lake.materialization("second").tags["dagster/input_event_pointer/numbers"] == str(first)


def test_rerun_of_a_successful_run_reads_the_currently_recorded_version(lake: Lake) -> None:
    flaky = Flaky(lake, failures=0)
    lake.run(flaky.numbers)
    done = flaky.run()
    lake.run(flaky.numbers)
    flaky.run(parent=done.run_id)
    assert flaky.seen == [[1], [2]]


def test_rerun_that_also_materializes_the_input_reads_the_new_version(lake: Lake) -> None:
    flaky = Flaky(lake, failures=1)
    lake.run(flaky.numbers)
    failed = flaky.run()
    flaky.run(parent=failed.run_id, select=["numbers", "second"])
    assert flaky.seen == [[1], [2]]


def test_retried_step_reads_the_version_of_its_first_attempt(lake: Lake) -> None:
    flaky = Flaky(lake, failures=1, retry_policy=dg.RetryPolicy(max_retries=1))
    lake.run(flaky.numbers)
    flaky.between = lambda: lake.run(flaky.numbers)
    done = flaky.run()
    assert done.is_success
    assert flaky.seen == [[1], [1]]
    assert lake.messages(done.run_id)[-1].endswith(", as in the first attempt)")


def test_output_of_a_step_that_failed_after_its_commit_is_not_committed_twice(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = module._report, []

    def fail_once(context, committed, num_partitions):
        calls.append(committed.report.repeated)
        if len(calls) == 1:
            raise RuntimeError("the event log is not available")
        real(context, committed, num_partitions)

    monkeypatch.setattr(module, "_report", fail_once)
    lance_core.write_dataset(ids(1), lake.uri("numbers"))

    @dg.asset(metadata={"lance/mode": "append"}, retry_policy=dg.RetryPolicy(max_retries=1))
    def numbers() -> pa.Table:
        return ids(2)

    assert lake.run(numbers).success
    assert calls == [False, True]
    stored = lance.dataset(lake.uri("numbers"))
    assert (stored.version, stored.to_table()["id"].to_pylist()) == (2, [1, 2])
    assert len(list(Path(lake.uri("numbers"), "data").iterdir())) == 2
    lake.run(numbers)
    assert lance.dataset(lake.uri("numbers")).to_table()["id"].to_pylist() == [1, 2, 2]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None], pa.string_view()),
        pa.array([b"a", None], pa.binary_view()),
        pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array(["a"]), ordered=True),
    ],
    ids=lambda column: str(column.type),
)
def test_values_that_are_stored_as_a_different_type_can_be_appended_repeatedly(lake: Lake, column: pa.Array) -> None:
    @dg.asset(metadata={"lance/mode": "append"})
    def values() -> pa.Table:
        return pa.table({"value": column})

    lake.run(values)
    lake.run(values)
    assert lance.dataset(lake.uri("values")).to_table()["value"].to_pylist() == column.to_pylist() * 2


@pytest.mark.parametrize("is_lazy", [False, True])
def test_polars_columns_of_python_objects_are_refused(lake: Lake, is_lazy: bool) -> None:
    @dg.asset
    def objects():
        frame = pl.DataFrame({"id": [1], "thing": [object()]})
        return frame.lazy() if is_lazy else frame

    result = lake.run(objects, raise_on_error=False)
    assert "column 'thing' has type Object" in str(result.get_step_failure_events()[0].step_failure_data)
    assert not Path(lake.uri("objects")).exists()


def test_asset_key_with_a_dot_as_prefix_has_its_own_location(lake: Lake) -> None:
    @dg.asset(key=[".", "numbers"])
    def dotted() -> pa.Table:
        return ids(1)

    lake.run(dotted)
    lake.run(source_of([ids(2)]))
    assert lance.dataset(lake.uri("numbers")).to_table()["id"].to_pylist() == [2]
    assert lance_core.dataset(lake.io_manager.dataset_uri([".", "numbers"])).to_table()["id"].to_pylist() == [1]


def fails_after(output: str, failures: int, mode: str, uri: str | None = None, **options: Any) -> dg.AssetsDefinition:
    """Assets ``a`` and ``b`` of one step, which fails after an output was stored."""
    left = [failures]

    def step():
        for name in ("a", "b"):
            yield dg.Output(pa.table({"from": [name]}), name)
            if name == output and left[0]:
                left[0] -= 1
                raise RuntimeError("not yet")

    place = {} if uri is None else {"lance/uri": uri}
    outs = {name: dg.AssetOut(metadata={"lance/mode": mode, **place}) for name in ("a", "b")}
    return dg.multi_asset(outs=outs, **options)(step)


def rows_from(uri: str) -> list[str]:
    return lance.dataset(uri).to_table()["from"].to_pylist()


def test_outputs_of_a_retried_step_that_share_a_dataset_are_each_stored_once(lake: Lake) -> None:
    both = fails_after("a", 1, "append", lake.uri("shared"), retry_policy=dg.RetryPolicy(max_retries=1))
    assert lake.run(both).success
    assert rows_from(lake.uri("shared")) == ["a", "b"]


def test_dataset_that_the_first_attempt_created_is_kept_by_a_retry(lake: Lake) -> None:
    assert lake.run(fails_after("b", 1, "create", retry_policy=dg.RetryPolicy(max_retries=1))).success
    assert (rows_from(lake.uri("a")), rows_from(lake.uri("b"))) == (["a"], ["b"])
    assert lake.materialization("b").metadata["lance/rows_written"].value == 1


def rerun(lake: Lake, both: dg.AssetsDefinition, parent: dg.DagsterRun | None) -> dg.DagsterRun:
    defs = dg.Definitions([both], resources={"io_manager": lake.io_manager}, executor=dg.in_process_executor)
    job = defs.resolve_implicit_global_asset_job_def()
    known = {} if parent is None else {"parent_run_id": parent.run_id, "root_run_id": parent.run_id}
    run = lake.instance.create_run_for_job(job_def=job, **known)
    execute_run(InMemoryJob(job), run, lake.instance)
    found = lake.instance.get_run_by_id(run.run_id)
    assert found is not None
    return found


@pytest.mark.parametrize("mode", ["append", "create"])
def test_rows_of_a_step_that_failed_after_its_commit_are_not_appended_again_by_reruns(lake: Lake, mode) -> None:
    both = fails_after("b", 2, mode)
    first = rerun(lake, both, None)
    second = rerun(lake, both, first)
    third = rerun(lake, both, second)
    assert [each.is_success for each in (first, second, third)] == [False, False, True]
    assert (rows_from(lake.uri("a")), rows_from(lake.uri("b"))) == (["a"], ["b"])


def test_rerun_of_a_successful_step_appends_its_rows_again(lake: Lake) -> None:
    both = fails_after("none", 0, "append")
    rerun(lake, both, rerun(lake, both, None))
    assert rows_from(lake.uri("a")) == ["a", "a"]


def test_rerun_of_a_failed_run_overwrites_the_dataset_with_its_own_rows(lake: Lake) -> None:
    both = fails_after("b", 1, "overwrite")
    rerun(lake, both, rerun(lake, both, None))
    assert (rows_from(lake.uri("b")), lance.dataset(lake.uri("b")).version) == (["b"], 2)


def test_lease_of_a_failed_step_is_released(lake: Lake) -> None:
    flaky = Flaky(lake, failures=1)
    lake.run(flaky.numbers)
    flaky.run()
    assert lance.dataset(lake.uri("numbers")).tags.list() == {}


def test_compaction_does_not_make_downstream_assets_stale(lake: Lake) -> None:
    @dg.asset(metadata={"lance/mode": "append"})
    def numbers() -> pa.Table:
        return ids(1)

    @dg.asset
    def second(numbers: pa.Table) -> pa.Table:
        return numbers

    def status() -> StaleStatus:
        graph = dg.Definitions([numbers, second], resources={"io_manager": lake.io_manager}).resolve_asset_graph()
        resolver = CachingStaleStatusResolver(lake.instance, graph, LoadingContextForTest(lake.instance))
        return resolver.get_status(dg.AssetKey("second"))

    lake.run(numbers)
    lake.run(numbers, second)
    lance_core.dataset(lake.uri("numbers")).optimize.compact_files()
    assert status() is StaleStatus.FRESH
    lake.run(numbers)
    assert status() is StaleStatus.STALE


@pytest.mark.parametrize("value", [["s3cr3t"], "s3cr3t"])
@pytest.mark.parametrize("resource", [LanceIOManager, LanceTableResource])
def test_storage_options_of_the_wrong_type_are_refused_without_being_shown(resource, value: object) -> None:
    given = {"aws_secret_access_key": value} if isinstance(value, list) else value
    with pytest.raises(ValueError, match="storage_options") as caught:
        resource(base_uri="/lake", asset="a", uri="/lake/a.lance", storage_options=given)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("generation", ["lance-encoding:blob", "lance.blob.v2"])
def test_blobs_are_created_appended_and_overwritten(lake: Lake, generation: str) -> None:
    if generation == "lance.blob.v2":
        rows = pa.table([[1], lance_core.blob_array([b"bytes"])], ["id", "image"])
    else:
        field = pa.field("image", pa.large_binary(), metadata={generation: "true"})
        rows = pa.table([[1], [b"bytes"]], schema=pa.schema([("id", pa.int64()), field]))
    modes = ["append", "append", "overwrite"]
    for mode in modes:

        @dg.asset(metadata={"lance/mode": mode})
        def images() -> pa.Table:
            return rows

        assert lake.run(images).success
        if mode == "append":
            # Another library may have registered the blob type first, as ``lance`` does here.
            assert lance.dataset(lake.uri("images")).count_rows() in (1, 2)
    dataset = lance.dataset(lake.uri("images"))
    assert [blob.readall() for blob in dataset.take_blobs("image", indices=[0])] == [b"bytes"]
    assert dataset.version == len(modes)


@pytest.mark.parametrize("column", ["blob", "json"])
def test_json_and_blobs_are_appended_to_a_dataset_that_was_created_without_rows(lake: Lake, column: str) -> None:
    field = pa.field("value", pa.json_())
    if column == "blob":
        field = pa.field("value", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    text = '{"a":1}'
    rows = pa.table([[text.encode() if column == "blob" else text, None]], schema=pa.schema([field]))
    for given in (rows.slice(0, 0), rows, rows):

        @dg.asset(metadata={"lance/mode": "append"})
        def values() -> pa.Table:
            return given  # noqa: B023  # run before the next one is defined

        assert lake.run(values).success
    dataset = lance.dataset(lake.uri("values"))
    if column == "blob":
        assert dataset.schema.field("value").type.extension_name == "lance.blob.v2"
        found = [blob.readall() for blob in dataset.take_blobs("value", indices=[0, 2])]
        assert found == [text.encode(), text.encode()]
    else:
        assert dataset.to_table()["value"].to_pylist() == [text, None, text, None]
