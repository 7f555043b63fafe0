"""The sensor ``version_sensor``, tick by tick."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import lance
import psutil
import pyarrow as pa
import pytest
from dagster._core.events import AssetObservationData, StepMaterializationData
from dagster._core.test_utils import create_run_for_test

import lance_core
from lance_core.errors import UnsupportedFeatureFlagError
from lance_core.optimize import Compaction, commit_rewrites
from lance_core.table.paths import manifest_name
from lance_pipelines.events.asset_metadata import event_value
from lance_pipelines.events.commit_events import dataset_observation
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.maintenance.policy import MaintenancePolicy
from lance_pipelines.runs import silent_runs
from lance_pipelines.runs.dead_runs import MACHINE_TAG, PROCESS_TAG, machine
from lance_pipelines.runs.silent_runs import is_silent
from lance_pipelines.sensors import catch_up as catch_up_module
from lance_pipelines.sensors.version_sensor import build_version_sensor

EVENTS = dg.AssetKey("events")


@dataclass
class Followed:
    """A sensor of ``events`` and other datasets, ticked as by the daemon."""

    instance: dg.DagsterInstance
    lake: Path
    names: tuple[str, ...] = ("events",)
    cursor: str | None = None
    reason: str = ""

    def uri(self, name: str = "events") -> str:
        return str(self.lake / f"{name}.lance")

    def declare(self, name: str) -> DatasetDeclaration:
        return DatasetDeclaration(key=name, uri=self.uri(name), source=FileSource(format=SourceFormat.ENVIRONMENT))

    def append(self, value: int, name: str = "events", **properties: str) -> int:
        return append(self.uri(name), value, **properties)

    def tick(self) -> list[dg.AssetMaterialization | dg.AssetObservation]:
        sensor = build_version_sensor(
            [self.declare(name) for name in self.names],
            namespace="lance",
            interval_seconds=30,
            status=dg.DefaultSensorStatus.RUNNING,
        )
        with dg.build_sensor_context(instance=self.instance, cursor=self.cursor) as context:
            data = sensor.evaluate_tick(context)
        assert data.run_requests == []
        for event in data.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursor, self.reason = data.cursor, data.skip_message
        return list(data.asset_events)

    def skip(self) -> None:
        """Run a tick that must have nothing to report."""
        assert self.tick() == []


def append(uri: str, value: int, **properties: str) -> int:
    """Append one row, as a Dagster run if ``run_id`` is given."""
    rows = pa.table({"id": [value]})
    if not properties:
        return lance_core.write_dataset(rows, uri, mode="append").version
    fragments = lance_core.write_fragments(rows, uri, mode="append")
    transaction = lance_core.Transaction(
        read_version=lance_core.dataset(uri).version,
        operation=lance_core.LanceOperation.Append(fragments),
        transaction_properties={f"dagster.{name}": value for name, value in properties.items()},
    )
    return lance_core.LanceDataset.commit(uri, transaction).version


def kinds(events) -> list[tuple[str, str, str]]:
    """Return (kind, data version, operation) of each event."""
    return [
        (
            "materialization" if isinstance(event, dg.AssetMaterialization) else "observation",
            event.tags["dagster/data_version"],
            event.tags["lance/op"],
        )
        for event in events
    ]


def start_run(instance: dg.DagsterInstance) -> str:
    """Record a run in progress in the event log."""

    @dg.job
    def work() -> None:
        pass

    run = instance.create_run_for_job(work)
    instance.handle_run_event(
        run.run_id,
        dg.DagsterEvent(event_type_value=dg.DagsterEventType.RUN_START.value, job_name="work"),
    )
    return run.run_id


def end_run(instance: dg.DagsterInstance, run_id: str) -> None:
    instance.report_run_failed(instance.get_run_by_id(run_id))


@pytest.fixture
def followed(instance: dg.DagsterInstance, tmp_path: Path) -> Followed:
    return Followed(instance, tmp_path)


def test_a_dataset_is_reported_once_it_exists(followed) -> None:
    followed.skip()
    assert followed.reason == "events: the dataset does not exist yet"
    followed.append(1)
    assert kinds(followed.tick()) == [("materialization", data_version_at(followed.uri(), 1), "overwrite")]


def test_a_dataset_with_a_history_is_reported_once(followed) -> None:
    for value in range(5):
        followed.append(value)
    (event,) = followed.tick()
    assert kinds([event]) == [("materialization", data_version_at(followed.uri(), 5), "append")]
    assert event.tags["lance/writer"] == "external"
    assert {key: event.metadata[key].value for key in ("lance/version", "lance/fragments", "dagster/row_count")} == {
        "lance/version": 5,
        "lance/fragments": 5,
        "dagster/row_count": 5,
    }
    followed.skip()
    assert followed.reason == "events: no versions after version 5"


def test_a_version_that_is_already_recorded_is_not_reported_again(followed) -> None:
    followed.append(1)
    followed.tick()
    followed.cursor = None
    followed.skip()
    assert followed.reason == "events: tracking starts at version 1"


def test_external_commits_are_reported_as_materializations_or_observations(followed) -> None:
    for value in range(3):
        followed.append(value)
    followed.tick()
    reference = lance.dataset(followed.uri())
    reference.delete("id = 1")
    reference.optimize.compact_files()
    reference.update_config({"owner": "me"})
    followed.append(7)
    latest = lance_core.dataset(followed.uri()).version
    after_delete, after_append = data_version_at(followed.uri(), 4), data_version_at(followed.uri(), latest)
    assert kinds(followed.tick()) == [
        ("materialization", after_delete, "delete"),
        ("observation", after_delete, "rewrite"),
        ("observation", after_delete, "update_config"),
        ("materialization", after_append, "append"),
    ]
    assert followed.reason == f"events: version {latest}: 4 events"
    followed.skip()
    recorded = followed.instance.get_latest_materialization_event(EVENTS).asset_materialization
    assert recorded.tags["dagster/data_version"] == after_append


def test_an_unknown_operation_counts_as_a_change(followed, monkeypatch) -> None:
    followed.append(1)
    followed.tick()
    lance.dataset(followed.uri()).update_config({"owner": "me"})
    for module in ("data_version", "found_version"):
        monkeypatch.setattr(f"lance_pipelines.events.{module}.CHANGES_ROWS", {})
    assert [event[0] for event in kinds(followed.tick())] == ["materialization"]


def test_a_commit_of_a_run_is_not_reported_by_the_sensor(followed) -> None:
    followed.append(0)
    followed.tick()
    run_id = start_run(followed.instance)
    followed.append(1, run_id=run_id)
    followed.append(2)
    followed.skip()
    waits = rf"waiting for run {run_id} \(work, last event at [-\d]+ [:\d]+ UTC\), which created version 2"
    assert re.fullmatch(f"events: version 1: 0 events, 2 versions remaining; {waits}", followed.reason)
    followed.instance.report_dagster_event(
        dg.DagsterEvent(
            event_type_value=dg.DagsterEventType.ASSET_MATERIALIZATION.value,
            job_name="work",
            event_specific_data=_materialized(version=2),
        ),
        run_id,
    )
    (event,) = followed.tick()
    assert event.metadata["lance/version"].value == 3
    followed.skip()


def _materialized(version: int) -> StepMaterializationData:
    return StepMaterializationData(dg.AssetMaterialization(EVENTS, metadata={"lance/version": version}))


def test_a_commit_of_a_run_that_ended_without_reporting_is_reported_by_the_sensor(followed) -> None:
    followed.append(0)
    followed.tick()
    run_id = start_run(followed.instance)
    followed.append(1, run_id=run_id)
    followed.skip()
    end_run(followed.instance, run_id)
    (event,) = followed.tick()
    assert kinds([event]) == [("materialization", data_version_at(followed.uri(), 2), "append")]
    assert (event.tags["lance/writer"], event_value(event, "lance/run_id")) == ("run", run_id)
    followed.skip()


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.NOT_STARTED])
def test_a_sensor_waits_only_a_limited_time_for_a_run_without_recent_events(followed, monkeypatch, status) -> None:
    """The run's machine failed, or the run was killed before its first step recorded the process."""
    followed.append(0)
    followed.tick()
    run_id = create_run_for_test(followed.instance, "work", status=status, tags={MACHINE_TAG: "gone"}).run_id
    followed.append(1, run_id=run_id)
    followed.append(2)
    followed.skip()
    pass_time(monkeypatch, timedelta(hours=5))
    followed.skip()
    assert run_id in followed.reason
    pass_time(monkeypatch, timedelta(hours=7))
    events = followed.tick()
    assert [event.metadata["lance/version"].value for event in events] == [2, 3]
    assert [event.tags["lance/writer"] for event in events] == ["run", "external"]


