"""Sensors and the jobs that they request, tick by tick as the daemon runs them, until no maintenance is due."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_pipelines.automation import on_new_data
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.jobs import request_config
from lance_pipelines.maintenance.policy import CleanupPolicy, CompactionPolicy, DeletionPolicy, MaintenancePolicy
from lance_pipelines.ops import rewrite_fragments
from tests.support.local_rewriting import ids, write_fragments
from tests.support.no_spark import rewrite_without_session

EVENTS = dg.AssetKey("events")
MAINTENANCE = ("lance_compaction_sensor", "lance_deletion_sensor", "lance_cleanup_sensor")
POLICY = MaintenancePolicy(
    compaction=CompactionPolicy(target_rows_per_fragment=60, min_small_fragments=4),
    deletion=DeletionPolicy(max_deleted_fraction=0.0),
    cleanup=CleanupPolicy(retain_versions=1, older_than=timedelta(0), min_age=timedelta(0)),
)


@dg.asset(deps=["events"], automation_condition=on_new_data())
def downstream() -> None:
    """Reads the dataset."""


@dataclass
class Daemon:
    """Evaluates every sensor and executes the requested runs."""

    defs: dg.Definitions
    instance: dg.DagsterInstance
    cursors: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    run_keys: set[str] = field(default_factory=set)
    automation: Any = None
    downstream_runs: int = 0

    def tick(self, name: str) -> list[dg.RunRequest]:
        sensor = self.defs.get_repository_def().get_sensor_def(name)
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursors.get(name), definitions=self.defs
        ) as context:
            data = sensor.evaluate_tick(context)
        for event in data.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursors[name], self.reasons[name] = data.cursor, data.skip_message or ""
        return list(data.run_requests)

    def automate(self) -> None:
        result = dg.evaluate_automation_conditions(
            defs=self.defs,
            instance=self.instance,
            cursor=self.automation,
            asset_selection=dg.AssetSelection.all(),
        )
        self.automation = result.cursor
        if result.total_requested:
            self.downstream_runs += 1
            job = self.defs.resolve_implicit_global_asset_job_def()
            assert job.execute_in_process(instance=self.instance, asset_selection=[downstream.key]).success

    def watch(self) -> None:
        self.tick("lance_version_sensor")
        self.automate()

    def round(self) -> list[str]:
        """Evaluate every sensor once, and return the operations that were run."""
        self.watch()
        done = []
        for name in MAINTENANCE:
            for request in self.tick(name):
                assert request.run_key not in self.run_keys
                self.run_keys.add(request.run_key)
                self.run(request.job_name, request.run_config, request.tags)
                done.append(request.tags["lance/op"])
        return done

    def run(self, job_name: str, run_config: dict[str, Any], tags: dict[str, str] | None = None) -> None:
        job = self.defs.resolve_job_def(job_name)
        assert job.execute_in_process(run_config=run_config, instance=self.instance, tags=tags).success

    def until_quiet(self) -> list[str]:
        done = []
        for _ in range(10):
            latest = self.round()
            if not latest:
                return done
            done += latest
        raise AssertionError(f"still busy after {done}")

    def events(self) -> tuple[int, int]:
        """Return the number of materializations and observations of the dataset's asset."""
        materializations = self.instance.fetch_materializations(EVENTS, limit=100).records
        return len(materializations), len(self.instance.fetch_observations(EVENTS, limit=100).records)


@pytest.fixture
def daemon(project, instance, monkeypatch) -> Daemon:
    monkeypatch.setattr(rewrite_fragments, "rewrite_tasks", rewrite_without_session)
    declaration = dataclasses.replace(project.declaration(), maintenance=POLICY)
    monkeypatch.setattr(project, "declaration", lambda: declaration)
    daemon = Daemon(project.definitions(assets=[downstream]), instance)
    daemon.watch()
    return daemon


def validate(uri: str, expected: list[int]) -> None:
    """Check that both libraries read the same rows and that the reference validates every remaining version."""
    assert ids(uri) == expected
    reference = lance.dataset(uri)
    assert sorted(reference.to_table()["id"].to_pylist()) == expected
    for version in reference.versions():
        lance.dataset(uri, version=version["version"]).validate()


def test_sensors_maintain_a_fragmented_table_until_nothing_is_due(daemon, project) -> None:
    uri = project.uri
    write_fragments(uri, 8)
    lance.dataset(uri).tags.create("gold", 3)
    daemon.watch()
    daemon.run("events__delete_rows", request_config("delete_rows", predicate="id % 10 = 3"))
    lance.dataset(uri).delete("id = 5")
    expected = [value for value in range(80) if value % 10 != 3 and value != 5]
    validate(uri, expected)

    done = daemon.until_quiet()

    assert set(done) == {"compact", "cleanup"}
    validate(uri, expected)
    dataset = lance_core.dataset(uri)
    assert (len(dataset.get_fragments()), list(Path(uri, "_deletions").iterdir())) == (1, [])
    left = [name.version for name in dataset.log.newer_than(0)]
    assert left == [3, dataset.version]
    assert ids(uri, version=3) == list(range(30))
    assert daemon.round() == []
    assert daemon.reasons == {
        "lance_version_sensor": f"events: no versions after version {dataset.version}",
        "lance_compaction_sensor": f"events: version {dataset.version} unchanged: 0 small fragments < 4",
        "lance_deletion_sensor": (
            f"events: version {dataset.version} unchanged: no fragment has a fraction of deleted rows "
            "above 0 (overall: 0)"
        ),
        "lance_cleanup_sensor": (
            "events: 2 versions, 0 removable < 1 (keeping the newest version; 1 tagged or used by a branch)"
        ),
    }


