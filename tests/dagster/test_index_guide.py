"""The statements and examples in docs/guides/indices.md are correct."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner

from lance_pipelines import cli
from lance_pipelines.maintenance.index_declaration import IndexDeclaration, IndexType
from lance_pipelines.maintenance.policy import IndexPolicy
from lance_pipelines.ops.maintenance_config import BuildIndexConfig, OptimizeIndicesConfig
from tests.dagster.test_components import component
from tests.support.documentation import ROOT, examples

PAGE = "docs/guides/indices.md"
TEXT = (ROOT / PAGE).read_text()


def declared_in_python() -> dict[str, Any]:
    (text,) = examples(PAGE)
    names: dict[str, Any] = {}
    exec(compile(text, "guide", "exec"), names)
    return names


def test_python_example_in_the_index_guide_loads() -> None:
    defs = declared_in_python()["defs"]
    dg.Definitions.validate_loadable(defs)
    assert {"documents__build_index", "documents__optimize_indices"} <= {
        job.name for job in defs.resolve_all_job_defs()
    }


def test_yaml_and_python_examples_in_the_index_guide_declare_the_same_indices() -> None:
    (text,) = examples(PAGE, "yaml")
    (found,) = component(yaml.safe_load(text)["attributes"]).datasets
    documents = declared_in_python()["documents"]
    assert found.maintenance == documents.maintenance
    first, last = documents.indices[0], documents.indices[-1]
    assert found.indices == (first, last)


def test_error_for_an_invalid_index_in_yaml_names_the_dataset_and_the_field(tmp_path: Path) -> None:
    (text,) = examples(PAGE, "yaml")
    attributes = yaml.safe_load(text)["attributes"]
    attributes["indices"][0]["type"] = "TREE"
    with pytest.raises(ValueError, match=r"indices\.0\.type") as raised:
        component(attributes)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("line", [line for text in examples(PAGE, "bash") for line in text.splitlines()])
def test_commands_in_the_index_guide_are_accepted(line, monkeypatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("lance_pipelines.command_runs.run_operation", lambda *args, **kwargs: seen.append(args) or [])
    command = shlex.split(line.removeprefix("uv run lance-pipelines "))
    assert CliRunner().invoke(cli.main, command).exit_code == 0
    assert seen


def test_index_guide_lists_every_type_threshold_and_field() -> None:
    for kind in IndexType:
        assert f"`{kind}`" in TEXT
    for name, value in dataclasses.asdict(IndexPolicy()).items():
        assert re.search(rf"\| `{name}` \| {value} \|", TEXT), name
    for each in dataclasses.fields(IndexDeclaration):
        assert re.search(rf"^\| `{each.name}` \|", TEXT, re.MULTILINE), each.name
    for name in {**BuildIndexConfig.model_fields, **OptimizeIndicesConfig.model_fields}:
        assert f"`{name}`" in TEXT, name
