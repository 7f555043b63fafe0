"""The examples in the maintenance guide are correct."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from dagster._core.system_config.objects import ResolvedRunConfig

from lance_pipelines import cli
from lance_pipelines.definitions import application
from lance_pipelines.ops import maintenance_config
from lance_pipelines.settings import Settings
from tests.dagster.test_components import component
from tests.support.documentation import ROOT, examples

PAGE = "docs/guides/maintenance.md"
GUIDE = (ROOT / PAGE).read_text()
CONFIGS = re.findall(r"```yaml\n# (\w+)\n(.*?)```", GUIDE, re.DOTALL)
COMMANDS = re.findall(r"^uv run lance-pipelines ([^#\n]*)", GUIDE + (ROOT / "README.md").read_text(), re.MULTILINE)


def declared_in_python() -> dict[str, Any]:
    (text,) = examples(PAGE)
    names: dict[str, Any] = {}
    exec(compile(text, "guide", "exec"), names)
    return names


def test_the_maintenance_guide_has_an_example_of_every_job() -> None:
    operations = {
        "compact",
        "materialize_deletions",
        "cleanup",
        "delete_rows",
        "optimize_indices",
        "retention",
        "restore",
        "verify",
    }
    assert {name for name, _ in CONFIGS} == operations
    assert len(COMMANDS) >= 9


@pytest.mark.parametrize(("job", "text"), CONFIGS)
def test_run_configurations_in_the_maintenance_guide_are_accepted(job, text) -> None:
    definitions, dataset = application(Settings(warehouse="/warehouse")), "installed_files"
    if job == "retention":
        definitions, dataset = declared_in_python()["defs"], "events"
    ResolvedRunConfig.build(definitions.resolve_job_def(f"{dataset}__{job}"), yaml.safe_load(text))


def test_yaml_and_python_examples_in_the_maintenance_guide_declare_the_same_dataset() -> None:
    (text,) = [text for text in examples(PAGE, "yaml") if text.startswith("type:")]
    assert component(yaml.safe_load(text)["attributes"]).datasets == [declared_in_python()["events"]]


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith("demo")])
def test_commands_in_the_maintenance_guide_are_accepted(command, monkeypatch) -> None:
    seen = []
    monkeypatch.setattr("lance_pipelines.command_runs.run_operation", lambda *args, **kwargs: seen.append(args) or [])
    done = CliRunner().invoke(cli.main, shlex.split(command))
    assert done.exit_code == 0, done.output
    ((operation, values),) = seen
    assert operation.replace("_", "-") == shlex.split(command)[0]
    assert set(values) >= {"uri"} | ({"dry_run"} if operation != "verify" else set())


def test_every_configuration_field_is_listed_in_the_maintenance_guide() -> None:
    configs = (
        maintenance_config.CompactConfig,
        maintenance_config.CleanupConfig,
        maintenance_config.DeleteRowsConfig,
        maintenance_config.RetentionConfig,
        maintenance_config.RestoreConfig,
        maintenance_config.VerifyConfig,
    )
    for config in configs:
        for name in config.model_fields:
            assert f"| `{name}` |" in GUIDE


def test_every_command_line_option_is_a_configuration_field() -> None:
    for name, operation in (
        ("compact", "CompactConfig"),
        ("cleanup", "CleanupConfig"),
        ("delete-rows", "DeleteRowsConfig"),
        ("retention", "RetentionConfig"),
        ("restore", "RestoreConfig"),
        ("verify", "VerifyConfig"),
        ("promote", "PromoteConfig"),
    ):
        fields = set(getattr(maintenance_config, operation).model_fields)
        options = {parameter.name for parameter in cli.main.commands[name].params}
        assert options - {"dataset", "module", "spark_config", "verbose"} == fields
