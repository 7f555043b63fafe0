"""Damaged and hostile data files of every format: flipped bits in the metadata and the values, and truncated files.

``tests/support/hostile.py`` describes the permitted outcomes. The default run takes samples; ``-m exhaustive`` flips
thousands of bits per file, and ``-m soak`` flips every bit of the metadata and tries every truncation.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import lance_core
from lance_core.errors import LanceError
from lance_core.file.describe import describe_file
from lance_core.file.reader import FileReader
from lance_core.io.memory_store import MemoryStore
from tests.support.hostile import (
    NUM_ROWS,
    PATH,
    TABLES,
    Target,
    bounded_memory,
    metadata_bits,
    sampled,
    sweep,
    target_of,
    time_limit,
    value_bits,
    version_of,
    written_by_us,
)

ROOT = Path(__file__).resolve().parents[2]
TABLE_VERSIONS = ["0.1", "2.0", "2.1", "2.2"]


@cache
def _written_by_pylance(name: str, directory: Path) -> bytes:
    table, version = TABLES[name], version_of(name)
    if version == "0.1":
        lance = pytest.importorskip("lance", reason="pylance is the other implementation")
        lance.write_dataset(table, str(directory / "t"), data_storage_version="0.1", max_rows_per_group=NUM_ROWS // 2)
        [path] = (directory / "t" / "data").iterdir()
        return path.read_bytes()
    reference = pytest.importorskip("lance.file", reason="pylance is the other implementation")
    path = directory / PATH
    with reference.LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)
    return path.read_bytes()


@pytest.fixture(params=["ours", "pylance"])
def written_by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=TABLES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def target(written_by: str, name: str, tmp_path: Path) -> Target:
    data = written_by_us(name) if written_by == "ours" else _written_by_pylance(name, tmp_path)
    return target_of(data, TABLES[name])


@pytest.mark.sampled(6)
def test_damaged_file_metadata_gives_values_or_raises_lance_errors(target: Target) -> None:
    outcomes = sweep(target, sampled(metadata_bits(target), 50), sampled(range(len(target.data)), 10))
    assert outcomes["corrupt"] > 0


@pytest.mark.sampled(6)
def test_damaged_file_values_give_values_or_raise_lance_errors(target: Target) -> None:
    sweep(target, sampled(value_bits(target), 20), range(0))


@pytest.mark.soak
def test_file_metadata_damaged_at_many_bits_mostly_raises_corrupt_data(target: Target) -> None:
    outcomes = sweep(target, sampled(metadata_bits(target), 2000), sampled(range(len(target.data)), 1000))
    assert outcomes["corrupt"] > outcomes["other values"]


@pytest.mark.soak
def test_file_values_damaged_at_many_bits_give_values_or_raise_lance_errors(target: Target) -> None:
    sweep(target, sampled(value_bits(target), 1000), range(0))


@pytest.mark.soak
def test_file_metadata_damaged_at_every_bit_mostly_raises_corrupt_data(target: Target) -> None:
    outcomes = sweep(target, metadata_bits(target), range(len(target.data)))
    assert outcomes["corrupt"] > outcomes["other values"]


@pytest.mark.soak
def test_file_values_damaged_at_twenty_thousand_bits_give_values_or_raise_lance_errors(target: Target) -> None:
    sweep(target, sampled(value_bits(target), 20_000), range(0))


@pytest.mark.sampled(5)
def test_damaged_file_values_read_with_compiled_kernels_give_values_or_raise_lance_errors(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_CORE_COMPILED", "1")
    target = target_of(
        written_by_us(name), TABLES[name]
    )  # Load the kernels first, because they need memory themselves.
    sweep(target, sampled(value_bits(target), 15), range(0))


@pytest.mark.soak
def test_compiled_kernels_access_no_index_out_of_bounds_for_damaged_file_values(tmp_path: Path) -> None:
    # Compiled with bounds checks, so that an index out of bounds raises an exception, which is not permitted.
    names = ["nested-2.2", "encodings-2.2", "nested-2.1", "strings-2.1", "compressed-2.0"]
    environment = {
        **os.environ,
        "LANCE_CORE_COMPILED": "1",
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    script = f"from tests.support.hostile import main; main({names!r}, 100)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == len(names)


def test_describing_a_damaged_file_returns_text_or_raises_lance_errors(target: Target) -> None:
    described = 0
    with bounded_memory(len(target.data)):
        for bit in sampled(metadata_bits(target), 25):
            changed = bytearray(target.data)
            changed[bit // 8] ^= 1 << bit % 8
            store = MemoryStore()
            store.put(PATH, bytes(changed))
            try:
                with time_limit():
                    text = describe_file(FileReader.open(store, PATH))
            except LanceError:
                continue
            assert text.startswith("data file ")
            described += 1
    assert described > 0


@pytest.mark.parametrize("version", TABLE_VERSIONS)
@pytest.mark.sampled(2)
def test_damaged_table_files_give_rows_or_raise_lance_errors(version: str, tmp_path: Path) -> None:
    _damage_table(version, tmp_path, 40)


@pytest.mark.soak
@pytest.mark.parametrize("version", TABLE_VERSIONS)
def test_table_files_damaged_at_many_bits_give_rows_or_raise_lance_errors(version: str, tmp_path: Path) -> None:
    _damage_table(version, tmp_path, 700)


def _damage_table(version: str, directory: Path, num_bits: int) -> None:
    """Damage a table and read it by scans, filters (which prune by the statistics of 0.1), and single rows."""
    table = TABLES[f"strings-{version}"]
    table = table if "number" in table.column_names else table.append_column("number", [list(range(NUM_ROWS))])
    uri = str(directory / "table")
    lance_core.write_dataset(table, uri, data_storage_version=version, max_rows_per_group=NUM_ROWS // 2)
    [path] = (directory / "table" / "data").iterdir()
    data = path.read_bytes()
    chooser = random.Random(version)
    read = refused = 0
    with bounded_memory(len(data)):
        for _ in range(num_bits):
            # Half of the bits in the last quarter, where the metadata is.
            first = len(data) * 6 if chooser.random() < 0.5 else 0
            bit = chooser.randrange(first, len(data) * 8)
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            try:
                with time_limit():
                    dataset = lance_core.dataset(uri)
                    assert dataset.to_table().num_rows == NUM_ROWS
                    assert dataset.to_table(filter="number > 25").num_rows <= NUM_ROWS
                    assert dataset.take([3, NUM_ROWS - 1]).num_rows == 2
            except LanceError:
                refused += 1
            except BaseException as error:
                raise AssertionError(f"version {version}, bit {bit}: {type(error).__name__}: {error}") from error
            else:
                read += 1
    assert read
    assert refused
