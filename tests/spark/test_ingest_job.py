"""The ingest job, executed in process with a real Spark session: source files of users, and errors in these files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_core
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import (
    AssetSource,
    FileSource,
    Source,
    SourceContext,
    SourceFormat,
    SparkSource,
    SqlSource,
)
from lance_pipelines.ops import failures

pytestmark = pytest.mark.spark


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral
    # Discard the messages of failed steps, which would be printed when the test process exits.
    failures._failures.clear()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    write(directory / "a.parquet", pa.table({"id": [1, 2], "v": [[1.0, 2.0], [3.0, 4.0]]}))
    return directory


def write(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path)


@pytest.fixture
def ingest(spark: SparkSession, source: Path, uri: str, instance: dg.DagsterInstance):
    declaration = DatasetDeclaration(
        key="events", uri=uri, source=FileSource(format=SourceFormat.PARQUET, paths=(str(source),))
    )
    job = build_definitions([declaration]).resolve_job_def("events__ingest")

    def run(**config: Any) -> dg.ExecuteInProcessResult:
        return job.execute_in_process(
            run_config={"ops": {"events": {"config": config}}}, instance=instance, raise_on_error=False
        )

    return run


def headline(result: dg.ExecuteInProcessResult) -> str:
    (event,) = result.get_step_failure_events()
    description = event.step_failure_data.user_failure_data.description
    assert "\n\tat " not in description
    assert len(description) < 1000
    return description


def assert_untouched(uri: str, version: int, num_files: int) -> None:
    """Check that the failed run left neither a version nor a file."""
    assert lance_core.dataset(uri).version == version
    assert len(list(Path(uri, "data").iterdir())) == num_files


@pytest.mark.slow
def test_declared_vector_columns_file_limits_and_queries_reach_the_writer(ingest, uri) -> None:
    result = ingest(
        vector_columns={"v": 2},
        max_rows_per_file=1,
        source={"sql": "SELECT id, v, upper('x') AS tag FROM source"},
    )
    assert result.success
    dataset = lance_core.dataset(uri)
    assert dataset.schema.field("v").type == pa.list_(pa.float64(), 2)
    assert len(dataset.get_fragments()) == 2
    assert sorted(dataset.to_table(columns=["id", "tag"]).to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "tag": "X"},
        {"id": 2, "tag": "X"},
    ]


@pytest.mark.slow
def test_a_missing_source_is_named_in_the_error(ingest, uri) -> None:
    assert "/nowhere/*.parquet" in headline(ingest(source={"paths": ["/nowhere/*.parquet"]}))
    assert not Path(uri).exists()


def test_a_corrupt_file_is_named_in_the_error(ingest, source, uri) -> None:
    assert ingest().success
    broken = source / "b.parquet"
    broken.write_bytes((source / "a.parquet").read_bytes()[:-20] + b"not a parquet footer")
    message = headline(ingest())
    assert str(broken) in message
    assert_untouched(uri, version=1, num_files=1)


@pytest.mark.slow
def test_a_column_with_a_changed_type_is_named_in_the_error_before_a_row_is_read(ingest, source, uri) -> None:
    assert ingest().success
    write(source / "a.parquet", pa.table({"id": ["one"], "v": [[1.0, 2.0]]}))
    result = ingest()
    assert "column 'id'" in headline(result)
    assert "SchemaMismatchError" in headline(result)
    assert_untouched(uri, version=1, num_files=1)


@pytest.mark.slow
def test_a_new_column_of_the_source_is_refused_and_named_in_the_error(ingest, source, uri) -> None:
    assert ingest().success
    write(source / "a.parquet", pa.table({"id": [1], "v": [[1.0, 2.0]], "surprise": [0]}))
    assert "surprise" in headline(ingest())
    assert_untouched(uri, version=1, num_files=1)


@pytest.mark.slow
def test_a_list_of_the_wrong_length_fails_the_write_and_removes_its_files(ingest, source, uri) -> None:
    write(source / "a.parquet", pa.table({"id": [1, 2], "v": [[1.0, 2.0], [3.0]]}))
    assert "'v'" in headline(ingest(vector_columns={"v": 2}))
    assert not list(Path(uri).rglob("*.lance"))


@pytest.mark.slow
def test_mode_create_refuses_an_existing_dataset(ingest, uri) -> None:
    assert ingest(mode="create").success
    assert "already contains a dataset (version 1)" in headline(ingest(mode="create"))
    assert_untouched(uri, version=1, num_files=1)


@pytest.mark.slow
def test_mode_overwrite_accepts_another_schema(ingest, source, uri) -> None:
    assert ingest().success
    write(source / "a.parquet", pa.table({"other": ["x"]}))
    assert ingest(mode="overwrite").success
    assert lance_core.dataset(uri).to_table().to_pylist() == [{"other": "x"}]
    assert lance_core.dataset(uri, version=1).count_rows() == 2


def test_a_query_that_does_not_parse_is_named_in_the_error(ingest) -> None:
    assert "SELEC id" in headline(ingest(source={"sql": "SELEC id FROM source"}))


@pytest.mark.slow
def test_an_existing_session_survives_the_ingest(ingest, spark) -> None:
    assert ingest().success
    assert spark.range(3).count() == 3


@pytest.mark.slow
def test_storage_options_reach_the_tasks_of_writes_and_rewrites(spark, source, server, instance, monkeypatch) -> None:
    """The server is known only from the declared options; the secret is in an environment variable."""
    monkeypatch.setenv("LAKE_SECRET", "canary-Passw0rd")
    declaration = DatasetDeclaration(
        key="lake/events",
        uri=server.uri(),
        source=FileSource(format=SourceFormat.PARQUET, paths=(str(source),)),
        storage_options=server.options(aws_secret_access_key=dg.EnvVar("LAKE_SECRET")),
        max_rows_per_file=1,
    )
    defs = build_definitions([declaration])
    for operation in ("ingest", "compact"):
        job = defs.resolve_job_def(f"lake__events__{operation}")
        assert job.execute_in_process(instance=instance).success
    dataset = lance_core.dataset(declaration.uri, storage_options=declaration.resolved_storage_options())
    assert (len(dataset.get_fragments()), dataset.count_rows(), dataset.version) == (1, 2, 3)


def ingest_from(declared: Source, uri: str, instance: dg.DagsterInstance, **config: Any) -> dg.ExecuteInProcessResult:
    defs = build_definitions([DatasetDeclaration(key="target", uri=uri, source=declared)])
    return defs.resolve_job_def("target__ingest").execute_in_process(
        run_config={"ops": {"target": {"config": config}}}, instance=instance, raise_on_error=False
    )


def rows_of(uri: str) -> list[dict[str, Any]]:
    return sorted(lance_core.dataset(uri).to_table().to_pylist(), key=lambda row: row["id"])


@pytest.mark.slow
def test_a_query_reads_tables_of_the_catalog_and_may_be_replaced(spark, instance, uri) -> None:
    spark.createDataFrame([(1, "a"), (2, "b")], "id INT, name STRING").createOrReplaceTempView("people")
    try:
        source = SqlSource(sql="SELECT id FROM people WHERE name = 'a'")
        assert ingest_from(source, uri, instance).success
        assert ingest_from(source, uri, instance, source={"sql": "SELECT id FROM people WHERE name = 'b'"}).success
        assert rows_of(uri) == [{"id": 1}, {"id": 2}]
        message = headline(ingest_from(SqlSource(sql="SELECT id FROM nobody"), uri, instance))
    finally:
        spark.catalog.dropTempView("people")
    assert "cannot run the query SELECT id FROM nobody" in message


@pytest.mark.slow
def test_a_function_source_creates_a_frame_from_several_tables(spark, instance, uri) -> None:
    def both(session: SparkSession, context: SourceContext) -> DataFrame:
        return session.range(2).unionByName(session.range(5, 6))

    assert ingest_from(SparkSource(function=both), uri, instance).success
    assert rows_of(uri) == [{"id": 0}, {"id": 1}, {"id": 5}]


@pytest.mark.slow
def test_an_ingest_reads_the_recorded_version_of_the_asset_of_its_source(spark, instance, uri, tmp_path) -> None:
    """Rows added after the latest materialization recorded in Dagster are not read."""
    upstream_uri = str(tmp_path / "upstream.lance")
    upstream = DatasetDeclaration(
        key="lake/up", uri=upstream_uri, source=SparkSource(function=lambda session, _: session.range(4))
    )
    target = DatasetDeclaration(
        key="target",
        uri=uri,
        source=AssetSource(key="lake/up", uri=upstream_uri, columns=["id"], filter="id > 1"),
    )
    defs = build_definitions([upstream, target])
    assert defs.resolve_job_def("lake__up__ingest").execute_in_process(instance=instance).success
    assert defs.resolve_job_def("lake__up__compact").execute_in_process(instance=instance).success
    lance_core.write_dataset(pa.table({"id": pa.array([7], pa.int64())}), upstream_uri, mode="append")
    assert defs.resolve_job_def("target__ingest").execute_in_process(instance=instance).success
    assert rows_of(uri) == [{"id": 2}, {"id": 3}]
    assert not lance_core.dataset(upstream_uri).tags.list()
