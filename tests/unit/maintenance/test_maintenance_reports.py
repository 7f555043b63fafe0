"""The reports in dry runs and events agree with the results of the maintenance."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import lance_core
from lance_pipelines.maintenance.cleanup_plan import CleanupForecast, PlannedCleanup, plan_removal
from lance_pipelines.maintenance.cleanup_report import CleanupReport
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.policy import CleanupPolicy, MaintenancePolicy
from lance_pipelines.maintenance.rewrite_plan import RewriteForecast, RewriteOperation, beyond_budget, plan_rewrite
from tests.support.local_rewriting import ids, write_fragments

OPTIONS = {"target_rows_per_fragment": 20, "materialize_deletions": True, "materialize_deletions_threshold": 0.1}
EVERYTHING_OLD = CleanupPolicy(retain_versions=2, older_than=timedelta(0), min_age=timedelta(0))


def rewrite_forecast(uri: str, operation: RewriteOperation) -> RewriteForecast:
    dataset = lance_core.dataset(uri)
    figures = plan_rewrite(dataset, operation, OPTIONS).figures
    return RewriteForecast(
        uri=uri, operation=operation, before=TableHealth.of(dataset, MaintenancePolicy()), figures=figures
    )


def cleanup_forecast(uri: str, policy: CleanupPolicy = EVERYTHING_OLD) -> CleanupForecast:
    dataset = lance_core.dataset(uri)
    return CleanupForecast(uri=uri, policy=policy, rows=dataset.count_rows(), plan=plan_removal(dataset, policy))


def table_of(text: str) -> dict[str, list[str]]:
    """Return metric name -> values before and after."""
    lines = [line for line in text.splitlines()[3:] if line[:25].strip() and line[25:].split()[-1:]]
    return {line[:27].strip(): line[27:].split()[:2] for line in lines}


def test_rewrite_forecast_lists_fragments_rows_and_tasks(uri) -> None:
    write_fragments(uri, 6)
    lance_core.dataset(uri).delete("id = 0")
    forecast = rewrite_forecast(uri, RewriteOperation.COMPACT)
    assert forecast.has_work
    assert forecast.headline().startswith(f"{uri} version 7: 6 of 6 fragments (")
    assert forecast.headline().endswith(" in 2 tasks")
    table = table_of(forecast.table())
    assert table["rows"] == ["59", "59"]
    assert table["deleted rows still stored"] == ["1", "0"]
    assert table["fragments"] == ["6", "~2"]
    assert table["files"] == ["7", "~2"]
    metadata = forecast.metadata()
    assert (metadata["lance/fragments"], metadata["lance/fragments_after"], metadata["lance/tasks"]) == (6, 2, 2)
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=20)
    assert len(lance_core.dataset(uri).get_fragments()) == 2


@pytest.mark.parametrize("from_config", [False, True])
def test_rewrite_plan_with_a_budget_below_every_task_has_one_task_of_few_fragments(uri, from_config) -> None:
    """The budget is an option, or in the table config."""
    write_fragments(uri, 9)
    options = dict(OPTIONS)
    if from_config:
        lance_core.dataset(uri).update_config({"lance.compaction.max_source_bytes": "1"})
    else:
        options["max_source_bytes"] = 1
    plan = plan_rewrite(lance_core.dataset(uri), RewriteOperation.COMPACT, options)
    assert [[fragment.id for fragment in task.fragments] for task in plan.tasks] == [[0, 1]]


def test_rewrite_plan_with_a_budget_stays_within_the_budget_if_any_task_does(uri) -> None:
    dataset = write_fragments(uri, 9)
    num_bytes = plan_rewrite(dataset, RewriteOperation.COMPACT, OPTIONS).figures.bytes_before // 9
    for fragments, ids_of_tasks in ((1, [[0, 1]]), (2, [[0, 1]]), (3, [[0, 1]]), (4, [[0, 1], [2, 3]])):
        options = {**OPTIONS, "max_source_bytes": fragments * num_bytes}
        plan = plan_rewrite(dataset, RewriteOperation.COMPACT, options)
        assert [[fragment.id for fragment in task.fragments] for task in plan.tasks] == ids_of_tasks
        figures = plan.figures
        text = beyond_budget(figures, options["max_source_bytes"])
        assert (text == "") == (figures.rewritten_bytes <= options["max_source_bytes"]) == (fragments > 1)


def test_rewrite_plan_with_a_budget_has_no_task_if_there_is_no_work(uri) -> None:
    dataset = write_fragments(uri, 1)
    for operation in RewriteOperation:
        assert plan_rewrite(dataset, operation, {**OPTIONS, "max_source_bytes": 1}).tasks == []


def test_rewrite_forecast_with_nothing_to_do_explains_why(uri) -> None:
    write_fragments(uri, 1)
    forecast = rewrite_forecast(uri, RewriteOperation.COMPACT)
    assert not forecast.has_work
    assert forecast.headline() == f"{uri} version 1: nothing to do (1 fragment, 1 small)"
    forecast = rewrite_forecast(uri, RewriteOperation.MATERIALIZE_DELETIONS)
    assert forecast.headline() == f"{uri} version 1: nothing to do (0 deleted rows in 0 of 1 fragment)"
    assert "Until old versions" not in forecast.table()
    assert forecast.table().endswith("Dry run: nothing was changed.\n")


def test_cleanup_forecast_matches_the_executed_cleanup(uri) -> None:
    dataset = write_fragments(uri, 5)
    dataset.delete("id = 0")
    dataset.tags.create("keep", 2)
    Path(uri, "notes.txt").write_text("mine")
    forecast = cleanup_forecast(uri)
    files = sum(path.is_file() for path in Path(uri).rglob("*"))
    num_bytes = sum(path.stat().st_size for path in Path(uri).rglob("*") if path.is_file())
    metadata = forecast.metadata()
    assert (metadata["lance/versions"], metadata["lance/versions_after"]) == (6, 3)
    assert (metadata["lance/files"], metadata["lance/storage_bytes"]) == (files, num_bytes)
    assert (metadata["lance/unrecognized_files"], metadata["lance/unrecognized_bytes"]) == (1, 4)
    assert "notes.txt" in forecast.table()
    assert table_of(forecast.table())["versions"] == ["6", "3"]

    plan = plan_removal(lance_core.dataset(uri), EVERYTHING_OLD)
    report = CleanupReport(uri=uri, plan=plan, stats=plan.execute())
    left = [path for path in Path(uri).rglob("*") if path.is_file()]
    assert len(left) == metadata["lance/files_after"]
    assert sum(path.stat().st_size for path in left) == metadata["lance/storage_bytes_after"]
    assert report.metadata()["lance/bytes_reclaimed"] == num_bytes - metadata["lance/storage_bytes_after"]
    assert report.metadata()["lance/storage_bytes"] == metadata["lance/storage_bytes_after"]
    # A cleanup creates no version and rewrites nothing.
    for name in ("commit_attempts", "conflicts", "bytes_rewritten"):
        assert report.metadata()[f"lance/{name}"] == 0
    assert report.versions == 3
    assert report.summary().startswith(f"{uri} version 6: 3 old versions removed, 3 remaining; 0 data files and ")
    assert Path(uri, "notes.txt").read_text() == "mine"
    assert (ids(uri), ids(uri, version=2)) == (list(range(1, 50)), list(range(20)))


def test_cleanup_forecast_with_nothing_to_do_explains_why(uri) -> None:
    write_fragments(uri, 2)
    assert (
        cleanup_forecast(uri).headline()
        == f"{uri} version 2: nothing to do (2 versions; the policy keeps the newest 2 versions)"
    )
    young = cleanup_forecast(uri, CleanupPolicy(retain_versions=1))
    assert young.headline().endswith(
        "(2 versions; the policy keeps the newest version and all versions from the last 2 weeks)"
    )
    plan = plan_removal(lance_core.dataset(uri), EVERYTHING_OLD)
    report = CleanupReport(uri=uri, plan=plan, stats=plan.execute())
    assert not report.has_changed
    assert report.summary() == f"{uri} version 2: nothing to do (2 versions)"


def test_planned_cleanup_round_trips_through_json() -> None:
    policy = CleanupPolicy(retain_versions=3, older_than=timedelta(hours=1.5), delete_unverified=True)
    planned = PlannedCleanup(uri="/t.lance", policy=policy, data_version="3-0123abcd")
    assert PlannedCleanup.from_json(planned.to_json()) == planned