def test_the_sensor_waits_for_queued_runs_and_runs_whose_process_is_alive(followed, monkeypatch) -> None:
    started = dg.DagsterRunStatus.STARTED
    tags = {MACHINE_TAG: machine(), PROCESS_TAG: process_identity()}
    noted = create_run_for_test(followed.instance, "work", status=started, tags=tags)
    other = create_run_for_test(followed.instance, "work", status=started)
    pass_time(monkeypatch, timedelta(days=30))
    assert not is_silent(followed.instance, noted)
    assert is_silent(followed.instance, other)
    # Only the daemon's coordinator can create a queued run.
    queued = SimpleNamespace(run_id=other.run_id, status=dg.DagsterRunStatus.QUEUED, tags={}, job_name="work")
    assert not is_silent(followed.instance, queued)


def test_the_wait_for_a_run_without_recent_events_is_limited_by_the_maximum_runtime_of_the_run(
    followed, monkeypatch
) -> None:
    runs = [
        create_run_for_test(
            followed.instance, "work", status=dg.DagsterRunStatus.STARTED, tags={"dagster/max_runtime": limit}
        )
        for limit in ("60", "864000", "nonsense")
    ]
    pass_time(monkeypatch, timedelta(hours=7))
    assert [is_silent(followed.instance, run) for run in runs] == [True, False, True]


