"""The sensors ``compaction_sensor``, ``deletion_sensor``, ``index_sensor``, and ``cleanup_sensor``, tick by tick."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import lance
import pyarrow as pa
import pytest
from dagster._core.test_utils import create_run_for_test

import lance_core
from lance_core import LanceOperation
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.maintenance import pylance_indices
from lance_pipelines.maintenance.index_declaration import IndexDeclaration, IndexType
from lance_pipelines.maintenance.policy import (
    CleanupPolicy,
    CompactionPolicy,
    DeletionPolicy,
    IndexPolicy,
    MaintenancePolicy,
)
from lance_pipelines.runs import silent_runs
from lance_pipelines.runs.dead_runs import MACHINE_TAG, PROCESS_TAG
from lance_pipelines.sensors import run_requests
from lance_pipelines.sensors.all_sensors import build_sensors
from lance_pipelines.sensors.cleanup_sensor import CLEANUP
from lance_pipelines.sensors.compaction_sensor import COMPACTION
from lance_pipelines.sensors.deletion_sensor import DELETIONS
from lance_pipelines.sensors.index_sensor import INDICES
from lance_pipelines.sensors.maintenance_sensor import build_maintenance_sensor
from lance_pipelines.sensors.run_requests import Target

KINDS = {kind.op: kind for kind in (COMPACTION, DELETIONS, INDICES, CLEANUP)}
POLICY = MaintenancePolicy(
    compaction=CompactionPolicy(target_rows_per_fragment=100, min_small_fragments=4),
    deletion=DeletionPolicy(max_deleted_fraction=0.25, min_deleted_rows=2),
    cleanup=CleanupPolicy(retain_versions=3, older_than=timedelta(0), min_age=timedelta(0)),
    indices=IndexPolicy(min_unindexed_rows=20, min_unindexed_fragments=4),
)


@dataclass
class Watched:
    """The sensors of some datasets, ticked as by the daemon."""

    instance: dg.DagsterInstance
    lake: Path
    policy: MaintenancePolicy = POLICY
    names: tuple[str, ...] = ("events",)
    indices: tuple[IndexDeclaration, ...] = ()
    cursors: dict[str, str] = field(default_factory=dict)
    run_keys: set[str] = field(default_factory=set)
    reason: str = ""

    def uri(self, name: str = "events") -> str:
        return str(self.lake / f"{name}.lance")

    def fill(self, fragments: int, rows: int = 8, name: str = "events") -> None:
        for _ in range(fragments):
            lance_core.write_dataset(pa.table({"id": range(rows)}), self.uri(name), mode="append")

    def target(self, name: str, op: str) -> Target:
        declaration = DatasetDeclaration(
            key=name,
            uri=self.uri(name),
            source=FileSource(format=SourceFormat.ENVIRONMENT),
            maintenance=self.policy,
            indices=self.indices,
        )
        return Target(declaration=declaration, job_name=f"{name}__{op}", run_config={"ops": {}})

    def tick(self, op: str = "compact") -> list[dg.RunRequest]:
        """Run one tick, and drop requests with a known run key, as the daemon does."""
        targets = [self.target(name, op) for name in self.names]
        jobs = [make_job(target.job_name) for target in targets]
        sensor = build_maintenance_sensor(
            KINDS[op], targets, jobs, namespace="lance", interval_seconds=30, status=dg.DefaultSensorStatus.STOPPED
        )
        with dg.build_sensor_context(instance=self.instance, cursor=self.cursors.get(op)) as context:
            data = sensor.evaluate_tick(context)
        self.cursors[op], self.reason = data.cursor, data.skip_message or ""
        assert not data.asset_events
        new = [request for request in data.run_requests if request.run_key not in self.run_keys]
        assert len(new) == len(data.run_requests), "a run was requested twice"
        self.run_keys.update(request.run_key for request in new)
        return list(new)

    def skip(self, reason: str, op: str = "compact") -> None:
        assert self.tick(op) == []
        assert self.reason == reason

    def start_run(
        self,
        op: str,
        name: str = "events",
        status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED,
        **tags: str,
    ) -> str:
        job = make_job(f"{name}__{op}")
        return self.instance.create_run_for_job(
            job, status=status, tags={"lance/dataset": name, "lance/op": op, **tags}
        ).run_id

    def end_run(self, run_id: str) -> None:
        self.instance.report_run_failed(self.instance.get_run_by_id(run_id))


def make_job(name: str) -> dg.JobDefinition:
    @dg.job(name=name)
    def job() -> None:
        pass

    return job


@pytest.fixture
def watched(instance: dg.DagsterInstance, tmp_path: Path) -> Watched:
    return Watched(instance, tmp_path)


def test_a_dataset_that_does_not_exist_yet_is_skipped(watched) -> None:
    for op in KINDS:
        watched.skip("events: the dataset does not exist yet", op)


def test_a_compaction_is_requested_when_there_are_enough_small_fragments(watched) -> None:
    watched.fill(3)
    watched.skip("events: 3 small fragments < 4")
    watched.skip("events: version 3 unchanged: 3 small fragments < 4")
    watched.fill(1)
    (request,) = watched.tick()
    assert request.job_name == "events__compact"
    assert request.run_config == {"ops": {}}
    assert request.run_key.startswith(f"events:compact:4:{POLICY.digest()}:")
    assert request.tags == {
        "dagster/sensor_name": "lance_compaction_sensor",
        "lance/dataset": "events",
        "lance/op": "compact",
        "lance/read_version": "4",
        "lance/reason": "4 small fragments >= 4",
        "lance/work": request.run_key,
    }


def test_the_same_maintenance_run_is_not_requested_twice(watched) -> None:
    watched.fill(4)
    assert len(watched.tick()) == 1
    for _ in range(3):
        watched.skip("events: version 4 unchanged: a run was requested, 4 small fragments >= 4")


OUTCOMES = {
    dg.DagsterRunStatus.FAILURE: "failed",
    dg.DagsterRunStatus.CANCELED: "was canceled",
    dg.DagsterRunStatus.SUCCESS: "did not complete the work",
}


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Make the sensors see a time ``ahead`` seconds in the future."""
    clock = SimpleNamespace(ahead=0.0)
    clock.time = lambda: time.time() + clock.ahead
    monkeypatch.setattr(run_requests, "time", clock)
    return clock


