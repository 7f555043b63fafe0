"""The asset ``maintenance/<dataset>``: what a run did and cost, and that silence is a failure."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from dagster._core.definitions.freshness import FreshnessState
from dagster._core.definitions.freshness_evaluator import TimeWindowFreshnessPolicyEvaluator
from dagster._core.loader import LoadingContextForTest
from dagster._core.test_utils import freeze_time

import lance_core
from lance_core.errors import InvalidInputError
from lance_pipelines import cli
from lance_pipelines.automation import on_new_data
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.jobs import job_name, request_config
from lance_pipelines.maintenance.history import read_history
from lance_pipelines.maintenance.policy import CompactionPolicy, MaintenancePolicy
from lance_pipelines.ops import rewrite_fragments
from tests.dagster.conftest import CommandLine
from tests.dagster.test_maintenance_jobs import CONFIGS, EVENTS, MAINTENANCE, OPERATIONS, materialized, numbers
from tests.support.local_rewriting import write_fragments
from tests.support.no_spark import NoSpark, rewrite_without_session


@dataclass
class Upkeep:
    """A dataset ``events`` of four fragments of ten rows, and its jobs."""

    uri: str
    instance: dg.DagsterInstance
    history: str | None = None

    def definitions(self, **policy: Any) -> dg.Definitions:
        maintenance = MaintenancePolicy(compaction=CompactionPolicy(target_rows_per_fragment=100), **policy)
        declaration = DatasetDeclaration(key="events", uri=self.uri, maintenance=maintenance, history=self.history)
        return build_definitions([declaration], spark=NoSpark())

    def run(self, operation: str, **config: Any) -> dg.ExecuteInProcessResult:
        return (
            self.definitions()
            .resolve_job_def(job_name(operation, "events"))
            .execute_in_process(
                run_config=request_config(operation, **CONFIGS[operation], **config),
                instance=self.instance,
                raise_on_error=False,
            )
        )

    def recorded(self, operation: str, **config: Any) -> dict[str, Any]:
        (event,) = materialized(self.run(operation, **config), MAINTENANCE)
        return numbers(event) | {"description": event.description, "op": event.tags["lance/op"]}


@pytest.fixture
def upkeep(tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Upkeep:
    monkeypatch.setattr(rewrite_fragments, "rewrite_tasks", rewrite_without_session)
    upkeep = Upkeep(str(tmp_path / "events.lance"), instance)
    write_fragments(upkeep.uri, 4)
    return upkeep


def stored(uri: str) -> tuple[int, int]:
    """Return the number and the size of all files of a dataset."""
    sizes = [path.stat().st_size for path in Path(uri).rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def test_a_compaction_records_its_effects_and_its_costs(upkeep) -> None:
    bytes_before = sum(path.stat().st_size for path in Path(upkeep.uri, "data").iterdir())
    recorded = upkeep.recorded("compact")
    (file,) = lance_core.dataset(upkeep.uri).get_fragments()[0].metadata.files
    expected = {
        "op": "compact",
        "description": "compact: 4 → 1 fragment, v6",
        "lance/version": 6,
        "lance/read_version": 4,
        "lance/fragments_before": 4,
        "lance/fragments_after": 1,
        "lance/files_before": 4,
        "lance/files_after": 1,
        "lance/bytes_before": bytes_before,
        "lance/bytes_after": file.file_size_bytes,
        "lance/bytes_saved": bytes_before - file.file_size_bytes,
        "lance/bytes_written": file.file_size_bytes,
        "lance/bytes_reclaimed": 0,
        "lance/has_changed": True,
        "lance/conflicts": 0,
    }
    assert {key: recorded[key] for key in expected} == expected
    assert 0 < recorded["lance/cpu_seconds"] < 600
    assert 0 < recorded["lance/seconds"] < 600


def test_a_cleanup_records_the_files_and_bytes_that_it_freed(upkeep) -> None:
    upkeep.run("compact")
    before = stored(upkeep.uri)
    recorded = upkeep.recorded("cleanup")
    after = stored(upkeep.uri)
    assert (recorded["lance/files_before"], recorded["lance/bytes_before"]) == before
    assert (recorded["lance/files_after"], recorded["lance/bytes_after"]) == after
    assert recorded["lance/bytes_saved"] == recorded["lance/bytes_reclaimed"] == before[1] - after[1] > 0


def test_a_delete_records_its_version_and_its_predicate(upkeep) -> None:
    recorded = upkeep.recorded("delete_rows")
    assert (recorded["lance/version"], recorded["lance/predicate"], recorded["op"]) == (5, "id < 15", "delete_rows")
    assert (recorded["lance/fragments_before"], recorded["lance/fragments_after"]) == (4, 3)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_run_with_nothing_to_do_is_recorded_as_having_changed_nothing(upkeep, operation) -> None:
    assert upkeep.run(operation).success
    recorded = upkeep.recorded(operation)
    assert recorded["lance/has_changed"] is False
    assert recorded["op"] == operation
    assert recorded["lance/version"] == lance_core.dataset(upkeep.uri).version
    assert recorded["lance/bytes_before"] == recorded["lance/bytes_after"] > 0
    assert recorded["lance/bytes_saved"] == recorded["lance/bytes_written"] == 0
    assert "nothing to do" in recorded["description"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_dry_run_and_a_failed_run_do_not_count_as_maintenance(upkeep, operation) -> None:
    assert not materialized(upkeep.run(operation, dry_run=True), MAINTENANCE)
    failed = upkeep.run(operation, uri=f"{upkeep.uri}-missing")
    assert not failed.success
    assert not materialized(failed, MAINTENANCE)


def test_maintenance_triggers_no_automation_condition_of_downstream_assets(upkeep) -> None:
    @dg.asset(deps=[EVENTS], automation_condition=on_new_data())
    def careful() -> None: ...

    @dg.asset(deps=[EVENTS], automation_condition=dg.AutomationCondition.eager())
    def eager() -> None: ...

    @dg.asset(key=EVENTS)
    def events() -> None: ...

    defs = dg.Definitions.merge(dg.Definitions(assets=[careful, eager, events]), upkeep.definitions())
    cursor = None

    def requested() -> int:
        nonlocal cursor
        result = dg.evaluate_automation_conditions(
            defs, upkeep.instance, cursor=cursor, asset_selection=dg.AssetSelection.all()
        )
        cursor = result.cursor
        return result.total_requested

    assert dg.materialize([events, careful, eager], instance=upkeep.instance).success
    requested()
    assert requested() == 0
    for operation in ("compact", "cleanup", "cleanup"):
        assert materialized(upkeep.run(operation), MAINTENANCE)
        assert requested() == 0
    assert materialized(upkeep.run("delete_rows"))
    assert requested() == 2


def freshness(upkeep: Upkeep, at: float, **policy: Any) -> FreshnessState:
    """Evaluate the policy as Dagster's daemon does, at this time."""
    node = upkeep.definitions(**policy).resolve_asset_graph().get(MAINTENANCE)
    with freeze_time(at):
        evaluation = TimeWindowFreshnessPolicyEvaluator().evaluate_freshness(
            LoadingContextForTest(upkeep.instance), node
        )
        return asyncio.run(evaluation)