def test_each_data_change_triggers_one_downstream_run_and_maintenance_triggers_none(daemon, project) -> None:
    uri = project.uri
    write_fragments(uri, 8)
    daemon.watch()
    assert (daemon.downstream_runs, daemon.events()) == (1, (1, 0))
    lance.write_dataset(pa.table({"id": [100]}), uri, mode="append")
    daemon.watch()
    daemon.run("events__delete_rows", request_config("delete_rows", predicate="id = 7"))
    daemon.watch()
    lance.dataset(uri).delete("id = 8")
    daemon.watch()
    before = data_version_at(uri, None)
    assert (daemon.downstream_runs, daemon.events()) == (4, (4, 0))

    done = daemon.until_quiet()

    daemon.watch()
    assert "compact" in done
    assert "cleanup" in done
    assert (daemon.downstream_runs, daemon.events()) == (4, (4, len(done)))
    recorded = daemon.instance.get_latest_materialization_event(EVENTS).asset_materialization
    assert recorded.tags["dagster/data_version"] == before
    lance_core.write_dataset(pa.table({"id": [200]}), uri, mode="append")
    daemon.watch()
    assert daemon.downstream_runs == 5


def test_a_compaction_and_cleanup_between_two_ticks_trigger_no_downstream_run(daemon, project) -> None:
    """The remaining versions show that no row changed, although no tick observed the compaction and the cleanup."""
    uri = project.uri
    write_fragments(uri, 8)
    daemon.watch()
    for name in MAINTENANCE:
        for request in daemon.tick(name):
            daemon.run(request.job_name, request.run_config, request.tags)
    assert lance_core.dataset(uri).log.newer_than(0)[0].version > 8
    daemon.watch()
    assert (daemon.downstream_runs, daemon.events()) == (1, (1, 2))


def data_version_observed(daemon: Daemon) -> str:
    (record,) = daemon.instance.fetch_observations(EVENTS, limit=1).records
    return record.event_log_entry.asset_observation.tags["dagster/data_version"]


def maintain(daemon: Daemon) -> None:
    """Run two compactions, and a cleanup that removes all versions before the result of the second one."""
    daemon.run("events__compact", request_config("compact", target_rows_per_fragment=20))
    daemon.run("events__compact", request_config("compact", target_rows_per_fragment=80))
    daemon.run("events__cleanup", request_config("cleanup", retain_versions=1, older_than="0s", min_age="0s"))


def test_reported_maintenance_without_history_triggers_no_downstream_run(daemon, project) -> None:
    uri = project.uri
    write_fragments(uri, 8)
    before = data_version_at(uri, None)
    daemon.watch()
    maintain(daemon)
    assert len(lance_core.dataset(uri).version_refs()) == 1
    daemon.watch()
    assert (daemon.downstream_runs, daemon.events()) == (1, (1, 3))
    daemon.run("events__compact", request_config("compact", target_rows_per_fragment=40))
    daemon.cursors.clear()
    daemon.watch()
    assert (daemon.downstream_runs, daemon.events()[0]) == (1, 1)
    assert data_version_observed(daemon) == before


def test_an_observation_keeps_the_data_version_after_the_history_was_removed(daemon, project) -> None:
    uri = project.uri
    write_fragments(uri, 8)
    before = data_version_at(uri, None)
    daemon.watch()
    daemon.run("events__compact", request_config("compact", target_rows_per_fragment=20))
    daemon.run("events__cleanup", request_config("cleanup", retain_versions=1, older_than="0s", min_age="0s"))
    daemon.run("events__compact", request_config("compact", target_rows_per_fragment=80))
    assert lance_core.dataset(uri).version > 10
    assert data_version_observed(daemon) == before
    daemon.run("events__cleanup", request_config("cleanup", retain_versions=1, older_than="0s", min_age="0s"))
    assert data_version_observed(daemon) == before


def test_new_rows_detected_only_after_maintenance_trigger_a_downstream_run(daemon, project) -> None:
    uri = project.uri
    write_fragments(uri, 8)
    daemon.watch()
    lance_core.write_dataset(pa.table({"id": [100]}), uri, mode="append")
    appended = data_version_at(uri, None)
    maintain(daemon)
    daemon.watch()
    assert daemon.downstream_runs == 2
    recorded = daemon.instance.get_latest_materialization_event(EVENTS).asset_materialization
    assert recorded.tags["dagster/data_version"] == appended
    daemon.watch()
    assert (daemon.downstream_runs, daemon.events()[0]) == (2, 2)
