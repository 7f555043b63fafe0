"""The jobs ``build_index`` and ``optimize_indices``: steps, dry runs, events, failures, and an absent pylance."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pytest
import yaml

import lance_core
from lance_core.metadata import index_coverage
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.jobs import job_name, request_config
from lance_pipelines.maintenance import pylance_indices
from lance_pipelines.maintenance.index_declaration import IndexDeclaration
from lance_pipelines.ops import commit_step
from lance_pipelines.sensors.version_sensor import build_version_sensor
from tests.dagster.test_maintenance_jobs import executed, headline, numbers, observation
from tests.support.indexed_rows import DECLARED, check_searches, rows
from tests.support.no_spark import NoSpark

STEPS = ["plan_indices", "build_indices", "commit_indices"]


@dataclass
class Lake:
    """A dataset ``events`` of 300 rows with declared indices, and its jobs."""

    uri: str
    instance: dg.DagsterInstance
    indices: tuple[IndexDeclaration, ...] = field(default=DECLARED[:1])

    def declaration(self) -> DatasetDeclaration:
        return DatasetDeclaration(key="events", uri=self.uri, indices=self.indices)

    def run(self, operation: str = "optimize_indices", **config: Any) -> dg.ExecuteInProcessResult:
        job = build_definitions([self.declaration()], spark=NoSpark()).resolve_job_def(job_name(operation, "events"))
        return job.execute_in_process(
            run_config=request_config(operation, **config), instance=self.instance, raise_on_error=False
        )

    def version(self) -> int:
        return lance_core.dataset(self.uri).version

    def indexed(self) -> dict[str, int]:
        return {index.name: index.indexed_rows for index in index_coverage(lance_core.dataset(self.uri))}


@pytest.fixture
def lake(tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(commit_step, "COMMIT_RETRIES", dg.RetryPolicy(max_retries=1))
    lake = Lake(str(tmp_path / "lake" / "events.lance"), instance)
    lance_core.write_dataset(rows(0, 300), lake.uri)
    return lake


def test_optimize_indices_is_recorded_as_an_observation_with_metrics(lake, capsys) -> None:
    result = lake.run()
    assert result.success
    assert executed(result) == STEPS
    event = observation(result)
    assert event.description == "optimize_indices: id_idx: 0 → 300 indexed rows, v2"
    assert event.tags["dagster/data_version"].startswith("1-")
    metadata = numbers(event)
    expected = {
        "lance/indices": "id_idx",
        "lance/rows_indexed_before": 0,
        "lance/rows_indexed": 300,
        "lance/unindexed_rows": 0,
        "lance/conflicts": 0,
        "lance/read_version": 1,
        "lance/version": 2,
        "dagster/row_count": 300,
    }
    assert {key: metadata[key] for key in expected} == expected
    assert metadata["lance/index_bytes_written"] > 0
    assert metadata["lance/index_seconds"] >= 0
    assert capsys.readouterr().out.startswith(
        f"events: {lake.uri} version 2: 1 index (id_idx) changed: 0 → 300 indexed rows; "
    )
    assert lance.dataset(lake.uri).to_table(filter="id = 150")["id"].to_pylist() == [150]


def test_a_repeated_run_finds_nothing_to_do(lake, capsys) -> None:
    lake.run()
    capsys.readouterr()
    result = lake.run()
    assert executed(result) == STEPS[:1]
    assert capsys.readouterr().out == (f"events: {lake.uri} version 2: nothing to do (1 index, nothing to change)\n")
    assert lake.version() == 2


def test_build_index_builds_the_named_index_only(lake) -> None:
    lake.indices = DECLARED[:2]
    assert lake.run("build_index", names=["kind_idx"]).success
    assert lake.indexed() == {"kind_idx": 300}
    assert executed(lake.run("build_index", names=["kind_idx"])) == STEPS[:1]
    assert executed(lake.run("build_index", names=["kind_idx"], replace=True)) == STEPS
    assert lake.version() == 3


def test_a_dry_run_prints_a_plan_whose_digest_a_later_run_accepts(lake, capsys) -> None:
    result = lake.run(dry_run=True)
    assert executed(result) == STEPS[:1]
    assert not result.get_asset_observation_events()
    out = capsys.readouterr().out
    assert "build id_idx: BTREE on id is declared, but not built" in out
    assert (lake.version(), lake.indexed()) == (1, {})
    digest = out.partition("Plan digest: ")[2].split()[0]
    assert lake.run(plan_digest=digest).success
    assert lake.indexed() == {"id_idx": 300}


def test_a_plan_digest_is_refused_after_the_dataset_has_changed(lake, capsys) -> None:
    lake.run(dry_run=True)
    digest = capsys.readouterr().out.partition("Plan digest: ")[2].split()[0]
    lance_core.write_dataset(rows(300, 310), lake.uri, mode="append")
    result = lake.run(plan_digest=digest)
    assert f"expected {digest}; the dataset, the declaration, or" in headline(result)
    assert lake.indexed() == {}


def test_an_unknown_index_fails_the_run_with_a_one_line_error(lake) -> None:
    line = headline(lake.run(names=["nowhere"]))
    assert line == "events: unknown index 'nowhere'; the indices are: id_idx [InvalidInputError]"


def test_index_job_without_pylance_fails_in_its_first_step_and_a_dry_run_reports_the_missing_package(
    lake, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(pylance_indices, "_MODULE", "no_such_module")
    result = lake.run()
    assert executed(result) == STEPS[:1]
    assert headline(result).endswith(
        "version 1: cannot build or update id_idx: the package pylance is not installed: "
        "pip install 'lance-pipelines[pylance]' [NotSupportedError]"
    )
    assert lake.run(dry_run=True).success
    assert "This plan cannot be executed here: the package pylance is not installed" in capsys.readouterr().out


def test_a_step_that_fails_after_its_commit_is_repeated_without_a_second_commit(lake, monkeypatch) -> None:
    real, calls = commit_step.dataset_observation, []

    def fail_once(**arguments: Any) -> dg.AssetObservation:
        calls.append(arguments)
        if len(calls) == 1:
            raise lance_core.errors.StorageError("lost", retryable=True)
        return real(**arguments)

    monkeypatch.setattr(commit_step, "dataset_observation", fail_once)
    result = lake.run()
    assert result.success
    assert (len(calls), lake.version()) == (2, 2)
    assert numbers(observation(result))["lance/committed_earlier"] is True


def test_version_sensor_does_not_report_an_index_commit_that_its_run_reported(lake) -> None:
    sensor = build_version_sensor(
        [lake.declaration()], namespace="lance", interval_seconds=30, status=dg.DefaultSensorStatus.STOPPED
    )

    def tick(cursor: str | None) -> Any:
        with dg.build_sensor_context(instance=lake.instance, cursor=cursor) as context:
            return sensor.evaluate_tick(context)

    first = tick(None)
    lake.run()
    assert tick(first.cursor).asset_events == []


def test_next_run_deletes_the_branch_of_a_killed_run(lake) -> None:
    run = lake.instance.create_run_for_job(
        build_definitions([lake.declaration()], spark=NoSpark()).resolve_job_def("events__optimize_indices"),
        status=dg.DagsterRunStatus.FAILURE,
    )
    dataset = lance_core.dataset(lake.uri)
    dataset.create_branch(f"lance-pipelines-index-{run.run_id}.0")
    dataset.create_branch("lance-pipelines-index-of-another-instance.0")
    assert lake.run().success
    assert list(lance_core.dataset(lake.uri).branches.list()) == ["lance-pipelines-index-of-another-instance.0"]


DEFINITIONS = """
import sys
{block}
from lance_pipelines import DatasetDeclaration, IndexDeclaration, build_definitions
defs = build_definitions([
    DatasetDeclaration(
        key="events",
        uri={uri!r},
        indices=[
            IndexDeclaration(column="id", type="BTREE"),
            IndexDeclaration(column="text", type="INVERTED"),
            IndexDeclaration(column="vector", type="IVF_FLAT", parameters={{"num_partitions": 2}}),
            IndexDeclaration(column="kind", type="BITMAP"),
        ],
    )
])
"""
BLOCK = "sys.modules['lance'] = None"


def execute(command_line: Any, lake: Lake, config: dict[str, Any], *, block: str = "") -> tuple[int, str, str]:
    dagster = command_line()
    (dagster.directory / "lake_definitions.py").write_text(DEFINITIONS.format(uri=lake.uri, block=block))
    path = dagster.directory / "run.yaml"
    path.write_text(yaml.safe_dump({"ops": {"plan_indices": {"config": config}}}))
    process = dagster.start(
        "job", "execute", "-f", "lake_definitions.py", "-j", "events__optimize_indices", "-c", str(path)
    )
    stdout, stderr = process.communicate(timeout=300)
    return process.returncode, stdout, stderr


def failed_line(stderr: str) -> str:
    (line,) = [line for line in stderr.splitlines() if line.startswith("FAILED ")]
    return line


@pytest.mark.slow
def test_job_execute_updates_all_kinds_of_indices(command_line, lake) -> None:
    code, stdout, stderr = execute(command_line, lake, {})
    assert code == 0, stderr
    assert stdout.startswith(
        f"events: {lake.uri} version 2: 4 indices (id_idx, text_idx, vector_idx, kind_idx) changed"
    )
    check_searches(lake.uri, 0, 299)
    lance_core.write_dataset(rows(300, 320), lake.uri, mode="append")
    assert execute(command_line, lake, {"names": ["id_idx"]})[0] == 0
    assert lake.indexed() == {"id_idx": 320, "text_idx": 300, "vector_idx": 300, "kind_idx": 300}
    check_searches(lake.uri, 0, 319)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"name": "id_idx"}, 'Received unexpected config entry "name" at path root:ops:plan_indices:config'),
        ({"names": ["x"]}, "events: unknown index 'x'; the indices are: id_idx, text_idx, vector_idx, kind_idx"),
        ({"plan_digest": "0"}, "expected 0; the dataset, the declaration, or"),
        ({"uri": "/no/such/table"}, "events: no dataset exists at /no/such/table"),
        ({"dry_run": None}, "dry_run is null; expected true or false"),
    ],
)
def test_job_execute_with_an_invalid_configuration_prints_a_one_line_error(
    command_line, lake, config, expected
) -> None:
    code, stdout, stderr = execute(command_line, lake, config)
    assert (code, stdout) == (1, "")
    assert expected in failed_line(stderr)
    assert lake.indexed() == {}


@pytest.mark.slow
def test_job_execute_without_pylance_names_the_package_to_install(command_line, lake) -> None:
    code, stdout, stderr = execute(command_line, lake, {}, block=BLOCK)
    assert (code, stdout) == (1, "")
    assert "pip install 'lance-pipelines[pylance]' [NotSupportedError]" in failed_line(stderr)
    code, stdout, stderr = execute(command_line, lake, {"dry_run": True}, block=BLOCK)
    assert code == 0, stderr
    assert "This plan cannot be executed here: the package pylance is not installed" in stdout


@pytest.mark.slow
def test_definitions_load_and_sensors_tick_in_a_process_without_pylance(lake, tmp_path) -> None:
    (tmp_path / "lake_definitions.py").write_text(DEFINITIONS.format(uri=lake.uri, block=BLOCK))
    code = (
        "import dagster as dg, json, lake_definitions\n"
        "sensors = {each.name: each for each in lake_definitions.defs.get_repository_def().sensor_defs}\n"
        "with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance=instance) as context:\n"
        "    data = sensors['lance_index_sensor'].evaluate_tick(context)\n"
        "print(json.dumps([data.skip_message, len(data.run_requests)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    message, requests = json.loads(done.stdout)
    assert requests == 0
    assert message.endswith("the package pylance is not installed: pip install 'lance-pipelines[pylance]'")
