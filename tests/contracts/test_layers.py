"""The import contracts cover every package, and no module imports itself through others."""

import ast
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]

INTERNAL_ATTRIBUTES = {
    "view",
    "locator",
    "HasField",
    "WhichOneof",
    "SerializeToString",
    "ByteSize",
    "from_proto",
    "to_proto",
}
INTERNAL_CHAINS = {
    ("log", "store"),
    ("log", "root"),
    ("operation", "touched_fragments"),
    ("operation", "rewritten_groups"),
}
"""Attributes by which public objects of ``lance_core`` lead to internal ones, alone or as pairs."""


def test_every_module_at_the_top_of_lance_core_is_in_a_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    listed = {name.strip() for layer in layers for name in layer.split("|")}
    children = {path.parent.name for path in (ROOT / "lance_core").glob("*/__init__.py")}
    children |= {path.stem for path in (ROOT / "lance_core").glob("*.py")} - {"__init__"}
    assert listed == {f"lance_core.{name}" for name in children} | {"lance_pipelines"}


def test_no_module_imports_itself_through_other_modules_or_its_package() -> None:
    # The contract for siblings does not see a module that imports the package that contains it.
    graph = grimp.build_graph("lance_core", "lance_pipelines", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(list(TopologicalSorter(imports).static_order())) == len(graph.modules)


def test_pipelines_reach_no_internal_object_through_a_public_one() -> None:
    reached = [
        f"{path.relative_to(ROOT)}:{node.lineno}: .{node.attr}"
        for path in sorted((ROOT / "lance_pipelines").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and _is_internal(node)
    ]
    assert reached == []


def _is_internal(node: ast.Attribute) -> bool:
    outer = node.value.attr if isinstance(node.value, ast.Attribute) else None
    # The messages of a manifest and of a fragment are protobuf's; errors and events have texts of this name.
    return node.attr in INTERNAL_ATTRIBUTES or outer == "message" or (outer, node.attr) in INTERNAL_CHAINS