def answer(watched: Watched, request: dg.RunRequest, status: dg.DagsterRunStatus) -> str:
    """Execute the requested run, which ends now."""
    run = watched.instance.create_run_for_job(
        make_job(request.job_name), status=dg.DagsterRunStatus.STARTED, tags=request.tags
    )
    kinds = {
        dg.DagsterRunStatus.FAILURE: dg.DagsterEventType.RUN_FAILURE,
        dg.DagsterRunStatus.CANCELED: dg.DagsterEventType.RUN_CANCELED,
        dg.DagsterRunStatus.SUCCESS: dg.DagsterEventType.RUN_SUCCESS,
    }
    if status in kinds:
        event = dg.DagsterEvent(event_type_value=kinds[status].value, job_name=run.job_name)
        watched.instance.report_dagster_event(event, run.run_id)
    return run.run_id


@pytest.mark.parametrize("status", OUTCOMES)
@pytest.mark.parametrize("op", ["compact", "cleanup"])
@pytest.mark.sampled(3)
def test_incomplete_maintenance_is_requested_again_after_a_pause(watched, clock, op, status) -> None:
    """The pauses are ten, twenty, and forty minutes."""
    watched.fill(4)
    (request,) = watched.tick(op)
    for pause in (600, 1200, 2400):
        run_id = answer(watched, request, status)
        for ahead in (0, pause - 100):
            clock.ahead = ahead
            assert watched.tick(op) == []
            assert f"run {run_id} {OUTCOMES[status]}, and the next run will be requested after 2" in watched.reason
            assert watched.reason.endswith(f", {request.tags['lance/reason']}")
        clock.ahead = pause + 100
        (request,) = watched.tick(op)
        assert request.run_key.endswith(f":after {run_id}")
        assert watched.tick(op) == []
        clock.ahead = 0


