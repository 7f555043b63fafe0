"""Processes of both implementations delete and append concurrently: exactly the rows to be deleted are deleted."""

import json
import random
import signal
import subprocess
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from tests.support.processes import let_go, run_together, start_python

NUM_ROWS = 400

WORKER = """
import json, sys, pyarrow as pa
library, uri, task, first, step, count = sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7])
module = __import__(library)
print("ready", flush=True)
sys.stdin.readline()
answers = []
for number in range(count):
    if task == "append":
        module.write_dataset(pa.table({"id": pa.array([first + number], pa.int64())}), uri, mode="append")
        answers.append(1)
    else:
        more = {"retry_timeout": __import__("datetime").timedelta(minutes=5), "conflict_retries": 1000}
        answers.append(module.dataset(uri).delete(f"id = {first + number * step}", **more)["num_deleted_rows"])
    print(number, file=sys.stderr, flush=True)
print(json.dumps(answers), flush=True)
"""


def _start(library: str, uri: str, task: str, first: int, step: int, count: int) -> subprocess.Popen[str]:
    return start_python("-c", WORKER, library, uri, task, str(first), str(step), str(count))


def _run_together(processes: list[subprocess.Popen[str]]) -> list[list[int]]:
    return [json.loads(output) for output in run_together(processes, timeout=900)]


def _race(uri: str, num_writers: int, num_each: int, num_appends: int) -> None:
    """Let each writer delete its own rows from fragments shared by all writers, while another writer appends."""
    lance.write_dataset(pa.table({"id": pa.array(range(NUM_ROWS), pa.int64())}), uri, max_rows_per_file=NUM_ROWS // 2)
    libraries = ["lance_core", "lance"] * (num_writers // 2)
    processes = [
        *(_start(library, uri, "delete", writer, num_writers, num_each) for writer, library in enumerate(libraries)),
        _start("lance", uri, "append", 10_000, 1, num_appends),
        _start("lance_core", uri, "append", 20_000, 1, num_appends),
    ]
    answers = _run_together(processes)
    assert answers == [[1] * num_each] * num_writers + [[1] * num_appends] * 2
    appended = [first + number for first in (10_000, 20_000) for number in range(num_appends)]
    expected = [*range(num_writers * num_each, NUM_ROWS), *appended]
    for module in (lance, lance_core):
        dataset = module.dataset(uri)
        dataset.validate()
        assert sorted(dataset.to_table()["id"].to_pylist()) == expected
    assert lance_core.dataset(uri).version == 1 + num_writers * num_each + 2 * num_appends


@pytest.mark.slow
def test_simultaneous_deletes_of_lance_core_and_pylance_remove_exactly_their_rows(tmp_path: Path) -> None:
    _race(str(tmp_path / "t"), num_writers=2, num_each=6, num_appends=4)


@pytest.mark.slow
def test_many_simultaneous_deletes_of_lance_core_and_pylance_remove_exactly_their_rows(tmp_path: Path) -> None:
    _race(str(tmp_path / "t"), num_writers=6, num_each=30, num_appends=30)


@pytest.mark.slow
def test_simultaneous_deletes_of_the_same_rows_count_each_row_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": pa.array(range(20), pa.int64())}), uri)
    answers = _run_together(
        [_start(library, uri, "delete", 0, 1, 8) for library in ("lance_core", "lance", "lance_core")]
    )
    assert [sum(each) for each in zip(*answers, strict=True)] == [1] * 8
    assert lance.dataset(uri).to_table()["id"].to_pylist() == list(range(8, 20))
    lance_core.dataset(uri).validate()


def _kill_repeatedly(uri: str, num_kills: int, seed: int) -> None:
    lance.write_dataset(pa.table({"id": pa.array(range(NUM_ROWS), pa.int64())}), uri, max_rows_per_file=NUM_ROWS // 4)
    randomness = random.Random(seed)
    gone = 0
    for _ in range(num_kills):
        process = _start("lance_core", uri, "delete", gone, 1, NUM_ROWS)
        try:
            let_go([process])
            said = 0
            for _ in range(randomness.randint(1, 4)):
                said += bool(process.stderr.readline())
        finally:
            process.send_signal(signal.SIGKILL)
            # communicate() would miss the lines that readline() has buffered.
            with process:
                errors = process.stderr.read()
        said += len(errors.splitlines())
        left = lance_core.dataset(uri).to_table()["id"].to_pylist()
        # All rows whose delete was acknowledged are deleted, and at most one more.
        now_gone = NUM_ROWS - len(left)
        assert gone + said <= now_gone <= gone + said + 1
        assert left == list(range(now_gone, NUM_ROWS))
        lance_core.dataset(uri).validate()
        gone = now_gone
    lance.dataset(uri).validate()
    assert lance.dataset(uri).delete(f"id = {gone}") == {"num_deleted_rows": 1}


@pytest.mark.slow
def test_acknowledged_deletes_survive_kills_at_random_moments(tmp_path: Path) -> None:
    _kill_repeatedly(str(tmp_path / "t"), num_kills=6, seed=1)


@pytest.mark.soak
def test_acknowledged_deletes_survive_many_kills(tmp_path: Path) -> None:
    _kill_repeatedly(str(tmp_path / "t"), num_kills=25, seed=2)
