"""The jobs ``restore`` and ``verify``: what they commit, report, refuse, and find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import RetryableCommitConflictError, VersionNotFoundError
from lance_pipelines import DatasetDeclaration, build_definitions
from lance_pipelines.jobs import operation_config
from lance_pipelines.maintenance.restore_commit import commit_restore
from lance_pipelines.maintenance.restore_plan import PlannedRestore
from tests.support.no_spark import NoSpark

EVENTS = dg.AssetKey("events")
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three versions: one row, two rows, and three rows."""
    uri = str(tmp_path / "events.lance")
    for number in range(3):
        append(uri, number)
    return uri


def append(uri: str, number: int) -> None:
    lance_core.write_dataset(pa.table({"id": [number]}), uri, mode="append")


def run(instance: dg.DagsterInstance, uri: str, operation: str, **config: Any) -> dg.ExecuteInProcessResult:
    defs = build_definitions([DatasetDeclaration(key="events", uri=uri)], spark=NoSpark())
    return defs.resolve_job_def(f"events__{operation}").execute_in_process(
        run_config=operation_config(operation, "events", **config) | QUIET, instance=instance, raise_on_error=False
    )


def ids(uri: str, **options: Any) -> list[int]:
    return lance.dataset(uri, **options).to_table()["id"].to_pylist()


def headline(result: dg.ExecuteInProcessResult) -> str:
    assert not result.success
    (event,) = result.get_step_failure_events()
    return event.step_failure_data.user_failure_data.description


def test_a_restore_commits_the_old_content_as_a_new_version_with_a_new_data_version(uri, instance, capsys) -> None:
    result = run(instance, uri, "restore", version=1)
    assert result.success
    assert (ids(uri), ids(uri, version=3)) == ([0], [0, 1, 2])
    (record,) = instance.fetch_materializations(EVENTS, limit=5).records
    event = record.asset_materialization
    transaction = lance_core.dataset(uri).read_transaction(4)
    assert event.tags["dagster/data_version"] == f"4-{transaction.uuid[:8]}"
    assert event.tags["lance/op"] == "restore"
    assert event.description == "restore: content of v1, v4"
    assert transaction.transaction_properties["dagster.run_id"] == result.run_id
    out = capsys.readouterr().out
    assert out == f"events: {uri} version 4: restored the content of version 1; 1 row instead of 3\n"


def test_a_restore_of_the_current_content_does_nothing(uri, instance, capsys) -> None:
    assert run(instance, uri, "restore", version=1).success
    capsys.readouterr()
    assert run(instance, uri, "restore", version=1).success
    assert lance_core.dataset(uri).version == 4
    expected = f"events: {uri} version 4: nothing to do (version 1 has the same rows and columns)\n"
    assert capsys.readouterr().out == expected


def test_a_dry_run_of_a_restore_prints_the_plan_and_changes_nothing(uri, instance, capsys) -> None:
    assert run(instance, uri, "restore", version=2, dry_run=True).success
    assert lance_core.dataset(uri).version == 3
    out = capsys.readouterr().out
    assert "the content of version 2 will be restored as a new version (2 rows instead of 3)" in out
    assert out.endswith("Dry run: nothing was changed.\n")


def test_a_restore_of_a_missing_version_fails_with_a_one_line_error(uri, instance) -> None:
    assert headline(run(instance, uri, "restore", version=9)).endswith("[VersionNotFoundError]")


def planned(uri: str) -> PlannedRestore:
    return PlannedRestore(
        restore_id="7b0e3f0e-0000-4000-8000-000000000001",
        dataset="events",
        uri=uri,
        version=1,
        read_version=3,
        run_id="run",
        step_key="plan_restore",
    )


def test_a_repeated_restore_finds_the_commit_of_its_first_attempt(uri) -> None:
    plan = PlannedRestore.from_json(planned(uri).to_json())
    first, second = (commit_restore(plan) for _ in range(2))
    assert (first.version, first.repeated, second.version, second.repeated) == (4, False, 4, True)


def test_a_restore_is_refused_if_rows_were_changed_since_its_plan(uri) -> None:
    append(uri, 3)
    with pytest.raises(
        RetryableCommitConflictError, match="version 4, which may have changed rows, was committed after"
    ):
        commit_restore(planned(uri))
    assert ids(uri) == [0, 1, 2, 3]


def test_a_restore_is_refused_if_the_dataset_was_recreated_since_its_plan(uri) -> None:
    plan = planned(uri)
    lance_core.LanceDataset.drop(uri)
    for number in (7, 8):
        append(uri, number)
    with pytest.raises(VersionNotFoundError, match=r"the latest version is 2, but the restore .* planned on version 3"):
        commit_restore(plan)
    assert ids(uri) == [7, 8]


def test_a_restore_is_not_refused_because_of_a_compaction(uri) -> None:
    lance_core.dataset(uri).optimize.compact_files()
    commit_restore(planned(uri))
    assert ids(uri) == [0]


def test_a_verification_that_finds_no_faults_is_recorded_as_an_observation(uri, instance, capsys) -> None:
    assert run(instance, uri, "verify", pages=True).success
    assert capsys.readouterr().out == f"events: {uri} version 3: no faults (3 fragments, all values)\n"
    (record,) = instance.fetch_observations(EVENTS, limit=5).records
    event = record.event_log_entry.asset_observation
    assert event.description == "verify: no faults, v3"
    assert not instance.fetch_materializations(EVENTS, limit=1).records
    assert lance.dataset(uri).tags.list() == {}


def test_a_verification_that_finds_a_missing_file_fails_and_names_the_file(uri, instance) -> None:
    lost = sorted((Path(uri) / "data").iterdir())[0]
    lost.unlink()
    message = headline(run(instance, uri, "verify"))
    assert message.startswith(f"events: {uri}: 1 fault: version 3: ")
    assert lost.name in message
    assert message.endswith("[CorruptDataError]")
    assert not instance.fetch_observations(EVENTS, limit=1).records
