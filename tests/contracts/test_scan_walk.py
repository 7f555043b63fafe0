"""The description of a scan in docs/architecture.md matches the code."""

from typing import Any

import pyarrow as pa
import pytest

import lance_core
from tests.support.walks import check_steps, crossed_by, exceptions_of, steps_of

DEEPEST = {
    ("encodings/page_decoder", "open_page"),
    ("encodings/page_decoder", "read_leaf"),
    ("encodings/page_decoder", "assemble"),
    ("io/local_store", "get"),
    ("io/local_store", "get_ranges"),
}
"""Functions that decode pages or read bytes: a scan crosses the modules on the stack when they are called."""


ROWS = pa.table({"a": range(30_000), "b": [[row, -row] for row in range(30_000)]})
FLAT_ROWS = ROWS.select(["a"]).append_column("s", pa.array(["x" * (row % 50) for row in range(30_000)]))

DELETIONS = "table/deletion_vector"
GROUPS = {"scan/fragment_group", "file/file_group"}
SOURCES_2_0 = {"file/v2_0/fields"}
SOURCES_0_1 = {"file/v0_1/fields"}


@pytest.fixture(scope="module")
def locations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A table of each kind: as written, with deleted rows, and in two older formats."""
    root = tmp_path_factory.mktemp("walk")
    # Three fragments, of which the second and the third are read together.
    for name, rows, version in [
        ("whole", ROWS, None),
        ("deleted", ROWS, None),
        ("2.0", ROWS, "2.0"),
        ("0.1", FLAT_ROWS, "0.1"),
    ]:
        lance_core.write_dataset(rows, root / name, max_rows_per_file=10_000, data_storage_version=version)
    lance_core.dataset(root / "deleted").delete("a % 100 = 6")
    return {path.name: str(path) for path in root.iterdir()}


@pytest.mark.parametrize(
    ("name", "exceptions"),
    [("whole", GROUPS), ("deleted", {DELETIONS, *GROUPS}), ("2.0", SOURCES_2_0), ("0.1", SOURCES_0_1)],
)
@pytest.mark.parametrize(
    "arguments", [{"limit": 22_000}, {"filter": "a % 5 = 1"}, {"filter": "a % 5000 = 1"}], ids=["all", "many", "few"]
)
def test_every_module_used_by_a_scan_is_in_the_description_of_scans(
    locations: dict[str, str], name: str, exceptions: set[str], arguments: dict[str, Any]
) -> None:
    scanner = lance_core.dataset(locations[name]).scanner(**arguments)
    crossed = crossed_by(scanner.to_table, lambda module, function: (module, function) in DEEPEST)
    assert len(crossed) > 5
    assert crossed - {module for module, _ in steps_of("Scan")} <= exceptions
    assert exceptions <= exceptions_of("Scan")


def test_scans_use_every_module_that_the_description_lists_as_conditional(
    locations: dict[str, str],
) -> None:
    steps = {module for module, _ in steps_of("Scan")}
    crossed: set[str] = set()
    for location in locations.values():
        scanner = lance_core.dataset(location).scanner(filter="a % 5 = 1")
        crossed |= crossed_by(scanner.to_table, lambda module, function: (module, function) in DEEPEST)
    assert crossed - steps == {DELETIONS, *GROUPS, *SOURCES_2_0, *SOURCES_0_1}


def test_scan_description_names_existing_functions_of_at_most_twelve_modules() -> None:
    check_steps(steps_of("Scan"))
