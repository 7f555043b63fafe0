"""Storage credentials reach the tasks, but appear in nothing that Spark prints."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_core
from lance_core.errors import SchemaMismatchError
from lance_pipelines.spark.reader import read_version
from lance_pipelines.spark.writer import write_frame

SECRET = "b7f0c1d2e3"


@pytest.mark.spark
def test_storage_options_do_not_appear_in_plans_settings_or_messages(
    spark: SparkSession, tmp_path: Path, token: str, capfd: pytest.CaptureFixture[str]
) -> None:
    uri = str(tmp_path / "table.lance")
    options = {"aws_secret_access_key": SECRET}
    lance_core.write_dataset(pa.table({"id": [1, 2]}), uri)
    frame = read_version(spark, lance_core.dataset(uri, storage_options=options))
    assert frame.count() == 2
    seen = [frame._jdf.queryExecution().toString(), str(spark.sparkContext.getConf().getAll())]
    limits = {"max_rows_per_file": 10, "max_bytes_per_file": 2**20}
    target = pa.schema([pa.field("id", pa.list_(pa.int64(), 3))])
    lists = spark.sql("SELECT array(1L) AS id")
    with pytest.raises(SchemaMismatchError) as caught:
        write_frame(
            lists, dataset_uri=uri, mode="append", target=target, file_token=token, storage_options=options, **limits
        )
    seen += [str(caught.value), str(caught.value.__cause__), *capfd.readouterr()]
    assert all(SECRET not in text for text in seen)
