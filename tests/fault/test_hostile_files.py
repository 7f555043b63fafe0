"""Damaged and hostile data files: every bit of the metadata flipped, every truncation, samples of the pages.

Whatever the bytes, reading ends with a table of the wanted schema that Arrow finds valid, or with a ``LanceError``: no
other exception, no hang, and no allocation that the size of the file does not justify.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError, LanceError, NotSupportedError
from lance_core.file.describe import describe_file
from lance_core.file.reader import FileReader
from lance_core.file.writer import FileWriter
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import Schema

NUM_ROWS = 40
ALLOWANCE_BYTES = 1 << 30
PATH = "hostile.lance"

PERSON = pa.struct([("name", pa.string()), ("tags", pa.list_(pa.int16()))])
TABLES = {
    "nested": pa.table(
        {
            "p": pa.array(
                [
                    None if i % 7 == 0 else {"name": None if i % 5 == 0 else f"n{i}", "tags": [i, None][: i % 3]}
                    for i in range(NUM_ROWS)
                ],
                PERSON,
            ),
            "m": pa.array(
                [[("k", i), ("l", None)][: i % 3] for i in range(NUM_ROWS)], pa.map_(pa.string(), pa.int32())
            ),
        }
    ),
    "strings": pa.table(
        {
            "short": pa.array([None if i % 4 == 0 else "ab" * (i % 6) for i in range(NUM_ROWS)]),
            "long": pa.array([f"{i}" * 300 for i in range(NUM_ROWS)], pa.large_string()),
            "dictionary": pa.array(["x", "y", None, "x"] * (NUM_ROWS // 4)).dictionary_encode(),
            "same": pa.array(["constant"] * NUM_ROWS),
        }
    ),
    "encodings": pa.Table.from_arrays(
        [
            pa.array([f"https://example.com/{i * 7919 % 10007}" for i in range(2000)]),
            pa.array(["red", "green", "blue", None] * 500),
            pa.array(np.arange(2000) // 100, pa.int64()),
            pa.array(np.arange(2000) % 50, pa.int32()),
            pa.array(np.sqrt(np.arange(2000)), pa.float32()),
            pa.array([[i] * (i % 3) if i % 7 else None for i in range(2000)], pa.list_(pa.int32())),
        ],
        schema=pa.schema(
            [
                pa.field("fsst", pa.string()),
                pa.field("dictionary", pa.string()),
                pa.field("runs", pa.int64()),
                pa.field("zstd", pa.int32(), metadata={"lance-encoding:compression": "zstd"}),
                pa.field(
                    "planes", pa.float32(), metadata={"lance-encoding:compression": "lz4", "lance-encoding:bss": "on"}
                ),
                pa.field("lists", pa.list_(pa.int32())),
            ]
        ),
    ),
    "fixed_size_lists": pa.table(
        {
            "vector": pa.array([[i, i + 1.5] for i in range(NUM_ROWS)], pa.list_(pa.float32(), 2)),
            "items": pa.array([None if i % 3 == 0 else [i, None, 3] for i in range(NUM_ROWS)], pa.list_(pa.int16(), 3)),
            "wide": pa.array([[i] * 100 for i in range(NUM_ROWS)], pa.list_(pa.float64(), 100)),
            "number": pa.array(range(NUM_ROWS), pa.int64()),
            "flag": pa.array([i % 3 == 0 for i in range(NUM_ROWS)]),
        }
    ),
}


def _by_us(table: pa.Table) -> bytes:
    store = MemoryStore()
    writer = FileWriter(store.create(PATH), schema_from_arrow(table.schema), data_cache_bytes=0)
    for batch in table.to_batches(max_chunksize=table.num_rows // 2):
        writer.write_batch(batch)
    writer.finish()
    return bytes(store.get(PATH))


def _by_pylance(table: pa.Table, directory: Path) -> bytes:
    reference = pytest.importorskip("lance.file", reason="pylance is the other implementation")
    path = directory / PATH
    with reference.LanceFileWriter(str(path), table.schema) as writer:
        writer.write_batch(table)
    return path.read_bytes()


@pytest.fixture(params=["ours", "pylance"])
def written_by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> pa.Table:
    return TABLES[request.param]


@pytest.fixture
def data(written_by: str, table: pa.Table, tmp_path: Path) -> bytes:
    return _by_us(table) if written_by == "ours" else _by_pylance(table, tmp_path)


@contextmanager
def _limited_memory() -> Iterator[None]:
    """Make allocations beyond the allowance fail, so that they show as a foreign exception."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ALLOWANCE_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _read(data: bytes, schema: Schema) -> pa.Table:
    """Read as a dataset does: by the table's own fields and column numbers."""
    store = MemoryStore()
    store.put(PATH, data)
    reader = FileReader.open(store, PATH)
    indices = {leaf.id: index for index, leaf in enumerate(schema.leaves())}
    found = reader.read_table(schema.fields, column_indices=indices)
    assert sum(batch.num_rows for batch in reader.read_batches(schema.fields, column_indices=indices)) == found.num_rows
    return found


