"""Several processes append to a table concurrently: every call succeeds, no version is skipped, and no row is lost or
duplicated."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from tests.support.racing_writers import append_together


def _check_appends(uri: Path, versions: list[list[int]], num_appends: int) -> None:
    made = sorted(version for each in versions for version in each)
    assert made == list(range(2, len(versions) * num_appends + 2))
    dataset = lance_core.dataset(uri)
    assert [each["version"] for each in dataset.version_refs()] == [1, *made]
    rows = dataset.to_table()
    found = sorted(zip(rows["writer"].to_pylist(), rows["number"].to_pylist(), strict=True))
    assert found == [(writer, number) for writer in range(len(versions)) for number in range(num_appends)]
    ids = [fragment.fragment_id for fragment in dataset.get_fragments()]
    assert ids == list(range(len(made)))
    dataset.validate()
    lance.dataset(str(uri)).validate()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    empty = pa.table({"writer": pa.array([], pa.int64()), "number": pa.array([], pa.int64())})
    lance_core.write_dataset(empty, tmp_path / "t")
    return tmp_path / "t"


@pytest.mark.slow
def test_simultaneous_appends_of_lance_core_and_pylance_keep_every_row(table: Path) -> None:
    versions = append_together(table, {}, ["lance_core", "lance", "lance_core", "lance"], 25)
    _check_appends(table, versions, 25)


@pytest.mark.slow
def test_simultaneous_first_appends_keep_every_row(tmp_path: Path) -> None:
    uri = tmp_path / "absent"
    versions = append_together(uri, {}, ["lance_core"] * 3, 2)
    assert sorted(version for each in versions for version in each) == list(range(1, 7))
    rows = lance_core.dataset(uri).to_table()
    found = sorted(zip(rows["writer"].to_pylist(), rows["number"].to_pylist(), strict=True))
    assert found == [(writer, number) for writer in range(3) for number in range(2)]
    lance.dataset(str(uri)).validate()


@pytest.mark.slow
def test_simultaneous_appends_of_six_lance_core_processes_keep_every_row(table: Path) -> None:
    _check_appends(table, append_together(table, {}, ["lance_core"] * 6, 40), 40)
