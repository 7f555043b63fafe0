"""Four processes change one table on local disk concurrently, two of them with pylance: no change is lost or repeated.

They append, delete, update, and upsert rows, compact fragments with rows of each other, and add and drop columns.
In the end, no row is lost or duplicated, versions are contiguous, every manifest has the version number in its
name, and every version was created by exactly one transaction.
"""

import json
import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.table.manifest_file import parse_manifest_file
from lance_core.table.paths import parse_manifest_name
from tests.support.processes import run_together, start_python

LIBRARIES = ("lance_core", "lance", "lance_core", "lance")
EMPTY = pa.schema([("writer", pa.int64()), ("number", pa.int64()), ("value", pa.int64())]).empty_table()

TABLES = {
    "v2": {},
    "v1": {"enable_v2_manifest_paths": False},
    "v2 stable": {"enable_stable_row_ids": True},
    "v1 stable": {"enable_v2_manifest_paths": False, "enable_stable_row_ids": True},
}


def _work_together(uri: str, num_commits: int) -> tuple[dict[tuple[int, int], int], set[str]]:
    """Start all processes at once; return the value of each row by writer and number, and the remaining columns."""
    processes = [
        start_python("-m", "tests.support.mixed_writer", library, uri, str(writer), str(num_commits), "7")
        for writer, library in enumerate(LIBRARIES)
    ]
    answers = [json.loads(output) for output in run_together(processes, timeout=550)]
    rows = {
        (writer, int(number)): value
        for writer, answer in enumerate(answers)
        for number, value in answer["rows"].items()
    }
    return rows, {f"column_{writer}" for writer, answer in enumerate(answers) if answer["has_column"]}


def _check_rows_and_versions(
    uri: str, expected: dict[tuple[int, int], int], columns: set[str], num_commits: int
) -> None:
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    ours.validate()
    theirs.validate()
    for table in (ours.to_table(), theirs.to_table()):
        assert set(table.column_names) == {*EMPTY.column_names, *columns}
        found = sorted((row["writer"], row["number"], row["value"]) for row in table.to_pylist())
        for name in columns:
            assert all(row[name] in {None, row["number"]} for row in table.to_pylist())
        assert found == sorted((writer, number, value) for (writer, number), value in expected.items())
    if ours.has_stable_row_ids:
        row_ids = theirs.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
        assert len(set(row_ids)) == len(row_ids) == len(expected)
    names = {name: parse_manifest_name(name) for name in os.listdir(f"{uri}/_versions") if name.endswith(".manifest")}
    numbers = sorted(name.version for name in names.values())
    assert numbers == list(range(1, theirs.version + 1)) == [each["version"] for each in theirs.versions()]
    assert numbers == [each["version"] for each in ours.version_refs()]
    # Appends, deletes, and updates create a version each; only a compaction may have nothing to do.
    assert theirs.version > num_commits
    for name, parsed in names.items():
        path = Path(uri) / "_versions" / name
        assert parse_manifest_file(path.read_bytes(), str(path)).message.version == parsed.version
    made = [ours.read_transaction(number).uuid for number in numbers]
    assert len(set(made)) == len(made)


def _race(uri: str, kind: str, num_commits: int) -> None:
    lance_core.write_dataset(EMPTY, uri, **TABLES[kind])
    _check_rows_and_versions(uri, *_work_together(uri, num_commits), num_commits)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v2"])
def test_concurrent_changes_of_four_processes_keep_every_row_exactly_once(kind: str, tmp_path: Path) -> None:
    _race(str(tmp_path / "table"), kind, 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v1", "v2 stable"])
def test_concurrent_changes_of_four_processes_with_other_settings_keep_every_row_exactly_once(
    kind: str, tmp_path: Path
) -> None:
    _race(str(tmp_path / "table"), kind, 10)


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(TABLES))
def test_many_concurrent_changes_of_four_processes_keep_every_row_exactly_once(kind: str, tmp_path: Path) -> None:
    _race(str(tmp_path / "table"), kind, 50)