def test_the_pause_between_requests_never_exceeds_a_day(watched, clock) -> None:
    watched.fill(4)
    (request,) = watched.tick()
    for _ in range(12):
        answer(watched, request, dg.DagsterRunStatus.FAILURE)
    clock.ahead = 86_400 - 100
    assert watched.tick() == []
    clock.ahead = 86_400 + 100
    assert len(watched.tick()) == 1


def test_a_sensor_waits_for_a_requested_run_without_reading_the_dataset(watched, clock) -> None:
    watched.fill(4)
    (request,) = watched.tick()
    answer(watched, request, dg.DagsterRunStatus.STARTED)
    clock.ahead = 7200
    watched.skip("events: version 4 unchanged: a run was requested, 4 small fragments >= 4")


def test_maintenance_of_a_new_version_is_requested_without_a_pause(watched) -> None:
    watched.fill(4)
    (request,) = watched.tick()
    answer(watched, request, dg.DagsterRunStatus.FAILURE)
    assert watched.tick() == []
    watched.fill(1)
    assert len(watched.tick()) == 1


def test_a_sensor_that_lost_its_cursor_keeps_the_pause_between_requests(watched, clock) -> None:
    watched.fill(4)
    (request,) = watched.tick()
    run_id = answer(watched, request, dg.DagsterRunStatus.FAILURE)
    watched.cursors.clear()
    assert watched.tick() == []
    assert f"run {run_id} failed" in watched.reason
    clock.ahead = 700
    assert len(watched.tick()) == 1


def test_another_run_is_requested_after_the_policy_was_changed(watched) -> None:
    watched.fill(4)
    watched.tick()
    watched.policy = MaintenancePolicy(compaction=CompactionPolicy(target_rows_per_fragment=50, min_small_fragments=3))
    assert len(watched.tick()) == 1


def test_a_sensor_that_lost_its_cursor_requests_the_same_run_key(watched) -> None:
    watched.fill(4)
    (first,) = watched.tick()
    watched.cursors.clear()
    watched.run_keys.clear()
    (second,) = watched.tick()
    assert second.run_key == first.run_key


def test_a_compaction_sensor_requests_nothing_after_the_compaction(watched) -> None:
    watched.fill(6)
    watched.tick()
    lance.dataset(watched.uri()).optimize.compact_files(target_rows_per_fragment=100)
    watched.skip("events: 1 small fragment < 4")


def test_no_compaction_is_requested_for_small_fragments_between_large_ones(watched) -> None:
    for rows in (8, 100, 8, 100, 8, 100, 8):
        watched.fill(1, rows)
    watched.skip("events: 4 small fragments; with small neighbors: 0 < 4")


def test_compaction_with_a_budget_below_the_smallest_task_is_requested_and_the_reason_states_both_numbers_of_bytes(
    watched,
) -> None:
    watched.policy = MaintenancePolicy(
        compaction=CompactionPolicy(target_rows_per_fragment=100, min_small_fragments=4, max_source_bytes=1)
    )
    watched.fill(4)
    (request,) = watched.tick()
    assert re.fullmatch(
        r"4 small fragments >= 4; the smallest task reads \d+ bytes, which is more than max_source_bytes = 1",
        request.tags["lance/reason"],
    )


