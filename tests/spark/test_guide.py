"""The examples in the guide run in the order of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_core
from tests.support.documentation import examples

pytestmark = pytest.mark.spark


def test_the_examples_in_the_guide_run(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {"spark": spark}
    for text in examples("docs/guides/spark.md"):
        exec(compile(text.replace("/lake/", f"{tmp_path}/"), "spark.md", "exec"), namespace)
    spark.catalog.dropTempView("items")
    assert "no version 99" in capsys.readouterr().out
    assert lance_core.dataset(tmp_path / "copy.lance").count_rows() == 1010
    assert lance_core.dataset(tmp_path / "half.lance").schema.field("embedding").type == pa.list_(pa.float16(), 2)
