"""Frames whose batches are sent without a count of their bytes, and frames with wide rows, which are counted."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_core
from lance_core.errors import SchemaMismatchError
from lance_pipelines.spark.narrow_rows import marked_rows, uncounted_batches
from lance_pipelines.spark.schema import plan_target_schema
from lance_pipelines.spark.verbs import write

pytestmark = pytest.mark.spark

SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
VECTORS = {"vector": 2}


def rows(spark: SparkSession, num_bytes: int) -> DataFrame:
    return spark.range(0, 3000, 1, 2).selectExpr(
        "id",
        f"if(id = 2500, repeat('x', {num_bytes}), if(id % 7 = 0, null, 'short')) AS `odd name`",
        "array(1f, 2f) AS vector",
        "if(id % 2 = 0, null, cast('b' AS binary)) AS bytes",
    )


@pytest.mark.parametrize(("num_bytes", "num_runs"), [(10, 1), (100_000, 2)])
def test_rows_of_any_width_are_all_stored(
    spark: SparkSession, uri: str, num_bytes: int, num_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[bool] = []

    def counted(session: SparkSession, *, is_uncounted: bool):
        runs.append(is_uncounted)
        return uncounted_batches(session, is_uncounted=is_uncounted)

    monkeypatch.setattr("lance_pipelines.spark.writer.uncounted_batches", counted)
    frame = rows(spark, num_bytes)
    before = spark.conf.get(SETTING)
    written = write(frame, uri, "create", vector_columns=VECTORS)
    assert runs == [True, False][:num_runs]
    assert spark.conf.get(SETTING) == before
    found = lance_core.dataset(uri).to_table().sort_by("id")
    expected = pa.table(frame.toArrow()).sort_by("id")
    assert written.num_rows == 3000
    assert found.to_pylist() == expected.to_pylist()
    kept = {file.path for fragment in lance_core.dataset(uri).get_fragments() for file in fragment.metadata.files}
    assert {path.name for path in Path(uri, "data").iterdir()} == kept


def test_a_list_that_is_too_long_is_reported_with_its_column(spark: SparkSession, uri: str) -> None:
    frame = spark.range(100).selectExpr("id", "array_repeat(1f, if(id = 99, 3, 2)) AS vector")
    with pytest.raises(SchemaMismatchError, match=r"'vector': row .* has a list of length 3, expected 2"):
        write(frame, uri, "create", vector_columns=VECTORS)


@pytest.mark.parametrize(
    "expressions",
    [
        ["map('a', 1) AS m"],
        ["array('a') AS texts"],
        ["named_struct('text', 'a') AS s"],
        ["array_repeat(1f, 5000) AS vector"],
        ["1 AS a", "2 AS A"],
    ],
)
def test_frames_whose_types_do_not_limit_the_row_size_require_a_byte_count(
    spark: SparkSession, expressions: list[str]
) -> None:
    frame = spark.range(1).selectExpr("id", *expressions)
    vectors = {"vector": 5000} if "vector" in frame.columns else {}
    if "A" in frame.columns:
        target = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("A", pa.int32())])
    else:
        target = plan_target_schema(frame.schema, vectors, None)
    assert marked_rows(frame, target) is None


def test_jobs_with_a_byte_count_wait_for_jobs_without_a_byte_count(spark: SparkSession) -> None:
    before = spark.conf.get(SETTING)
    seen: list[str | None] = []

    def count() -> None:
        with uncounted_batches(spark, is_uncounted=False):
            seen.append(spark.conf.get(SETTING))

    thread = threading.Thread(target=count)
    with uncounted_batches(spark, is_uncounted=True):
        thread.start()
        with uncounted_batches(spark, is_uncounted=True):
            assert spark.conf.get(SETTING) == str(2**31 - 1)
        assert seen == []
    thread.join()
    assert seen == [before]