@pytest.mark.parametrize(
    ("other", "next_op"), [("compact", "materialize_deletions"), ("materialize_deletions", "compact")]
)
def test_a_rewrite_is_not_requested_while_another_rewrite_of_the_dataset_runs(watched, other, next_op) -> None:
    watched.fill(4)
    lance.dataset(watched.uri()).delete("id < 4")
    run_id = watched.start_run(other)
    for op, figures in (
        ("compact", "4 small fragments >= 4"),
        ("materialize_deletions", "4 fragments with more than 0.25 of the rows deleted, 16 deleted rows >= 2"),
    ):
        assert watched.tick(op) == []
        last_event = r"last event at [-\d]+ [:\d]+ UTC"
        assert re.fullmatch(rf"events: waiting for run {run_id} \({other}, {last_event}\), {figures}", watched.reason)
    watched.end_run(run_id)
    assert len(watched.tick(next_op)) == 1


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.NOT_STARTED])
def test_a_sensor_waits_only_a_limited_time_for_a_run_without_recent_events(watched, monkeypatch, status) -> None:
    watched.fill(4)
    watched.start_run(
        "compact", status=status, **{MACHINE_TAG: "a container that is gone", PROCESS_TAG: "17@1700000000"}
    )
    assert watched.tick() == []
    later = datetime.now(UTC) + timedelta(hours=7)
    monkeypatch.setattr(silent_runs, "_now", lambda: later)
    assert len(watched.tick()) == 1


def test_a_sensor_does_not_wait_for_a_dry_run(watched) -> None:
    watched.fill(4)
    tags = {"lance/dataset": "events", "lance/op": "compact"}
    for dry_run in (True, False):
        config = {"ops": {"plan_rewrites": {"config": {"dry_run": dry_run}}}}
        started = dg.DagsterRunStatus.STARTED
        create_run_for_test(watched.instance, "compact", status=started, tags=tags, run_config=config)
        assert len(watched.tick()) == dry_run
        watched.fill(1)


@pytest.mark.parametrize("op", ["compact", "materialize_deletions", "cleanup"])
def test_a_sensor_waits_for_a_running_ingest_of_the_dataset(watched, op) -> None:
    watched.fill(4)
    lance.dataset(watched.uri()).delete("id > 0")
    ingest = watched.start_run("ingest")
    assert watched.tick(op) == []
    assert f"waiting for run {ingest} (ingest, last event at " in watched.reason
    watched.end_run(ingest)
    assert len(watched.tick(op)) == 1


def test_a_sensor_waits_for_a_running_materialization_of_the_asset_by_any_job(watched) -> None:
    """The web interface launches it without the tags of this library."""

    @dg.asset
    def events() -> None:
        """The asset of the dataset."""

    watched.fill(4)
    job = dg.Definitions(assets=[events]).resolve_implicit_global_asset_job_def()
    run = watched.instance.create_run_for_job(
        job, asset_selection=frozenset({events.key}), status=dg.DagsterRunStatus.STARTED
    )
    assert watched.tick() == []
    assert f"waiting for run {run.run_id} " in watched.reason
    watched.end_run(run.run_id)
    assert len(watched.tick()) == 1


def test_consecutive_ingests_do_not_delay_maintenance_forever(watched) -> None:
    watched.fill(4)
    first, second = watched.start_run("ingest"), watched.start_run("ingest")
    assert watched.tick() == []
    watched.end_run(second)
    third = watched.start_run("ingest")
    assert watched.tick() == []
    watched.end_run(first)
    watched.fill(1)
    assert len(watched.tick()) == 1
    assert watched.instance.get_run_by_id(third).status is dg.DagsterRunStatus.STARTED


def test_a_sensor_does_not_wait_for_unrelated_runs(watched) -> None:
    watched.fill(4)
    watched.start_run("ingest", "users")
    watched.start_run("cleanup")
    watched.start_run("compact", "users")
    assert len(watched.tick()) == 1


