"""The maintenance jobs, executed in process: commits, records in Dagster, dry runs, repeated runs, and failures."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import StorageError
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.jobs import job_name, request_config
from lance_pipelines.maintenance.policy import CompactionPolicy, MaintenancePolicy
from lance_pipelines.maintenance.rewrite_commit import Rewritten
from lance_pipelines.ops import commit_rewrites, commit_step, delete_rows, rewrite_fragments
from lance_pipelines.ops import progress as progress_module
from lance_pipelines.progress import ProgressLines
from lance_pipelines.resources.spark import SPARK_RESOURCE, SparkResource
from lance_pipelines.runs.dead_runs import MACHINE_TAG, PROCESS_TAG, machine
from tests.support.local_rewriting import ids, rewrite_locally, write_fragments
from tests.support.no_spark import NoSession, rewrite_without_session

EVENTS = dg.AssetKey("events")
MAINTENANCE = dg.AssetKey(["maintenance", "events"])
OPERATIONS = ("compact", "materialize_deletions", "cleanup", "delete_rows")
STEPS = {
    "compact": ["plan_rewrites", "rewrite_fragments", "commit_rewrites"],
    "materialize_deletions": ["plan_rewrites", "rewrite_fragments", "commit_rewrites"],
    "cleanup": ["plan_cleanup", "remove_old_versions"],
    "delete_rows": ["plan_delete", "delete_rows"],
}
CONFIGS: dict[str, dict[str, Any]] = {
    "compact": {},
    "materialize_deletions": {"threshold": 0.0},
    "cleanup": {"older_than": "0", "min_age": "0", "retain_versions": 1},
    "delete_rows": {"predicate": "id < 15"},
}


@dataclass
class Session(NoSession):
    """Counts the sessions that were started."""

    starts: int = 0


SESSION = Session()


class CountedSpark(SparkResource):
    @property
    def spark_session(self) -> Any:
        SESSION.starts += 1
        return SESSION


@dataclass
class Lake:
    """A dataset ``events`` and its jobs; the target of its policy is nineteen rows per fragment."""

    uri: str
    instance: dg.DagsterInstance

    def declaration(self, name: str = "events") -> DatasetDeclaration:
        return DatasetDeclaration(
            key=name,
            uri=str(Path(self.uri).with_stem(name)),
            source=FileSource(format=SourceFormat.ENVIRONMENT),
            maintenance=MaintenancePolicy(compaction=CompactionPolicy(target_rows_per_fragment=19)),
        )

    def definitions(self, *names: str) -> dg.Definitions:
        return build_definitions(
            declarations=[self.declaration(name) for name in names or ("events",)],
            spark=CountedSpark(),
        )

    def job(self, operation: str) -> dg.JobDefinition:
        return self.definitions().resolve_job_def(job_name(operation, "events"))

    def run(self, operation: str, **config: Any) -> dg.ExecuteInProcessResult:
        values = {**CONFIGS[operation], **config}
        return self.job(operation).execute_in_process(
            run_config=request_config(operation, **values), instance=self.instance, raise_on_error=False
        )

    def version(self) -> int:
        return lance_core.dataset(self.uri).version


@pytest.fixture
def lake(tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Four fragments of ten rows, of which rows 1 and 21 are deleted."""

    SESSION.starts = 0
    monkeypatch.setattr(rewrite_fragments, "rewrite_tasks", rewrite_without_session)
    retries = commit_step.COMMIT_RETRIES.max_retries
    monkeypatch.setattr(commit_step, "COMMIT_RETRIES", dg.RetryPolicy(max_retries=retries))
    lake = Lake(str(tmp_path / "lake" / "events.lance"), instance)
    write_fragments(lake.uri, 4).delete("id IN (1, 21)")
    return lake


def executed(result: dg.ExecuteInProcessResult) -> list[str]:
    return [event.step_key for event in result.all_events if event.event_type_value == "STEP_START"]


def observation(result: dg.ExecuteInProcessResult) -> dg.AssetObservation:
    (event,) = result.get_asset_observation_events()
    assert not materialized(result)
    return event.asset_observation_data.asset_observation


