"""Datasets whose rows come from a function, and datasets that assets of the project write themselves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_pipelines import (
    AssetSource,
    DatasetDeclaration,
    FunctionSource,
    SourceContext,
    SparkResource,
    SqlSource,
    WriteMode,
    build_definitions,
)


class ForbiddenSpark(SparkResource):
    @property
    def spark_session(self) -> None:
        raise AssertionError("a Spark session was started")


ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


def ingest(declaration: DatasetDeclaration, instance: dg.DagsterInstance, **config) -> dg.ExecuteInProcessResult:
    job = build_definitions([declaration], spark=ForbiddenSpark()).resolve_job_def(f"{declaration.name}__ingest")
    return job.execute_in_process(
        run_config={"ops": {declaration.name: {"config": config}}}, instance=instance, raise_on_error=False
    )


def batches(context: SourceContext) -> Iterator[pa.RecordBatch]:
    assert context.run_id
    assert context.captured_at.tzinfo is not None
    yield from ROWS.to_batches(max_chunksize=2)


@pytest.mark.parametrize("function", [lambda context: ROWS, lambda context: ROWS.to_reader(), batches])
def test_rows_of_a_function_are_written_without_spark(tmp_path, instance, function) -> None:
    uri = str(tmp_path / "numbers.lance")
    declaration = DatasetDeclaration(key="numbers", uri=uri, source=FunctionSource(function=function))
    for version in (1, 2):
        result = ingest(declaration, instance)
        assert result.success
        (event,) = result.get_asset_materialization_events()
        assert event.materialization.metadata["lance/version"].value == version
    expected = pa.concat_tables([ROWS, ROWS]).combine_chunks()
    assert lance_core.dataset(uri).to_table() == lance.dataset(uri).to_table() == expected
    spec = build_definitions([declaration]).resolve_assets_def("numbers").get_asset_spec()
    assert spec.kinds == {"lance"}


def test_a_run_of_a_function_may_replace_the_target_but_not_the_source(tmp_path, instance) -> None:
    declared = DatasetDeclaration(key="n", uri="/nowhere/n.lance", source=FunctionSource(function=lambda _: ROWS))
    uri = str(tmp_path / "other.lance")
    assert ingest(declared, instance, uri=uri, mode=WriteMode.OVERWRITE.value).success
    assert lance_core.dataset(uri).count_rows() == 3
    with pytest.raises(dg.DagsterInvalidConfigError, match='unexpected config entry "source"'):
        ingest(declared, instance, source={"paths": ["/x"]})


@pytest.mark.parametrize("returned", [None, 7, [], ["row"]])
def test_a_function_that_returns_no_arrow_data_fails_with_a_one_line_error(tmp_path, instance, returned) -> None:
    uri = str(tmp_path / "numbers.lance")
    declaration = DatasetDeclaration(key="n", uri=uri, source=FunctionSource(function=lambda _: returned))
    (event,) = ingest(declaration, instance).get_step_failure_events()
    message = event.step_failure_data.user_failure_data.description
    assert message.startswith("n: the source function must return a pyarrow.Table")
    assert not Path(uri).exists()


def test_rows_of_a_function_that_do_not_fit_the_dataset_raise_an_error_that_names_the_column(
    tmp_path, instance
) -> None:
    uri = str(tmp_path / "numbers.lance")
    lance.write_dataset(pa.table({"id": ["text"], "name": ["a"]}), uri)
    declaration = DatasetDeclaration(key="n", uri=uri, source=FunctionSource(function=lambda _: ROWS))
    (event,) = ingest(declaration, instance).get_step_failure_events()
    assert "column 'id'" in event.step_failure_data.user_failure_data.description
    assert lance_core.dataset(uri).version == 1


@pytest.mark.parametrize(
    ("rows", "found"), [([], "list without items"), ([None], "list whose first item is of type NoneType")]
)
def test_a_function_that_returns_no_batches_is_refused_and_the_error_names_the_returned_type(rows, found) -> None:
    with pytest.raises(InvalidInputError, match=f"at least one RecordBatch, found {found}$"):
        FunctionSource(function=lambda _: rows).read(SourceContext(captured_at=datetime(2026, 1, 1, tzinfo=UTC)))


def test_vector_columns_of_a_function_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="dataset n: vector_columns applies only to rows that Spark reads"):
        DatasetDeclaration(
            key="n", uri="/n", source=FunctionSource(function=lambda _: ROWS), vector_columns={"embedding": 8}
        )


def test_a_dataset_is_downstream_of_its_source_asset() -> None:
    declaration = DatasetDeclaration(
        key="features",
        uri="/lake/features.lance",
        source=AssetSource(key="lake/events", uri="/lake/events.lance"),
        deps=["weather"],
    )
    graph = build_definitions([declaration]).resolve_asset_graph()
    parents = graph.get(dg.AssetKey("features")).parent_keys
    assert parents == {dg.AssetKey(["lake", "events"]), dg.AssetKey("weather")}


def test_options_of_sources_are_not_shown_in_the_repr() -> None:
    for source in (
        SqlSource(sql="SELECT 1", jdbc={"url": "jdbc:x", "password": "canary"}),
        AssetSource(key="a", uri="/a", storage_options={"key": "canary"}),
    ):
        assert "canary" not in repr(DatasetDeclaration(key="n", uri="/n", source=source))


@pytest.mark.parametrize(("sql", "jdbc"), [(" ", {}), ("SELECT 1", {"user": "me"})])
def test_an_incomplete_sql_source_is_refused(sql, jdbc) -> None:
    with pytest.raises(InvalidInputError, match="of a SQL source"):
        SqlSource(sql=sql, jdbc=jdbc)


def test_a_dataset_written_by_an_asset_of_the_project_has_every_job_except_ingest(tmp_path, instance) -> None:
    uri = str(tmp_path / "mine.lance")

    @dg.asset
    def mine() -> None:
        lance.write_dataset(ROWS, uri)

    declaration = DatasetDeclaration(key="mine", uri=uri)
    defs = dg.Definitions.merge(build_definitions([declaration]), dg.Definitions(assets=[mine]))
    dg.Definitions.validate_loadable(defs)
    names = {job.name for job in defs.resolve_all_job_defs()}
    assert "mine__ingest" not in names
    assert {"mine__compact", "mine__cleanup"} <= names
    assert dg.materialize([mine], instance=instance).success
    with dg.build_sensor_context(instance=instance, definitions=defs) as context:
        data = defs.get_repository_def().get_sensor_def("lance_version_sensor").evaluate_tick(context)
    (event,) = data.asset_events
    assert event.asset_key == mine.key
    assert event.metadata["dagster/row_count"].value == 3


def rows_of_days(context: SourceContext) -> pa.Table:
    return pa.table({"day": list(context.partition_keys), "run": [context.run_id] * len(context.partition_keys)})


def test_a_function_reads_the_partitions_of_a_run_and_replaces_exactly_their_rows(tmp_path, instance) -> None:
    uri = str(tmp_path / "days.lance")
    declaration = DatasetDeclaration(
        key="days",
        uri=uri,
        source=FunctionSource(function=rows_of_days),
        mode=WriteMode.OVERWRITE_PARTITION,
        partitions=dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-03-02"),
        partition_by="day",
    )
    job = build_definitions([declaration], spark=ForbiddenSpark()).resolve_job_def("days__ingest")

    def backfill(start: str, stop: str) -> dg.ExecuteInProcessResult:
        tags = {"dagster/asset_partition_range_start": start, "dagster/asset_partition_range_end": stop}
        result = job.execute_in_process(instance=instance, tags=tags)
        assert result.success
        return result

    first = backfill("2026-01-01", "2026-03-01")
    assert lance_core.dataset(uri).version == 1
    events = first.get_asset_materialization_events()
    assert len({event.materialization.partition for event in events}) == len(events) == 60
    second = backfill("2026-01-05", "2026-01-06")
    assert lance_core.dataset(uri).version == 2
    written = {row["day"]: row["run"] for row in lance.dataset(uri).to_table().to_pylist()}
    assert len(written) == lance_core.dataset(uri).count_rows() == 60
    again = {day for day, run in written.items() if run == second.run_id}
    assert again == {"2026-01-05", "2026-01-06"}