def test_materializing_deletions_is_requested_when_the_deleted_fraction_of_a_fragment_exceeds_the_limit(
    watched,
) -> None:
    watched.fill(3)
    op = "materialize_deletions"
    watched.skip("events: no fragment has a fraction of deleted rows above 0.25 (overall: 0)", op)
    lance.dataset(watched.uri()).delete("id < 2")
    watched.skip("events: no fragment has a fraction of deleted rows above 0.25 (overall: 0.25)", op)
    lance.dataset(watched.uri()).delete("id = 2")
    (request,) = watched.tick(op)
    assert request.tags["lance/reason"] == "3 fragments with more than 0.25 of the rows deleted, 9 deleted rows >= 2"
    lance.dataset(watched.uri()).optimize.compact_files(materialize_deletions_threshold=0.25)
    watched.skip("events: no fragment has a fraction of deleted rows above 0.25 (overall: 0)", op)


def test_materializing_deletions_is_not_requested_for_too_few_deleted_rows(watched) -> None:
    watched.fill(1, rows=3)
    watched.fill(1, rows=100)
    lance.dataset(watched.uri()).delete("id = 0")
    found = "events: 1 fragment with more than 0.25 of the rows deleted, 1 deleted row < 2"
    watched.skip(found, "materialize_deletions")


def test_a_cleanup_is_requested_when_versions_are_removable(watched) -> None:
    watched.fill(3)
    watched.skip("events: 3 versions, 0 removable < 1 (keeping the newest 3 versions)", "cleanup")
    watched.fill(2)
    (request,) = watched.tick("cleanup")
    assert request.tags["lance/reason"] == "5 versions, 2 removable >= 1"
    for _ in range(2):
        watched.skip("events: a run was requested, 5 versions, 2 removable >= 1", "cleanup")
    lance.dataset(watched.uri()).cleanup_old_versions(older_than=timedelta(0), retain_versions=3)
    watched.skip("events: 3 versions, 0 removable < 1 (keeping the newest 3 versions)", "cleanup")


def test_a_cleanup_is_requested_when_versions_exceed_the_retention_period_without_a_new_commit(watched) -> None:
    """Old versions become removable although the latest version is the same."""
    day = 86_400
    watched.policy = MaintenancePolicy(cleanup=CleanupPolicy(retain_versions=1, older_than=timedelta(days=1)))
    watched.fill(4)
    assert watched.tick("cleanup") == []
    assert "3 within the retention period of 1 day" in watched.reason
    age(watched.uri(), 1, 2 * day)
    (first,) = watched.tick("cleanup")
    age(watched.uri(), 2, 2 * day)
    (second,) = watched.tick("cleanup")
    assert first.run_key != second.run_key
    watched.skip("events: a run was requested, 4 versions, 2 removable >= 1", "cleanup")


def test_no_cleanup_is_requested_for_tagged_versions(watched) -> None:
    watched.fill(5)
    reference = lance.dataset(watched.uri())
    for version in (1, 2):
        reference.tags.create(f"kept-{version}", version)
    watched.skip(
        "events: 5 versions, 0 removable < 1 (keeping the newest 3 versions; 2 tagged or used by a branch)", "cleanup"
    )
    reference.tags.delete("kept-1")
    assert len(watched.tick("cleanup")) == 1


@pytest.mark.parametrize("op", KINDS)
def test_maintenance_that_is_switched_off_is_not_requested(watched, op) -> None:
    watched.policy = MaintenancePolicy(compaction=None, deletion=None, cleanup=None, indices=None)
    watched.fill(20)
    lance.dataset(watched.uri()).delete("id < 5")
    assert watched.tick(op) == []
    assert watched.reason.endswith("is disabled")


def test_a_tick_requests_one_run_for_each_due_dataset_and_explains_every_dataset_in_one_line(watched) -> None:
    watched.names = ("events", "users", "small")
    for name in ("events", "users"):
        watched.fill(4, name=name)
    watched.fill(1, name="small")
    requests = watched.tick()
    assert [request.tags["lance/dataset"] for request in requests] == ["events", "users"]
    assert [request.job_name for request in requests] == ["events__compact", "users__compact"]
    watched.skip(
        "events: version 4 unchanged: a run was requested, 4 small fragments >= 4; "
        "users: version 4 unchanged: a run was requested, 4 small fragments >= 4; "
        "small: version 1 unchanged: 1 small fragment < 4"
    )