def test_freshness_policy_fails_when_maintenance_is_overdue_and_passes_after_a_run_with_nothing_to_do(upkeep) -> None:
    day = timedelta(days=1).total_seconds()
    now = time.time()
    assert freshness(upkeep, now) is FreshnessState.UNKNOWN
    upkeep.run("cleanup")
    upkeep.run("cleanup")
    now = time.time()
    assert freshness(upkeep, now) is FreshnessState.PASS
    assert freshness(upkeep, now + 7 * day) is FreshnessState.PASS
    assert freshness(upkeep, now + 8 * day) is FreshnessState.FAIL
    assert freshness(upkeep, now + 2 * day, overdue_after=timedelta(days=1)) is FreshnessState.FAIL


def test_overdue_after_with_the_value_none_declares_no_freshness_policy(upkeep) -> None:
    node = upkeep.definitions(overdue_after=None).resolve_asset_graph().get(MAINTENANCE)
    assert node.freshness_policy is None


@pytest.mark.parametrize("seconds", [0, 59])
def test_overdue_after_with_a_value_below_one_minute_is_refused(seconds) -> None:
    with pytest.raises(InvalidInputError, match=f"overdue_after must be at least one minute, found 0:00:{seconds:02}"):
        MaintenancePolicy(overdue_after=timedelta(seconds=seconds))


def test_a_dataset_with_the_key_of_a_maintenance_asset_is_refused(tmp_path) -> None:
    declared = [DatasetDeclaration(key=key, uri=str(tmp_path)) for key in ("events", "maintenance/events")]
    with pytest.raises(InvalidInputError, match="maintenance asset of dataset events has the key of another dataset"):
        build_definitions(declared)


