"""Cleanups while other processes write, tag, and clean up: no referenced file is ever removed."""

import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import LanceError
from tests.support.aged_table import AgedTable, append, compact, create, delete, files_below, overwrite

ROOT = Path(__file__).parents[2]

WRITER = """
import sys, random, lance, pyarrow as pa
uri, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
choose = random.Random(seed)
expected, number = {-1}, 0
for _ in range(rounds):
    kind = choose.choice(["append", "append", "append", "delete", "compact", "tag", "overwrite"])
    dataset = lance.dataset(uri)
    if kind == "append":
        rows = list(range(number, number + 10)); number += 10
        lance.write_dataset(pa.table({"a": rows}), uri, mode="append"); expected |= set(rows)
    elif kind == "delete":
        rest = choose.randrange(5)
        dataset.delete(f"a % 5 = {rest}"); expected = {a for a in expected if a < 0 or a % 5 != rest}
    elif kind == "compact":
        dataset.optimize.compact_files(materialize_deletions_threshold=0.0)
    elif kind == "tag":
        dataset.tags.create(f"t{number}-{choose.random()}")
    elif choose.random() < 0.3:
        lance.write_dataset(pa.table({"a": [-1]}), uri, mode="overwrite"); expected = {-1}
    found = sorted(lance.dataset(uri).to_table()["a"].to_pylist())
    assert found == sorted(expected), (kind, len(found), len(expected))
print(len(expected), flush=True)
"""


def _clean_while_others_write(uri: str, rounds: int, seed: int) -> None:
    lance.write_dataset(pa.table({"a": [-1]}), uri)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WRITER, uri, str(rounds), str(seed)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)
    removed = runs = 0
    try:
        while writer.poll() is None:
            removed += (
                lance_core.dataset(uri)
                .cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
                .old_versions
            )
            runs += 1
    finally:
        writer.kill()
        output, errors = writer.communicate()
    assert writer.returncode == 0, errors
    assert runs
    lance_core.dataset(uri).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    dataset = lance.dataset(uri)
    assert dataset.count_rows() == int(output)
    # Only the latest version and the tagged ones remain, and they are complete.
    tagged = {tag["version"] for tag in dataset.tags.list().values()}
    left = {each["version"] for each in dataset.versions()}
    assert left == tagged | {dataset.version}
    for version in left:
        lance.dataset(uri, version=version).validate()
        lance_core.dataset(uri, version=version).validate()
    assert removed >= 0


@pytest.mark.slow
def test_cleanups_concurrent_with_pylance_writes_remove_no_referenced_file(tmp_path: Path) -> None:
    _clean_while_others_write(str(tmp_path / "table"), rounds=40, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_cleanups_concurrent_with_pylance_writes_over_a_long_time_remove_no_referenced_file(
    tmp_path: Path, seed: int
) -> None:
    _clean_while_others_write(str(tmp_path / "table"), rounds=600, seed=seed)


def test_simultaneous_cleanups_leave_the_same_files_as_a_single_cleanup(tmp_path: Path) -> None:
    table = AgedTable(tmp_path / "table")
    for number, action in enumerate([create, *[append, delete, overwrite, append, compact, delete, overwrite] * 3]):
        table.step(60 - number, action)
    rows = lance.dataset(table.uri).to_table()
    table.save()
    lance_core.dataset(table.uri).cleanup_old_versions(retain_versions=3)
    done = table.files()
    table.go_back()
    failures: list[BaseException] = []
    start = threading.Barrier(4)

    def clean(library) -> None:
        start.wait()
        try:
            library.dataset(table.uri).cleanup_old_versions(retain_versions=3)
        except LanceError as error:
            failures.append(error)
        except OSError:
            # The reference may fail because of a manifest that another cleanup has removed.
            assert library is lance

    threads = [
        threading.Thread(target=clean, args=[library]) for library in (lance_core, lance_core, lance_core, lance)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    # Files of versions that other cleanups have removed are removed because of their age.
    assert table.files() == done
    assert lance.dataset(table.uri).to_table().equals(rows)
    lance.dataset(table.uri).validate()


def test_exactly_one_of_several_writers_creates_a_tag(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    for _ in range(8):
        lance.write_dataset(pa.table({"a": [1]}), uri, mode="append")
    won: list[int] = []
    start = threading.Barrier(8)

    def create_tag(library, version: int) -> None:
        start.wait()
        try:
            library.dataset(uri).tags.create("x", version)
        except ValueError:
            return
        won.append(version)

    threads = [
        threading.Thread(target=create_tag, args=[(lance, lance_core)[version % 2], version]) for version in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [lance_core.dataset(uri).tags.get_version("x")]
    assert {Path(path).name for path in files_below(tmp_path / "table" / "_refs")} == {"x.json"}
