"""A declaration without a source: maintenance, checks, and version events of a dataset that a user's asset writes."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import lance
import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError
from lance_pipelines import DatasetDeclaration, FileSource, LanceIOManager, SourceFormat, build_definitions
from lance_pipelines.ops import rewrite_fragments
from tests.support.local_rewriting import rewrite_locally
from tests.support.no_spark import NoSpark

KEY = dg.AssetKey(["raw", "events"])


@dg.asset(key_prefix="raw", metadata={"lance/mode": "append"})
def events() -> pa.Table:
    return pa.table({"id": [1, 2, 3]})


@pytest.fixture
def io_manager(tmp_path: Path) -> LanceIOManager:
    return LanceIOManager(base_uri=str(tmp_path))


@pytest.fixture
def defs(io_manager: LanceIOManager) -> dg.Definitions:
    declared = DatasetDeclaration(key="raw/events", uri=io_manager.dataset_uri("raw/events"))
    ours = build_definitions([declared], spark=NoSpark())
    dg.Definitions.validate_loadable(ours)
    return dg.Definitions.merge(
        dg.Definitions([events], resources={"io_manager": io_manager}, executor=dg.in_process_executor), ours
    )


def materialize(defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection={KEY})
    assert job.execute_in_process(instance=instance).success


def test_dataset_without_a_source_has_every_job_except_ingest(defs: dg.Definitions) -> None:
    names = {job.name for job in defs.resolve_all_job_defs() if job.name.startswith("raw__")}
    assert names == {
        f"raw__events__{each}" for each in ("check", "cleanup", "compact", "delete_rows", "restore", "verify")
    } | {
        "raw__events__materialize_deletions",
        "raw__events__optimize_indices",
    }


def test_maintenance_compacts_rows_that_an_asset_of_the_project_has_written(defs, instance, monkeypatch) -> None:
    monkeypatch.setattr(
        rewrite_fragments,
        "rewrite_tasks",
        lambda session, uri, tasks, **options: rewrite_locally(uri, tasks, **options),
    )
    monkeypatch.setattr("lance_pipelines.resources.spark.start_session", lambda *arguments: None)
    for _ in range(3):
        materialize(defs, instance)
    job = defs.resolve_job_def("raw__events__compact")
    assert job.execute_in_process(instance=instance).success
    (record,) = instance.fetch_materializations(KEY, limit=1).records
    uri = record.asset_materialization.metadata["dagster/uri"].value
    assert len(lance.dataset(uri).get_fragments()) == 1
    (observed,) = instance.fetch_observations(KEY, limit=1).records
    assert observed.asset_observation.tags["dagster/data_version"].startswith("3-")


def test_checks_read_rows_that_an_asset_of_the_project_has_written(defs, instance) -> None:
    materialize(defs, instance)
    result = defs.resolve_job_def("raw__events__check").execute_in_process(instance=instance)
    assert {evaluation.passed for evaluation in result.get_asset_check_evaluations()} == {True}


def test_version_sensor_reports_external_commits_but_not_those_of_the_io_manager(defs, instance, io_manager) -> None:
    sensor = defs.get_repository_def().get_sensor_def("lance_version_sensor")
    materialize(defs, instance)
    with dg.build_sensor_context(instance=instance, definitions=defs) as context:
        first = sensor.evaluate_tick(context)
    assert first.asset_events == []
    materialize(defs, instance)
    lance.write_dataset(pa.table({"id": [9]}), io_manager.dataset_uri("raw/events"), mode="append")
    with dg.build_sensor_context(instance=instance, definitions=defs, cursor=first.cursor) as context:
        (event,) = sensor.evaluate_tick(context).asset_events
    assert (event.asset_key, event.tags["lance/writer"], event.metadata["lance/version"].value) == (KEY, "external", 3)


def test_steps_exchange_messages_even_if_the_io_manager_of_the_project_stores_only_frames(
    tmp_path: Path, io_manager: LanceIOManager
) -> None:
    source = FileSource(format=SourceFormat.ENVIRONMENT)
    ours = build_definitions([DatasetDeclaration(key="files", uri=str(tmp_path / "files.lance"), source=source)])
    defs = dg.Definitions.merge(dg.Definitions(resources={"io_manager": io_manager}), ours)
    for job in ("files__ingest", "files__compact"):
        for node in defs.resolve_job_def(job).all_node_defs:
            if isinstance(node, dg.OpDefinition) and node.name != "files__run_checks":
                used = {out.io_manager_key for out in node.output_defs if not out.dagster_type.is_nothing}
                assert used <= {"lance_messages"}


def test_asset_properties_in_a_declaration_without_a_source_are_rejected() -> None:
    with pytest.raises(
        InvalidInputError, match="dataset raw__events: group applies only to a declaration with a source"
    ):
        DatasetDeclaration(key="raw/events", uri="/lake/events.lance", group="raw")
