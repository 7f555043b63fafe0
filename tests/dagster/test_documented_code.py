"""The code blocks of the README and of guides without a separate test, and the commands on all pages."""

from __future__ import annotations

import importlib.util
import re
import shlex
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pyarrow as pa
import pytest
import yaml
from dagster._cli import create_dagster_cli
from dagster._core.system_config.objects import ResolvedRunConfig

import lance_core
from lance_core.cli import main as inspect_main
from lance_pipelines import cli
from lance_pipelines.definitions import application
from lance_pipelines.maintenance.history import HistoryEntry, append_history
from lance_pipelines.ops.ingest_config import IngestConfig
from lance_pipelines.settings import Settings
from lance_pipelines.telemetry import TelemetryHandler
from tests.support.documentation import all_blocks, examples

NOT_PROGRAMS_OF_THE_PROJECT = {"pip", "mkdir", "cp", "docker", "export", "pytest", "uv"}


def run(text: str, root: Path, namespace: dict[str, Any]) -> dict[str, Any]:
    """Run an example, with its absolute paths and buckets replaced by directories below ``root``."""
    below = re.sub(r'(?<=")(?:s3:/)?/(?=\w)', f"{root}/", text)
    exec(compile(below, "example", "exec"), namespace)
    return namespace


# ── README ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_python_examples_in_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"package": ["pip"] * 9, "path": ["x"] * 9, "size_bytes": range(9)})
    for uri in ("warehouse/installed_files.lance", str(tmp_path / "lake" / "embeddings.lance")):
        lance_core.write_dataset(rows, uri)
    namespace: dict[str, Any] = {}
    for text in examples("README.md"):
        run(text, tmp_path, namespace)
    assert namespace["table"].tags.list().keys() == {"release-1"}
    assert namespace["trial"].to_table() == rows
    assert lance_core.dataset(tmp_path / "scratch" / "embeddings.lance").to_table() == rows


def test_the_run_configuration_in_the_readme_is_accepted() -> None:
    (text,) = examples("README.md", "yaml")
    document = yaml.safe_load(text)
    definitions = application(Settings(warehouse="/warehouse"))
    ResolvedRunConfig.build(definitions.resolve_job_def("installed_files__ingest"), document)
    IngestConfig(**document["ops"]["installed_files"]["config"])


# ── Guides ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_examples_in_the_guide_to_partitions_can_be_run(tmp_path: Path) -> None:
    page = "docs/guides/partitions.md"
    times = pa.array([1710460800_000_000, 1710547200_000_000], pa.timestamp("us"))  # March 15 and 16, 2024
    uri = tmp_path / "data" / "lake" / "trips.lance"
    lance_core.write_dataset(pa.table({"pickup_time": times, "fare": [1.0, 2.0]}), uri)
    namespace: dict[str, Any] = {"new_rows": pa.table({"pickup_time": times[:1], "fare": [9.0]})}
    for text in examples(page):
        run(text, tmp_path, namespace)
    assert namespace["trips"].partitions.has_partition_key("2024-03-15")
    assert {each.dimension for each in namespace["partition_by"]} == {"date", "region"}
    assert sorted(namespace["dataset"].to_table()["fare"].to_pylist()) == [2.0, 9.0]


def test_examples_in_the_guide_to_asset_checks_can_be_loaded(tmp_path: Path) -> None:
    from lance_pipelines import build_definitions

    namespace: dict[str, Any] = {}
    for text in examples("docs/guides/checks-and-health.md"):
        run(text, tmp_path, namespace)
    defs = dg.Definitions.merge(
        build_definitions([namespace["events"]]), dg.Definitions(schedules=[namespace["nightly"]])
    )
    dg.Definitions.validate_loadable(defs)


def test_examples_in_the_guide_to_watching_maintenance_can_be_loaded(tmp_path: Path) -> None:
    from lance_pipelines import build_definitions

    (tmp_path / "data").mkdir()
    history = str(tmp_path / "data" / "maintenance_history.lance")
    append_history(history, HistoryEntry.of_failure(run_id="r", dataset="events", job="compact", message="failed"))
    namespace: dict[str, Any] = {}
    for text in examples("docs/guides/watch-maintenance.md"):
        run(text, tmp_path, namespace)
    dg.Definitions.validate_loadable(build_definitions([namespace["events"], namespace["users"]]))
    assert namespace["events"].history == namespace["users"].history == history
    assert pa.table(namespace["costs"])["dataset"].to_pylist() == ["events"]
    dg.Definitions.validate_loadable(namespace["alerts"])