def _outcome(data: bytes, schema: Schema, expected: pa.Table) -> str:
    try:
        found = _read(data, schema)
    except CorruptDataError:
        return "corrupt"
    except NotSupportedError:
        return "not supported"
    except LanceError as error:
        return type(error).__name__
    assert found.schema.equals(schema_to_arrow(schema))
    found.validate(full=False)
    # The only thing that is not checked on reading: bytes of strings are handed on as they are.
    complaint = _complaint(found)
    assert complaint is None or "UTF8" in complaint or "UTF-8" in complaint, complaint
    return "equal" if found.equals(expected) else "other values"


def _complaint(table: pa.Table) -> str | None:
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    return None


def _metadata_start(data: bytes) -> int:
    store = MemoryStore()
    store.put(PATH, data)
    return FileReader.open(store, PATH).metadata.global_buffer_ranges[0].start


def _sweep(data: bytes, table: pa.Table, bits: range, cuts: range) -> Counter[str]:
    schema = schema_from_arrow(table.schema)
    expected = _read(data, schema)
    outcomes: Counter[str] = Counter()
    with _limited_memory():
        for bit in bits:
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            outcomes[_checked(bytes(changed), schema, expected, f"bit {bit}")] += 1
        for stop in cuts:
            outcome = _checked(data[:stop], schema, expected, f"cut at {stop}")
            assert outcome == "corrupt", f"cut at {stop}: {outcome}"
    return outcomes


def _checked(data: bytes, schema: Schema, expected: pa.Table, what: str) -> str:
    try:
        return _outcome(data, schema, expected)
    except BaseException as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def _sample(whole: range, num_samples: int) -> range:
    # An odd step visits all eight bits of bytes.
    return whole[:: len(whole) // num_samples | 1]


def test_damaged_metadata_sampled(data: bytes, table: pa.Table) -> None:
    bits = _sample(range(_metadata_start(data) * 8, len(data) * 8), 200)
    outcomes = _sweep(data, table, bits, _sample(range(len(data)), 60))
    assert outcomes["corrupt"] > outcomes["other values"]


def test_damaged_pages_sampled(data: bytes, table: pa.Table) -> None:
    _sweep(data, table, _sample(range(_metadata_start(data) * 8), 100), range(0))


@pytest.mark.exhaustive
def test_damaged_metadata_every_bit_and_every_cut(data: bytes, table: pa.Table) -> None:
    # Every bit of the small files; the descriptions in "encodings" carry a symbol table, of which a third must do.
    bits = _sample(range(_metadata_start(data) * 8, len(data) * 8), 12_000)
    outcomes = _sweep(data, table, bits, _sample(range(len(data)), 24_000))
    assert outcomes["corrupt"] > outcomes["other values"]


@pytest.mark.exhaustive
def test_damaged_pages_many_bits(data: bytes, table: pa.Table) -> None:
    _sweep(data, table, _sample(range(_metadata_start(data) * 8), 3_000), range(0))


def test_describing_a_damaged_file_is_safe_too(data: bytes) -> None:
    for bit in range(_metadata_start(data) * 8, len(data) * 8, 101):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        store = MemoryStore()
        store.put(PATH, bytes(changed))
        try:
            text = describe_file(FileReader.open(store, PATH))
        except LanceError:
            continue
        assert text.startswith("data file 2.")
