"""Writes through the data source ``lance``: modes, options, failed attempts, and leftovers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # PySpark's own convention
from pyspark.sql.types import StructType

import lance_core
from lance_core.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    IncompatibleTransactionError,
    InvalidInputError,
    LanceError,
    NotSupportedError,
    SchemaMismatchError,
)
from lance_pipelines.spark import register, translated
from lance_pipelines.spark.data_source import writer as writer_module
from lance_pipelines.spark.data_source.location import Location
from lance_pipelines.spark.data_source.options import WRITE, parse_options
from lance_pipelines.spark.data_source.source import LanceDataSource
from lance_pipelines.spark.data_source.writer import LanceWriter, WrittenMessage
from lance_pipelines.spark.writer import AttemptReport
from tests.support.sessions import read_lance

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def save(frame: DataFrame, uri: str, mode: str = "append", **options: object) -> None:
    texts = {name: str(value) for name, value in options.items()}
    with translated("cannot write"):
        frame.write.format("lance").options(**texts).mode(mode).save(uri)


def rows_of(spark: SparkSession, start: int, stop: int) -> DataFrame:
    return spark.range(start, stop, 1, 2).selectExpr("id", "concat('row ', id) AS word", "array(0.5f, 1.5f) AS v")


def data_files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "data").glob("*")}


def committed_files(uri: str) -> set[str]:
    return {path for each in lance_core.dataset(uri).manifest.fragments for path in each.data_file_paths}


def test_append_creates_or_extends_a_table_and_overwrite_replaces_it(spark: SparkSession, uri: str) -> None:
    new_table = {"vectorColumns": "v:2", "stableRowIds": "true", "dataStorageVersion": "2.1"}
    save(rows_of(spark, 0, 10), uri, **new_table, maxRowsPerFile=3)
    dataset = lance_core.dataset(uri)
    assert dataset.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert (dataset.has_stable_row_ids, dataset.data_storage_version) == (True, "2.1")
    assert [fragment.physical_rows for fragment in dataset.get_fragments()] == [3, 2, 3, 2]
    save(rows_of(spark, 10, 20).select("word", "v", "id"), uri, **{"property.reason": "more"})
    assert lance_core.dataset(uri).read_transaction(2).transaction_properties == {"reason": "more"}
    assert lance.dataset(uri).to_table()["id"].to_pylist() == list(range(20))
    rows_of(spark, 20, 22).createOrReplaceTempView("new_rows")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW written USING lance OPTIONS (path '{uri}')")
    spark.sql("INSERT INTO written SELECT * FROM new_rows")
    assert read_lance(spark, uri, columns="").count() == 22
    save(spark.range(3).toDF("other"), uri, "overwrite")
    assert lance.dataset(uri).to_table() == pa.table(
        {"other": pa.array([0, 1, 2], pa.int64())}, schema=lance.dataset(uri).schema
    )
    assert lance_core.dataset(uri).latest_version == 4
    save(spark.range(0).toDF("other"), uri)
    assert lance_core.dataset(uri).latest_version == 4


def test_option_if_exists_error_or_ignore_leaves_an_existing_table_unchanged(spark: SparkSession, uri: str) -> None:
    save(spark.range(2), uri, ifExists="error")
    with pytest.raises(AlreadyExistsError, match="already exists"):
        save(spark.range(2), uri, ifExists="error")
    save(spark.range(2), uri, ifExists="ignore")
    assert (lance_core.dataset(uri).latest_version, lance_core.dataset(uri).count_rows()) == (1, 2)
    with pytest.raises(NotSupportedError, match="ErrorIfExists"):
        save(spark.range(2), uri, "error")


@pytest.mark.parametrize(
    ("columns", "options", "kind", "message"),
    [
        ("id bigint", {}, SchemaMismatchError, "column 'word' of the dataset is not in the source"),
        (
            "id bigint, word bigint",
            {},
            SchemaMismatchError,
            "'word' has type int64 in the source, but type string in the dataset",
        ),
        ("id bigint, word string", {"dataStorageVersion": "2.0"}, InvalidInputError, "is 2.0, but .* version 2.2"),
        ("id bigint, word string", {"stableRowIds": "true"}, InvalidInputError, "does not have stable row ids"),
        ("id bigint, word string", {"version": 1}, InvalidInputError, "'version' does not apply to a write"),
        ("id bigint, word string", {"maxRowsPerFile": "many"}, InvalidInputError, "'maxRowsPerFile' is 'many'"),
        ("id bigint, word interval month", {}, NotSupportedError, "column 'word': Spark type interval month"),
    ],
)
def test_a_write_whose_schema_does_not_fit_is_refused_before_anything_is_written(
    uri: str, columns: str, options: dict[str, object], kind: type[LanceError], message: str
) -> None:
    lance_core.write_dataset(pa.table({"id": pa.array([1], pa.int64()), "word": ["x"]}), uri)
    source = LanceDataSource({"path": uri, **{name: str(value) for name, value in options.items()}})
    schema = StructType.fromDDL(columns)
    with pytest.raises(kind, match=message):
        source.writer(schema, overwrite=False)


def test_a_write_of_values_that_do_not_fit_raises_one_clear_error_and_leaves_no_files(
    spark: SparkSession, uri: str
) -> None:
    lance_core.write_dataset(pa.table({"id": pa.array([1], pa.int64())}), uri)
    before = data_files(uri)
    with pytest.raises(SchemaMismatchError, match=r"column 'id' has type .* but type int64 in the dataset") as caught:
        save(spark.range(3).selectExpr("string(id) AS id"), uri)
    assert "Traceback" not in str(caught.value)
    with pytest.raises(LanceError, match="nowhere"):
        save(spark.range(3), uri, targetBases="nowhere")
    assert (data_files(uri), lance_core.dataset(uri).latest_version) == (before, 1)


def test_partitioned_layouts_are_refused(spark: SparkSession, uri: str) -> None:
    with pytest.raises(LanceError, match="partitioning"), translated("cannot write"):
        spark.range(3).write.format("lance").partitionBy("id").mode("append").save(uri)


def failing(frame: DataFrame, attempts: int) -> DataFrame:
    """Return the frame with one task whose first attempts fail after their rows were read."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        if task.partitionId() == 1 and task.attemptNumber() < attempts:
            raise ValueError("it broke off")

    return frame.mapInArrow(pass_on, frame.schema)


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [1, 9])
def test_rows_of_failed_attempts_are_neither_committed_nor_left_behind(
    spark: SparkSession, uri: str, attempts: int
) -> None:
    save(spark.range(1).toDF("id"), uri)
    frame = failing(spark.range(0, 100_000, 1, 2), attempts)
    if attempts == 1:
        save(frame, uri, maxRowsPerFile=20_000)
        assert lance_core.dataset(uri).count_rows() == 100_001
    else:
        with pytest.raises(LanceError, match="it broke off"):
            save(frame, uri, maxRowsPerFile=20_000)
        assert lance_core.dataset(uri).latest_version == 1
    assert data_files(uri) == committed_files(uri)