def test_the_alert_sensors_in_the_guide_report_failed_runs_overdue_datasets_and_failed_checks(
    tmp_path: Path, instance: dg.DagsterInstance, capsys: pytest.CaptureFixture[str]
) -> None:
    (text,) = [text for text in examples("docs/guides/watch-maintenance.md") if "run_failure_sensor" in text]
    namespace = run(text, tmp_path, {})

    @dg.job(tags={"lance/dataset": "events"})
    def broken() -> None:
        dg.op(name="step")(lambda: 1 / 0)()

    result = broken.execute_in_process(instance=instance, raise_on_error=False)
    (event,) = [each for each in result.all_events if each.is_job_failure]
    context = dg.build_run_status_sensor_context(
        sensor_name="failed_runs", dagster_event=event, dagster_instance=instance, dagster_run=result.dagster_run
    )
    namespace["failed_runs"](context.for_run_failure())
    assert capsys.readouterr().out.startswith(f"events: run {result.run_id} failed: ")

    key = dg.AssetKey(["lake", "events"])
    figures = {"lance/datasets_overdue": 2, "lance/unreadable_datasets": 0}
    instance.report_runless_asset_event(dg.AssetMaterialization(["lance", "fleet"], metadata=figures))
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(asset_key=key, check_name="fragments", passed=False, description="too many")
    )
    instance.report_runless_asset_event(dg.AssetCheckEvaluation(asset_key=key, check_name="freshness", passed=True))
    context = dg.build_sensor_context(instance=instance)
    skipped = namespace["unhealthy_datasets"](context)
    assert skipped.skip_message == "lance/datasets_overdue = 2; lake/events:fragments: too many"
    assert capsys.readouterr().out == f"{skipped.skip_message}\n"
    namespace["unhealthy_datasets"](context)
    assert capsys.readouterr().out == ""


def test_the_handler_in_the_guide_to_watching_maintenance_is_accepted_by_dagster() -> None:
    (text,) = examples("docs/guides/watch-maintenance.md", "yaml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        with dg.DagsterInstance.ephemeral(settings=yaml.safe_load(text)) as configured:
            handlers = configured.get_handlers()
    assert [type(handler) for handler in handlers if isinstance(handler, TelemetryHandler)] == [TelemetryHandler]


def test_examples_in_the_guide_to_publishing_can_be_run(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    page = "docs/guides/publish.md"
    declare, read, report = examples(page)
    namespace: dict[str, Any] = {"new_rows": pa.table({"id": [1, 2]})}
    run(declare, tmp_path, namespace)
    job = namespace["defs"].resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance).success
    run(read, tmp_path, namespace)
    run(report, tmp_path, namespace)
    assert namespace["published"].count_rows() == namespace["table"].read().num_rows == 2
    (text,) = examples(page, "yaml")[1:]
    ResolvedRunConfig.build(namespace["defs"].resolve_job_def("lake__events__promote"), yaml.safe_load(text))


def test_the_example_in_the_guide_to_spark_sessions_can_be_loaded(tmp_path: Path) -> None:
    (text,) = examples("docs/guides/spark-sessions.md")
    run(text, tmp_path, {})


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def parsed_by_click(group: click.Group, arguments: Sequence[str], parent: click.Context | None = None) -> click.Context:
    """Parse a command line without running it."""
    context = group.make_context(group.name, list(arguments), parent=parent)
    _, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None
    if isinstance(command, click.Group):
        return parsed_by_click(command, rest, context)
    return command.make_context(command.name, rest, parent=context)


def check_dagster(arguments: Sequence[str]) -> None:
    context = parsed_by_click(create_dagster_cli(), arguments)
    job = context.params.get("job_name")
    if job is not None:
        application(Settings(warehouse="/warehouse")).resolve_job_def(job)


def check_inspection(arguments: Sequence[str], root: Path) -> None:
    """Check that the command succeeds on a table below ``root``."""
    uri = str(root / "points.lance")
    lance_core.write_dataset(pa.table({"x": [1]}), uri)
    assert inspect_main([uri if "://" in argument else argument for argument in arguments]) == 0


def check_module(arguments: Sequence[str]) -> None:
    assert arguments[0] == "-m"
    assert importlib.util.find_spec(arguments[1]) is not None


RUN_IN_ORDER = {"docs/guides/command-line.md"}
"""Pages whose commands depend on each other; ``tests/unit/test_guide_examples.py`` runs them."""

COMMANDS = [
    (block.page, command)
    for block in all_blocks()
    if block.language == "bash" and block.reason is None and block.page not in RUN_IN_ORDER
    for line in block.text.splitlines()
    if line.strip()
    for command in line.split(" && ")
]


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_documented_commands_are_accepted(
    page: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(command, comments=True)
    while words and (words[:2] == ["uv", "run"] or "=" in words[0]):
        words = words[2:] if words[0] == "uv" else words[1:]
    if not words or words[0] in NOT_PROGRAMS_OF_THE_PROJECT:
        return
    monkeypatch.chdir(tmp_path)
    for name in ("run.yaml", "lake.py"):
        (tmp_path / name).touch()
    checks: dict[str, Callable[[Sequence[str]], object]] = {
        "lance-pipelines": lambda arguments: parsed_by_click(cli.main, arguments),
        "lance-core": lambda arguments: check_inspection(arguments, tmp_path),
        "dagster": check_dagster,
        "python": check_module,
        "dg": lambda arguments: None,  # tests/dagster/test_components.py runs the scaffolder
    }
    checks[words[0]](words[1:])
