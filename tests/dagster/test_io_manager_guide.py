"""The examples in the IO manager guide run in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pytest

from lance_pipelines.frames.frame_types import FRAME_TYPES

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "io-manager.md").read_text()


@pytest.fixture
def names(tmp_path: Path) -> dict[str, Any]:
    """The names defined by the examples, with their locations below a temporary directory."""
    namespace: dict[str, Any] = {}
    for text in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(compile(text.replace('"/lake', f'"{tmp_path}/lake'), "guide", "exec"), namespace)
    return namespace


def rows(tmp_path: Path, *path: str) -> list[dict[str, Any]]:
    return lance.dataset(str(tmp_path.joinpath("lake", *path))).to_table().to_pylist()


def test_examples_in_the_guide_store_and_load_the_documented_rows(names, tmp_path: Path, instance) -> None:
    resources = {"io_manager": names["lake"]}
    plain = [names[name] for name in ("orders", "revenue", "visits", "large_orders")]
    assert dg.materialize(plain, resources=resources, instance=instance).success
    assert rows(tmp_path, "revenue.lance") == [{"customer": "Ada", "price": 17.5}, {"customer": "Bob", "price": 5.0}]
    assert rows(tmp_path, "large_orders.lance") == [{"price": 10.0}, {"price": 7.5}]
    assert len(rows(tmp_path, "raw", "orders.lance")) == 3
    daily = [names["daily_sales"], names["daily_report"]]
    for day in ("2026-01-01", "2026-01-02", "2026-01-01"):
        assert dg.materialize(daily, resources=resources, instance=instance, partition_key=day).success
    assert sorted((row["day"].day, row["report"]) for row in rows(tmp_path, "daily_report.lance")) == [(1, 84), (2, 84)]


def test_definitions_in_the_guide_load_with_their_maintenance_jobs(names, tmp_path: Path, instance, capsys) -> None:
    dg.Definitions.validate_loadable(names["defs"])
    assert "raw__orders__compact" in {job.name for job in names["defs"].resolve_all_job_defs()}
    assets = [names["prices"], names["cheapest"]]
    assert dg.materialize(assets, resources={"prices_table": names["table"]}, instance=instance).success
    assert "tea" in capsys.readouterr().out


def test_every_frame_type_is_listed_in_the_guide() -> None:
    table = GUIDE.partition("## Types")[2].partition("##")[0]
    missing = [entry.label for entry in FRAME_TYPES if f"`{entry.label}`" not in table]
    assert missing == []
