"""Links in the documentation lead to existing files, and its examples import only public names."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import lance_core

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PUBLIC_MODULES = {
    "arrow",
    "blob",
    "commit",
    "dataset",
    "errors",
    "file",
    "fragment",
    "metadata",
    "optimize",
    "repair",
    "progress",
    "sampler",
    "schema",
    "types",
    "udf",
    "util",
    "vector",
}
EXAMPLE = re.compile(r"^( *)```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
MENTION = re.compile(r"`lance_core\.(\w+)")
LINK = re.compile(r"\[[^\]\n]+\]\((?!https?://|#)([^)#\s(]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_in_the_documentation_lead_to_existing_files(page: Path) -> None:
    broken = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert broken == []


def test_every_guide_and_concept_is_reachable_from_the_index() -> None:
    listed = set(LINK.findall((ROOT / "docs" / "index.md").read_text()))
    pages = {f"{room}/{page.name}" for room in ("concepts", "guides") for page in (ROOT / "docs" / room).glob("*.md")}
    assert pages <= listed


def test_public_modules_equal_those_in_the_package_docstring() -> None:
    documented = set(re.findall(r"``([a-z]+)``", str(lance_core.__doc__)))
    assert documented == PUBLIC_MODULES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documentation_examples_import_only_public_names(page: Path) -> None:
    assert [name for name in _imported(page.read_text()) if not _is_public(name)] == []


@pytest.mark.parametrize("folder", ["concepts", "guides"])
def test_user_documentation_contains_only_public_dotted_names(folder: str) -> None:
    mentioned = {name for page in (ROOT / "docs" / folder).glob("*.md") for name in MENTION.findall(page.read_text())}
    # "cli" is part of a command, and "columns" of the package name of a protobuf file.
    assert mentioned <= PUBLIC_MODULES | set(lance_core.__all__) | {"cli", "columns"}


def _imported(text: str) -> list[str]:
    """Return the dotted names that examples import from ``lance_core``."""
    names = []
    for indent, body in EXAMPLE.findall(text):
        for node in ast.walk(ast.parse(re.sub(rf"^{indent}", "", body, flags=re.MULTILINE))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "lance_core":
                names += [f"{node.module}.{each.name}" for each in node.names]
            if isinstance(node, ast.Import):
                names += [each.name for each in node.names if each.name.startswith("lance_core.")]
    return names


def _is_public(name: str) -> bool:
    module, _, last = name.rpartition(".")
    if module == "lance_core" and last in PUBLIC_MODULES:
        return True
    is_known = module.removeprefix("lance_core.") in PUBLIC_MODULES | {"lance_core"}
    return is_known and last in import_module(module).__all__
