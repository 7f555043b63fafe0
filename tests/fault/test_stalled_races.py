"""Writers that are stopped for seconds and killed at any moment, while a cleanup of every old version runs in a loop.

Each key is written once, and deleted at most once, by one process, whose journal records the outcomes. In the end, the
table contains once every key whose append was acknowledged and whose delete was refused or not attempted, and no key
whose append was refused or whose delete was acknowledged.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core

SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.int64())])
OURS = ("lance_core",) * 4
MIXED = ("lance_core", "lance", "lance_core", "lance")


@dataclass
class _Process:
    library: str
    writer: int
    handle: "subprocess.Popen[bytes]"
    journal: Path
    stopped_until: float = 0.0


class _Race:
    """Keeps the processes running, and stops and kills them."""

    def __init__(self, directory: Path, libraries: tuple[str, ...], cleaner: str, *, stable: bool, seed: int) -> None:
        self.uri = str(directory / "table")
        self.directory = directory
        self.random = random.Random(seed)
        self.num_writers = 0
        self.kills = self.stalls = 0
        lance_core.write_dataset(SCHEMA.empty_table(), self.uri, enable_stable_row_ids=stable)
        self.writers = [self._start(library) for library in libraries]
        self.cleaner = self._start(cleaner, "clean up")

    def run(self, seconds: float) -> None:
        try:
            # Starting a process takes longer than a short race.
            while any(not process.journal.stat().st_size for process in (*self.writers, self.cleaner)):
                time.sleep(0.05)
            begun = time.monotonic()
            while (passed := time.monotonic() - begun) < seconds or (passed < 300 and not self._is_under_way()):
                self._disturb()
                time.sleep(self.random.uniform(0.02, 0.2))
        finally:
            for process in (*self.writers, self.cleaner):
                process.handle.send_signal(signal.SIGCONT)
                process.handle.kill()
                process.handle.wait()

    def _is_under_way(self) -> bool:
        """Return whether writers of this library have had a hundred successes, which takes time on a busy machine."""
        told = (line for library, verdict, *line in self.journals() if (library, verdict) == ("lance_core", "done"))
        return sum(line[0] != "cleanup" for line in told) >= 100

    def _disturb(self) -> None:
        now = time.monotonic()
        for position, process in enumerate(self.writers):
            assert process.handle.poll() is None, f"writer {process.writer} ended by itself"
            if process.stopped_until:
                if now >= process.stopped_until:
                    process.handle.send_signal(signal.SIGCONT)
                    process.stopped_until = 0.0
            elif self.random.random() < 0.06:
                process.handle.send_signal(signal.SIGSTOP)
                process.stopped_until = now + self.random.choice([0.05, 0.2, 0.5, 2.0])
                self.stalls += 1
            elif self.random.random() < 0.004:
                process.handle.kill()
                process.handle.wait()
                self.writers[position] = self._start(process.library)
                self.kills += 1

    def _start(self, library: str, role: str = "") -> _Process:
        # A delete or compaction of the reference planned on a removed version brings back deleted rows.
        role = role or ("append" if library == "lance" else "write")
        self.num_writers += 1
        journal = self.directory / f"{self.num_writers}-{library}.journal"
        command = [sys.executable, "-m", "tests.support.stalled_writer", library, self.uri, str(self.num_writers)]
        journal.touch()
        with (self.directory / f"{self.num_writers}.log").open("wb") as log:
            handle = subprocess.Popen(
                [*command, str(journal), role],
                cwd=Path(__file__).parents[2],
                stderr=log,
                env={**os.environ, "RUST_LOG": "error"},
            )
        return _Process(library, self.num_writers, handle, journal)

    def journals(self) -> Iterator[tuple[str, str, str, int, str]]:
        """Yield the library, verdict, verb, key, and remainder of each line."""
        for path in sorted(self.directory.glob("*.journal")):
            library = path.stem.partition("-")[2]
            for line in path.read_text().splitlines():
                verdict, verb, *rest = line.replace("clean up", "cleanup").split(" ", 3)
                yield library, verdict, verb, int(rest[0]), rest[1] if len(rest) > 1 else ""


def _faults(race: _Race) -> tuple[list[str], Counter[str]]:
    """Return contradictions between the table and the outcomes reported to this library's writers, and event counts."""
    told: dict[int, dict[str, str]] = {}
    counts: Counter[str] = Counter()
    foreign = []
    for library, verdict, verb, key, rest in race.journals():
        if verdict != "try":
            counts[f"{library} {verdict} {verb} {rest.partition(':')[0]}".strip()] += 1
        if library == "lance_core":
            if verdict == "unknown" and "CommitOutcomeUnknownError" not in rest:
                foreign.append(f"{verb} {key}: {rest}")
            if verb in ("append", "delete"):
                told.setdefault(key, {})[verb] = verdict
    table = lance_core.dataset(race.uri)
    table.validate()
    rows = Counter(table.to_table(columns=["key"]).column("key").to_pylist())
    faults = [f"{library}: {text}" for library, text in zip(["lance_core"] * len(foreign), foreign, strict=True)]
    faults += [f"key {key} is there {number} times" for key, number in rows.items() if number > 1 and key in told]
    for key, verdicts in told.items():
        append, delete = verdicts["append"], verdicts.get("delete")
        expected = {"done": True, "refused": False}.get(append)
        if expected and delete is not None:
            expected = {"done": False, "refused": True}.get(delete)
        if expected is not None and (key in rows) is not expected:
            faults.append(f"key {key}: append {append}, delete {delete}, {'there' if key in rows else 'not there'}")
    values = table.to_table()
    assert values.column("value").to_pylist() == [key * 7 for key in values.column("key").to_pylist()]
    return faults, counts


def _run(directory: Path, libraries: tuple[str, ...], cleaner: str, seconds: float, *, stable: bool, seed: int) -> None:
    race = _Race(directory, libraries, cleaner, stable=stable, seed=seed)
    race.run(seconds)
    faults, counts = _faults(race)
    print(f"\n{race.stalls} stalls, {race.kills} kills, version {lance_core.dataset(race.uri).version}")
    print("\n".join(f"{number:7} {what}" for what, number in sorted(counts.items())))
    assert not faults, "\n".join(faults[:20])
    assert counts["lance_core done append"], "nothing was raced"
    assert race.stalls, "nothing was stopped"
    if "lance" not in (*libraries, cleaner):
        # Writers of the reference may leave versions that are not consistent with their reports.
        lance.dataset(race.uri).validate()


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
def test_stalled_and_killed_writers_lose_no_row_during_a_cleanup(stable: bool, tmp_path: Path) -> None:
    _run(tmp_path, OURS, "lance_core", 20, stable=stable, seed=7)


@pytest.mark.slow
def test_stalled_writers_that_compete_with_pylance_lose_no_row(tmp_path: Path) -> None:
    _run(tmp_path, MIXED, "lance_core", 20, stable=False, seed=8)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@pytest.mark.parametrize(
    ("libraries", "cleaner"),
    [(OURS, "lance_core"), (MIXED, "lance_core"), (MIXED, "lance")],
    ids=["lance_core", "mixed", "mixed, cleaned by pylance"],
)
def test_stalled_and_killed_writers_lose_no_row_over_several_minutes(
    libraries: tuple[str, ...], cleaner: str, stable: bool, seed: int, tmp_path: Path
) -> None:
    _run(tmp_path, libraries, cleaner, 300, stable=stable, seed=seed)
