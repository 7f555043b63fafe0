"""The reference pages match the docstrings and the code."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_page_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / ".ci" / "reference.py"))
    written = (ROOT / "docs" / "reference" / "lance_pipelines.md").read_text()
    assert written == script["page"](), "run: uv run python .ci/reference.py"


def test_the_reference_page_of_the_data_source_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / ".ci" / "spark_reference.py"))
    written = (ROOT / "docs" / "reference" / "spark.md").read_text()
    assert written == script["page"](), "run: uv run python .ci/spark_reference.py"
