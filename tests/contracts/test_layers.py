"""The import contracts cover every package."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_module_at_the_top_of_lance_core_is_in_a_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    listed = {name.strip() for layer in layers for name in layer.split("|")}
    children = {path.parent.name for path in (ROOT / "lance_core").glob("*/__init__.py")}
    children |= {path.stem for path in (ROOT / "lance_core").glob("*.py")} - {"__init__"}
    assert listed == {f"lance_core.{name}" for name in children} | {"lance_pipelines"}
