"""The examples in the guide to the verbs run in the order of the page, in the session of the tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from tests.support.documentation import examples

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_examples_in_the_guide_leave_the_documented_rows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace: dict[str, Any] = {}
    for text in examples("docs/guides/spark-verbs.md"):
        below = re.sub(r'(?<=")/(?=\w)', f"{tmp_path}/", text)
        exec(compile(below, "guide", "exec"), namespace)
    assert namespace["spark"] is spark
    assert capsys.readouterr().out.splitlines() == ["1000", "10 10"]
    rows = lance.dataset(f"{tmp_path}/backup/events.lance").to_table().to_pylist()
    # 15 of the first 100 rows have kind 3.
    assert len(rows) == 1010 + 10 - len([number for number in range(100) if number % 7 == 3])
    assert {row["text"] for row in rows if row["id"] in (1, 2)} == {"EVENT 1", "EVENT 2"}
    assert all(row["length"] == len(row["text"]) for row in rows)
