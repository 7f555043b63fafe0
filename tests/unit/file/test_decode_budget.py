"""The columns of a stream together decode at most as many bytes at a time as the budget allows."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import InternalError
from lance_core.file import scan
from lance_core.file.families import open_sources
from lance_core.file.field_source import FieldSource
from lance_core.file.lance_file import LanceFileWriter
from lance_core.file.read_config import ReadConfig
from lance_core.file.reader import FileReader
from lance_core.file.scan import fair_share, stream_plans
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from tests.support.counting_store import CountingStore

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]
NUM_ROWS = 40_000
RANDOM = np.random.default_rng(7)


def _text(row: int) -> str:
    return f"text {row * 7919} of row {row}"


@cache
def _table() -> pa.Table:
    numbers = RANDOM.random(NUM_ROWS)
    lengths = RANDOM.integers(0, 5, NUM_ROWS)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    items = pa.array(RANDOM.integers(0, 1 << 40, int(offsets[-1])))
    columns = {
        "float": pa.array(numbers),
        "packed": pa.array(RANDOM.integers(0, 9, NUM_ROWS)),
        "nulls": pa.array(numbers, mask=numbers < 0.2),
        "runs of nulls": pa.array(numbers, mask=np.arange(NUM_ROWS) // 700 % 3 == 0),
        "runs": pa.array(np.repeat(RANDOM.integers(0, 9, NUM_ROWS // 100), 100)),
        "bool": pa.array(numbers < 0.5),
        "text": pa.array([_text(row) for row in range(NUM_ROWS)]),
        "words": pa.array([f"word {row % 50}" * 3 for row in range(NUM_ROWS)]),
        "list": pa.ListArray.from_arrays(pa.array(offsets), items),
        "struct": pa.StructArray.from_arrays(
            [pa.array(numbers), pa.array([_text(row) for row in range(NUM_ROWS)])], "ab"
        ),
        "vector": pa.FixedSizeListArray.from_arrays(RANDOM.random(NUM_ROWS * 40, np.float32), 40),
        "constant": pa.array(np.full(NUM_ROWS, 5)),
        "bytes": pa.array([RANDOM.bytes(300) for _ in range(NUM_ROWS)], pa.large_binary()),
        "null": pa.nulls(NUM_ROWS),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = {}
    for version in VERSIONS:
        path = found[version] = str(tmp_path_factory.mktemp("files") / f"{version}.lance")
        table = _table().drop_columns(["runs of nulls"]) if version == "0.1" else _table()
        with LanceFileWriter(path, table.schema, version=version) as writer:
            writer.write_batch(table)
    return found


@pytest.fixture
def opened(paths: dict[str, str]) -> dict[str, FileReader]:
    return {version: FileReader.open(LocalStore(), path) for version, path in paths.items()}


def _sources(reader: FileReader) -> list[FieldSource]:
    return open_sources(reader.any_metadata, reader.schema.fields, None)


@pytest.mark.parametrize(
    ("demands", "budget", "expected"),
    [
        ([], 10, 0),
        ([3, 4], 7, 4),
        ([3, 4], 6, 3),
        ([1, 100, 100], 21, 10),
        ([100, 1, 5], 21, 15),
        ([10] * 300, 64, 0),
        ([0, 0, 50], 20, 20),
    ],
)
def test_fair_share_divides_the_budget_among_demands(demands: list[int], budget: int, expected: int) -> None:
    assert fair_share(demands, budget) == expected
    assert sum(min(demand, expected) for demand in demands) <= budget


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_within_the_budget_are_read_in_the_largest_steps(version: str, opened: dict[str, FileReader]) -> None:
    for plan in stream_plans(_sources(opened[version]), 0, NUM_ROWS, ReadConfig(batch_rows=1000)):
        assert plan.pace is None
        assert list(plan.pieces()) == list(plan.segments)
        assert list(plan.segments) == list(plan.source.plan(0, NUM_ROWS, batch_rows=1000))


@pytest.mark.parametrize("batch_rows", [100, 1000, 7777])
@pytest.mark.parametrize("version", VERSIONS)
def test_large_decode_steps_are_split_to_fit_the_memory_share(
    version: str, batch_rows: int, opened: dict[str, FileReader]
) -> None:
    sources = _sources(opened[version])
    budget = 16 * 1024 * len(sources)
    num_cut = 0
    for plan in stream_plans(sources, 5, NUM_ROWS, ReadConfig(batch_rows=batch_rows, decoded_bytes=budget)):
        pieces = list(plan.pieces())
        assert [pieces[0].start, *(piece.stop for piece in pieces)] == [*(piece.start for piece in pieces), NUM_ROWS]
        assert pieces[0].start == 5
        if plan.pace is None:
            continue
        num_cut += 1
        share = plan.pace.max_memory
        assert share >= 16 * 1024
        for piece in pieces:
            rows_of_two_batches = 2 * batch_rows
            assert plan.source.memory_of(piece) <= 2 * share or piece.stop - piece.start <= rows_of_two_batches
    assert num_cut >= 8


@pytest.mark.parametrize("version", VERSIONS)
def test_memory_estimates_are_near_the_decoded_size(version: str, opened: dict[str, FileReader]) -> None:
    reader = opened[version]
    for source in _sources(reader):
        segments = source.plan(0, NUM_ROWS, batch_rows=1000)
        estimated = sum(source.memory_of(segment) for segment in segments)
        taken = sum(source.decode(segment, reader.any_metadata.read).nbytes for segment in segments)
        assert taken <= 1.5 * estimated + 8192, source.field.name
        assert estimated <= 5 * taken + 8192, source.field.name


@pytest.mark.parametrize("batch_rows", [100, 1000, 7777, NUM_ROWS])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.sampled(4)
def test_scan_with_a_small_decode_budget_returns_the_same_rows(
    version: str, batch_rows: int, opened: dict[str, FileReader]
) -> None:
    reader = opened[version]
    expected = list(
        reader.read_batches(reader.schema.fields, row_range=(5, NUM_ROWS - 5), config=ReadConfig(batch_rows=batch_rows))
    )
    tight = ReadConfig(batch_rows=batch_rows, decoded_bytes=16 * 1024 * len(reader.schema.fields))
    found = list(reader.read_batches(reader.schema.fields, tight, row_range=(5, NUM_ROWS - 5)))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one.validate(full=True)
        assert one.equals(other)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_small_pages_are_joined_up_to_the_memory_share(version: str, tmp_path: Path) -> None:
    path = str(tmp_path / "small.lance")
    table = pa.table({f"c{i}": RANDOM.random(64_000) for i in range(4)})
    with LanceFileWriter(path, table.schema, version=version, data_cache_bytes=1) as writer:
        for batch in table.to_batches(max_chunksize=1000):
            writer.write_batch(batch)
    sources = _sources(FileReader.open(LocalStore(), path))
    for plan in stream_plans(sources, 0, 64_000, ReadConfig(batch_rows=100, decoded_bytes=4 * 64_000)):
        assert plan.pace is not None
        assert {piece.stop - piece.start for piece in plan.pieces()} == {8000} or all(
            5000 <= piece.stop - piece.start <= 8000 for piece in plan.pieces()
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_scan_with_a_decode_budget_fetches_few_bytes_more_than_once(version: str, paths: dict[str, str]) -> None:
    with open(paths[version], "rb") as file:
        data = file.read()
    store = CountingStore(MemoryStore())
    store.put("f", data)
    reader = FileReader.open(store, "f")
    sources = _sources(reader)
    store.reset()
    share = 64 * 1024
    config = ReadConfig(batch_rows=1000, decoded_bytes=share * len(sources))
    plans = stream_plans(sources, 0, NUM_ROWS, config)
    num_batches = 0
    schema = pa.schema([(plan.source.field.name, _table().schema.field(plan.source.field.name).type) for plan in plans])
    for _ in scan.scan_batches(plans, schema, NUM_ROWS, config, reader.any_metadata.read, lambda batch: batch):
        num_batches += 1
    assert num_batches == NUM_ROWS // 1000
    assert store.num_bytes_read() <= 1.5 * len(data)
    assert max(sum(extent.num_bytes for extent in ranges) for ranges in store.reads) <= 8 * share


def test_decode_pieces_are_planned_lazily(opened: dict[str, FileReader]) -> None:
    sources = _sources(opened["2.2"])[:1]
    [plan] = stream_plans(sources, 0, NUM_ROWS, ReadConfig(batch_rows=100, decoded_bytes=1))
    assert plan.pace is not None
    assert plan.pace.max_memory == scan._LEAST_BYTES
    first, second = itertools.islice(plan.pieces(), 2)
    assert (first.start, first.stop) == (0, second.start)


def test_reading_more_segments_than_planned_raises_internal_error(opened: dict[str, FileReader]) -> None:
    reader = opened["2.2"]
    config = ReadConfig(batch_rows=100)
    plan = stream_plans(_sources(reader)[:1], 0, NUM_ROWS, config)[0]
    ahead = scan._ReadAhead([plan], reader.any_metadata.read, config)
    with ahead:
        for _ in plan.segments:
            ahead.next(0)
        with pytest.raises(InternalError, match="more segments"):
            ahead.next(0)