def corrupt(path: Path) -> None:
    (manifest,) = (path / "_versions").glob("*.manifest")
    manifest.write_bytes(b"not a manifest at all, though long enough for a trailer")


def replace_by_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("no dataset")


def mix_namings(path: Path) -> None:
    (path / "_versions" / "1.manifest").write_bytes(b"")


@pytest.mark.parametrize("spoil", [corrupt, replace_by_file, mix_namings])
@pytest.mark.parametrize("op", ["compact", "materialize_deletions"])
def test_a_broken_dataset_does_not_block_other_datasets(watched, op, spoil: Callable[[Path], None]) -> None:
    watched.names = ("broken", "events")
    watched.fill(1, name="broken")
    watched.fill(4)
    lance.dataset(watched.uri()).delete("id < 4")
    spoil(Path(watched.uri("broken")))
    (request,) = watched.tick(op)
    assert request.tags["lance/dataset"] == "events"
    assert watched.tick(op) == []
    assert watched.reason.startswith("broken: cannot be examined: ")
    assert "; events: version 5 unchanged: " in watched.reason


def test_a_broken_tag_skips_only_the_cleanup_of_its_dataset(watched) -> None:
    watched.names = ("broken", "events")
    watched.fill(4, name="broken")
    watched.fill(4)
    tags = Path(watched.uri("broken"), "_refs", "tags")
    tags.mkdir(parents=True)
    (tags / "t.json").write_text("{")
    (request,) = watched.tick("cleanup")
    assert request.tags["lance/dataset"] == "events"


