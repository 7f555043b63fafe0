"""The requests of a take of a single row, for each format version and kind of column.

``python -m tests.support.point_requests`` prints the table of ``docs/benchmarks.md``.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import lance_core
from lance_core.blob import blob_array, blob_field
from lance_core.io.byte_range import coalesce_ranges
from lance_core.io.memory_store import MemoryStore
from lance_core.io.uri import register_store, unregister_store
from tests.support.counting_store import CountingStore

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
NUM_ROWS = 50_000
NEAR_BYTES = 64 * 1024
"""What object stores join into one request."""

_URI = "memory://points/t.lance"
_NAMESPACE = "points"


@dataclass(frozen=True)
class Cost:
    """What one take asked for.

    Attributes:
        steps: calls of the store, one after the other; the requests of one call are sent together.
        requests: ranges of bytes, those near each other counted once; a request for the size of an object is one too.
        num_bytes: bytes of all ranges.
    """

    steps: int
    requests: int
    num_bytes: int

    def __str__(self) -> str:
        together = "" if self.requests == self.steps else f" ({self.requests})"
        return f"{self.steps}{together}, {_size(self.num_bytes)}"


@cache
def columns() -> Mapping[str, pa.Array]:
    """Return an array of each kind."""
    random = np.random.default_rng(5)
    numbers = pa.array(random.integers(0, 1 << 62, NUM_ROWS))
    floats = pa.array(random.standard_normal(NUM_ROWS))
    words = pa.array([f"word {row:08} {'x' * (row % 40)}" for row in range(NUM_ROWS)])
    repeated = pa.array([f"category {row % 50}" for row in range(NUM_ROWS)])
    offsets = pa.array(np.arange(NUM_ROWS + 1, dtype=np.int32))
    items = pa.array(random.integers(0, 1 << 30, 3 * NUM_ROWS))
    return {
        "int64": numbers,
        "float64 with nulls": pa.array(floats, mask=random.random(NUM_ROWS) < 0.2),
        "bool": pa.array(random.random(8 * NUM_ROWS) < 0.5),
        "string": words,
        "string, 50 distinct": repeated,
        "dictionary": repeated.dictionary_encode(),
        "list of int64": pa.ListArray.from_arrays(pa.array(np.arange(NUM_ROWS + 1, dtype=np.int32) * 3), items),
        "list of strings": pa.ListArray.from_arrays(offsets, words),
        "struct of two numbers": pa.StructArray.from_arrays([numbers, floats], ["a", "b"]),
        "struct with a string": pa.StructArray.from_arrays([numbers, words, floats], ["a", "b", "c"]),
        "vector of 32 floats": _vectors(random, NUM_ROWS, 32),
        "vector of 256 floats": _vectors(random, 5_000, 256),
        "binary of 4 KiB": pa.array([os.urandom(4096) for _ in range(2_000)]),
        "blob descriptor": pa.array([os.urandom(64) for _ in range(20_000)], pa.large_binary()),
    }


@cache
def measured(version: str, kind: str) -> tuple[Cost, Cost]:
    """Return what a take costs on a dataset that was just opened, and then a take of another row nearby."""
    values = columns()[kind]
    row = len(values) // 3
    with written(version, kind, values) as (store, uri):
        dataset = lance_core.dataset(uri)
        return tuple(_cost(store, lambda at=at: _check(dataset, values, kind, at)) for at in (row, row + 7))


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| column | {' | '.join(VERSIONS)} |"
    yield "|---|" + "---|" * len(VERSIONS)
    for kind in columns():
        cells = ("; ".join(map(str, measured(version, kind))) if stores(version, kind) else "" for version in VERSIONS)
        yield f"| {kind} | {' | '.join(cells)} |"


def stores(version: str, kind: str) -> bool:
    """Return whether a format version can store a kind of column."""
    return kind != "blob descriptor" or version != "0.1"


def field(version: str, kind: str, values: pa.Array) -> pa.Field:
    """Return the field of the column ``c``."""
    if kind == "blob descriptor" and version != "2.2":
        return pa.field("c", values.type, metadata={"lance-encoding:blob": "true"})
    return blob_field("c") if kind == "blob descriptor" else pa.field("c", values.type)


@contextmanager
def written(version: str, kind: str, values: pa.Array) -> Iterator[tuple[CountingStore, str]]:
    """Write a table with the column ``c``, and return its store and URI."""
    store = CountingStore(MemoryStore())
    register_store(_NAMESPACE, store)
    try:
        column = field(version, kind, values)
        stored = blob_array(values.to_pylist()) if kind == "blob descriptor" and version == "2.2" else values
        rows = pa.Table.from_arrays([stored], schema=pa.schema([column]))
        lance_core.write_dataset(rows, _URI, data_storage_version=version)
        yield store, _URI
    finally:
        unregister_store(_NAMESPACE)


def _check(dataset: lance_core.LanceDataset, values: pa.Array, kind: str, row: int) -> None:
    [found] = dataset.take([row])["c"].to_pylist()
    if kind == "blob descriptor":
        assert found["size"] == len(values[row].as_py())
    else:
        assert found == values[row].as_py()


def _cost(store: CountingStore, take: Callable[[], Any]) -> Cost:
    store.reset()
    take()
    reads = [coalesce_ranges(each, max_gap_bytes=NEAR_BYTES, max_extent_bytes=1 << 24) for each in store.reads]
    others = len(store.calls) - len(reads)
    return Cost(len(store.calls), others + sum(map(len, reads)), store.num_bytes_read())


def _vectors(random: np.random.Generator, num_rows: int, width: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(random.standard_normal(num_rows * width, np.float32)), width)


def _size(num_bytes: int) -> str:
    return f"{num_bytes} B" if num_bytes < 1024 else f"{num_bytes / 1024:.1f} KiB"


if __name__ == "__main__":
    print("\n".join(table()))