def materialized(result: dg.ExecuteInProcessResult, key: dg.AssetKey = EVENTS) -> list[dg.AssetMaterialization]:
    events = result.get_asset_materialization_events()
    return [event.materialization for event in events if event.asset_key == key]


def numbers(event: dg.AssetObservation | dg.AssetMaterialization) -> dict[str, Any]:
    details = event.metadata["lance/details"].value
    return {f"lance/{key}": value for key, value in details.items()} | {
        key: value.value for key, value in event.metadata.items()
    }


def headline(result: dg.ExecuteInProcessResult) -> str:
    assert not result.success
    (event,) = result.get_step_failure_events()
    return event.step_failure_data.user_failure_data.description


def files(uri: str) -> dict[str, bytes]:
    return {str(path.relative_to(uri)): path.read_bytes() for path in Path(uri).rglob("*") if path.is_file()}


def rows(*deleted: int) -> list[int]:
    return [number for number in range(40) if number not in {1, 21, *deleted}]


def check(uri: str, expected: list[int]) -> None:
    assert ids(uri) == expected
    for ref in lance_core.dataset(uri).version_refs():
        lance.dataset(uri, version=ref["version"]).validate()


def test_a_compaction_is_recorded_as_an_observation_with_metrics(lake, capsys) -> None:
    result = lake.run("compact")
    assert result.success
    assert executed(result) == STEPS["compact"]
    event = observation(result)
    assert event.asset_key == EVENTS
    metadata = numbers(event)
    assert event.description == f"compact: 4 → 2 fragments, 2 deleted rows dropped, v{lake.version()}"
    assert 0 < metadata["lance/seconds"] < 600
    expected = {
        "lance/fragments": 2,
        "lance/fragments_before": 4,
        "lance/fragments_removed": 4,
        "lance/fragments_added": 2,
        "lance/small_fragments": 0,
        "lance/deleted_rows": 0,
        "lance/deleted_rows_removed": 2,
        "lance/rows_rewritten": 38,
        "lance/bytes_reclaimed": 0,
        "lance/commit_attempts": 1,
        "lance/conflicts": 0,
        "lance/version": lake.version(),
        "dagster/row_count": 38,
    }
    assert {key: metadata[key] for key in expected} == expected
    assert metadata["lance/bytes_rewritten"] == metadata["lance/bytes_total"] > 0
    transaction = lance_core.dataset(lake.uri).read_transaction(lake.version())
    assert transaction.transaction_properties["dagster.run_id"] == result.run_id
    assert transaction.transaction_properties["dagster.step_key"] == "plan_rewrites"
    check(lake.uri, rows())
    out = capsys.readouterr().out
    assert out.startswith(f"events: {lake.uri} version {lake.version()}: 4 fragments (")
    assert out.count("\n") == 1


def test_maintenance_reports_the_data_version_of_the_last_data_change(lake) -> None:
    changed = lance_core.dataset(lake.uri).read_transaction(5)
    event = observation(lake.run("compact"))
    assert event.tags["dagster/data_version"] == f"5-{changed.uuid[:8]}"
    assert event.tags["lance/op"] == "compact"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_maintenance_job_repeated_right_away_does_nothing_and_succeeds(lake, capsys, operation) -> None:
    assert lake.run(operation).success
    before, version, starts = files(lake.uri), lake.version(), SESSION.starts
    capsys.readouterr()
    result = lake.run(operation)
    assert result.success
    assert executed(result) == STEPS[operation][:1]
    assert not result.get_asset_observation_events()
    assert not materialized(result)
    assert (files(lake.uri), lake.version(), SESSION.starts) == (before, version, starts)
    assert capsys.readouterr().out.startswith(f"events: {lake.uri} version {version}: nothing to do (")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_run_with_nothing_to_do_marks_dead_runs_as_failed(lake, operation) -> None:
    assert lake.run(operation).success
    gone = {MACHINE_TAG: machine(), PROCESS_TAG: f"{2**31 - 1}@1"}
    dead = lake.instance.create_run_for_job(lake.job("compact"), status=dg.DagsterRunStatus.STARTED, tags=gone)
    assert executed(lake.run(operation)) == STEPS[operation][:1]
    assert lake.instance.get_run_by_id(dead.run_id).status is dg.DagsterRunStatus.FAILURE


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_dry_run_prints_its_plan_and_changes_nothing(lake, capsys, operation) -> None:
    before = files(lake.uri)
    result = lake.run(operation, dry_run=True)
    assert result.success
    assert executed(result) == STEPS[operation][:1]
    assert files(lake.uri) == before
    assert SESSION.starts == 0
    title, *table = capsys.readouterr().out.splitlines()
    assert title.startswith(f"events: {operation} {lake.uri} version 5: ")
    assert table[0].split() == ["before", "after", "change"]
    assert any("rows" in line for line in table)
    assert any("files" in line for line in table)
    assert any("bytes" in line for line in table)
    assert table[-1] == "Dry run: nothing was changed."
    (figures,) = [event for event in result.all_events if event.event_type_value == "STEP_OUTPUT"]
    metadata = {key: value.value for key, value in figures.step_output_data.metadata.items()}
    assert metadata["lance/read_version"] == 5
    assert metadata["lance/rows"] == 38


