"""Rows replaced by lance_core are read by pylance, and both libraries change the table in turn."""

import json
import subprocess
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from tests.support.processes import run_together, start_python

ROWS = pa.table({"day": [1, 1, 2, 2, 3], "v": [10, 11, 20, 21, 30]})
NEW = pa.table({"day": [2], "v": [200]})

WORKER = """
import json, sys, pyarrow as pa
from datetime import timedelta
library, uri, day, first, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
module = __import__(library)
print("ready", flush=True)
sys.stdin.readline()
answers = []
for number in range(count):
    rows = pa.table({"day": [day], "v": [first + number]})
    if library == "lance":
        module.write_dataset(rows, uri, mode="append")
    else:
        more = {"retry_timeout": timedelta(minutes=5), "conflict_retries": 1000}
        answers.append(module.dataset(uri).replace_rows(f"day = {day}", rows, **more)["num_deleted_rows"])
print(json.dumps(answers), flush=True)
"""


def _start(library: str, uri: str, day: int, first: int, count: int) -> subprocess.Popen[str]:
    return start_python("-c", WORKER, library, uri, str(day), str(first), str(count))


def _race(*processes: subprocess.Popen[str]) -> list[list[int]]:
    return [json.loads(output) for output in run_together(list(processes), timeout=300)]


def _values(uri: str) -> list[int]:
    values = [sorted(module.dataset(uri).to_table()["v"].to_pylist()) for module in (lance, lance_core)]
    assert values[0] == values[1]
    lance.dataset(uri).validate()
    lance_core.dataset(uri).validate()
    return values[0]


@pytest.mark.parametrize(
    ("version", "stable"),
    [*((version, False) for version in ("0.1", "2.0", "2.1", "2.2")), ("2.1", True), ("2.2", True)],
)
def test_pylance_reads_and_changes_a_table_with_replaced_rows(uri: str, version: str, stable: bool) -> None:
    lance.write_dataset(
        ROWS, uri, max_rows_per_file=3, data_storage_version=version, enable_stable_row_ids=stable, mode="create"
    )
    lance_core.dataset(uri).replace_rows("day = 2", NEW)
    lance_core.dataset(uri).replace_rows("day = 3", ROWS.slice(4))
    assert _values(uri) == [10, 11, 30, 200]
    operation = lance.dataset(uri).read_transaction(2).operation
    assert type(operation).__name__ == "Update"
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).delete("v = 200")
    assert _values(uri) == [10, 11, 30]


def test_a_pylance_index_finds_replaced_rows(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    lance.dataset(uri).create_scalar_index("day", "BTREE")
    lance_core.dataset(uri).replace_rows("day = 2", NEW)
    assert lance.dataset(uri).to_table(filter="day = 2").to_pydict() == {"day": [2], "v": [200]}
    assert lance.dataset(uri).to_table(filter="day = 1")["v"].to_pylist() == [10, 11]


def test_rows_that_match_the_predicate_only_after_a_pylance_update_are_also_replaced(uri: str) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=2)
    stale = lance_core.dataset(uri)
    lance.dataset(uri).update({"day": "2"}, where="day = 3")
    assert stale.replace_rows("day = 2", NEW) == {"num_deleted_rows": 3, "num_inserted_rows": 1}
    assert _values(uri) == [10, 11, 200]


@pytest.mark.slow
def test_simultaneous_replacements_of_different_days_all_take_effect(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri)
    answers = _race(*(_start("lance_core", uri, day, 100 * day, 5) for day in (1, 2)))
    assert answers == [[2, 1, 1, 1, 1]] * 2
    assert _values(uri) == [30, 104, 204]
    assert lance_core.dataset(uri).version == 11


@pytest.mark.slow
def test_simultaneous_replacements_of_the_same_day_leave_the_rows_of_exactly_one_writer(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri)
    answers = _race(*(_start("lance_core", uri, 7, first, 5) for first in (100, 200)))
    # The first replacement finds no row, and each later one finds the row of its predecessor.
    assert sorted(deleted for each in answers for deleted in each) == [0] + [1] * 9
    assert _values(uri) in ([10, 11, 20, 21, 30, 104], [10, 11, 20, 21, 30, 204])


@pytest.mark.slow
def test_replacements_concurrent_with_pylance_appends_lose_no_rows_of_other_days(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri)
    _race(_start("lance_core", uri, 2, 200, 6), _start("lance", uri, 3, 300, 12), _start("lance", uri, 2, 500, 6))
    left = _values(uri)
    assert [value for value in left if value not in range(500, 506)] == [10, 11, 30, 205, *range(300, 312)]
    assert lance_core.dataset(uri).version == 1 + 6 + 12 + 6
