"""The asset checks of a dataset, as Dagster evaluates them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

import lance_core
from lance_core.metadata import named_versions
from lance_pipelines.build import build_definitions
from lance_pipelines.checks import rules
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.jobs import check_config, job_tags
from lance_pipelines.maintenance.check_settings import CheckSettings

KEY = dg.AssetKey(["lake", "events"])
SOURCE = FileSource(format=SourceFormat.ENVIRONMENT)
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "events.lance")
    for ids in ([1, 2], [3, 1]):
        lance_core.write_dataset(pa.table({"id": ids}), uri, mode="append")
    return uri


def definitions(uri: str, **settings: Any) -> dg.Definitions:
    checks = CheckSettings(**settings)
    return build_definitions([DatasetDeclaration(key="lake/events", uri=uri, source=SOURCE, checks=checks)])


def run(
    instance: dg.DagsterInstance, defs: dg.Definitions, config: Mapping[str, Any] | None = None
) -> dg.ExecuteInProcessResult:
    job = defs.resolve_job_def("lake__events__check")
    return job.execute_in_process(
        instance=instance,
        run_config=check_config("lake__events", **(config or {})) | QUIET,
        raise_on_error=False,
    )


def results(result: dg.ExecuteInProcessResult) -> dict[str, tuple[bool, str]]:
    assert result.success
    return {each.check_name: (each.passed, each.severity.value) for each in result.get_asset_check_evaluations()}


def test_the_check_job_evaluates_all_checks_in_one_step(uri, instance) -> None:
    result = run(instance, definitions(uri, key=["id"]))
    assert results(result) == {
        "rows": (True, "ERROR"),
        "fragments": (True, "WARN"),
        "deletions": (True, "WARN"),
        "schema": (True, "WARN"),
        "key_nulls": (True, "ERROR"),
        "key_unique": (False, "ERROR"),
        "orphans": (True, "WARN"),
        "verify": (True, "ERROR"),
    }
    assert [event.step_key for event in result.get_step_success_events()] == ["lake__events__run_checks"]


def test_an_evaluation_shows_the_problem_and_the_examined_version(uri, instance) -> None:
    found = run(instance, definitions(uri, key=["id"]), {"only": ["key_unique"]}).get_asset_check_evaluations()
    (evaluation,) = found
    assert evaluation.asset_key == KEY
    assert evaluation.description.startswith("1 row repeats the key (id) of another row: {'id': 1} in 2 rows (")
    metadata = {key: value.value for key, value in evaluation.metadata.items()}
    assert metadata == {"lance/version": 2, "dagster/uri": uri, "lance/duplicates": 1, "lance/rows_examined": 4}


def test_an_older_version_can_be_checked(uri, instance) -> None:
    found = run(instance, definitions(uri, key=["id"]), {"only": ["key_unique"], "version": 1})
    assert results(found) == {"key_unique": (True, "ERROR")}


def test_a_dataset_without_checks_has_no_check_job(uri) -> None:
    off = dict.fromkeys(("rows", "fragments", "deletions", "schema", "orphans", "verify"), "off")
    defs = definitions(uri, severities=off)
    assert "lake__events__check" not in {job.name for job in defs.resolve_all_job_defs()}
    assert list(defs.resolve_asset_graph().asset_check_keys) == []


def test_checks_have_short_names_and_belong_to_the_asset(uri) -> None:
    keys = definitions(uri).resolve_asset_graph().asset_check_keys
    assert {(key.asset_key, key.name) for key in keys} == {
        (KEY, name) for name in ("rows", "fragments", "deletions", "schema", "orphans", "verify")
    }


def test_runs_of_the_check_job_are_tagged_with_dataset_and_operation(uri, instance) -> None:
    result = run(instance, definitions(uri), {"only": ["rows"]})
    tags = instance.get_run_by_id(result.run_id).tags
    assert (tags["lance/dataset"], tags["lance/op"]) == ("lake__events", "check")


def test_checks_executed_from_the_asset_have_the_tags_of_the_job(uri, instance) -> None:
    selected = frozenset({dg.AssetCheckKey(KEY, "rows")})
    defs = dg.Definitions.merge(definitions(uri), dg.Definitions(executor=dg.in_process_executor))
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_check_selection=selected)
    launched = instance.create_run_for_job(job)
    execute_run(InMemoryJob(job), launched._replace(asset_check_selection=selected), instance)
    run = instance.get_run_by_id(launched.run_id)
    assert run.is_success
    assert run.tags.items() >= job_tags("check", "lake__events").items()


def test_an_unknown_check_is_refused_with_a_one_line_error(uri, instance) -> None:
    result = run(instance, definitions(uri), {"only": ["row"]})
    (event,) = result.get_step_failure_events()
    description = event.step_failure_data.user_failure_data.description
    assert description.startswith("lake__events: unknown checks: row; the dataset has: rows, ")


def test_a_check_of_a_missing_dataset_fails_with_a_one_line_error(tmp_path, instance) -> None:
    result = run(instance, definitions(str(tmp_path / "none.lance")))
    (event,) = result.get_step_failure_events()
    assert event.step_failure_data.user_failure_data.description.endswith("[DatasetNotFoundError]")


def test_a_schema_change_is_reported_only_by_the_first_check_after_the_change(uri, instance) -> None:
    defs = definitions(uri)
    for expected in (True, True):
        assert results(run(instance, defs, {"only": ["schema"]})) == {"schema": (expected, "WARN")}
    lance_core.write_dataset(pa.table({"name": ["x"]}), uri, mode="overwrite")
    changed = run(instance, defs, {"only": ["schema"]})
    (evaluation,) = changed.get_asset_check_evaluations()
    assert (evaluation.passed, evaluation.description) == (False, "name was added; id was removed")
    assert results(run(instance, defs, {"only": ["schema"]})) == {"schema": (True, "WARN")}


def test_row_count_is_compared_with_the_event_of_the_checked_version(uri, instance) -> None:
    for rows in (7, 9):
        metadata = {"lance/version": rows - 7 + 1, "dagster/row_count": rows, "dagster/uri": uri}
        instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata=metadata))
    (evaluation,) = run(instance, definitions(uri), {"only": ["rows"], "version": 1}).get_asset_check_evaluations()
    assert evaluation.description == "the manifest records 2 rows, but Dagster's event for this version records 7"


def test_events_of_another_location_are_ignored(uri, instance) -> None:
    metadata = {"lance/version": 2, "dagster/row_count": 99, "dagster/uri": "/elsewhere"}
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata=metadata))
    assert results(run(instance, definitions(uri), {"only": ["rows"]})) == {"rows": (True, "ERROR")}


def test_the_version_is_leased_during_expensive_checks_and_released_afterward(uri, instance, monkeypatch) -> None:
    seen = []

    def look(subject) -> rules.Finding:
        seen.append(named_versions(subject.dataset.log))
        return rules.Finding(passed=True, text="")

    replaced = {name: rules.Rule(description="", examine=look, is_cheap=name == "rows") for name in rules.RULES}
    monkeypatch.setattr("lance_pipelines.checks.asset_checks.RULES", replaced)
    monkeypatch.setattr(rules, "RULES", replaced)
    run(instance, definitions(uri), {"only": ["verify"]})
    run(instance, definitions(uri), {"only": ["rows"]})
    assert seen == [{2}, set()]
    assert named_versions(lance_core.dataset(uri).log) == set()


def test_an_ingest_evaluates_the_cheap_checks_on_its_version(project, instance) -> None:
    result = project.run(instance)
    evaluations = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert {name: each.passed for name, each in evaluations.items()} == dict.fromkeys(
        ("rows", "fragments", "deletions", "schema"), True
    )
    text = "3 rows, as Dagster's event for this version records; checked the files of 1 of 1 fragment"
    assert evaluations["rows"].description == text
    messages = [entry.user_message for entry in instance.all_logs(result.run_id)]
    reason = "These checks are not evaluated after an ingest, because their cost grows with the size of the dataset"
    assert f"{reason}: orphans, verify. The job events__check evaluates them." in messages
