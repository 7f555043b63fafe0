"""The values that the launchpad shows, and the tags of runs launched from there or with **Materialize**."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg
import pytest
import yaml
from dagster_graphql.schema.run_config import default_values_yaml_from_type_snap

from lance_pipelines import (
    CleanupPolicy,
    CompactionPolicy,
    DatasetDeclaration,
    FileSource,
    MaintenancePolicy,
    SourceFormat,
    WriteMode,
    build_definitions,
)
from lance_pipelines.jobs import job_tags

TRIPS = DatasetDeclaration(
    key="lake/trips",
    uri="/lake/trips.lance",
    source=FileSource(format=SourceFormat.CSV, paths=("/in/*.csv",), options={"header": "true"}, schema="id BIGINT"),
    mode=WriteMode.OVERWRITE,
    max_rows_per_file=1000,
    vector_columns={"v": 8},
    maintenance=MaintenancePolicy(
        compaction=CompactionPolicy(target_rows_per_fragment=5000),
        cleanup=CleanupPolicy(older_than=timedelta(milliseconds=250)),
    ),
)
INGEST = {
    "source": {"format": "csv", "paths": ["/in/*.csv"], "options": {"header": "true"}, "schema": "id BIGINT"},
    "uri": "/lake/trips.lance",
    "mode": "overwrite",
    "max_rows_per_file": 1000,
    "max_bytes_per_file": 2 * 1024**3,
    "vector_columns": {"v": 8},
}


def shown(job_name: str) -> dict[str, object]:
    """Return the steps of a job as the launchpad initially shows them."""
    job = build_definitions([TRIPS]).get_repository_def().get_job(job_name)
    snapshot = job.get_job_snapshot()
    schema = snapshot.config_schema_snapshot
    root = schema.get_config_snap(snapshot.mode_def_snaps[0].root_config_key)
    return yaml.safe_load(default_values_yaml_from_type_snap(schema, root))["ops"]


@pytest.mark.parametrize("job_name", ["lake__trips__ingest", "__ASSET_JOB"])
def test_the_launchpad_of_an_ingest_shows_the_declared_values(job_name) -> None:
    """The asset's launchpad, whose job Dagster defines, shows them too."""
    assert shown(job_name) == {"lake__trips": {"config": INGEST}}


def test_the_launchpad_of_a_maintenance_job_shows_the_declared_policy() -> None:
    assert shown("lake__trips__compact") == {
        "plan_rewrites": {
            "config": {
                "dry_run": False,
                "threshold": 0.1,
                "target_rows_per_fragment": 5000,
                "target_bytes_per_fragment": 2 * 1024**3,
            }
        }
    }
    cleanup = shown("lake__trips__cleanup")["plan_cleanup"]["config"]
    assert (cleanup["retain_versions"], cleanup["older_than"], cleanup["min_age"]) == (10, "0.25s", "600s")


def launch(project, instance, **arguments) -> dg.DagsterRun:
    """Run the asset without its ingest job, as **Materialize** does."""
    job = project.definitions().resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, **arguments)
    return instance.get_run_by_id(result.run_id)


def test_a_run_launched_with_materialize_has_the_tags_of_the_ingest_job(project, instance) -> None:
    run = launch(project, instance, asset_selection=[dg.AssetKey("events")])
    assert run.tags.items() >= job_tags("ingest", "events").items()


def test_a_run_of_several_assets_has_no_dataset_tags(project, instance) -> None:
    @dg.asset
    def other() -> None:
        """An asset of the project."""

    defs = project.definitions(assets=[other])
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("events"), other.key])
    assert "lance/dataset" not in instance.get_run_by_id(result.run_id).tags
