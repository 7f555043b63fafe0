"""A store that requires the declared storage options: every run and sensor uses the options, and none shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_pipelines import (
    CheckSettings,
    CleanupPolicy,
    CompactionPolicy,
    DatasetDeclaration,
    DeletionPolicy,
    MaintenancePolicy,
)
from lance_pipelines.jobs import request_config
from lance_pipelines.ops import rewrite_fragments
from lance_pipelines.ops import write_fragments as write_module
from tests.dagster.conftest import Project
from tests.support.local_rewriting import rewrite_locally
from tests.support.s3_servers import S3Server

KEY = dg.AssetKey(["lake", "s3-events"])
NAME = "lake__s3_events"
SECRET = "LAKE_SECRET"
CANARY = "canary-Passw0rd"
POLICY = MaintenancePolicy(
    compaction=CompactionPolicy(target_rows_per_fragment=100, min_small_fragments=2),
    deletion=DeletionPolicy(max_deleted_fraction=0.0),
    cleanup=CleanupPolicy(retain_versions=1, older_than=timedelta(0), min_age=timedelta(0)),
)

CHECKS = CheckSettings(key=["id"], max_age=timedelta(days=1), severities={"pylance": "error"})


@dataclass
class S3Project(Project):
    """The project, with its dataset on S3 and one of the options in an environment variable."""

    options: dict[str, Any] | None = None

    def declaration(self) -> DatasetDeclaration:
        declared = replace(super().declaration(), key=tuple(KEY.path), maintenance=POLICY, checks=CHECKS)
        return replace(declared, storage_options=self.options)


@pytest.fixture
def project(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Project:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    # The server accepts any secret. Without the endpoint, every request would leave this machine and fail.
    monkeypatch.setenv(SECRET, CANARY)
    options = server.options(aws_secret_access_key=dg.EnvVar(SECRET))
    project = S3Project(server.uri(), [pa.table({"id": [1, 2, 3]}), pa.table({"id": [4]})], options=options)
    monkeypatch.setattr(write_module, "stage_write", project.stage)
    monkeypatch.setattr(
        rewrite_fragments,
        "rewrite_tasks",
        lambda session, uri, tasks, **options: rewrite_locally(uri, tasks, **options),
    )
    return project


@pytest.fixture
def run(project: S3Project, instance: dg.DagsterInstance) -> Iterator[Callable[..., dg.ExecuteInProcessResult]]:
    """Runs jobs, and finally checks that no record of the instance contains the secret."""
    defs = project.definitions()

    def execute(operation: str, **config: Any) -> dg.ExecuteInProcessResult:
        run_config = None if operation in ("ingest", "check") else request_config(operation, **config)
        result = defs.resolve_job_def(f"{NAME}__{operation}").execute_in_process(
            run_config=run_config, instance=instance, raise_on_error=False
        )
        assert result.success, result.get_step_failure_events()
        return result

    yield execute
    records = [repr(instance.all_logs(run.run_id)) + repr(run) for run in instance.get_runs()]
    assert records
    assert CANARY not in "".join(records)
    assert CANARY not in repr(project.declaration())


@pytest.mark.slow
def test_every_job_and_sensor_opens_the_dataset_with_the_declared_options(project, run, instance) -> None:
    defs, options = project.definitions(), project.declaration().resolved_storage_options()
    assert options["aws_secret_access_key"] == CANARY

    def tick(sensor: str) -> Any:
        with dg.build_sensor_context(instance=instance, definitions=defs) as context:
            return defs.get_repository_def().get_sensor_def(f"lance_{sensor}_sensor").evaluate_tick(context)

    run("ingest")
    (event,) = run("ingest").get_asset_materialization_events()
    assert event.asset_key == KEY
    assert event.materialization.metadata["dagster/uri"].value == project.uri
    evaluations = run("check").get_asset_check_evaluations()
    assert {each.check_name for each in evaluations if each.passed} == {*CHECKS.names} - {"fragments"}
    (requested,) = tick("compaction").run_requests
    assert requested.job_name == f"{NAME}__compact"
    (compacted,) = run("compact").get_asset_observation_events()
    assert compacted.asset_observation_data.asset_observation.asset_key == KEY
    run("delete_rows", predicate="id = 2")
    (requested,) = tick("deletion").run_requests
    assert requested.job_name == f"{NAME}__materialize_deletions"
    run("materialize_deletions")
    (requested,) = tick("cleanup").run_requests
    assert requested.job_name == f"{NAME}__cleanup"
    run("cleanup", older_than="0s", min_age="0s", retain_versions=1)
    dataset = lance_core.dataset(project.uri, storage_options=options)
    assert [ref["version"] for ref in dataset.version_refs()] == [dataset.version]

    before = tick("version")
    assert before.asset_events == []
    lance.write_dataset(pa.table({"id": [5]}), project.uri, mode="append", storage_options=options)
    with dg.build_sensor_context(instance=instance, definitions=defs, cursor=before.cursor) as context:
        data = defs.get_repository_def().get_sensor_def("lance_version_sensor").evaluate_tick(context)
    (event,) = data.asset_events
    assert event.asset_key == KEY
    assert event.metadata["dagster/row_count"].value == 4
    rows = lance_core.dataset(project.uri, storage_options=options).to_table()["id"].to_pylist()
    assert sorted(rows) == [1, 3, 4, 5]


def test_a_missing_environment_variable_of_a_storage_option_is_named_in_the_error(project, monkeypatch) -> None:
    monkeypatch.delenv(SECRET)
    dg.Definitions.validate_loadable(project.definitions())
    expected = (
        f"environment variable {SECRET} for option 'aws_secret_access_key' of the storage options of dataset {NAME}"
    )
    with pytest.raises(InvalidInputError, match=expected):
        project.declaration().resolved_storage_options()