def test_maintenance_of_a_broken_dataset_is_requested_after_its_repair(watched) -> None:
    watched.fill(4)
    manifest = next(path for path in Path(watched.uri(), "_versions").iterdir() if path.name.endswith("11.manifest"))
    kept, status = manifest.read_bytes(), manifest.stat()
    manifest.write_bytes(b"not a manifest at all, though long enough for a trailer")
    assert watched.tick() == []
    manifest.write_bytes(kept)
    os.utime(manifest, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(watched.tick()) == 1


def test_a_recreated_dataset_is_examined_again(watched) -> None:
    watched.fill(4)
    (first,) = watched.tick()
    shutil.rmtree(watched.uri())
    watched.fill(4)
    (second,) = watched.tick()
    assert first.run_key != second.run_key


@pytest.mark.parametrize("cursor", ["nonsense", '{"format": 99}', '{"format": 1, "datasets": {"events": {"x": 1}}}'])
def test_an_unreadable_cursor_is_treated_as_a_missing_cursor(watched, cursor) -> None:
    watched.fill(4)
    watched.cursors["compact"] = cursor
    assert len(watched.tick()) == 1
    assert json.loads(watched.cursors["compact"])["datasets"]["events"]["version"] == 4


def test_a_tick_for_an_unchanged_dataset_needs_one_listing(watched, monkeypatch) -> None:
    watched.fill(3)
    watched.tick()
    read = []
    store_type = type(lance_core.dataset(watched.uri()).log.store)
    for method in ("get", "get_ranges", "list", "list_names", "list_recursive"):
        real = getattr(store_type, method)
        monkeypatch.setattr(
            store_type, method, lambda *given, _real=real, _name=method: read.append(_name) or _real(*given)
        )
    watched.tick()
    assert read == ["list_names"]
    watched.fill(1)
    read.clear()
    watched.tick()
    assert read == ["list_names", "get"]


def age(uri: str, version: int, seconds: float) -> None:
    log = lance_core.dataset(uri).log
    (name,) = [name for name in log.newer_than(0) if name.version == version]
    moment = time.time() - seconds
    os.utime(log.path(name), (moment, moment))


def index_fragments(uri: str, *fragment_ids: int, name: str = "id_idx") -> None:
    """Record an index that covers some fragments, as a query engine does; there are no files."""
    index = lance_core.Index(
        uuid=str(uuid.uuid4()),
        name=name,
        fields=[0],
        dataset_version=lance_core.dataset(uri).version,
        fragment_ids=fragment_ids,
        index_version=0,
        index_details=("/lance.table.BTreeIndexDetails", b""),
    )
    dataset = lance_core.dataset(uri)
    lance_core.LanceDataset.commit(uri, LanceOperation.CreateIndex([index], []), read_version=dataset.version)


def test_an_index_update_is_requested_once_enough_rows_are_not_indexed(watched) -> None:
    watched.fill(1)
    watched.skip("events: no indices", "optimize_indices")
    index_fragments(watched.uri(), 0)
    watched.skip("events: 1 index up to date", "optimize_indices")
    watched.fill(2)
    reason = "id_idx: 16 unindexed rows < 20, 2 unindexed fragments < 4"
    watched.skip(f"events: {reason}", "optimize_indices")
    watched.skip(f"events: version 4 unchanged: {reason}", "optimize_indices")
    watched.fill(1)
    (request,) = watched.tick("optimize_indices")
    assert request.job_name == "events__optimize_indices"
    assert request.run_key.startswith(f"events:optimize_indices:5:{POLICY.digest()}:")
    assert request.tags["lance/reason"] == "id_idx: 24 unindexed rows >= 20"
    assert watched.tick("optimize_indices") == []


def test_an_index_update_is_requested_once_enough_fragments_are_not_indexed(watched) -> None:
    watched.fill(1)
    index_fragments(watched.uri(), 0)
    watched.fill(4, rows=1)
    (request,) = watched.tick("optimize_indices")
    assert request.tags["lance/reason"] == "id_idx: 4 unindexed fragments >= 4"


def test_a_declared_index_is_requested_once_the_dataset_has_enough_rows(watched) -> None:
    watched.fill(1)
    watched.skip("events: no indices", "optimize_indices")
    watched.indices = (IndexDeclaration(column="id", type=IndexType.BTREE, min_rows=10),)
    watched.skip("events: no indices; id_idx is not built yet: 8 rows < 10", "optimize_indices")
    watched.fill(1)
    (request,) = watched.tick("optimize_indices")
    assert request.tags["lance/reason"] == "id_idx: BTREE on id is declared, but not built"


def ticks_of_all(watched: Watched, status: dg.DefaultSensorStatus, **running: bool | None) -> dict[str, dict[str, str]]:
    """Tick every sensor that requests maintenance, and return by sensor and dataset what it requested or skipped."""
    declarations = [
        DatasetDeclaration(key=name, uri=watched.uri(name), maintenance=replace(POLICY, running=says))
        for name, says in running.items()
    ]
    jobs = [make_job(f"{name}__{op}") for name in running for op in KINDS]
    results = {}
    for sensor in build_sensors(declarations, jobs, namespace="lance", maintenance_status=status)[1:]:
        with dg.build_sensor_context(instance=watched.instance) as context:
            data = sensor.evaluate_tick(context)
        skipped = re.split(r"; (?=\w+: )", data.skip_message) if data.skip_message else []
        reasons = dict(part.split(": ", 1) for part in skipped)
        requests = {request.tags["lance/dataset"]: "requested" for request in data.run_requests}
        results[sensor.name] = reasons | requests
    return results


def test_running_settings_of_policies_determine_which_datasets_the_sensors_maintain(watched) -> None:
    names = ("on", "silent", "off")
    for name in names:
        watched.fill(4, name=name)
        lance.dataset(watched.uri(name)).delete("id < 4")
    running = dict(zip(names, (True, None, False), strict=True))
    stopped, started = dg.DefaultSensorStatus.STOPPED, dg.DefaultSensorStatus.RUNNING

    def maintained(status: dg.DefaultSensorStatus, *chosen: str) -> dict[str, set[str]]:
        found = ticks_of_all(watched, status, **{name: running[name] for name in chosen})
        return {sensor: {name for name, text in each.items() if text == "requested"} for sensor, each in found.items()}

    rewriting = ("lance_compaction_sensor", "lance_deletion_sensor", "lance_cleanup_sensor")
    for status, chosen, expected in (
        (stopped, names, {"on"}),
        (started, names, {"on", "silent"}),
        (stopped, ("silent", "off"), {"silent"}),
        (started, ("silent", "off"), {"silent"}),
        (stopped, ("off",), set()),
    ):
        found = maintained(status, *chosen)
        assert {sensor: found[sensor] for sensor in rewriting} == dict.fromkeys(rewriting, expected), (status, chosen)


def test_a_sensor_says_why_it_does_not_maintain_a_dataset(watched) -> None:
    stopped = dg.DefaultSensorStatus.STOPPED
    found = ticks_of_all(watched, stopped, on=True, silent=None, off=False)
    assert found["lance_index_sensor"] == {
        "on": "the dataset does not exist yet",
        "silent": "not maintained by sensors, because only other datasets set running=True (to maintain all datasets, "
        "set maintenance_status=RUNNING)",
        "off": "not maintained by sensors, because its policy sets running=False",
    }


def test_no_index_update_is_requested_if_the_index_policy_is_disabled(watched) -> None:
    watched.policy = MaintenancePolicy(indices=None)
    watched.indices = (IndexDeclaration(column="id", type=IndexType.BTREE),)
    watched.fill(1)
    watched.skip("events: index maintenance is disabled", "optimize_indices")


def test_index_update_waits_for_a_compaction_of_the_same_dataset(watched) -> None:
    watched.fill(1)
    watched.indices = (IndexDeclaration(column="id", type=IndexType.BTREE),)
    run_id = watched.start_run("compact")
    assert watched.tick("optimize_indices") == []
    assert run_id in watched.reason
    watched.end_run(run_id)
    assert len(watched.tick("optimize_indices")) == 1


@pytest.mark.parametrize("op", ["compact", "materialize_deletions"])
def test_a_table_that_defers_the_remapping_of_its_indices_is_not_rewritten(watched, op) -> None:
    """The job would fail; the sensor says what to do, and requests a run as soon as this is done."""
    watched.fill(4)
    lance.dataset(watched.uri()).create_scalar_index("id", "BTREE")
    lance.dataset(watched.uri()).optimize.compact_files(defer_index_remap=True)
    watched.fill(4)
    lance.dataset(watched.uri()).delete("id < 4")
    version = lance_core.dataset(watched.uri()).version
    problem = (
        f"but version {version} cannot be compacted: a compaction by pylance deferred the remapping of indices. "
        "Rebuild every index with pylance (create_index or create_scalar_index, replace=True), then call "
        "drop_index('__lance_frag_reuse')"
    )
    assert watched.tick(op) == []
    first = watched.reason
    assert first.endswith(problem)
    assert watched.tick(op) == []
    assert watched.reason == first.replace("events: ", f"events: version {version} unchanged: ")
    lance.dataset(watched.uri()).create_scalar_index("id", "BTREE", replace=True)
    lance.dataset(watched.uri()).drop_index("__lance_frag_reuse")
    assert len(watched.tick(op)) == 1


def test_index_sensor_reports_the_missing_package_until_pylance_is_installed(watched, monkeypatch) -> None:
    watched.fill(1)
    watched.indices = (IndexDeclaration(column="id", type=IndexType.BTREE),)
    with monkeypatch.context() as patch:
        patch.setattr(pylance_indices, "_MODULE", "no_such_module")
        for _ in range(2):
            watched.skip(
                "events: id_idx: BTREE on id is declared, but not built, but the package pylance is not installed: "
                "pip install 'lance-pipelines[pylance]'",
                "optimize_indices",
            )
    assert len(watched.tick("optimize_indices")) == 1
