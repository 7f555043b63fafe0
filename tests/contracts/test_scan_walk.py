"""The scan in docs/architecture.md is the scan that the code performs."""

import importlib
import re
import sys
import threading
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

import lance_core

ROOT = Path(__file__).resolve().parents[2]
PREFIX = f"{Path(lance_core.__file__).parent}/"
SECTION = re.compile(r"^## Scan: .*?(?=^## |^Every module)", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"`([a-z_0-9/]+): ([A-Za-z_.]+)`")

MAX_MODULES = 12
DEEPEST = {
    ("encodings/page_decoder", "open_page"),
    ("encodings/page_decoder", "read_leaf"),
    ("encodings/page_decoder", "assemble"),
    ("io/local_store", "get_ranges"),
}
"""Functions that decode pages or read bytes: a scan crosses the modules on the stack when they are called."""


def _steps() -> list[tuple[str, str]]:
    section = SECTION.search((ROOT / "docs" / "architecture.md").read_text())
    assert section is not None
    return STEP.findall(section.group())


def _module(frame: FrameType) -> str | None:
    path = frame.f_code.co_filename
    return path.removeprefix(PREFIX).removesuffix(".py") if path.startswith(PREFIX) else None


def _crossed_by_scan(uri: str, **arguments: object) -> set[str]:
    """Return the modules on the stack of a scan whenever a page is decoded or bytes are read; stores count as one."""
    crossed: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (_module(frame), frame.f_code.co_name) not in DEEPEST:
            return
        caller: FrameType | None = frame
        while caller is not None:
            module = _module(caller)
            if module is not None:
                crossed.add("io/object_store" if module.startswith("io/") else module)
            caller = caller.f_back

    scanner = lance_core.dataset(uri).scanner(**arguments)
    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        assert scanner.to_table().num_rows
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return crossed


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("walk") / "t.lance"
    rows = pa.table({"a": range(20_000), "b": [[row, -row] for row in range(20_000)]})
    lance_core.write_dataset(rows, path, max_rows_per_file=10_000)
    return str(path)


@pytest.mark.parametrize(
    "arguments", [{}, {"filter": "a % 5 = 1"}, {"filter": "a % 5000 = 1"}], ids=["all", "many", "few"]
)
def test_every_module_that_a_scan_crosses_is_a_step_of_its_description(uri: str, arguments: dict[str, str]) -> None:
    crossed = _crossed_by_scan(uri, **arguments)
    assert len(crossed) > 5
    assert crossed <= {module for module, _ in _steps()}


def test_scan_description_names_existing_functions_of_at_most_twelve_modules() -> None:
    steps = _steps()
    for module, function in steps:
        found: object = importlib.import_module(f"lance_core.{module.replace('/', '.')}")
        for name in function.split("."):
            found = getattr(found, name)
        assert callable(found)
    assert len({module for module, _ in steps}) <= MAX_MODULES
