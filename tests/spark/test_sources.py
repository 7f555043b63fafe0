"""Declared sources become frames, and errors describe problems with a source."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_core.errors import CorruptDataError, InvalidInputError, LanceError, NotFoundError
from lance_pipelines.ingest.sources import FileSource, SourceContext, SourceFormat
from lance_pipelines.spark.failures import translated
from lance_pipelines.spark.sources import SOURCE_VIEW, read_source

pytestmark = pytest.mark.spark

TABLE = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
ROWS = TABLE.to_pylist()


def read(spark: SparkSession, source_format: str, *paths: Path | str, **declared: Any) -> DataFrame:
    spec = FileSource(format=SourceFormat(source_format), paths=tuple(map(str, paths)), **declared)
    return read_source(spark, spec, SourceContext(captured_at=datetime(2026, 1, 1, tzinfo=UTC)))


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["id"])


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """A directory with the same rows in every format."""
    pq.write_table(TABLE, tmp_path / "in.parquet")
    orc.write_table(TABLE, tmp_path / "in.orc")
    (tmp_path / "in.json").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n{"id": 3}\n')
    (tmp_path / "in.csv").write_text("id;name\n1;a\n2;b\n3;\n")
    return tmp_path


@pytest.mark.parametrize("source_format", ["parquet", "orc", "json"])
def test_a_source_of_each_format_is_read(spark: SparkSession, landing: Path, source_format: str) -> None:
    assert rows(read(spark, source_format, landing / f"in.{source_format}")) == ROWS


def test_a_csv_source_is_read_with_its_options_and_schema(spark: SparkSession, landing: Path) -> None:
    frame = read(
        spark, "csv", landing / "in.csv", options={"header": "true", "sep": ";"}, schema="id BIGINT, name STRING"
    )
    assert rows(frame) == ROWS


def test_a_source_of_several_paths_and_globs_is_read(spark: SparkSession, landing: Path) -> None:
    pq.write_table(TABLE, landing / "more.parquet")
    assert len(rows(read(spark, "parquet", landing / "in.parquet", landing / "mor*.parquet"))) == 6


def test_a_query_reads_the_view_named_source(spark: SparkSession, landing: Path) -> None:
    query = "WITH few AS (SELECT * FROM source WHERE id > 1) SELECT id, upper(name) AS name FROM few"
    frame = read(spark, "parquet", landing / "in.parquet", sql=query)
    assert rows(frame) == [{"id": 2, "name": "B"}, {"id": 3, "name": None}]
    assert not spark.catalog.tableExists(SOURCE_VIEW)


@pytest.mark.parametrize(
    ("declared", "error", "named"),
    [
        ({"paths": ["none.parquet"]}, NotFoundError, r"none\.parquet does not exist"),
        ({"paths": ["in.parquet", "none*.parquet"]}, NotFoundError, r"none\*\.parquet does not exist"),
        ({"paths": ["empty"]}, NotFoundError, "empty: no file of the source contains data"),
        ({"paths": ["in.csv"]}, CorruptDataError, r"in\.csv cannot be read"),
        ({"paths": ["in.parquet"], "schema": "id BIGIN, name"}, InvalidInputError, "schema 'id BIGIN, name'"),
        ({"paths": ["in.parquet"], "options": {"mergeSchema": "perhaps"}}, InvalidInputError, "perhaps"),
        ({"paths": ["in.parquet"], "sql": "SELEC id FROM source"}, InvalidInputError, "SELEC id FROM source"),
        ({"paths": ["in.parquet"], "sql": "SELECT nope FROM source"}, InvalidInputError, "`nope`.*query: SELECT nope"),
        ({"paths": ["in.parquet"], "sql": "SELECT id FROM sauce"}, InvalidInputError, "`sauce`"),
    ],
)
def test_an_invalid_source_is_named_in_the_error(
    spark: SparkSession, landing: Path, declared: dict[str, Any], error: type[LanceError], named: str
) -> None:
    (landing / "empty").mkdir()
    paths = [landing / path for path in declared.pop("paths")]
    with pytest.raises(error, match=named) as raised:
        read(spark, "parquet", *paths, **declared)
    assert type(raised.value) is error
    assert raised.value.__cause__ is not None
    assert not spark.catalog.tableExists(SOURCE_VIEW)


def test_an_empty_directory_is_a_valid_source_if_a_schema_is_declared(spark: SparkSession, tmp_path: Path) -> None:
    assert read(spark, "parquet", tmp_path, schema="id BIGINT").collect() == []


@pytest.mark.parametrize("damage", ["truncated", "overwritten"])
def test_a_corrupt_file_is_named_in_the_error_when_it_is_read(spark: SparkSession, landing: Path, damage: str) -> None:
    whole = (landing / "in.parquet").read_bytes()
    broken = landing / "broken.parquet"
    broken.write_bytes(whole[:-20] if damage == "truncated" else whole[:4] + b"\xff" * 40 + whole[44:])
    frame = read(spark, "parquet", landing / "*.parquet", schema="id BIGINT, name STRING")
    with pytest.raises(CorruptDataError, match=f"{broken} cannot be read"), translated("cannot count"):
        frame.collect()


def test_a_malformed_record_raises_an_error_that_names_its_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"id": 1}\n{"id": \n')
    failfast = {"mode": "FAILFAST"}
    with pytest.raises(CorruptDataError, match=r"bad\.json"):
        read(spark, "json", tmp_path / "bad.json", options=failfast)
    frame = read(spark, "json", tmp_path / "bad.json", options=failfast, schema="id BIGINT")
    with pytest.raises(CorruptDataError, match=r"bad\.json cannot be read: Malformed"), translated("cannot count"):
        frame.collect()