def test_unreported_maintenance_of_a_run_in_progress_does_not_delay_later_reports(followed) -> None:
    for value in range(3):
        followed.append(value)
    followed.tick()
    run_id = start_run(followed.instance)
    dataset = lance_core.dataset(followed.uri())
    results = [task.execute(dataset) for task in Compaction.plan(dataset, {}).tasks]
    commit_rewrites(dataset, results, transaction_properties={"dagster.run_id": run_id})
    followed.append(7)
    (event,) = followed.tick()
    assert kinds([event]) == [("materialization", data_version_at(followed.uri(), None), "append")]
    followed.skip()


def test_the_first_tick_waits_for_a_run_in_progress(followed) -> None:
    followed.append(0)
    run_id = start_run(followed.instance)
    followed.append(1, run_id=run_id)
    followed.skip()
    assert followed.reason.startswith(f"events: waiting for run {run_id} (work, last event at ")
    end_run(followed.instance, run_id)
    assert [event.metadata["lance/version"].value for event in followed.tick()] == [2]


def test_a_run_of_another_dagster_instance_counts_as_an_external_writer(followed) -> None:
    followed.append(0)
    followed.tick()
    followed.append(1, run_id="4a1ad5b2-4d0c-4b35-9d4a-6f0d3f0a0001")
    (event,) = followed.tick()
    assert event.tags["lance/writer"] == "external"


def test_a_run_event_for_another_location_does_not_hide_a_commit(followed, tmp_path) -> None:
    """A run configuration may set another location, whose version numbers are unrelated."""
    followed.append(0)
    followed.tick()
    run_id = start_run(followed.instance)
    followed.append(1, run_id=run_id)
    other = str(tmp_path / "other.lance")
    append(other, 1)
    append(other, 2)
    observation = dataset_observation(dataset="events", uri=other, op="compact", report_metadata={}, version=2)
    followed.instance.report_dagster_event(
        dg.DagsterEvent(
            event_type_value=dg.DagsterEventType.ASSET_OBSERVATION.value,
            job_name="work",
            event_specific_data=AssetObservationData(observation),
        ),
        run_id,
    )
    end_run(followed.instance, run_id)
    assert len(followed.tick()) == 1


