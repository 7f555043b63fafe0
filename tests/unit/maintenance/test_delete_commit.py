"""Deletes are planned, committed once, and reported."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.delete import delete
from lance_core.errors import CommitOutcomeUnknownError, InvalidInputError
from lance_core.io.object_store import PutOutcome
from lance_core.table.paths import ManifestName
from lance_core.table.version_log import VersionLog
from lance_pipelines.maintenance.delete_commit import DeleteReport, commit_delete
from lance_pipelines.maintenance.delete_plan import DeleteForecast, PlannedDelete
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.policy import MaintenancePolicy
from tests.support.local_rewriting import ids, write_fragments

POLICY = MaintenancePolicy()
AS_OF = datetime(2026, 11, 28, 12, tzinfo=UTC)


def plan(uri: str, predicate: str) -> PlannedDelete:
    return PlannedDelete(
        delete_id=str(uuid.uuid4()),
        dataset="t",
        uri=uri,
        op="delete_rows",
        predicate=predicate,
        as_of=AS_OF,
        before=TableHealth.of(lance_core.dataset(uri), POLICY),
        reviewed=None,
        run_id="run",
        step_key="step",
    )


def forecast(uri: str, predicate: str) -> DeleteForecast:
    return DeleteForecast.of(lance_core.dataset(uri), predicate, POLICY, op="delete_rows", as_of=AS_OF)


def table_of(found: DeleteForecast) -> dict[str, list[str]]:
    """Return metric name -> values before and after."""
    lines = found.table().splitlines()[3:-1]
    return {line[:25].strip(): line[25:].split()[:2] for line in lines}


def test_planned_delete_round_trips_through_json(uri) -> None:
    write_fragments(uri, 1)
    planned = plan(uri, "id = 'it''s'")
    assert PlannedDelete.from_json(planned.to_json()) == planned


def test_committed_delete_removes_and_reports_its_rows(uri) -> None:
    write_fragments(uri, 3)
    report = commit_delete(plan(uri, "id < 12"), POLICY)
    assert ids(uri) == list(range(12, 30))
    lance.dataset(uri).validate()
    assert (report.rows_deleted, report.repeated, report.attempts, report.after.version) == (12, False, 1, 4)
    metadata = report.metadata()
    assert metadata["lance/rows_deleted"] == 12
    assert (metadata["lance/commit_attempts"], metadata["lance/conflicts"]) == (1, 0)
    assert report.summary() == f"{uri} version 4: 12 rows deleted where id < 12; 18 rows remaining in 2 fragments"
    properties = lance_core.dataset(uri).read_transaction(4).transaction_properties
    assert (properties["dagster.run_id"], properties["dagster.step_key"]) == ("run", "step")


def test_delete_that_another_writer_immediately_builds_on_is_reported_with_its_own_version(
    uri, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fragments(uri, 1)
    create = VersionLog.create

    def create_and_update(log: VersionLog, name: ManifestName, data: bytes, *more: Any) -> PutOutcome:
        monkeypatch.undo()
        outcome = create(log, name, data, *more)
        # It moves a row of the same fragment, so that it is unknown whether it was built on the delete.
        lance.dataset(uri).update({"id": "70"}, where="id = 7")
        return outcome

    planned = plan(uri, "id = 1")
    monkeypatch.setattr(VersionLog, "create", create_and_update)
    report = commit_delete(planned, POLICY)
    assert (report.version, report.rows_deleted, report.attempts) == (2, 1, 2)
    assert ids(uri) == [0, 2, 3, 4, 5, 6, 8, 9, 70]


def test_repeated_delete_keeps_rows_written_since_the_first_delete(uri) -> None:
    write_fragments(uri, 3)
    planned = plan(uri, "id < 12")
    first = commit_delete(planned, POLICY)
    lance.write_dataset(pa.table({"id": [5, 6]}), uri, mode="append")
    second: DeleteReport = commit_delete(planned, POLICY)
    assert (second.after.version, second.rows_deleted, second.repeated) == (first.after.version, 12, True)
    assert ids(uri) == [5, 6, *range(12, 30)]
    assert lance_core.dataset(uri).version == 5


def test_delete_of_rows_already_deleted_creates_no_version(uri) -> None:
    write_fragments(uri, 3)
    planned = plan(uri, "id < 12")
    lance.dataset(uri).delete("id < 15")
    report = commit_delete(planned, POLICY)
    assert not report.has_changed
    assert report.summary() == f"{uri} version 4: nothing to do (no rows match id < 12; the table has 15 rows)"
    assert lance_core.dataset(uri).version == 4


def test_concurrent_deletes_of_the_same_rows_create_one_version(uri, monkeypatch) -> None:
    """Another delete is committed between plan and commit; after the conflict, the new plan finds no rows."""
    write_fragments(uri, 3)
    planned = plan(uri, "id < 12")
    real, others = delete.commit_change, ["id < 12"]

    def lose(*arguments: Any, **options: Any) -> Any:
        if others:
            lance.dataset(uri).delete(others.pop())
        return real(*arguments, **options)

    monkeypatch.setattr(delete, "commit_change", lose)
    report = commit_delete(planned, POLICY)
    assert (report.has_changed, report.attempts, lance_core.dataset(uri).version) == (False, 2, 4)
    assert ids(uri) == list(range(12, 30))
    # The files of the failed attempt were removed.
    assert len(list(Path(uri, "_deletions").iterdir())) == 1


def test_delete_with_removed_intermediate_versions_has_an_unknown_outcome(uri) -> None:
    write_fragments(uri, 3)
    planned = plan(uri, "id < 12")
    for number in range(3):
        lance_core.write_dataset(pa.table({"id": pa.array([number], pa.int64())}), uri, mode="append")
    lance_core.dataset(uri).cleanup_old_versions(retain_versions=1)
    with pytest.raises(CommitOutcomeUnknownError, match="version 5 was cleaned up in the meantime"):
        commit_delete(planned, POLICY)
    assert 5 in ids(uri)


def test_delete_forecast_matches_the_committed_delete(uri) -> None:
    write_fragments(uri, 3)
    lance_core.dataset(uri).delete("id IN (1, 15)")
    found = forecast(uri, "id < 12")
    assert found.headline() == f"{uri} version 4: 11 of 28 rows will be deleted from 2 of 3 fragments (where id < 12)"
    expected = table_of(found)
    report = commit_delete(plan(uri, "id < 12"), POLICY)
    after = report.after
    assert expected["rows"] == ["28", str(after.rows)] == ["28", "17"]
    assert expected["deleted rows still stored"] == ["2", str(after.deleted_rows)] == ["2", "3"]
    assert expected["fragments"] == ["3", str(after.fragments)] == ["3", "2"]
    assert expected["data files"] == ["3", str(after.data_files)]
    assert expected["deletion files"] == ["2", str(after.deletion_files)] == ["2", "1"]
    assert found.metadata()["lance/bytes_dropped"] == found.before.bytes_total - after.bytes_total


def test_forecast_of_a_delete_that_matches_nothing_has_nothing_to_do(uri) -> None:
    write_fragments(uri, 1)
    found = forecast(uri, "id > 100")
    assert not found.has_work
    assert found.headline() == f"{uri} version 1: nothing to do (no row matches id > 100; 10 rows in total)"


def test_delete_forecast_with_an_unknown_column_is_refused(uri) -> None:
    write_fragments(uri, 1)
    with pytest.raises(InvalidInputError, match="nowhere"):
        forecast(uri, "nowhere = 1")