@pytest.fixture
def logged(upkeep: Upkeep, tmp_path: Path) -> Upkeep:
    """The dataset with a history."""
    upkeep.history = str(tmp_path / "history.lance")
    return upkeep


def test_every_run_adds_one_entry_with_its_outcome_to_the_history(logged) -> None:
    runs = [logged.run("compact"), logged.run("compact"), logged.run("cleanup", uri=f"{logged.uri}-missing")]
    assert [run.success for run in runs] == [True, True, False]
    failed, idle, compacted = read_history(logged.history)
    assert [each.run_id for each in (compacted, idle, failed)] == [run.run_id for run in runs]
    assert (compacted.outcome, compacted.job, compacted.dataset) == ("changed", "compact", "events")
    assert (compacted.version_before, compacted.version_after, compacted.fragments_after) == (4, 6, 1)
    assert (compacted.rows_before, compacted.rows_after, compacted.uri) == (40, 40, logged.uri)
    assert compacted.message == "compact: 4 → 1 fragment, v6"
    assert json.loads(compacted.details)["lance/commit_attempts"] == 1
    assert compacted.cpu_seconds > 0
    assert compacted.seconds > 0
    assert (idle.outcome, idle.version_before, idle.version_after) == ("nothing to do", 6, 6)
    assert (failed.outcome, failed.job, failed.version_before) == ("failed", "cleanup", None)
    assert failed.message == f"events: no dataset exists at {logged.uri}-missing [DatasetNotFoundError]"


def test_a_dry_run_writes_no_history(logged) -> None:
    assert logged.run("compact", dry_run=True).success
    assert not Path(logged.history).exists()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_history_that_cannot_be_written_causes_a_warning_and_the_run_succeeds(logged, operation) -> None:
    lance_core.write_dataset(pa.table({"id": [1]}), logged.history)
    result = logged.run(operation)
    assert result.success
    assert materialized(result, MAINTENANCE)
    logs = logged.instance.all_logs(result.run_id)
    (warning,) = [entry.user_message for entry in logs if entry.level == logging.WARNING]
    assert warning.startswith(f"events: could not update the history {logged.history}: ")
    assert lance_core.dataset(logged.history).version == 1


def test_the_history_command_prints_the_recorded_runs(logged, monkeypatch) -> None:
    logged.run("compact")
    logged.run("delete_rows")
    shown = CliRunner().invoke(cli.main, ["history", logged.history, "--dataset", "events", "--job", "delete-rows"])
    assert shown.exit_code == 0, shown.output
    _, line, total = shown.output.splitlines()
    assert line.split()[2:5] == ["events", "delete_rows", "changed"]
    assert total.startswith("1 run: 0 bytes reclaimed, ")
    monkeypatch.setenv("LANCE_PIPELINES_WAREHOUSE", f"{logged.uri}-missing")
    missing = CliRunner().invoke(cli.main, ["history"])
    assert missing.exit_code == 1
    assert missing.output == f"Error: no dataset exists at {logged.uri}-missing/maintenance_history.lance\n"


def test_a_history_at_the_location_of_its_dataset_is_refused(tmp_path) -> None:
    with pytest.raises(InvalidInputError, match="the history must have a location other than that of the dataset"):
        DatasetDeclaration(key="events", uri=str(tmp_path), history=f"{tmp_path}/")


@pytest.mark.slow
def test_the_cpu_times_of_steps_in_different_processes_are_added(
    command_line: Callable[..., CommandLine], tmp_path
) -> None:
    uri, home = str(tmp_path / "events.lance"), tmp_path / "home"
    write_fragments(uri, 4)
    done = command_line(home).cleanup_in_processes(uri, **CONFIGS["cleanup"])
    assert done.returncode == 0, done.stderr
    with dg.DagsterInstance.from_config(str(home)) as instance:
        (record,) = instance.fetch_materializations(MAINTENANCE, limit=2).records
        steps = instance.all_logs(record.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT)
    (planned,) = [
        output.step_output_data.metadata["lance/cpu_seconds"].value
        for output in (entry.get_dagster_event() for entry in steps)
        if "lance/cpu_seconds" in output.step_output_data.metadata
    ]
    # The second step imports this library in a process of its own, which takes longer than a tenth of a second.
    assert record.asset_materialization.metadata["lance/cpu_seconds"].value > planned + 0.1 > 0.1
