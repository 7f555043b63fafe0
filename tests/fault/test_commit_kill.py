"""A writer that is killed at any moment leaves a table that opens, and nothing that blocks the next writer."""

import random
import signal
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.table.paths import manifest_name
from tests.support.processes import start_python

WRITER = """
import sys, pyarrow as pa, lance_core
uri = sys.argv[1]
print("ready", flush=True)
row = lance_core.dataset(uri).count_rows()
while True:
    lance_core.write_dataset(pa.table({"a": [row]}), uri, mode="append")
    row += 1
    print(row, flush=True)
"""


def _kill_after(uri: Path, num_commits: int, seconds: float) -> int:
    """Start a writer, kill it shortly after some commits, and return the rows that it reported as committed."""
    with start_python("-c", WRITER, str(uri)) as writer:
        try:
            assert writer.stdout.readline() == "ready\n"
            for _ in range(num_commits):
                writer.stdout.readline()
            # Not a synchronization: the writer may be killed at any moment.
            time.sleep(seconds)
        finally:
            writer.send_signal(signal.SIGKILL)
            said = [int(line) for line in writer.stdout.read().split()]
    return said[-1] if said else 0


def _kill_repeatedly(uri: Path, num_kills: int, seed: int) -> None:
    lance_core.write_dataset(pa.table({"a": pa.array([], pa.int64())}), uri)
    randomness = random.Random(seed)
    for _ in range(num_kills):
        before = lance_core.dataset(uri).count_rows()
        said = _kill_after(uri, 1, randomness.random() * 0.02)
        dataset = lance_core.dataset(uri)
        # The table has all acknowledged rows, and at most one more.
        assert max(before, said) <= dataset.count_rows()
        assert dataset.to_table()["a"].to_pylist() == list(range(dataset.count_rows()))
        assert [each["version"] for each in dataset.version_refs()] == list(range(1, dataset.version + 1))
        dataset.validate()
    lance.dataset(str(uri)).validate()
    assert lance.write_dataset(pa.table({"a": [-1]}), str(uri), mode="append").version == dataset.version + 1


@pytest.mark.slow
def test_an_append_killed_at_a_random_moment_blocks_no_later_writer(tmp_path: Path) -> None:
    _kill_repeatedly(tmp_path / "t", num_kills=3, seed=1)


@pytest.mark.parametrize(
    "num_kills", [pytest.param(25, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.soak)]
)
def test_appends_killed_many_times_block_no_later_writer(tmp_path: Path, num_kills: int) -> None:
    _kill_repeatedly(tmp_path / "t", num_kills=num_kills, seed=2)


def test_staging_files_of_crashed_writers_block_no_later_commit(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    rows = pa.table({"a": [1]})
    lance_core.write_dataset(rows, uri)
    for version in (2, 3, 4):
        for number in (1, 2):
            (uri / "_versions" / f"{manifest_name(version)}#{number}").write_bytes(b"half a mani")
    assert lance_core.write_dataset(rows, uri, mode="append").version == 2
    assert lance.write_dataset(rows, str(uri), mode="append").version == 3
    assert lance_core.write_dataset(rows, uri, mode="append").version == 4
    assert lance.dataset(str(uri)).count_rows() == 4
    leftovers = [path.name for path in (uri / "_versions").iterdir() if "#" in path.name]
    assert len(leftovers) == 6
