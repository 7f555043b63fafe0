"""The asset ``<namespace>/fleet``: all datasets in one table, the worst first, whatever state their stores are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import freeze_time

import lance_core
from lance_core.errors import CorruptDataError
from lance_pipelines import fleet as fleet_module
from lance_pipelines.build import build_definitions
from lance_pipelines.fleet import Fleet
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.jobs import job_name, request_config
from lance_pipelines.maintenance.policy import CompactionPolicy, MaintenancePolicy
from tests.support.local_rewriting import write_fragments
from tests.support.no_spark import NoSpark

FLEET = dg.AssetKey(["lance", "fleet"])
NOW = datetime(2024, 3, 15, tzinfo=UTC)
POLICY = MaintenancePolicy(compaction=CompactionPolicy(min_small_fragments=4), overdue_after=timedelta(days=2))


@dataclass
class Lake:
    """Datasets in one directory, and what the asset shows about them."""

    root: Path
    instance: dg.DagsterInstance
    keys: list[str] = field(default_factory=list)

    def add(self, key: str, fragments: int) -> str:
        self.keys.append(key)
        uri = str(self.root / f"{key}.lance")
        if fragments:
            write_fragments(uri, fragments)
        return uri

    def declarations(self) -> list[DatasetDeclaration]:
        return [
            DatasetDeclaration(key=key, uri=str(self.root / f"{key}.lance"), maintenance=POLICY) for key in self.keys
        ]

    def definitions(self) -> dg.Definitions:
        return build_definitions(self.declarations(), spark=NoSpark())

    def show(self) -> dict[str, Any]:
        """Run the job, and return the metadata of the materialization."""
        result = (
            self.definitions()
            .resolve_job_def("lance_fleet")
            .execute_in_process(instance=self.instance, raise_on_error=False)
        )
        assert result.success
        (event,) = result.get_asset_materialization_events()
        assert event.asset_key == FLEET
        return {key: value.value for key, value in event.materialization.metadata.items()}

    def clean(self, key: str) -> None:
        job = self.definitions().resolve_job_def(job_name("cleanup", key))
        assert job.execute_in_process(run_config=request_config("cleanup"), instance=self.instance).success


@pytest.fixture
def lake(tmp_path: Path, instance: dg.DagsterInstance) -> Lake:
    return Lake(tmp_path, instance)


def lines(shown: dict[str, Any]) -> list[list[str]]:
    """Return the cells of the table."""
    rows = [line for line in shown["lance/fleet"].splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def names(shown: dict[str, Any]) -> Sequence[str]:
    return [row[0] for row in lines(shown)]


def test_the_fleet_shows_the_worst_dataset_first_with_its_reasons(lake) -> None:
    for key, fragments in (("good", 3), ("worse", 18), ("bad", 5)):
        lake.add(key, fragments)
    shown = lake.show()
    assert names(shown) == ["worse", "bad", "good"]
    assert [row[1] for row in lines(shown)] == ["**C**", "**B**", "**A**"]
    assert [row[2] for row in lines(shown)] == [
        "18 small fragments >= 4",
        "5 small fragments >= 4",
        "no maintenance is due",
    ]
    assert [row[3:5] for row in lines(shown)] == [["180", "18"], ["50", "5"], ["30", "3"]]
    assert [len(row[5]) for row in lines(shown)] == [10, 3, 2]
    assert {row[7] for row in lines(shown)} == {"never"}
    sizes = [path.stat().st_size for path in lake.root.rglob("data/*.lance")]
    assert {key: shown[key] for key in shown if isinstance(shown[key], int)} == {
        "lance/datasets": 3,
        "lance/unreadable_datasets": 0,
        "lance/datasets_due": 2,
        "lance/datasets_overdue": 0,
        "lance/rows": 260,
        "lance/deleted_rows": 0,
        "lance/fragments": 26,
        "lance/small_fragments": 26,
        "lance/bytes_total": sum(sizes),
        "lance/unindexed_rows": 0,
    }
    assert shown["lance/summary"].startswith("3 datasets: 1 C, 1 B, 1 A; ")


def test_a_dataset_that_cannot_be_read_is_listed_first_and_does_not_hide_the_others(lake) -> None:
    lake.add("bad", 5)
    broken = lake.add("broken", 1)
    (manifest,) = Path(broken, "_versions").glob("*.manifest")
    manifest.write_bytes(b"not a manifest")
    lake.add("missing", 0)
    shown = lake.show()
    assert names(shown) == ["broken", "missing", "bad"]
    first, second, _ = lines(shown)
    assert (first[1], second[1]) == ("**?**", "**?**")
    with pytest.raises(CorruptDataError) as error:
        lance_core.dataset(broken)
    assert first[2] == " ".join(str(error.value).split())[:300]
    assert second[2] == f"no dataset exists at {lake.root}/missing.lance"
    assert (shown["lance/unreadable_datasets"], shown["lance/fragments"]) == (2, 5)
    assert shown["lance/summary"].startswith("3 datasets: 2 ?, 1 B; ")


def test_a_dataset_with_overdue_maintenance_comes_before_others_of_the_same_grade(lake) -> None:
    for key in ("a", "b", "c"):
        lake.add(key, 1)
    with freeze_time(NOW):
        lake.clean("b")
    declarations = lake.declarations()
    maintained = {"b": NOW, "c": NOW + timedelta(hours=1)}
    later = Fleet.of(declarations, maintained, NOW + timedelta(days=2))
    assert [(member.dataset, member.is_overdue) for member in later.members] == [
        ("b", True),
        ("a", False),
        ("c", False),
    ]
    assert later.figures()["datasets_overdue"] == 1
    assert "| 2024-03-15 00:00 **overdue** |" in later.markdown()
    shown = lake.show()
    maintained_at = {row[0]: row[7] for row in lines(shown)}
    assert (maintained_at["a"], maintained_at["c"]) == ("never", "never")
    assert maintained_at["b"].split()[0] >= "2024-03-15"


def test_fleet_reads_a_dataset_with_only_the_requests_that_open_the_dataset(lake, monkeypatch) -> None:
    uri = lake.add("events", 9)
    handles = []
    real = lance_core.dataset

    def opened(*arguments: Any, **options: Any) -> lance_core.LanceDataset:
        handles.append(real(*arguments, **options))
        return handles[-1]

    expected = real(uri).io_stats_snapshot()
    monkeypatch.setattr(fleet_module.lance_core, "dataset", opened)
    Fleet.of(lake.declarations(), {}, NOW)
    (handle,) = handles
    used = handle.io_stats_snapshot()
    assert (used.read_iops, used.read_bytes) == (expected.read_iops, expected.read_bytes)
    assert used.read_bytes > 0


def test_a_fleet_of_many_datasets_shows_the_worst_hundred_and_counts_the_others(lake) -> None:
    uri = lake.add("first", 1)
    lake.keys += [f"missing{number:03}" for number in range(110)]
    found = Fleet.of(lake.declarations(), {}, NOW)
    assert len(found.members) == 111
    assert found.members[-1].dataset == "first"
    assert found.markdown().rstrip().endswith("11 more datasets")
    assert uri not in found.markdown()


def test_a_project_without_datasets_has_no_fleet() -> None:
    assert build_definitions([]).resolve_asset_graph().get_all_asset_keys() == set()