def test_materializing_deletions_rewrites_only_fragments_with_deletions(lake) -> None:
    before = {fragment.fragment_id for fragment in lance_core.dataset(lake.uri).get_fragments()}
    metadata = numbers(observation(lake.run("materialize_deletions")))
    assert (metadata["lance/fragments_removed"], metadata["lance/deleted_rows_removed"]) == (2, 2)
    assert (metadata["lance/deleted_rows"], metadata["lance/deletion_files"]) == (0, 0)
    left = {fragment.fragment_id for fragment in lance_core.dataset(lake.uri).get_fragments()}
    assert before & left == {1, 3}
    check(lake.uri, rows())


def test_the_declared_deletion_threshold_applies_unless_another_is_given(lake) -> None:
    """One deleted row of ten does not exceed a threshold of one tenth."""
    job = lake.job("materialize_deletions")
    result = job.execute_in_process(instance=lake.instance)
    assert executed(result) == ["plan_rewrites"]
    assert executed(lake.run("materialize_deletions", threshold=0.05)) == STEPS["materialize_deletions"]


def test_a_cleanup_is_recorded_as_an_observation_with_metrics(lake) -> None:
    lance_core.dataset(lake.uri).tags.create("keep", 2)
    changed = lance_core.dataset(lake.uri).read_transaction(5)
    lake.run("compact")
    size = sum(map(len, files(lake.uri).values()))
    event = observation(lake.run("cleanup"))
    metadata = numbers(event)
    assert (metadata["lance/versions_removed"], metadata["lance/versions"]) == (5, 2)
    assert metadata["lance/bytes_reclaimed"] == size - sum(map(len, files(lake.uri).values()))
    assert metadata["lance/deletion_files_removed"] == 2
    # The version that changed the rows no longer exists, but the rows are the same.
    assert event.tags["dagster/data_version"] == f"5-{changed.uuid[:8]}"
    assert [ref["version"] for ref in lance_core.dataset(lake.uri).version_refs()] == [2, 7]
    assert ids(lake.uri, version=2) == list(range(20))
    check(lake.uri, rows())


def test_a_cleanup_by_the_declared_policy_keeps_versions_newer_than_the_retention_period(lake) -> None:
    result = lake.job("cleanup").execute_in_process(instance=lake.instance)
    assert executed(result) == ["plan_cleanup"]
    assert lake.version() == 5


def test_a_delete_is_recorded_as_a_materialization_with_a_new_data_version(lake, capsys) -> None:
    result = lake.run("delete_rows")
    (event,) = materialized(result)
    assert not result.get_asset_observation_events()
    metadata = numbers(event)
    assert (metadata["lance/rows_deleted"], metadata["dagster/row_count"], metadata["lance/version"]) == (14, 24, 6)
    assert metadata["lance/predicate"] == "id < 15"
    transaction = lance_core.dataset(lake.uri).read_transaction(6)
    assert event.tags["dagster/data_version"] == f"6-{transaction.uuid[:8]}"
    assert transaction.transaction_properties["dagster.run_id"] == result.run_id
    check(lake.uri, rows(*range(15)))
    assert capsys.readouterr().out == (
        f"events: {lake.uri} version 6: 14 rows deleted where id < 15; 24 rows remaining in 3 fragments\n"
    )


