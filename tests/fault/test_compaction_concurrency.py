"""Compaction concurrent with a writer that never pauses: no row is lost, no deleted row reappears, and only groups in
conflict are compacted again.

The other process uses pylance: it appends numbered rows, deletes some of them, and finally reports which rows the table
must contain. Meanwhile, this process compacts repeatedly. To guarantee conflicts, it uses pylance in every round to
delete a row from a fragment after the compaction tasks are executed and before they are committed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.optimize import Compaction, CompactionPlan, commit_rewrites, plan_again

ROOT = Path(__file__).parents[2]
OPTIONS = {"target_rows_per_fragment": 40, "materialize_deletions_threshold": 0.0}
NUM_OWN_ROWS = 400

WRITER = """
import json, random, sys, time
import lance, pyarrow as pa

uri, seconds, report = sys.argv[1], float(sys.argv[2]), sys.argv[3]
randomness = random.Random(5)
alive, deleted, refused, next_row = [], 0, 0, 0
stop = time.monotonic() + seconds
print("ready", flush=True)
while time.monotonic() < stop or next_row < 60:
    count = randomness.randrange(1, 12)
    lance.write_dataset(pa.table({"a": pa.array(range(next_row, next_row + count), pa.int64())}), uri, mode="append")
    alive += range(next_row, next_row + count)
    next_row += count
    if randomness.random() < 0.4:
        doomed = set(randomness.sample(alive, min(3, len(alive))))
        try:
            lance.dataset(uri).delete(f"a in ({', '.join(map(str, doomed))})")
        except OSError:
            # It lost every one of its races; then nothing was deleted.
            refused += 1
            continue
        alive = [row for row in alive if row not in doomed]
        deleted += len(doomed)
with open(report, "w") as file:
    json.dump({"alive": alive, "deleted": deleted, "refused": refused}, file)
"""


@contextmanager
def other_writer(uri: str, seconds: float, report: Path) -> Iterator[subprocess.Popen]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WRITER, uri, str(seconds), str(report)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@dataclass
class Tally:
    """Counts of events during the compactions."""

    rounds: int = 0
    committed: int = 0
    conflicts: int = 0
    own_rows: list[int] = field(default_factory=lambda: list(range(-NUM_OWN_ROWS, 0)))


def compact_once(uri: str, tally: Tally) -> None:
    """Plan, execute, delete a row, and commit; repeat for groups in conflict until none remain."""
    dataset = lance_core.dataset(uri)
    plan = Compaction.plan(dataset, OPTIONS)
    disturbs = True
    while plan.tasks:
        results = [task.execute(dataset) for task in plan.tasks]
        if disturbs and tally.own_rows:
            _delete_one(uri, tally, plan)
            disturbs = False
        outcome = commit_rewrites(dataset, results)
        tally.committed += len(outcome.committed)
        tally.conflicts += len(outcome.lost)
        plan = plan_again(dataset, outcome.lost, OPTIONS)
        lost = {each.id for result in outcome.lost for each in result.original_fragments}
        assert {each.id for task in plan.tasks for each in task.fragments} <= lost
    tally.rounds += 1


def _delete_one(uri: str, tally: Tally, plan: CompactionPlan) -> None:
    """Delete one of this process's rows that is being rewritten, with pylance, if there is one."""
    planned = {each.id for task in plan.tasks for each in task.fragments}
    dataset = lance.dataset(uri)
    rows = dataset.to_table(columns=["a"], filter="a < 0", with_row_address=True)
    found = [
        number
        for number, address in zip(rows["a"].to_pylist(), rows["_rowaddr"].to_pylist(), strict=True)
        if address >> 32 in planned
    ]
    if found:
        dataset.delete(f"a = {found[0]}")
        tally.own_rows.remove(found[0])


def check(uri: str, expected: list[int]) -> None:
    theirs = lance.dataset(uri)
    theirs.validate()
    rows = theirs.to_table()["a"].to_pylist()
    assert sorted(rows) == sorted(expected)
    assert lance_core.dataset(uri).to_table()["a"].to_pylist() == rows


def compact_beside_a_writer(uri: str, seconds: float) -> Tally:
    for start in range(-NUM_OWN_ROWS, 0, 10):
        numbers = pa.array(range(start, start + 10), pa.int64())
        lance_core.write_dataset(pa.table({"a": numbers}), uri, mode="append")
    tally = Tally()
    report = Path(f"{uri}.json")
    with other_writer(uri, seconds, report) as writer:
        while writer.poll() is None:
            compact_once(uri, tally)
        assert writer.returncode == 0
    said = json.loads(report.read_text())
    check(uri, said["alive"] + tally.own_rows)
    assert tally.committed
    assert tally.conflicts
    assert said["deleted"]
    # Without other writers, compaction reaches a state in which nothing is left to do.
    lance_core.dataset(uri).optimize.compact_files(**OPTIONS)
    check(uri, said["alive"] + tally.own_rows)
    assert Compaction.plan(lance_core.dataset(uri), OPTIONS).tasks == []
    return tally


@pytest.mark.slow
def test_compaction_concurrent_with_a_writer_neither_loses_nor_restores_rows(tmp_path: Path) -> None:
    compact_beside_a_writer(str(tmp_path / "t"), seconds=3)


@pytest.mark.soak
def test_compaction_concurrent_with_a_writer_for_two_minutes_neither_loses_nor_restores_rows(tmp_path: Path) -> None:
    tally = compact_beside_a_writer(str(tmp_path / "t"), seconds=120)
    assert tally.rounds > 5


def test_the_second_of_two_simultaneous_compactions_commits_nothing(tmp_path: Path) -> None:
    """The second compaction finds that its fragments were replaced, and removes its files."""
    uri = str(tmp_path / "t")
    for start in range(0, 80, 10):
        lance_core.write_dataset(pa.table({"a": range(start, start + 10)}), uri, mode="append")
    first, second = lance_core.dataset(uri), lance_core.dataset(uri)
    mine = [task.execute(first) for task in Compaction.plan(first, OPTIONS).tasks]
    theirs = [task.execute(second) for task in Compaction.plan(second, OPTIONS).tasks]
    assert commit_rewrites(first, mine).lost == []
    outcome = commit_rewrites(second, theirs)
    assert (outcome.committed, outcome.lost) == ([], theirs)
    assert plan_again(second, outcome.lost, OPTIONS).tasks == []
    assert len(list(Path(uri, "data").iterdir())) == 8 + len(mine)
    check(uri, list(range(80)))
