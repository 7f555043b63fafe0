"""Reads through the data source ``lance``: rows, versions, columns, tasks, views, and errors."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_core
from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    RefNotFoundError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from lance_pipelines.spark import register, translated
from lance_pipelines.spark.data_source.source import LanceDataSource
from tests.support.s3_servers import S3Server
from tests.support.sessions import read_lance

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {"id": pa.array([1, 2, 3, 4], pa.int64()), "word": ["a", None, "c", "d"], "score": [0.5, 1.5, 2.5, 3.5]}
)


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_a_read_returns_the_selected_rows_and_columns(spark: SparkSession, uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    lance_core.dataset(uri).delete("id = 4")
    frame = read_lance(spark, uri)
    assert frame.dtypes == [("id", "bigint"), ("word", "string"), ("score", "double")]
    assert [tuple(row) for row in frame.orderBy("id").collect()] == [(1, "a", 0.5), (2, None, 1.5), (3, "c", 2.5)]
    assert ids(frame.filter("word IS NOT NULL AND score > 1")) == [3]
    assert read_lance(spark, uri, columns="word, id", filter="score < 2").columns == ["word", "id"]
    assert ids(read_lance(spark, uri, columns="id", filter="score < 2 -- low").filter("id > 1")) == [2]
    assert read_lance(spark, uri, columns="").count() == 3
    assert read_lance(spark, uri, columns="_rowid,id", filter="id > 1").collect() == [(1, 2), (2, 3)]
    pruned = spark.read.format("lance").schema("score double, id bigint").load(uri)
    assert [tuple(row) for row in pruned.orderBy("id").collect()] == [(0.5, 1), (1.5, 2), (2.5, 3)]


def test_a_dataframe_and_a_view_keep_their_version(spark: SparkSession, uri: str) -> None:
    dataset = lance_core.write_dataset(ROWS, uri)
    dataset.tags.create("first", 1)
    dataset.create_branch("other", 1)
    frame = read_lance(spark, uri)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW before USING lance OPTIONS (path '{uri}')")
    lance_core.write_dataset(ROWS.slice(0, 1), uri, mode="append")
    between = datetime.datetime.now(datetime.UTC)
    lance_core.write_dataset(ROWS.slice(0, 1), uri, mode="overwrite")
    assert frame.count() == 4
    assert spark.sql("SELECT sum(id) AS total FROM before WHERE score >= 1.5").collect()[0].total == 9
    assert read_lance(spark, uri).count() == 1
    counts = [
        read_lance(spark, uri, columns="", **choice).count()
        for choice in (
            {"version": 2},
            {"tag": "first"},
            {"branch": "other"},
            {"timestamp": between.isoformat()},
            {"timestamp": "9999-12-31T23:59:59.999999-01:00"},
        )
    ]
    assert counts == [5, 4, 4, 5, 1]


def test_small_fragments_share_a_task_and_large_ones_are_divided(spark: SparkSession, uri: str) -> None:
    table = pa.table({"id": pa.array(range(1000), pa.int64()), "pad": [random.randbytes(90) for _ in range(1000)]})
    lance_core.write_dataset(table, uri, data_storage_version="2.1")
    for _ in range(3):
        lance_core.write_dataset(table.slice(0, 10), uri, mode="append")
    lance_core.dataset(uri).delete("id % 100 = 7 OR id < 50")
    assert read_lance(spark, uri).rdd.getNumPartitions() == 1
    frame = read_lance(spark, uri, taskBytes=10_000, columns="id,pad", filter="id % 2 = 1")
    assert frame.rdd.getNumPartitions() > 5
    assert sorted(row.id for row in frame.collect()) == [id for id in range(51, 1000, 2) if id % 100 != 7]
    assert sorted(row.id for row in read_lance(spark, uri, taskBytes=10_000).select("id").collect()) == [
        id for id in range(50, 1000) if id % 100 != 7
    ]


def test_an_empty_table_is_read(spark: SparkSession, uri: str) -> None:
    lance_core.write_dataset(ROWS.slice(0, 0), uri)
    assert read_lance(spark, uri).collect() == []


def test_a_lease_protects_the_version_that_is_read(spark: SparkSession, uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    frame = read_lance(spark, uri, leaseSeconds=600)
    lance_core.write_dataset(ROWS, uri, mode="overwrite")
    lance_core.dataset(uri).cleanup_old_versions(older_than=datetime.timedelta(0))
    assert frame.count() == 4


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"verison": 1}, InvalidInputError, "unknown option 'verison'.*did you mean 'version'"),
        ({"aws_access_key_id": "AKIA-SECRET"}, InvalidInputError, "options of the store begin with 'storage.'"),
        ({"version": "first"}, InvalidInputError, "option 'version' is 'first'; expected a version number"),
        ({"version": 1, "tag": "x"}, InvalidInputError, "options 'version' and 'tag' cannot be combined"),
        ({"maxRowsPerFile": 1}, InvalidInputError, "'maxRowsPerFile' does not apply to a read"),
        ({"taskBytes": "9" * 400}, InvalidInputError, "option 'taskBytes' is '9+'; expected a positive number"),
        ({"leaseSeconds": 10**14}, InvalidInputError, "option 'leaseSeconds' is '10+'; expected a positive number of"),
        ({"leaseSeconds": 10**12}, InvalidInputError, "must expire before the year 10000"),
        ({"columns": "[" * 100_000}, InvalidInputError, "expected names of columns"),
        ({"timestamp": "0001-01-01T00:00:00+14:00"}, VersionNotFoundError, "no version"),
        ({"version": 7}, VersionNotFoundError, "no version 7"),
        ({"tag": "absent"}, RefNotFoundError, "absent"),
        ({"columns": "id,wrod"}, InvalidInputError, "wrod"),
        ({"filter": "wrod = 1"}, InvalidInputError, "wrod"),
    ],
)
def test_an_invalid_option_is_refused_before_anything_is_read(
    uri: str, options: dict[str, object], kind: type[LanceError], message: str
) -> None:
    lance_core.write_dataset(ROWS, uri)
    source = LanceDataSource({"path": uri, **{name: str(value) for name, value in options.items()}})
    with pytest.raises(kind, match=message) as caught:
        source.reader(source.schema())
    assert "SECRET" not in str(caught.value)


def test_missing_tables_and_columns_raise_clear_errors(spark: SparkSession, uri: str) -> None:
    with pytest.raises(DatasetNotFoundError, match="table"), translated("cannot read"):
        read_lance(spark, uri)
    lance_core.write_dataset(ROWS, uri)
    reader = spark.read.format("lance")
    with (
        pytest.raises(InvalidInputError, match=r"column 'ID' is not in .* which has id, word"),
        translated("cannot read"),
    ):
        reader.schema("ID bigint").load(uri).collect()
    with (
        pytest.raises(SchemaMismatchError, match=r"column 'id' has type bigint in .*, but type string in the schema"),
        translated("cannot read"),
    ):
        reader.schema("id string").load(uri).collect()
    with (
        pytest.raises(SchemaMismatchError, match=r"'word' has type string in .*, but type string collate UTF8_LCASE"),
        translated("cannot read"),
    ):
        reader.schema("word string collate UTF8_LCASE").load(uri).collect()
    misspelled = r"unknown option 'verison'.*did you mean"
    with pytest.raises(InvalidInputError, match=misspelled) as caught, translated("cannot read"):
        read_lance(spark, uri, verison=1)
    assert "Traceback" not in str(caught.value)


@pytest.mark.slow
def test_files_removed_after_planning_raise_a_clear_error(spark: SparkSession, uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    frame = read_lance(spark, uri)
    for path in (Path(uri) / "data").iterdir():
        path.unlink()
    with pytest.raises(NotFoundError, match=r"\.lance"), translated("cannot read"):
        frame.collect()


def test_storage_options_are_hidden_in_plans(spark: SparkSession, uri: str, capfd: pytest.CaptureFixture[str]) -> None:
    lance_core.write_dataset(ROWS, uri)
    frame = read_lance(spark, uri, **{"storage.aws_secret_access_key": "hidden-1", "storage.other": "hidden-2"})
    frame.filter("id > 1").explain(mode="extended")
    frame.createOrReplaceTempView("with_options")
    spark.sql("DESCRIBE EXTENDED with_options").show(truncate=False)
    assert spark.conf.get("spark.sql.redaction.options.regex").endswith("^storage\\.")
    out, err = capfd.readouterr()
    assert "hidden-" not in out + err


@pytest.mark.slow
def test_storage_options_of_the_session_apply_to_all_tables(spark: SparkSession, server: S3Server) -> None:
    uri = server.uri()
    lance_core.write_dataset(ROWS, uri, storage_options=server.options())
    register(spark, storage_options=server.options())
    try:
        assert ids(read_lance(spark, uri).filter("id > 2")) == [3, 4]
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW remote USING lance OPTIONS (path '{uri}')")
        assert spark.sql("SELECT count(*) AS n FROM remote").collect()[0].n == 4
    finally:
        register(spark)
