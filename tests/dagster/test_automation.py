"""``on_new_data`` triggers downstream runs for every data change, and for nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import lance
import pyarrow as pa
import pytest
from dagster._core.events import AssetMaterializationPlannedData

import lance_core
from lance_pipelines.automation import on_new_data
from lance_pipelines.events.commit_events import EXTERNAL_WRITER, dataset_materialization, dataset_observation
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.instance_storage import LockedSqliteStorage
from lance_pipelines.settings import SETTLE_VARIABLE

EVENTS = dg.AssetKey("events")


@dg.asset(name="events")
def events_asset() -> None:
    """Represents a dataset whose events the tests report."""


@dg.asset(deps=["events"], automation_condition=on_new_data())
def report() -> None:
    """Reads the dataset."""


@dataclass
class Automated:
    """A dataset, an asset downstream of it, and the automation between them."""

    instance: dg.DagsterInstance
    uri: str

    def __post_init__(self) -> None:
        self.cursor = None
        self.defs = dg.Definitions(assets=[events_asset, report])

    def append(self) -> int:
        return lance_core.write_dataset(pa.table({"id": [1, 2]}), self.uri, mode="append").version

    def arguments(self, op: str, version: int) -> dict:
        return {"dataset": "events", "uri": self.uri, "op": op, "report_metadata": {}, "version": version}

    def change(self) -> None:
        """Report new rows as the run that wrote them does."""
        event = dataset_materialization(**self.arguments("ingest", self.append()))
        self.instance.report_runless_asset_event(event)

    def run_downstream(self) -> None:
        assert dg.materialize([events_asset, report], selection=[report], instance=self.instance).success

    def tick(self) -> int:
        """Return the number of downstream runs that a tick requests, after executing them."""
        requested = self.evaluate()
        if requested:
            self.run_downstream()
        return requested

    def evaluate(self) -> int:
        """Return the number of downstream runs that a tick requests."""
        result = dg.evaluate_automation_conditions(
            defs=self.defs, instance=self.instance, cursor=self.cursor, asset_selection=dg.AssetSelection.all()
        )
        self.cursor = result.cursor
        return result.total_requested


@pytest.fixture
def automated(instance: dg.DagsterInstance, tmp_path: Path) -> Automated:
    """A dataset whose first version has been processed by the downstream asset."""
    automated = Automated(instance, str(tmp_path / "events.lance"))
    automated.change()
    automated.run_downstream()
    automated.tick()
    assert automated.tick() == 0
    return automated


def test_rows_written_by_a_run_of_the_project_trigger_one_downstream_run(automated) -> None:
    for _ in range(2):
        automated.change()
        assert [automated.tick(), automated.tick()] == [1, 0]


def test_rows_written_by_an_external_writer_trigger_a_downstream_run(automated) -> None:
    version = automated.append()
    event = dataset_materialization(
        **automated.arguments("append", version),
        data_version=data_version_at(automated.uri, version),
        writer=EXTERNAL_WRITER,
    )
    automated.instance.report_runless_asset_event(event)
    assert [automated.tick(), automated.tick()] == [1, 0]


def test_deleted_rows_trigger_a_downstream_run(automated) -> None:
    lance.dataset(automated.uri).delete("id = 1")
    automated.instance.report_runless_asset_event(dataset_materialization(**automated.arguments("delete_rows", 2)))
    assert [automated.tick(), automated.tick()] == [1, 0]


def test_maintenance_triggers_no_downstream_run(automated) -> None:
    automated.change()
    assert automated.tick() == 1
    lance.dataset(automated.uri).optimize.compact_files()
    compacted = lance_core.dataset(automated.uri).version
    for op in ("compact", "materialize_deletions", "cleanup"):
        event = dataset_observation(**automated.arguments(op, compacted))
        automated.instance.report_runless_asset_event(event)
        assert [automated.tick(), automated.tick()] == [0, 0]


def test_the_same_data_reported_again_triggers_no_downstream_run(automated) -> None:
    """An ingest without new rows is a materialization with an unchanged data version."""
    automated.instance.report_runless_asset_event(dataset_materialization(**automated.arguments("ingest", 1)))
    assert [automated.tick(), automated.tick()] == [0, 0]


def test_each_of_several_consecutive_changes_triggers_a_run_at_the_next_tick(automated) -> None:
    for _ in range(3):
        automated.change()
        assert automated.tick() == 1
    assert automated.tick() == 0


def test_a_change_after_the_request_triggers_another_downstream_run(automated) -> None:
    """The run may have read its input already."""
    automated.change()
    assert automated.evaluate() == 1
    automated.change()
    automated.run_downstream()
    assert [automated.tick(), automated.tick()] == [1, 0]


def test_a_change_during_a_run_triggers_another_run_afterward(automated) -> None:
    automated.change()
    assert automated.evaluate() == 1
    job = automated.defs.resolve_implicit_global_asset_job_def()
    run = automated.instance.create_run_for_job(
        job, asset_selection=frozenset({report.key}), status=dg.DagsterRunStatus.STARTED
    )
    automated.instance.report_engine_event("under way", run)
    automated.instance.report_dagster_event(
        dg.DagsterEvent.build_asset_materialization_planned_event(
            job.name, "report", AssetMaterializationPlannedData(report.key)
        ),
        run.run_id,
    )
    automated.change()
    assert [automated.evaluate(), automated.evaluate()] == [0, 0]
    automated.instance.report_run_failed(run)
    assert [automated.tick(), automated.tick()] == [1, 0]


def test_several_changes_between_two_ticks_trigger_one_run(automated) -> None:
    for _ in range(3):
        automated.change()
    assert [automated.tick(), automated.tick()] == [1, 0]


@pytest.mark.parametrize("num_changes", [1, 2])
def test_changes_recorded_while_a_tick_begins_trigger_one_run(automated, tmp_path, monkeypatch, num_changes) -> None:
    """The version sensor reports after a tick notes the end of the event log and before it reads the events."""
    monkeypatch.setenv(SETTLE_VARIABLE, "")
    monkeypatch.delenv(SETTLE_VARIABLE)
    LockedSqliteStorage.from_local(str(tmp_path / "instance"))
    events = automated.instance.event_log_storage
    noted = events.get_maximum_record_id
    pending = list(range(num_changes))

    def note_and_let_others_record() -> int | None:
        latest = noted()
        while pending:
            pending.pop()
            automated.change()
        return latest

    monkeypatch.setattr(events, "get_maximum_record_id", note_and_let_others_record)
    assert sum(automated.tick() for _ in range(4)) == 1


def test_an_asset_missing_at_the_first_tick_runs_only_after_the_next_change(instance, tmp_path) -> None:
    automated = Automated(instance, str(tmp_path / "events.lance"))
    automated.change()
    assert [automated.tick(), automated.tick()] == [0, 0]
    automated.change()
    assert [automated.tick(), automated.tick()] == [1, 0]


def test_all_downstream_assets_of_a_chain_are_updated_in_one_run(instance, tmp_path) -> None:
    """A change triggers one run of the entire chain, not one run for each asset."""

    @dg.asset(deps=[report], automation_condition=on_new_data())
    def summary() -> None:
        """Reads the report."""

    automated = Automated(instance, str(tmp_path / "events.lance"))
    automated.defs = dg.Definitions(assets=[events_asset, report, summary])
    automated.evaluate()
    automated.change()
    assert automated.evaluate() == 2
    run = automated.defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=[report.key, summary.key]
    )
    assert run.success
    assert [automated.evaluate(), automated.evaluate()] == [0, 0]


def test_the_automation_condition_is_labeled_with_its_function_name() -> None:
    assert on_new_data().get_label() == "on_new_data"
