"""The Dagster events of a dataset version: type, data version, metadata, and description."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_pipelines.events.asset_metadata import event_value, fragment_table, table_schema
from lance_pipelines.events.commit_events import (
    EXTERNAL_WRITER,
    dataset_materialization,
    dataset_observation,
)
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.maintenance.content import content_digest
from lance_pipelines.maintenance.fragment_figures import FragmentFigures
from lance_pipelines.maintenance.policy import CompactionPolicy, MaintenancePolicy


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of three fragments with two deleted rows, which was compacted: versions 1 to 6."""
    path = str(tmp_path / "events.lance")
    for part in range(3):
        lance_core.write_dataset(pa.table({"id": [part, part + 10]}), path, mode="append")
    lance.dataset(path).delete("id = 0")
    lance.dataset(path).optimize.compact_files()
    return path


def arguments(uri: str, op: str, version: int, **report) -> dict:
    return {"dataset": "events", "uri": uri, "op": op, "report_metadata": report, "version": version}


_RICH = ("dagster/column_schema", "lance/health", "lance/fragment_chart", "lance/fragment_table")


def shown(event: dg.AssetObservation | dg.AssetMaterialization) -> dict[str, object]:
    return {key: value.value for key, value in event.metadata.items() if key not in _RICH}


def test_maintenance_is_recorded_as_an_observation_with_the_previous_data_version(uri) -> None:
    event = dataset_observation(**arguments(uri, "compact", 6))
    assert isinstance(event, dg.AssetObservation)
    assert event.asset_key == dg.AssetKey("events")
    assert event.tags == {"dagster/data_version": data_version_at(uri, 4), "lance/op": "compact"}


def test_a_given_data_version_takes_precedence_over_the_history(uri) -> None:
    event = dataset_observation(**arguments(uri, "cleanup", 6), data_version="4-aabbccdd")
    assert event.tags["dagster/data_version"] == "4-aabbccdd"


def test_a_data_change_is_recorded_as_a_materialization_with_a_new_data_version(uri) -> None:
    before = dataset_materialization(**arguments(uri, "ingest", 3))
    after = dataset_materialization(**arguments(uri, "delete_rows", 4))
    assert isinstance(after, dg.AssetMaterialization)
    versions = [event.tags["dagster/data_version"] for event in (before, after)]
    assert versions == [data_version_at(uri, 3), data_version_at(uri, 4)]


def test_an_event_shows_the_metrics_of_its_version(uri) -> None:
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
        "lance/deletion_ratio": 0.1667,
        "lance/bytes_total": figures["lance/bytes_total"],
        "lance/manifest_bytes": figures["lance/manifest_bytes"],
        "lance/details": {
            "data_files": 3,
            "deletion_files": 1,
            "deleted_rows": 1,
            "data_storage_version": "2.2",
            "content": content_digest(lance_core.dataset(uri, version=4).manifest),
        },
    }
    plotted = {key for key, value in figures.items() if isinstance(value, (int, float))}
    assert {"lance/bytes_total", "lance/manifest_bytes", "lance/deletion_ratio"} <= plotted


def test_an_event_lists_its_fragments_and_has_a_health_card(uri) -> None:
    metadata = dataset_observation(**arguments(uri, "compact", 4)).metadata
    records = [record.data for record in metadata["lance/fragment_table"].records]
    sizes = [
        fragment.files[0].file_size_bytes for fragment in lance_core.dataset(uri, version=4).manifest.message.fragments
    ]
    assert records == [
        {"fragment": 0, "rows": 1, "deleted": 1, "bytes": sizes[0], "files": 1},
        {"fragment": 1, "rows": 2, "deleted": 0, "bytes": sizes[1], "files": 1},
        {"fragment": 2, "rows": 2, "deleted": 0, "bytes": sizes[2], "files": 1},
    ]
    assert metadata["lance/health"].value.startswith("## B · version 4\n")


def test_the_fragment_table_of_many_fragments_shows_the_largest() -> None:
    numbers = np.arange(60)
    figures = FragmentFigures(
        ids=numbers,
        rows=numbers + 5,
        deleted_rows=np.ones(60, np.int64),
        num_bytes=np.where(numbers < 10, 1, 100),
        has_all_sizes=np.ones(60, np.bool_),
        num_files=np.ones(60, np.int64),
        has_deletions=np.ones(60, np.bool_),
    )
    records = [record.data for record in fragment_table(figures).records]
    assert [record["fragment"] for record in records] == list(range(10, 30))
    assert records[0] == {"fragment": 10, "rows": 14, "deleted": 1, "bytes": 100, "files": 1}


