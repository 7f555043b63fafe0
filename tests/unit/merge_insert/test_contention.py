"""A merge that conflicts in every attempt ends when its limits are reached, and leaves no files behind."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, InvalidTypeError, TooMuchWriteContentionError
from lance_core.table.version_log import VersionLog

ROWS = pa.table({"k": range(6), "s": ["v"] * 6, "x": range(6)})
SOURCE = pa.table({"k": [2, 5, 9], "s": ["w"] * 3, "x": [7, 8, 9]})


class Rival:
    """A writer that changes the same row before each version that another writer is about to create."""

    def __init__(self, uri: str, monkeypatch: pytest.MonkeyPatch, most_changes: int = 100) -> None:
        self.num_changes, self._most_changes = 0, most_changes
        self._uri, self._is_at_work = uri, False
        self._create = VersionLog.create
        monkeypatch.setattr(VersionLog, "create", lambda log, *arguments: self._late(log, *arguments))

    def _late(self, log: VersionLog, *arguments: Any) -> object:
        if not self._is_at_work and self.num_changes < self._most_changes:
            self._is_at_work = True
            try:
                lance.dataset(self._uri).update({"x": f"{self.num_changes}"}, where="k = 2")
            finally:
                self._is_at_work = False
            self.num_changes += 1
        return self._create(log, *arguments)


def _merge(uri: str, mode: str) -> Any:
    merge = lance_core.dataset(uri).merge_insert("k").when_matched_update_all()
    return merge.write_mode("rewrite_columns") if mode == "columns" else merge.when_not_matched_insert_all()


def _files(uri: str) -> set[str]:
    dataset = lance.dataset(uri)
    named = {file.path for version in dataset.versions() for file in _data_files(uri, version["version"])}
    return {path.name for path in (Path(uri) / "data").iterdir()} - named


def _data_files(uri: str, version: int) -> list[Any]:
    fragments = lance.dataset(uri, version=version).get_fragments()
    return [file for fragment in fragments for file in fragment.data_files()]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, max_rows_per_file=3)
    return uri


@pytest.mark.parametrize("mode", ["rows", "columns"])
@pytest.mark.parametrize("retries", [0, 3])
def test_merge_is_retried_the_requested_number_of_times(
    uri: str, mode: str, retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = _merge(uri, mode).conflict_retries(retries)
    rival = Rival(uri, monkeypatch)
    with pytest.raises(TooMuchWriteContentionError, match="merge"):
        merge.execute(SOURCE if mode == "rows" else SOURCE.select(["k", "x"]))
    assert rival.num_changes == retries + 1
    assert _files(uri) == set()
    rows = lance.dataset(uri).to_table().sort_by("k")
    assert rows["x"].to_pylist() == [0, 1, retries, 3, 4, 5]


@pytest.mark.parametrize("mode", ["rows", "columns"])
def test_files_of_merge_attempts_that_failed_with_a_conflict_are_removed(
    uri: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Rival(uri, monkeypatch, most_changes=2)
    _merge(uri, mode).execute(SOURCE if mode == "rows" else SOURCE.select(["k", "x"]))
    assert _files(uri) == set()
    assert lance.dataset(uri).to_table().sort_by("k")["x"].to_pylist()[:6] == [0, 1, 7, 3, 4, 8]


def test_merge_is_not_retried_after_its_timeout(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    merge = _merge(uri, "rows").retry_timeout(timedelta(0))
    rival = Rival(uri, monkeypatch)
    with pytest.raises(TooMuchWriteContentionError):
        merge.execute(SOURCE)
    assert rival.num_changes == 1
    assert _files(uri) == set()


def test_invalid_merge_retries_and_timeouts_are_refused(uri: str) -> None:
    merge = _merge(uri, "rows")
    with pytest.raises(InvalidInputError):
        merge.conflict_retries(-1)
    with pytest.raises(InvalidTypeError):
        merge.conflict_retries(1.5)
    with pytest.raises(InvalidInputError):
        merge.retry_timeout(timedelta(seconds=-1))
    with pytest.raises(InvalidTypeError):
        merge.retry_timeout(5)