def test_versions_removed_before_a_tick_are_skipped(followed) -> None:
    for value in range(3):
        followed.append(value)
    followed.tick()
    for value in range(3, 6):
        followed.append(value)
    remove_versions(followed.uri(), 4, 5)
    assert [event.metadata["lance/version"].value for event in followed.tick()] == [6]


def test_maintenance_among_removed_versions_keeps_the_data_version(followed) -> None:
    """A compaction and a cleanup run between two ticks, and the compaction is logically reverted."""
    for value in range(3):
        followed.append(value)
    followed.tick()
    before = data_version_at(followed.uri(), 3)
    lance.dataset(followed.uri()).optimize.compact_files()
    remove_versions(followed.uri(), 1, 2, 3, 4)
    assert kinds(followed.tick()) == [("observation", before, "rewrite")]
    followed.skip()


def test_a_change_among_removed_versions_is_reported(followed) -> None:
    for value in range(3):
        followed.append(value)
    followed.tick()
    followed.append(3)
    lance.dataset(followed.uri()).optimize.compact_files()
    remove_versions(followed.uri(), 1, 2, 3, 4, 5)
    assert kinds(followed.tick()) == [("materialization", "6-unknown", "rewrite")]
    followed.skip()


def test_a_recorded_change_among_removed_versions_is_not_reported_again(followed) -> None:
    for value in range(3):
        followed.append(value)
    followed.tick()
    before = followed.cursor
    followed.append(3)
    (recorded,) = followed.tick()
    followed.cursor = before
    lance.dataset(followed.uri()).optimize.compact_files()
    remove_versions(followed.uri(), 1, 2, 3, 4, 5)
    assert kinds(followed.tick()) == [("observation", recorded.tags["dagster/data_version"], "rewrite")]


def test_the_data_version_recorded_for_a_later_version_applies_to_earlier_versions(followed) -> None:
    """A run with several commits reports the last one, while the oldest remaining version may be an earlier one."""
    for value in range(4):
        followed.append(value)
    followed.tick()
    before = data_version_at(followed.uri(), 4)
    compact(followed.uri(), target_rows_per_fragment=2)
    compact(followed.uri(), target_rows_per_fragment=4)
    observation = dataset_observation(
        dataset="events", uri=followed.uri(), op="compact", report_metadata={}, version=8, data_version=before
    )
    followed.instance.report_runless_asset_event(observation)
    remove_versions(followed.uri(), *range(1, 7))
    assert kinds(followed.tick()) == [("observation", before, "rewrite")]
    followed.skip()


def test_a_sensor_that_lost_its_cursor_after_recorded_maintenance_keeps_the_data_version(followed) -> None:
    for value in range(4):
        followed.append(value)
    followed.tick()
    before = data_version_at(followed.uri(), 4)
    compact(followed.uri(), target_rows_per_fragment=2)
    followed.tick()
    compact(followed.uri(), target_rows_per_fragment=4)
    remove_versions(followed.uri(), *range(1, 8))
    followed.cursor = None
    followed.skip()
    assert json.loads(followed.cursor)["datasets"]["events"]["data_version"] == before


def test_external_maintenance_without_history_or_record_counts_as_a_change(followed) -> None:
    """The files differ, and no event shows that the rows are the same; stale downstream assets would be worse."""
    for value in range(4):
        followed.append(value)
    followed.tick()
    compact(followed.uri(), target_rows_per_fragment=2)
    compact(followed.uri(), target_rows_per_fragment=4)
    remove_versions(followed.uri(), *range(1, 8))
    assert kinds(followed.tick()) == [("materialization", "8-unknown", "rewrite")]
    followed.skip()