def test_the_page_of_an_event_shows_the_health_card_first_and_the_tallest_entries_last(uri) -> None:
    keys = list(dataset_observation(**arguments(uri, "compact", 4)).metadata)
    assert keys[:2] == ["lance/health", "lance/version"]
    assert keys[-4:] == ["dagster/column_schema", "lance/fragment_chart", "lance/fragment_table", "lance/details"]


def test_column_descriptions_come_from_the_declaration_or_else_from_the_comments(uri) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"comment": "a number"}), pa.field("name", pa.string())])
    described = table_schema(schema, {"name": "who it is"}).columns
    assert [(column.name, column.description) for column in described] == [("id", "a number"), ("name", "who it is")]
    event = dataset_materialization(**arguments(uri, "ingest", 3), column_descriptions={"id": "of the event"})
    (column,) = event.metadata["dagster/column_schema"].value.columns
    assert column.description == "of the event"


def test_the_report_summary_is_the_event_description_and_not_repeated_in_the_metadata(uri) -> None:
    arguments_ = arguments(uri, "append", 3) | {"report_metadata": {"lance/summary": "append: +2 rows, v3"}}
    for event in (dataset_materialization(**arguments_), dataset_observation(**arguments_)):
        assert event.description == "append: +2 rows, v3"
        assert event_value(event, "lance/summary") is None


def test_an_event_without_a_report_is_described_by_its_operation(uri) -> None:
    assert dataset_materialization(**arguments(uri, "append", 3)).description == "append: v3"
    assert dataset_observation(**arguments(uri, "compact", 4)).description == "compact: v4, no rows changed"


def test_zero_counts_are_omitted_from_the_metadata_and_kept_in_the_details(uri) -> None:
    event = dataset_observation(**arguments(uri, "compact", 4, bytes_reclaimed=0, conflicts=0, bytes_rewritten=7))
    assert {"lance/bytes_reclaimed", "lance/conflicts"}.isdisjoint(event.metadata)
    assert (event_value(event, "lance/bytes_reclaimed"), event_value(event, "lance/conflicts")) == (0, 0)
    assert event.metadata["lance/bytes_rewritten"].value == 7


def test_an_event_identifies_the_dataset_by_its_asset_key(uri) -> None:
    event = dataset_observation(**arguments(uri, "compact", 4) | {"dataset": ("lake", "app-events")})
    assert event.metadata["dagster/table_name"].value == "lake/app-events"


def test_event_value_returns_the_metadata_with_the_given_key(uri) -> None:
    event = dataset_observation(**arguments(uri, "compact", 4, groups=3))
    assert event_value(event, "lance/groups") == 3
    assert event_value(event, "lance/version") == 4
    assert event_value(event, "lance/unknown") is None


def test_an_event_counts_small_fragments_by_the_policy(uri) -> None:
    policy = MaintenancePolicy(compaction=CompactionPolicy(target_rows_per_fragment=2))
    assert shown(dataset_observation(**arguments(uri, "compact", 4), policy=policy))["lance/small_fragments"] == 0


def test_an_event_shows_the_report_of_the_work_and_the_metrics_of_its_version(uri) -> None:
    report = {"bytes_reclaimed": 12, "seconds": 0.5, "mode": "fast", "spark/tasks": 3, "fragments": 99}
    event = dataset_observation(**arguments(uri, "compact", 6, **report))
    assert {key: event.metadata[key] for key in ("lance/bytes_reclaimed", "lance/seconds")} == {
        "lance/bytes_reclaimed": dg.MetadataValue.int(12),
        "lance/seconds": dg.MetadataValue.float(0.5),
    }
    assert event.metadata["lance/details"].value["mode"] == "fast"
    assert event.metadata["spark/tasks"] == dg.MetadataValue.int(3)
    assert event.metadata["lance/fragments"] == dg.MetadataValue.int(99)


def test_an_event_for_a_removed_version_does_not_fail(uri) -> None:
    """A cleanup may remove the committed version before the event is created."""
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
def test_events_of_external_commits_name_the_writer(uri, make) -> None:
    event = make(**arguments(uri, "append", 3), data_version="3-11223344", writer=EXTERNAL_WRITER)
    assert event.tags == {
        "dagster/data_version": "3-11223344",
        "lance/op": "append",
        "lance/writer": "external",
    }
    assert event.description.startswith("append by another program: v3")


def test_events_are_stored_by_dagster_with_their_data_version(uri, instance) -> None:
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
