"""A compaction whose version is replaced and cleaned up by other processes meanwhile is planned again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.compaction import commit_rewrites
from lance_core.compaction.plan import CompactionTask
from lance_core.errors import RetryableCommitConflictError
from lance_core.io.local_store import LocalStore
from lance_core.optimize import Compaction
from lance_core.table.version_log import VersionLog

NO_AGE = timedelta(0)


def _replace_all(uri: str) -> None:
    """Rewrite all rows into new files as another writer, and remove the old files."""
    rows = lance_core.dataset(uri).to_table()
    lance_core.write_dataset(rows, uri, mode="overwrite", max_rows_per_file=10)
    lance_core.dataset(uri).cleanup_old_versions(older_than=NO_AGE)


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("times", [1, 3, 100])
def test_a_compaction_whose_files_were_cleaned_up_is_planned_again(
    times: int, num_threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "table")
    lance_core.write_dataset(pa.table({"a": range(40)}), uri, max_rows_per_file=10)
    execute, left = CompactionTask.run, [times]

    def execute_late(task: CompactionTask, *arguments: object) -> object:
        if left[0]:
            left[0] -= 1
            _replace_all(uri)
        return execute(task, *arguments)

    monkeypatch.setattr(CompactionTask, "run", execute_late)
    dataset = lance_core.dataset(uri)
    if times == 100:
        with pytest.raises(RetryableCommitConflictError):
            dataset.optimize.compact_files(target_rows_per_fragment=40, num_threads=num_threads)
    else:
        metrics = dataset.optimize.compact_files(target_rows_per_fragment=40, num_threads=num_threads)
        assert (metrics.fragments_removed, metrics.fragments_added) == (4, 1)
    latest = lance_core.dataset(uri)
    latest.validate()
    assert sorted(latest.to_table()["a"].to_pylist()) == list(range(40))
    if times == 100:
        files = {path.name for path in (tmp_path / "table" / "data").iterdir()}
        assert files == {file.path for fragment in latest.manifest.fragments for file in fragment.files}


@pytest.mark.parametrize("position", range(1, 6))
def test_compaction_committed_a_second_time_during_a_cleanup_keeps_its_files(
    position: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing misses both the compaction's version, which is removed meanwhile, and a version created meanwhile."""
    uri = str(tmp_path / "table")
    dataset = lance_core.write_dataset(pa.table({"a": range(20)}), uri, max_rows_per_file=10)
    dataset.tags.create("planned", dataset.version)
    results = [task.execute(dataset) for task in Compaction.plan(dataset, {"target_rows_per_fragment": 40}).tasks]
    Compaction.commit(lance_core.dataset(uri), results)
    listed, left = LocalStore.list_names, [position]

    def list_names(store: LocalStore, prefix: str) -> Iterator[str]:
        if not prefix.endswith("_versions"):
            return listed(store, prefix)
        left[0] -= 1
        names = set(listed(store, prefix))
        if left[0] == 0:
            lance_core.write_dataset(pa.table({"a": [20]}), uri, mode="append")
            latest = lance_core.dataset(uri)
            latest.cleanup_old_versions(older_than=NO_AGE, error_if_tagged_old_versions=False)
            names &= set(listed(store, prefix))
        return iter(names)

    monkeypatch.setattr(LocalStore, "list_names", list_names)
    Compaction.commit(lance_core.dataset(uri), results)
    monkeypatch.undo()
    latest = lance_core.dataset(uri)
    latest.validate()
    assert set(range(20)) <= set(latest.to_table()["a"].to_pylist())


def test_a_compaction_during_a_cleanup_reserves_its_fragment_ids_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reservation conflicts, and a cleanup has removed some versions before the second one."""
    uri = str(tmp_path / "table")
    dataset = lance_core.write_dataset(pa.table({"a": range(20)}), uri, max_rows_per_file=10)

    def append(number: int) -> None:
        lance_core.write_dataset(pa.table({"a": [number]}), uri, mode="append")

    create, read_manifest = VersionLog.create, commit_rewrites.read_manifest

    def create_then_append(log: VersionLog, *arguments: object) -> object:
        monkeypatch.setattr(VersionLog, "create", create)
        outcome = create(log, *arguments)
        append(20)
        monkeypatch.setattr(commit_rewrites, "read_manifest", read_then_clean_up)
        return outcome

    def read_then_clean_up(*arguments: object) -> object:
        monkeypatch.setattr(commit_rewrites, "read_manifest", read_manifest)
        manifest = read_manifest(*arguments)
        append(21)
        append(22)
        lance_core.dataset(uri).cleanup_old_versions(older_than=NO_AGE)
        return manifest

    monkeypatch.setattr(VersionLog, "create", create_then_append)
    assert dataset.optimize.compact_files(target_rows_per_fragment=40).fragments_removed == 2
    assert sorted(lance_core.dataset(uri).to_table()["a"].to_pylist()) == list(range(23))