def test_restored_earlier_rows_are_reported_as_a_change(followed) -> None:
    marks = []
    for value in range(3):
        followed.append(value)
        followed.tick()
        marks.append(followed.cursor)
    lance.dataset(followed.uri(), version=2).restore()
    lance.dataset(followed.uri()).update_config({"owner": "me"})
    remove_versions(followed.uri(), 1, 2, 3, 4)
    followed.cursor = marks[0]
    assert kinds(followed.tick()) == [("materialization", "5-unknown", "update_config")]


def test_a_recreated_dataset_is_reported_from_its_first_version(followed) -> None:
    for value in range(3):
        followed.append(value)
    followed.tick()
    shutil.rmtree(followed.uri())
    followed.append(7)
    assert kinds(followed.tick()) == [("materialization", data_version_at(followed.uri(), 1), "overwrite")]
    shutil.rmtree(followed.uri())
    for value in range(3):
        followed.append(value)
    assert kinds(followed.tick()) == [("materialization", data_version_at(followed.uri(), 3), "append")]
    shutil.rmtree(followed.uri())
    followed.skip()
    assert followed.reason == "events: the dataset does not exist yet"


def test_a_tick_reports_a_bounded_number_of_versions(followed, monkeypatch) -> None:
    monkeypatch.setattr(catch_up_module, "MAX_VERSIONS_PER_TICK", 3)
    followed.append(0)
    followed.tick()
    for value in range(7):
        followed.append(value)
    reported = []
    for expected in (3, 3, 1, 0):
        events = followed.tick()
        assert len(events) == expected
        reported += [event.metadata["lance/version"].value for event in events]
    assert reported == list(range(2, 9))


def test_broken_datasets_do_not_block_other_datasets(followed, tmp_path) -> None:
    followed.names = ("corrupt", "a_file", "mixed", "events", "missing")
    for name in ("corrupt", "events", "mixed"):
        followed.append(1, name)
    (tmp_path / "a_file.lance").write_text("no dataset")
    (tmp_path / "mixed.lance" / "_versions" / "1.manifest").write_bytes(b"another naming")
    spoil(followed.uri("corrupt"), 1)
    (event,) = followed.tick()
    assert event.asset_key == EVENTS
    for expected in (
        "corrupt: cannot be examined: manifest ",
        "; a_file: cannot be examined: ",
        "; mixed: cannot be examined: ",
        "has manifests of both naming schemes",
        "; events: tracking starts at version 1; missing: the dataset does not exist yet",
    ):
        assert expected in followed.reason
    followed.append(2)
    assert [event.asset_key for event in followed.tick()] == [EVENTS]


def test_a_damaged_version_is_skipped_once_a_newer_version_exists(followed) -> None:
    followed.append(0)
    followed.tick()
    followed.append(1)
    spoil(followed.uri(), 2)
    followed.skip()
    assert "version 2 cannot be read" in followed.reason
    followed.skip()
    append_after(followed.uri(), damaged=2)
    assert [event.metadata["lance/version"].value for event in followed.tick()] == [3]
    followed.skip()


def test_a_change_that_cannot_be_read_is_reported_without_metrics(followed, monkeypatch) -> None:
    """A newer writer set an unknown feature flag, but downstream assets must be informed of the change."""
    followed.append(0)
    followed.tick()
    followed.append(1)
    expected = data_version_at(followed.uri(), 2)

    def refuse(*given: object, **named: object) -> None:
        raise UnsupportedFeatureFlagError("the table needs a feature that this library does not have")

    monkeypatch.setattr("lance_pipelines.events.commit_events.lance_core.dataset", refuse)
    (event,) = followed.tick()
    assert kinds([event]) == [("materialization", expected, "append")]
    assert "lance/fragments" not in event.metadata


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense",
        "null",
        "[]",
        '{"format": 99}',
        '{"format": 1, "datasets": {"events": {}}}',
        '{"format": 1, "datasets": {"events": null}}',
        '{"format": 1, "datasets": {"events": {"version": "x", "stamp": "", "content": "", "data_version": "1-a"}}}',
        '{"format": 1, "datasets": {"events": {"version": 1, "stamp": null, "content": "", "data_version": "1-a"}}}',
    ],
)
def test_an_unreadable_cursor_is_treated_as_a_missing_cursor(followed, cursor) -> None:
    followed.append(1)
    followed.cursor = cursor
    assert len(followed.tick()) == 1
    assert json.loads(followed.cursor)["format"] == 1