def test_a_delete_without_a_predicate_is_refused(lake) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match="predicate"):
        lake.job("delete_rows").execute_in_process(instance=lake.instance)


def test_a_delete_of_already_deleted_rows_creates_no_version(lake, capsys, monkeypatch) -> None:
    """Of two concurrent deletes of the same rows, one does nothing and reports that."""
    real = delete_rows.commit_delete

    def lose(*arguments: Any, **options: Any) -> Any:
        lance.dataset(lake.uri).delete("id < 15")
        return real(*arguments, **options)

    monkeypatch.setattr(delete_rows, "commit_delete", lose)
    result = lake.run("delete_rows")
    assert result.success
    assert executed(result) == STEPS["delete_rows"]
    assert not materialized(result)
    assert lake.version() == 6
    assert capsys.readouterr().out == (
        f"events: {lake.uri} version 6: nothing to do (no rows match id < 15; the table has 24 rows)\n"
    )


def fail_deletes(lake: Lake, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Make the store refuse to delete files with this suffix, as in a read-only directory."""
    store = type(lance_core.dataset(lake.uri).log.store)
    real = store.delete

    def delete(self: Any, path: str) -> None:
        if path.endswith(ending):
            raise StorageError(f"{path}: permission denied")
        real(self, path)

    monkeypatch.setattr(store, "delete", delete)


def test_a_cleanup_that_cannot_remove_any_file_fails(lake, monkeypatch) -> None:
    lake.run("compact")
    before = files(lake.uri)
    fail_deletes(lake, monkeypatch, "")
    result = lake.run("cleanup")
    message = headline(result)
    assert message.startswith(f"events: {lake.uri}: nothing was removed; ")
    assert " files could not be removed: " in message
    assert message.endswith(", … [StorageError]")
    assert not result.get_asset_observation_events()
    assert files(lake.uri) == before


def test_a_cleanup_that_cannot_remove_some_files_reports_their_names(lake, monkeypatch, capsys) -> None:
    lake.run("compact")
    fail_deletes(lake, monkeypatch, ".arrow")
    left = sorted(name for name in files(lake.uri) if name.endswith(".arrow"))
    assert len(left) == 2
    capsys.readouterr()
    result = lake.run("cleanup")
    assert result.success
    assert numbers(observation(result))["lance/failed_deletes"] == 2
    assert "2 files could not be removed; the next cleanup tries again" in capsys.readouterr().out
    warnings = [entry.user_message for entry in lake.instance.all_logs(result.run_id) if entry.level == logging.WARNING]
    assert f"{lake.uri}: 2 files could not be removed: {', '.join(left)}; the next cleanup tries again" in warnings
    monkeypatch.undo()
    assert {ref["version"] for ref in lance_core.dataset(lake.uri).version_refs()} > {lake.version()}


def test_a_cleanup_that_cannot_remove_manifests_reports_their_names(lake, monkeypatch) -> None:
    lake.run("compact")
    lake.run("cleanup")
    for number in (100, 101):
        lance.write_dataset(pa.table({"id": [number]}), lake.uri, mode="append")
    fail_deletes(lake, monkeypatch, ".manifest")
    report = lake.run("cleanup")
    assert report.success
    fail_deletes(lake, monkeypatch, ".manifest")
    assert "files could not be removed: _versions/" in headline(lake.run("cleanup"))


def test_the_commit_step_rewrites_again_only_groups_with_a_conflict(lake, monkeypatch) -> None:
    calls: list[int] = []

    def rewrite(session: object, uri: str, tasks: Sequence[str], **options: Any) -> Rewritten:
        calls.append(len(tasks))
        written = rewrite_locally(uri, tasks)
        if len(calls) == 1:
            lance.dataset(uri).delete("id = 35")
        return written

    monkeypatch.setattr(rewrite_fragments, "rewrite_tasks", rewrite)
    metadata = numbers(observation(lake.run("compact")))
    assert calls == [2, 1]
    assert (metadata["lance/conflicts"], metadata["lance/groups"], metadata["lance/fragments"]) == (1, 2, 2)
    check(lake.uri, rows(35))


REPORTS = {
    "compact": "dataset_observation",
    "cleanup": "dataset_observation",
    "delete_rows": "dataset_materialization",
}


@pytest.mark.parametrize("operation", ["compact", "delete_rows"])
def test_a_step_that_failed_after_its_commit_is_repeated_without_a_second_commit(lake, monkeypatch, operation) -> None:
    name = REPORTS[operation]
    real, calls = getattr(commit_step, name), []

    def report_and_fail_once(**arguments: Any) -> Any:
        calls.append(arguments["version"])
        if len(calls) == 1:
            if operation == "delete_rows":
                lance.write_dataset(pa.table({"id": [7]}), lake.uri, mode="append")
            raise StorageError("connection reset", retryable=True)
        return real(**arguments)

    monkeypatch.setattr(commit_step, name, report_and_fail_once)
    result = lake.run(operation)
    assert result.success
    assert len(calls) == 2
    assert calls[0] == calls[1]
    assert len([*result.get_asset_observation_events(), *materialized(result)]) == 1
    assert len(materialized(result, MAINTENANCE)) == 1
    check(lake.uri, rows() if operation == "compact" else sorted([7, *rows(*range(15))]))


@pytest.mark.parametrize("operation", ["compact", "delete_rows"])
def test_the_last_step_of_a_maintenance_job_can_be_repeated_alone(lake, operation) -> None:
    """As with "re-execute from failure", another run receives the same message."""
    first = lake.run(operation)
    version = lake.version()
    before_last = STEPS[operation][-2]
    message = first.output_for_node(before_last, "plan" if before_last.startswith("plan") else "result")
    build = delete_rows.build_delete_op if operation == "delete_rows" else commit_rewrites.build_rewrite_commit_op
    resources = {SPARK_RESOURCE: CountedSpark()} if operation == "compact" else {}
    with dg.build_op_context(resources=resources) as context:
        build(lake.declaration())(context, message)
    assert lake.version() == version
    check(lake.uri, rows() if operation == "compact" else rows(*range(15)))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_maintenance_job_of_a_missing_dataset_fails_with_one_message(lake, operation, tmp_path) -> None:
    nowhere = str(tmp_path / "nowhere.lance")
    result = lake.run(operation, uri=nowhere)
    assert headline(result) == f"events: no dataset exists at {nowhere} [DatasetNotFoundError]"
    assert not Path(nowhere).exists()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_maintenance_job_of_a_broken_manifest_fails_with_one_message(lake, operation) -> None:
    newest = min(Path(lake.uri, "_versions").glob("*.manifest"), key=lambda path: path.name)
    newest.write_bytes(b"not a manifest")
    message = headline(lake.run(operation))
    assert message.startswith("events: ")
    assert "\n" not in message
    assert message.endswith("Error]")


@pytest.mark.parametrize(
    ("operation", "config", "expected"),
    [
        ("compact", {"target_rows_per_fragment": 0}, "target_rows_per_fragment must be at least 1, found 0"),
        ("compact", {"threshold": 1.5}, "threshold must be at least 0 and less than 1, found 1.5"),
        ("compact", {"uri": " "}, "the URI is empty"),
        ("compact", {"uri": "~no_such_user_here/x"}, "'~no_such_user_here/x': "),
        ("compact", {"target_bytes_per_fragment": -1}, "target_bytes_per_fragment must be at least 0 (0 means no"),
        ("materialize_deletions", {"batch_size": -2}, "batch_size must be at least 0 (0 means no limit), found -2"),
        ("compact", {"max_duration": "soon"}, "'soon' is not a valid duration"),
        ("cleanup", {"older_than": "soon"}, "'soon' is not a valid duration"),
        ("cleanup", {"retain_versions": 0}, "retain_versions must be at least 1, found 0"),
        ("delete_rows", {"predicate": "id <"}, "id <"),
        ("delete_rows", {"predicate": "nowhere = 1"}, "nowhere"),
    ],
)
@pytest.mark.sampled(5)
def test_an_invalid_configuration_of_a_maintenance_job_raises_an_error_that_names_the_value(
    lake, operation, config, expected
) -> None:
    before = files(lake.uri)
    assert expected in headline(lake.run(operation, **config))
    assert files(lake.uri) == before


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_dry_run_setting_that_is_not_a_boolean_is_refused(lake, operation) -> None:
    before, config = files(lake.uri), request_config(operation, **CONFIGS[operation])
    (step,) = config["ops"].values()
    step["config"]["dry_run"] = None
    result = lake.job(operation).execute_in_process(run_config=config, instance=lake.instance, raise_on_error=False)
    expected = "events: run configuration of events: dry_run is null; expected true or false [InvalidInputError]"
    assert headline(result) == expected
    assert files(lake.uri) == before


@pytest.mark.parametrize("operation", ["compact", "materialize_deletions"])
def test_a_byte_limit_below_the_smallest_task_is_reported_and_each_run_rewrites_one_task(
    lake, capsys, operation
) -> None:
    lake.run(operation, max_source_bytes=1, dry_run=True)
    expected = r"in 1 task; the smallest task reads \d+ bytes, which is more than max_source_bytes = 1\n"
    assert re.search(expected, capsys.readouterr().out)
    for _ in range(2):
        assert executed(lake.run(operation, max_source_bytes=1)) == STEPS[operation]
    assert executed(lake.run(operation, max_source_bytes=1)) == STEPS[operation][:1]
    assert lance_core.dataset(lake.uri).count_rows() == 38


def test_a_run_that_exceeds_its_maximum_duration_rewrites_one_group_and_the_next_run_rewrites_the_rest(lake) -> None:
    first = numbers(observation(lake.run("compact", max_duration="0.001ms")))
    assert (first["lance/groups"], first["lance/groups_left"]) == (1, 1)
    second = numbers(observation(lake.run("compact", max_duration="0")))
    assert (second["lance/groups"], second["lance/groups_left"]) == (1, 0)
    assert executed(lake.run("compact")) == STEPS["compact"][:1]
    check(lake.uri, rows())


def test_every_dataset_has_a_job_for_each_maintenance_operation(lake) -> None:
    definitions = lake.definitions("events", "trips")
    dg.Definitions.validate_loadable(definitions)
    for name in ("events", "trips"):
        for operation in OPERATIONS:
            job = definitions.resolve_job_def(job_name(operation, name))
            assert {key: job.tags[key] for key in ("lance/dataset", "lance/op")} == {
                "lance/dataset": name,
                "lance/op": operation,
            }
            assert [node.name for node in job.nodes_in_topological_order] == STEPS[operation]
            pools = {node.name: node.definition.pool for node in job.nodes}
            assert pools == {
                step: f"lance__{name}" if step == STEPS[operation][-1] else None for step in STEPS[operation]
            }
    assert {job.name for job in definitions.resolve_all_job_defs()} >= {
        "events__compact",
        "trips__compact",
        "trips__delete_rows",
    }


def test_a_run_without_a_configuration_follows_the_declared_policy(lake) -> None:
    result = lake.job("compact").execute_in_process(instance=lake.instance)
    assert numbers(observation(result))["lance/fragments"] == 2


def test_long_steps_log_their_progress_and_short_ones_do_not(lake, monkeypatch) -> None:
    short = lake.run("cleanup")
    monkeypatch.setattr(progress_module, "ProgressLines", partial(ProgressLines, interval_seconds=0))
    lake.run("compact")
    long = lake.run("cleanup")
    logged = [
        [entry.user_message for entry in lake.instance.all_logs(run.run_id) if "removing files" in entry.user_message]
        for run in (short, long)
    ]
    assert logged[0] == []
    assert re.fullmatch(r"removing files: (\d+) of \1 files, (\S+ \S+) of \2, 100%, 0 seconds so far", logged[1][-1])
