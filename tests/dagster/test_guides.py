"""The examples in the guides are correct."""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.system_config.objects import ResolvedRunConfig

from lance_pipelines.declarations import default_declarations
from lance_pipelines.definitions import application
from lance_pipelines.ops.ingest_config import IngestConfig, apply_config
from lance_pipelines.settings import Settings

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "ingest-your-own-files.md").read_text()
SETTINGS = Settings(warehouse="/warehouse")


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.mark.parametrize("text", examples("yaml"))
def test_run_configurations_in_the_guide_are_accepted(text) -> None:
    document = yaml.safe_load(text)
    job = application(SETTINGS).resolve_job_def("installed_files__ingest")
    ResolvedRunConfig.build(job, document)
    (declaration,) = default_declarations(SETTINGS)
    changed = apply_config(declaration, IngestConfig(**document["ops"]["installed_files"]["config"]))
    assert changed.uri.startswith("/data/lake/")
    assert changed.source.paths


def test_the_declaration_in_the_guide_loads() -> None:
    text = examples("python")[0]
    namespace: dict[str, object] = {}
    exec(compile(text, "guide", "exec"), namespace)
    defs = namespace["defs"]
    dg.Definitions.validate_loadable(defs)
    assert defs.resolve_job_def("trips__ingest").asset_layer.executable_asset_keys == {dg.AssetKey("trips")}


def test_every_setting_is_listed_in_the_guide() -> None:
    from lance_pipelines import settings

    for name in (settings.WAREHOUSE_VARIABLE, settings.EXECUTOR_VARIABLE):
        assert f"`{name}`" in GUIDE
        assert name in settings.__doc__


@pytest.mark.parametrize("text", examples("python")[1:])
def test_python_examples_in_other_guides_can_be_loaded(text) -> None:
    namespace: dict[str, object] = {}
    exec(compile(text, "guide", "exec"), namespace)
    if "defs" in namespace:
        dg.Definitions.validate_loadable(namespace["defs"])
