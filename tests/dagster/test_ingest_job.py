"""The ingest job, executed in process: what is committed, what Dagster records, and what a failure looks like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitOutcomeUnknownError, NotFoundError, StorageError
from lance_pipelines.events import committed_write as committed_module
from lance_pipelines.events.asset_metadata import event_value
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ops import commit_fragments as commit_module
from lance_pipelines.ops import write_fragments as write_module
from lance_pipelines.spark.staging import Staging

EVENTS = dg.AssetKey("events")


@pytest.fixture(autouse=True)
def _retries_without_waiting(monkeypatch) -> None:
    policy = dg.RetryPolicy(max_retries=commit_module.COMMIT_RETRIES.max_retries)
    monkeypatch.setattr(commit_module, "COMMIT_RETRIES", policy)


def materialization(result: dg.ExecuteInProcessResult) -> dg.AssetMaterialization:
    (event,) = result.get_asset_materialization_events()
    return event.materialization


def failure(result: dg.ExecuteInProcessResult) -> dg.StepFailureData:
    (event,) = result.get_step_failure_events()
    return event.step_failure_data


def test_an_ingest_run_creates_one_version_and_one_materialization(project, instance) -> None:
    result = project.run(instance)
    assert result.success
    dataset = lance_core.dataset(project.uri)
    assert (dataset.version, dataset.count_rows()) == (1, 3)
    assert materialization(result).asset_key == EVENTS


def test_the_materialization_shows_the_created_version(project, instance) -> None:
    project.run(instance)
    event = materialization(project.run(instance))
    metadata = {key: value.value for key, value in event.metadata.items()}
    transaction = lance_core.dataset(project.uri).read_transaction(2)
    numbers = {
        "dagster/row_count": 4,
        "lance/version": 2,
        "lance/fragments": 2,
        "lance/rows_written": 1,
    }
    assert {key: metadata[key] for key in numbers} == numbers
    assert metadata["lance/summary"] == "append: +1 row, v2"
    assert metadata["lance/bytes_total"] > metadata["lance/bytes_written"] > 0
    details = metadata["lance/details"]
    numbers = {"read_version": 1, "fragments_written": 1, "commit_attempts": 1}
    assert {key: details[key] for key in numbers} == numbers
    assert details["transaction"] == transaction.uuid
    assert details["write_mode"] == "append"
    assert metadata["dagster/uri"] == project.uri
    assert metadata["dagster/table_name"] == "events"
    assert metadata["dagster/storage_kind"] == "lance"
    (column,) = metadata["dagster/column_schema"].columns
    assert (column.name, column.type, column.constraints.nullable) == ("id", "int64", True)
    assert event.tags["dagster/data_version"] == f"2-{transaction.uuid[:8]}"
    assert event.tags["lance/version"] == "2"
    assert event.tags["lance/txn"] == transaction.uuid


def test_the_transaction_contains_the_run_id(project, instance) -> None:
    result = project.run(instance)
    properties = lance_core.dataset(project.uri).read_transaction(1).transaction_properties
    assert properties["dagster.run_id"] == result.run_id
    assert properties["dagster.step_key"] == "events.write_fragments"


def test_an_ingest_run_ends_with_a_summary_line(project, instance, capsys) -> None:
    project.run(instance)
    assert capsys.readouterr().out == (
        f"events: {project.uri} version 1: 3 rows in 1 fragment; this run wrote 3 rows in 1 fragment\n"
    )


def test_the_run_configuration_of_an_ingest_replaces_source_and_target(project, instance, tmp_path) -> None:
    other = str(tmp_path / "other.lance")
    result = project.run(instance, {"uri": other, "mode": "create", "source": {"format": "parquet", "paths": ["/in"]}})
    assert result.success
    (declaration,) = project.declarations
    assert (declaration.uri, declaration.mode, declaration.source.paths) == (other, WriteMode.CREATE, ("/in",))
    assert materialization(result).metadata["dagster/uri"].value == other
    assert not Path(project.uri).exists()


def test_an_ingest_run_without_new_rows_keeps_the_data_version(project, instance) -> None:
    first = materialization(project.run(instance))
    project.rows[:] = [pa.table({"id": pa.array([], pa.int64())})]
    second = materialization(project.run(instance))
    assert second.tags["dagster/data_version"] == first.tags["dagster/data_version"]
    assert lance_core.dataset(project.uri).version == 1


def test_a_step_that_fails_after_its_commit_is_retried_without_a_second_commit(project, instance, monkeypatch) -> None:
    real, calls = committed_module.report_write, []

    def report_and_fail_once(staged, landing, **options):
        calls.append(landing)
        if len(calls) == 1:
            raise StorageError("connection reset", retryable=True)
        return real(staged, landing, **options)

    monkeypatch.setattr(committed_module, "report_write", report_and_fail_once)
    result = project.run(instance)
    assert result.success
    assert [landing.repeated for landing in calls] == [False, True]
    assert lance_core.dataset(project.uri).version == 1
    assert event_value(materialization(result), "lance/committed_earlier") is True


def test_the_commit_step_alone_can_be_run_again(project) -> None:
    """As with "re-execute from failure", another run commits the same staged write."""
    staging = project.stage(project.declaration(), None, captured_at=None, run_id="r", step_key="s")
    commit = commit_module.build_commit_op(project.declaration())
    first, second = (commit(dg.build_op_context(), staging.staged.to_json()) for _ in range(2))
    assert first.data_version == second.data_version
    assert lance_core.dataset(project.uri).version == 1


@pytest.mark.parametrize(
    ("error", "headline"),
    [
        (NotFoundError("source /in/trips.csv does not exist", path="/in/trips.csv"), "[NotFoundError]"),
        (StorageError("no space left on device", path="/lake"), "[StorageError]"),
    ],
)
def test_a_failed_ingest_write_shows_one_typed_message(project, instance, monkeypatch, error, headline) -> None:
    def fail(*args, **kwargs):
        raise error from RuntimeError("a\nvery\nlong\ntrace")

    monkeypatch.setattr(write_module, "stage_write", fail)
    data = failure(project.run(instance))
    assert data.user_failure_data.description == f"events: {error} {headline}"
    assert data.user_failure_data.metadata["lance/error"].value == error.kind
    assert data.user_failure_data.metadata["lance/path"].value == error.context["path"]
    assert data.user_failure_data.metadata["lance/cause"].value.startswith("RuntimeError: a")
    assert data.error.cause is None
    assert "very" not in data.error.message


def test_a_failed_verification_stops_the_commit_and_removes_the_files(project, instance, monkeypatch) -> None:
    def lose_a_row(*args, **kwargs):
        staging = project.stage(*args, **kwargs)
        return Staging(staged=replace(staging.staged, rows_counted=4), num_tasks=1)

    monkeypatch.setattr(write_module, "stage_write", lose_a_row)
    result = project.run(instance)
    data = failure(result)
    assert data.user_failure_data.description.startswith(f"events: {project.uri}: the source has 4 rows")
    assert data.user_failure_data.metadata["lance/rows_counted"].value == "4"
    assert not list(Path(project.uri, "data").iterdir())
    assert not result.get_asset_materialization_events()


def test_a_commit_with_an_unknown_outcome_is_not_retried(project, instance, monkeypatch) -> None:
    calls = []

    def fail(staged, **options):
        calls.append(staged)
        raise CommitOutcomeUnknownError("could not determine whether this commit created version 1")

    monkeypatch.setattr(committed_module, "commit_staged", fail)
    data = failure(project.run(instance))
    assert "could not determine" in data.user_failure_data.description
    assert len(calls) == 1
    assert list(Path(project.uri, "data").iterdir())


def test_a_transient_commit_failure_is_retried_a_few_times(project, instance, monkeypatch) -> None:
    calls = []

    def fail(staged, **options):
        calls.append(staged)
        raise StorageError("slow down", retryable=True)

    monkeypatch.setattr(committed_module, "commit_staged", fail)
    assert "slow down" in failure(project.run(instance)).user_failure_data.description
    assert len(calls) == 1 + commit_module.COMMIT_RETRIES.max_retries