def writer_with_files(spark: SparkSession, uri: str) -> tuple[LanceWriter, list[WrittenMessage]]:
    """Return a writer whose only task has written two files, one of them in a failed attempt."""
    options = parse_options({"path": uri}, WRITE)
    writer = LanceWriter.plan(Location(uri=uri), spark.range(3).schema, options, overwrite=False)
    settings = writer._plan.settings
    rows = pa.table({"id": pa.array([1, 2], pa.int64())}, schema=settings.target)
    written = [
        lance_core.write_fragments(rows, uri, mode="append", file_token=settings.file_token)[0].to_json()
        for _ in range(2)
    ]
    report = AttemptReport(partition_id=0, attempt_number=1, num_rows=2, num_bytes=1, fragments=(written[0],))
    return writer, [WrittenMessage(report)]


def test_files_of_other_attempts_are_removed_after_the_commit(spark: SparkSession, uri: str) -> None:
    lance_core.write_dataset(pa.table({"id": pa.array([0], pa.int64())}), uri)
    writer, messages = writer_with_files(spark, uri)
    writer.commit(messages)
    assert lance_core.dataset(uri).to_table()["id"].to_pylist() == [0, 1, 2]
    assert data_files(uri) == committed_files(uri)
    # The same commit is repeated.
    writer.commit(messages)
    assert lance_core.dataset(uri).latest_version == 2


def test_an_abort_after_an_unknown_commit_deletes_nothing(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance_core.write_dataset(pa.table({"id": pa.array([0], pa.int64())}), uri)
    writer, messages = writer_with_files(spark, uri)
    commit = writer_module.commit_transaction

    def committed_but_unknown(*args: object, **options: object) -> int:
        commit(*args, **options)
        raise CommitOutcomeUnknownError("the connection broke")

    monkeypatch.setattr(writer_module, "commit_transaction", committed_but_unknown)
    with pytest.raises(CommitOutcomeUnknownError):
        writer.commit(messages)
    writer.abort(messages)
    assert lance_core.dataset(uri).to_table()["id"].to_pylist() == [0, 1, 2]


def test_a_refused_commit_and_an_abort_after_a_failed_task_delete_all_files(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance_core.write_dataset(pa.table({"id": pa.array([0], pa.int64())}), uri)

    def refused(*args: object, **options: object) -> int:
        raise IncompatibleTransactionError("it conflicts")

    monkeypatch.setattr(writer_module, "commit_transaction", refused)
    writer, messages = writer_with_files(spark, uri)
    with pytest.raises(IncompatibleTransactionError):
        writer.commit(messages)
    assert data_files(uri) == committed_files(uri)
    writer, messages = writer_with_files(spark, uri)
    writer.abort([*messages, None])
    assert data_files(uri) == committed_files(uri)


def test_a_table_created_by_another_writer_meanwhile_is_not_replaced(spark: SparkSession, uri: str) -> None:
    options = parse_options({"path": uri, "ifexists": "ignore"}, WRITE)
    writer = LanceWriter.plan(Location(uri=uri), spark.range(3).schema, options, overwrite=False)
    lance_core.write_dataset(pa.table({"x": [1]}), uri)
    writer.commit([WrittenMessage(None)])
    assert lance_core.dataset(uri).schema.names == ["x"]


def test_repr_of_a_location_hides_the_storage_options() -> None:
    assert "hidden" not in repr(Location(uri="s3://b/t", storage_options={"aws_secret_access_key": "hidden"}))


def test_column_metadata_declares_vector_columns(spark: SparkSession, uri: str) -> None:
    frame = rows_of(spark, 0, 3).withMetadata("v", {"arrow.fixed-size-list.size": 2})
    save(frame.filter("id > 0").select(F.col("v").alias("w"), "id"), uri)
    assert lance_core.dataset(uri).schema.field("w").type == pa.list_(pa.float32(), 2)