def test_a_dataset_that_is_no_longer_declared_is_removed_from_the_cursor(followed) -> None:
    followed.names = ("events", "users")
    followed.append(1)
    followed.append(1, "users")
    followed.tick()
    followed.names = ("users",)
    followed.skip()
    assert set(json.loads(followed.cursor)["datasets"]) == {"users"}


def test_a_reported_event_counts_small_fragments_by_the_policy(followed) -> None:
    followed.append(1)
    (event,) = followed.tick()
    assert event.metadata["lance/small_fragments"].value == 1
    assert MaintenancePolicy().compaction.target_rows_per_fragment > 1


def compact(uri: str, **options: int) -> None:
    lance.dataset(uri).optimize.compact_files(**options)


def process_identity() -> str:
    return f"{os.getpid()}@{psutil.Process().create_time():.0f}"


def pass_time(monkeypatch, elapsed: timedelta) -> None:
    """Set the time that the sensors see."""
    now = datetime.now(UTC) + elapsed
    monkeypatch.setattr(silent_runs, "_now", lambda: now)


def manifest_path(uri: str, version: int) -> Path:
    log = lance_core.dataset(uri, version=version).log
    (name,) = [name for name in log.newer_than(version - 1) if name.version == version]
    return Path(log.path(name))


def remove_versions(uri: str, *versions: int) -> None:
    for version in versions:
        manifest_path(uri, version).unlink()


def spoil(uri: str, version: int) -> None:
    manifest_path(uri, version).write_bytes(b"not a manifest at all, though long enough for a trailer")


def append_after(uri: str, *, damaged: int) -> None:
    """Append as a writer that does not read the damaged version, which is moved away meanwhile."""
    path = Path(uri, "_versions", manifest_name(damaged))
    kept = path.read_bytes()
    path.unlink()
    append(uri, 2)
    append(uri, 3)
    path.write_bytes(kept)


NO_CHANGE = {
    "delete": lambda uri: lance.dataset(uri).delete("id = 99"),
    "append": lambda uri: lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri, mode="append"),
    "update": lambda uri: lance.dataset(uri).update({"id": "1"}, where="id = 99"),
    "restore": lambda uri: lance.dataset(uri).restore(),
}


@pytest.mark.parametrize("operation", NO_CHANGE)
def test_an_external_commit_that_changed_no_row_keeps_the_data_version(followed, operation) -> None:
    followed.append(1)
    followed.tick()
    before = data_version_at(followed.uri(), None)
    NO_CHANGE[operation](followed.uri())
    assert lance_core.dataset(followed.uri()).version == 2
    assert [(kind, version) for kind, version, _ in kinds(followed.tick())] == [("observation", before)]
    assert data_version_at(followed.uri(), None) == before
    followed.append(2)
    ((kind, version, _),) = kinds(followed.tick())
    assert (kind, version) == ("materialization", data_version_at(followed.uri(), 3))


def test_a_commit_that_changed_no_row_does_not_count_as_a_change_when_history_is_missing(followed) -> None:
    followed.append(1)
    followed.tick()
    before = data_version_at(followed.uri(), None)
    lance.dataset(followed.uri()).delete("id = 99")
    lance_core.dataset(followed.uri()).cleanup_old_versions(older_than=timedelta(0))
    assert [name.version for name in lance_core.dataset(followed.uri()).log.newer_than(0)] == [2]
    assert kinds(followed.tick()) == [("observation", before, "delete")]
