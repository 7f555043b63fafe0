"""The import contracts cover every package, and no module imports itself through others."""

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import grimp
import pytest

import lance_core
from tests.contracts.test_docs import PUBLIC_MODULES

_DOTTED = re.compile(r"lance_core\.[\w.]*(:\w+)?")
"""The name of something in lance_core, or the beginning of one."""

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


def test_modules_are_imported_only_by_statements_that_the_contracts_check() -> None:
    """The exceptions are lazily loaded names of packages, compiled kernels, and modules that users specify."""
    hidden = {
        str(path.relative_to(ROOT))
        for package in ("lance_core", "lance_pipelines")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("import_module", "importlib.import_module")
        if not re.match(r"'(?!lance_)", ast.unparse(node.args[0]))  # the literal name of another library's module
    }
    assert {path for path in hidden if not path.endswith("__init__.py")} == {
        "lance_core/dataset.py",
        "lance_core/encodings/kernels/loading.py",
        "lance_core/io/fsspec_store.py",
        "lance_pipelines/command_runs.py",
        "lance_pipelines/components/yaml_types.py",
    }


def test_lance_pipelines_accesses_no_internal_object_through_a_public_object() -> None:
    reached = [
        f"{path.relative_to(ROOT)}:{node.lineno}: .{node.attr}"
        for path in sorted((ROOT / "lance_pipelines").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and _is_internal(node)
    ]
    assert reached == []


def test_lance_pipelines_uses_only_public_parts_of_lance_core() -> None:
    # The import contract sees import statements, but neither attributes of the imported package nor names in strings.
    named = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "lance_pipelines").rglob("*.py"))
        for line, name in _names_in_lance_core(ast.parse(path.read_text()))
        if not _is_public(name)
    ]
    assert named == []


@pytest.mark.parametrize(
    "source",
    [
        "import lance_core\nlance_core.table.manifest.Manifest",
        "import lance_core.metadata\nlance_core.table",
        "import lance_core as core\ncore.scan.scanner.LanceScanner",
        "import lance_core\nlance_core.file.reader.FileReader",
        "def f():\n    import lance_core\n    return lance_core.scan",
        "from importlib import import_module\nimport_module('lance_core.table.manifest')",
        "import importlib\nimportlib.import_module(name='lance_core.table')",
        "__import__('lance_core.io')",
        "__import__(f'lance_core.{name}')",
        "import lance_core\ngetattr(lance_core, 'table')",
    ],
)
def test_internal_references_to_lance_core_are_detected_in_every_spelling(source: str) -> None:
    assert [name for _, name in _names_in_lance_core(ast.parse(source)) if not _is_public(name)]


@pytest.mark.parametrize(
    "source",
    [
        "import lance_core\nlance_core.LanceDataset.commit",
        "import lance_core.metadata\nlance_core.metadata.CleanupPolicy",
        "import_module('lance_core.metadata')",
        "'lance_core.table is not imported'",
    ],
)
def test_public_references_to_lance_core_and_ordinary_text_are_accepted(source: str) -> None:
    assert not [name for _, name in _names_in_lance_core(ast.parse(source)) if not _is_public(name)]


def _names_in_lance_core(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and dotted name, without the package, of each object that a module uses from ``lance_core``."""
    packages = {
        name.asname or "lance_core"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
        if name.name.split(".")[0] == "lance_core"
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute() if (name := _below(node, packages)) is not None:
                yield node.lineno, name
            case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=owner), ast.Constant(value=str(name)), *_]):
                if owner in packages:
                    yield node.lineno, name
            case ast.Constant(value=str(text)) if _DOTTED.fullmatch(text):
                yield node.lineno, text.removeprefix("lance_core.").partition(":")[0]


def _below(node: ast.expr, packages: set[str]) -> str | None:
    """Return the dotted name of an attribute of one of the packages, or None for attributes of other objects."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return ".".join(names) if isinstance(node, ast.Name) and node.id in packages else None


def _is_public(name: str) -> bool:
    first, *below = name.split(".")
    if first not in PUBLIC_MODULES:
        return first in lance_core.__all__
    return not below or below[0] in import_module(f"lance_core.{first}").__all__


def _is_internal(node: ast.Attribute) -> bool:
    outer = node.value.attr if isinstance(node.value, ast.Attribute) else None
    # In manifests and fragments, `message` is a protobuf message; in errors and events, it is a text.
    return node.attr in INTERNAL_ATTRIBUTES or outer == "message" or (outer, node.attr) in INTERNAL_CHAINS
