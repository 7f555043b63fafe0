from __future__ import annotations

from pathlib import Path

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_pipelines.events.commit_events import (
    EXTERNAL_WRITER,
    dataset_materialization,
    dataset_observation,
)
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.maintenance.policy import CompactionPolicy, MaintenancePolicy


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three fragments, two rows deleted, compacted: versions 1 to 6."""
    path = str(tmp_path / "events.lance")
    for part in range(3):
        lance_core.write_dataset(pa.table({"id": [part, part + 10]}), path, mode="append")
    lance.dataset(path).delete("id = 0")
    lance.dataset(path).optimize.compact_files()
    return path


def arguments(uri: str, op: str, version: int, **report) -> dict:
    return {"dataset": "events", "uri": uri, "op": op, "report_metadata": report, "version": version}


def shown(event: dg.AssetObservation | dg.AssetMaterialization) -> dict[str, object]:
    return {key: value.value for key, value in event.metadata.items() if key != "dagster/column_schema"}


def test_maintenance_is_an_observation_with_the_previous_data_version(uri) -> None:
    event = dataset_observation(**arguments(uri, "compact", 6))
    assert isinstance(event, dg.AssetObservation)
    assert event.asset_key == dg.AssetKey("events")
    assert event.tags == {"dagster/data_version": data_version_at(uri, 4), "lance/op": "compact"}


def test_an_event_takes_a_given_data_version_when_the_history_is_gone(uri) -> None:
    event = dataset_observation(**arguments(uri, "cleanup", 6), data_version="4-aabbccdd")
    assert event.tags["dagster/data_version"] == "4-aabbccdd"


def test_changed_rows_are_a_materialization_with_a_new_data_version(uri) -> None:
    before = dataset_materialization(**arguments(uri, "ingest", 3))
    after = dataset_materialization(**arguments(uri, "delete_rows", 4))
    assert isinstance(after, dg.AssetMaterialization)
    versions = [event.tags["dagster/data_version"] for event in (before, after)]
    assert versions == [data_version_at(uri, 3), data_version_at(uri, 4)]


def test_an_event_shows_the_figures_of_its_version(uri) -> None:
    figures = shown(dataset_observation(**arguments(uri, "compact", 4)))
    assert figures == {
        "dagster/uri": uri,
        "dagster/table_name": "events",
        "dagster/storage_kind": "lance",
        "dagster/row_count": 5,
        "lance/version": 4,
        "lance/versions": 6,
        "lance/fragments": 3,
        "lance/small_fragments": 3,
        "lance/data_files": 3,
        "lance/deletion_files": 1,
        "lance/deleted_rows": 1,
        "lance/deletion_ratio": pytest.approx(1 / 6),
        "lance/bytes_total": figures["lance/bytes_total"],
        "lance/manifest_bytes": figures["lance/manifest_bytes"],
        "lance/data_storage_version": "2.2",
        "lance/content": figures["lance/content"],
    }
    plotted = {key for key, value in figures.items() if isinstance(value, (int, float))}
    assert {"lance/bytes_total", "lance/manifest_bytes", "lance/deletion_ratio"} <= plotted


def test_an_event_counts_small_fragments_by_the_policy(uri) -> None:
    policy = MaintenancePolicy(compaction=CompactionPolicy(target_rows_per_fragment=2))
    assert shown(dataset_observation(**arguments(uri, "compact", 4), policy=policy))["lance/small_fragments"] == 0


def test_an_event_shows_the_report_of_the_work_beside_its_figures(uri) -> None:
    report = {"bytes_reclaimed": 12, "seconds": 0.5, "mode": "fast", "spark/tasks": 3, "fragments": 99}
    event = dataset_observation(**arguments(uri, "compact", 6, **report))
    assert {key: event.metadata[key] for key in ("lance/bytes_reclaimed", "lance/seconds", "lance/mode")} == {
        "lance/bytes_reclaimed": dg.MetadataValue.int(12),
        "lance/seconds": dg.MetadataValue.float(0.5),
        "lance/mode": dg.MetadataValue.text("fast"),
    }
    assert event.metadata["spark/tasks"] == dg.MetadataValue.int(3)
    assert event.metadata["lance/fragments"] == dg.MetadataValue.int(99)


def test_a_version_that_is_gone_does_not_fail_the_event(uri) -> None:
    """The commit is a fact; a cleanup may have removed its version before the event was made."""
    event = dataset_observation(**arguments(uri, "compact", 99, bytes_rewritten=7))
    assert event.tags == {"lance/op": "compact"}
    assert shown(event) == {
        "dagster/uri": uri,
        "dagster/table_name": "events",
        "dagster/storage_kind": "lance",
        "lance/version": 99,
        "lance/bytes_rewritten": 7,
    }


@pytest.mark.parametrize("make", [dataset_materialization, dataset_observation])
def test_events_of_external_commits_name_their_writer(uri, make) -> None:
    event = make(**arguments(uri, "append", 3), data_version="3-11223344", writer=EXTERNAL_WRITER)
    assert event.tags == {
        "dagster/data_version": "3-11223344",
        "lance/op": "append",
        "lance/writer": "external",
    }


def test_dagster_records_the_events(uri, instance) -> None:
    for event in (
        dataset_materialization(**arguments(uri, "ingest", 3)),
        dataset_materialization(
            **arguments(uri, "delete", 4), data_version=data_version_at(uri, 4), writer=EXTERNAL_WRITER
        ),
        dataset_observation(**arguments(uri, "compact", 6)),
    ):
        instance.report_runless_asset_event(event)
    recorded = instance.get_latest_materialization_event(dg.AssetKey("events")).asset_materialization
    assert recorded.tags["dagster/data_version"] == data_version_at(uri, 4)
