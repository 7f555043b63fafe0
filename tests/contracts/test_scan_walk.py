"""The scan in docs/architecture.md is the scan that the code performs."""

import pyarrow as pa
import pytest

import lance_core
from tests.support.walks import check_steps, crossed_by, steps_of

DEEPEST = {
    ("encodings/page_decoder", "open_page"),
    ("encodings/page_decoder", "read_leaf"),
    ("encodings/page_decoder", "assemble"),
    ("io/local_store", "get_ranges"),
}
"""Functions that decode pages or read bytes: a scan crosses the modules on the stack when they are called."""


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
    scanner = lance_core.dataset(uri).scanner(**arguments)
    crossed = crossed_by(scanner.to_table, lambda module, function: (module, function) in DEEPEST)
    assert len(crossed) > 5
    assert crossed <= {module for module, _ in steps_of("Scan")}


def test_scan_description_names_existing_functions_of_at_most_twelve_modules() -> None:
    check_steps(steps_of("Scan"))
