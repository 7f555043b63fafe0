"""Modules that users of pylance import export only its names, and each name is the same object in all of them."""

import builtins
import importlib
import operator
import subprocess
import sys
from types import ModuleType

import pytest

import lance_core

MODULES = [
    "arrow",
    "bitmap",
    "blob",
    "commit",
    "dataset",
    "debug",
    "file",
    "fragment",
    "log",
    "optimize",
    "progress",
    "pydantic",
    "sampler",
    "schema",
    "types",
    "udf",
    "util",
    "vector",
]
"""Modules of pylance that exist here."""

FOR_TYPE_CHECKERS = {"types": {"ReaderLike"}}
"""Names that the reference defines for type checkers only."""

OURS_ONLY = {"optimize": {"PlanFigures", "RewriteCommit", "commit_rewrites", "plan_again"}, "schema": {"LanceField"}}
"""Public names of these modules that the reference does not have."""


def reference_names(module: str) -> set[str]:
    """Return the public names of the reference's module, except names imported from other libraries."""
    reference = importlib.import_module(f"lance.{module}")
    names = {name for name, value in vars(reference).items() if not name.startswith("_") and _is_its_own(name, value)}
    return names | FOR_TYPE_CHECKERS.get(module, set())


def _is_its_own(name: str, value: object) -> bool:
    if isinstance(value, ModuleType) or name in {"TYPE_CHECKING", "annotations"}:
        return False
    home = getattr(value, "__module__", None)
    if home is None or home.partition(".")[0] in {"lance", "_lib", builtins.__name__}:
        return True
    return getattr(sys.modules.get(home), name, None) is not value


@pytest.mark.parametrize("module", MODULES)
def test_every_listed_name_exists_in_pylance(module: str) -> None:
    # Import the reference first: its module of Arrow types cannot be imported after ours.
    names = reference_names(module)
    ours = importlib.import_module(f"lance_core.{module}")
    assert set(ours.__all__) - OURS_ONLY.get(module, set()) <= names
    assert all(hasattr(ours, name) for name in ours.__all__)


@pytest.mark.parametrize("module", MODULES)
def test_a_name_is_the_same_object_in_every_module_that_exports_it(module: str) -> None:
    ours = importlib.import_module(f"lance_core.{module}")
    others = [lance_core, *(importlib.import_module(f"lance_core.{other}") for other in MODULES)]
    for name in ours.__all__:
        listing = [other for other in others if name in other.__all__]
        assert all(getattr(other, name) is getattr(ours, name) for other in listing), name


@pytest.mark.parametrize("name", ["LANCE_COMMIT_MESSAGE_KEY", "DEFAULT_BLOB_BUFFER_SIZE"])
def test_dataset_constants_have_the_same_values_as_in_pylance(name: str) -> None:
    ours, reference = (importlib.import_module(f"{library}.dataset") for library in ("lance_core", "lance"))
    assert getattr(ours, name) == getattr(reference, name)


def test_default_max_bytes_per_file_equals_that_of_pylance() -> None:
    ours, reference = (importlib.import_module(f"{library}.fragment") for library in ("lance_core", "lance"))
    assert ours.DEFAULT_MAX_BYTES_PER_FILE == reference.DEFAULT_MAX_BYTES_PER_FILE


@pytest.mark.parametrize(
    "statements",
    [
        "from lance_core.dataset import LanceDataset; import lance_core",
        "import lance_core.dataset; lance_core.dataset.__name__",
        "import lance_core; lance_core.dataset; from lance_core.dataset import write_dataset",
        "import importlib; importlib.import_module('lance_core.dataset'); import lance_core",
    ],
)
def test_lance_core_dataset_remains_a_function_after_the_module_is_imported(statements: str) -> None:
    program = f"{statements}\nimport types\nassert type(lance_core.dataset) is types.FunctionType"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_every_public_module_is_an_attribute_of_the_package_after_the_package_is_imported() -> None:
    # Each in a process of its own, because a module may import others; what most of them need is loaded once.
    program = """
import lance_core, numpy, os, pyarrow.compute, pyarrow.dataset, sys, types
for module in sys.argv[1:]:
    if os.fork() == 0:
        os._exit(type(getattr(lance_core, module)) is not types.ModuleType)
    if os.wait()[1]:
        print(module)
"""
    modules = sorted({*MODULES, "errors", "metadata", "repair"} - {"dataset"})
    done = subprocess.run([sys.executable, "-c", program, *modules], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_dataset_module_rejects_unknown_names() -> None:
    module = importlib.import_module("lance_core.dataset")
    with pytest.raises(AttributeError, match="no attribute 'teleport'"):
        operator.attrgetter("teleport")(module)
    assert isinstance(module, ModuleType)
    assert set(dir(module)) == set(module.__all__)
