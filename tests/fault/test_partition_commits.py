"""Commits of partitions that are killed at any step and repeated, or made by several processes concurrently.

lance_core stages the fragments, as the tasks of Spark do; everything after that is the commit step of an ingest.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.write_commit import commit_staged
from lance_pipelines.spark.leftovers import discard_files
from tests.support.kill_points import kill_at, steps_of
from tests.support.processes import run_together, start_python
from tests.support.staged_writes import staged_write

SCHEMA = pa.schema([("day", pa.int64()), ("value", pa.int64())])

WORKER = """
import sys
from pathlib import Path
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.write_commit import commit_staged
from lance_pipelines.spark.leftovers import discard_files
staged = [StagedWrite.from_json(line) for line in Path(sys.argv[1]).read_text().splitlines()]
print("ready", flush=True)
sys.stdin.readline()
print([commit_staged(each, discard=discard_files).version for each in staged], flush=True)
"""


def _rows(day: int, *values: int) -> pa.Table:
    return pa.table({"day": [day] * len(values), "value": list(values)}, schema=SCHEMA)


def _staged(uri: str, rows: pa.Table, predicate: str) -> StagedWrite:
    token = secrets.token_hex(8)
    dataset = lance_core.dataset(uri)
    fragments = lance_core.write_fragments(rows, dataset, max_rows_per_file=2, file_token=token)
    return staged_write(
        fragments,
        rows,
        token,
        uri=uri,
        mode=WriteMode.OVERWRITE_PARTITION,
        predicate=predicate,
        read_version=dataset.version,
        read_transaction=dataset.read_transaction(dataset.version).uuid,
        schema=SCHEMA,
    )


def _values(uri: str) -> list[int]:
    found = [sorted(module.dataset(uri).to_table()["value"].to_pylist()) for module in (lance, lance_core)]
    assert found[0] == found[1]
    lance_core.dataset(uri).validate()
    lance.dataset(uri).validate()
    return found[0]


def _process(directory: Path, name: str, staged: list[StagedWrite]) -> subprocess.Popen[str]:
    messages = directory / f"{name}.jsonl"
    messages.write_text("\n".join(each.to_json() for each in staged))
    return start_python("-c", WORKER, str(messages))


def _race(directory: Path, *writers: list[StagedWrite]) -> list[list[int]]:
    processes = [_process(directory, f"writer-{number}", staged) for number, staged in enumerate(writers)]
    return [json.loads(output) for output in run_together(processes, timeout=300)]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with two rows for each of three days, in two fragments."""
    uri = str(tmp_path / "work" / "t")
    rows = pa.concat_tables([_rows(day, 10 * day, 10 * day + 1) for day in (1, 2, 3)])
    lance_core.write_dataset(rows, uri, max_rows_per_file=3)
    return uri


@pytest.mark.parametrize("first", range(5))
@pytest.mark.sampled(1)
def test_commit_killed_at_any_step_takes_effect_once_when_repeated(uri: str, tmp_path: Path, first: int) -> None:
    """The process is killed at every fifth step, each time on a new table."""
    staged = _staged(uri, _rows(2, 200, 201, 202), "`day` = 2")
    work, copy = tmp_path / "work", tmp_path / "copy"
    shutil.copytree(work, copy)

    def commit() -> object:
        return commit_staged(staged, discard=discard_files)

    steps = steps_of(work, commit)
    assert any("_deletions" in step.path for step in steps)
    for step in steps[first::5]:
        shutil.rmtree(work)
        shutil.copytree(copy, work)
        assert kill_at(work, commit, step.number), step
        assert _values(uri) in ([10, 11, 20, 21, 30, 31], [10, 11, 30, 31, 200, 201, 202]), step
        # Another run commits before the step is repeated.
        other = lance_core.dataset(uri)
        lance_core.write_dataset(_rows(3, 32), other, mode="append")
        commit()
        assert _values(uri) == [10, 11, 30, 31, 32, 200, 201, 202], step
        commit()
        made_by = [lance_core.dataset(uri).read_transaction(version).uuid for version in (2, 3)]
        assert lance_core.dataset(uri).version == 3
        assert len(set(made_by)) == 2


@pytest.mark.slow
def test_different_partitions_committed_by_concurrent_processes_all_take_effect(uri: str, tmp_path: Path) -> None:
    writers = [
        [_staged(uri, _rows(day, 100 * day + number), f"`day` = {day}") for number in range(4)] for day in (1, 2, 3)
    ]
    versions = _race(tmp_path, *writers)
    assert sorted(version for each in versions for version in each) == list(range(2, 14))
    assert _values(uri) == [103, 203, 303]


@pytest.mark.slow
def test_a_partition_committed_by_concurrent_processes_has_the_rows_of_the_last_commit(
    uri: str, tmp_path: Path
) -> None:
    writers = [[_staged(uri, _rows(7, first + number), "`day` = 7") for number in range(4)] for first in (700, 800)]
    versions = _race(tmp_path, *writers)
    last = 703 if versions[0][-1] > versions[1][-1] else 803
    assert _values(uri) == [10, 11, 20, 21, 30, 31, last]


@pytest.mark.slow
def test_one_staged_write_committed_by_concurrent_processes_creates_one_version(uri: str, tmp_path: Path) -> None:
    staged = _staged(uri, _rows(2, 200), "`day` = 2")
    assert _race(tmp_path, [staged], [staged], [staged]) == [[2]] * 3
    assert lance_core.dataset(uri).version == 2
    assert _values(uri) == [10, 11, 30, 31, 200]
