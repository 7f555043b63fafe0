"""The description of an ingest in docs/architecture.md matches the code."""

import ast
from pathlib import Path

import pytest

from tests.support.walks import steps_of

PACKAGE = Path(__file__).resolve().parents[2] / "lance_pipelines"

HANDS_TO = {
    "definitions": {"build", "declarations"},
    "build": {"assets/ingested_dataset", "checks/asset_checks"},
    "assets/ingested_dataset": {"ops/write_fragments", "ops/commit_fragments"},
    "ops/write_fragments": {"ops/ingest_config", "spark/staging", "resources/spark", "frames/staging"},
    "spark/staging": {
        "ingest/write_plan",
        "spark/sources",
        "ingest/partition_rows",
        "spark/schema",
        "ingest/schema_changes",
        "spark/writer",
        "ingest/staged_write",
    },
    "spark/writer": {"spark/conform"},
    "ingest/staged_write": {"step_messages"},
    "ops/commit_fragments": {"ingest/staged_write", "events/committed_write"},
    "events/committed_write": {
        "ingest/write_commit",
        "ingest/write_report",
        "events/data_version",
        "events/asset_metadata",
    },
    "ingest/write_commit": {"ingest/verify"},
}
"""The modules that each module of the walk calls."""

DECLARED = {"ingest/declaration"}
"""Modules whose values all steps get."""


def _tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module}.py").read_text())


@pytest.mark.parametrize(("module", "function"), steps_of("Ingest"))
def test_each_step_of_an_ingest_is_a_function_of_its_module(module: str, function: str) -> None:
    body: list[ast.stmt] = _tree(module).body
    for name in function.split("."):
        [found] = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
        body = found.body


def test_each_module_in_the_ingest_description_is_imported_by_its_caller() -> None:
    assert {module for module, _ in steps_of("Ingest")} == set(HANDS_TO).union(*HANDS_TO.values()) | DECLARED
    for module, called in HANDS_TO.items():
        imported = {
            node.module.removeprefix("lance_pipelines.").replace(".", "/")
            for node in ast.walk(_tree(module))
            if isinstance(node, ast.ImportFrom) and node.module is not None
        }
        assert called <= imported
