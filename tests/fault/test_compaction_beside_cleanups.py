"""A compaction reads a version that others replace and clean up meanwhile: it plans again on what there is."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.api.compaction.plan import CompactionTask
from lance_core.errors import RetryableCommitConflictError

NO_AGE = timedelta(0)


def _replace_all(uri: str) -> None:
    """Others hold the rows in files of their own, and remove the old ones."""
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
    execute, left = CompactionTask.execute, [times]

    def execute_late(task: CompactionTask, *arguments: object) -> object:
        if left[0]:
            left[0] -= 1
            _replace_all(uri)
        return execute(task, *arguments)

    monkeypatch.setattr(CompactionTask, "execute", execute_late)
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
