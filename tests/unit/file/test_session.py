"""Sessions keep open data files and share them, within a budget of bytes."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import NotFoundError
from lance_core.file.families import open_writer
from lance_core.file.session import UNCACHED, Session
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion
from tests.support.counting_store import CountingStore

NUM_ROWS = 50_000
ROWS = pa.record_batch({"a": np.random.default_rng(3).integers(0, 1 << 62, NUM_ROWS)})
VERSIONS = ["0.1", "2.0", "2.1", "2.2"]


def _store(*paths: str, version: str = "2.2") -> CountingStore:
    store = CountingStore(MemoryStore())
    for path in paths:
        config = WriteConfig(version=LanceFileVersion(version))
        with open_writer(store.create(path), schema_from_arrow(ROWS.schema), config) as writer:
            writer.write_batch(ROWS)
            writer.finish()
    store.reset()
    return store


def _size(store: CountingStore, path: str) -> int:
    num_bytes = store.head(path).num_bytes
    store.reset()
    return num_bytes


@pytest.mark.parametrize("version", VERSIONS)
def test_opening_a_cached_file_again_makes_no_request(version: str) -> None:
    store, session = _store("f", version=version), Session(metadata_cache_size_bytes=1 << 24)
    num_bytes = _size(store, "f")
    opened = session.open_file(store, "f", num_bytes=num_bytes, field_ids=[0])
    assert store.reads
    store.reset()
    assert session.open_file(store, "f", num_bytes=num_bytes, field_ids=[0]) is opened
    assert not store.calls
    assert opened.memory <= session.size_bytes() <= session.max_bytes


def test_open_file_without_a_cache_budget_opens_the_file_again() -> None:
    store = _store("f")
    num_bytes = _size(store, "f")
    assert UNCACHED.open_file(store, "f", num_bytes=num_bytes) is not UNCACHED.open_file(
        store, "f", num_bytes=num_bytes
    )
    assert UNCACHED.size_bytes() == 0


def test_open_file_of_unknown_size_is_cached() -> None:
    store, session = _store("f"), Session(metadata_cache_size_bytes=1 << 24)
    opened = session.open_file(store, "f", num_bytes=None)
    store.reset()
    assert session.open_file(store, "f", num_bytes=None) is opened
    assert not store.calls


def test_open_file_distinguishes_stores_paths_and_sizes() -> None:
    one, other, session = _store("f", "g"), _store("f"), Session(metadata_cache_size_bytes=1 << 24)
    num_bytes = _size(one, "f")
    opened = [
        session.open_file(one, "f", num_bytes=num_bytes),
        session.open_file(one, "g", num_bytes=num_bytes),
        session.open_file(other, "f", num_bytes=num_bytes),
        session.open_file(one, "f", num_bytes=num_bytes, field_ids=[0]),
    ]
    assert len({id(reader) for reader in opened}) == 4


def test_session_over_budget_evicts_the_least_recently_used_file() -> None:
    paths = [f"f{number}" for number in range(4)]
    store = _store(*paths)
    num_bytes = _size(store, "f0")
    memory = Session().open_file(store, "f0", num_bytes=num_bytes).memory
    session = Session(metadata_cache_size_bytes=2 * memory)
    first, second, _ = (session.open_file(store, path, num_bytes=num_bytes) for path in ("f0", "f1", "f0"))
    session.open_file(store, "f2", num_bytes=num_bytes)
    assert session.open_file(store, "f0", num_bytes=num_bytes) is first
    assert session.open_file(store, "f1", num_bytes=num_bytes) is not second
    assert session.size_bytes() <= session.max_bytes


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_session_counts_and_keeps_page_metadata(version: str) -> None:
    store, session = _store("f", version=version), Session(metadata_cache_size_bytes=1 << 24)
    num_bytes = _size(store, "f")
    reader = session.open_file(store, "f", num_bytes=num_bytes)
    before = session.size_bytes()
    expected = ROWS.column("a").take(pa.array([7, 40_000])).to_pylist()
    assert reader.take(reader.schema.fields, [7, 40_000])["a"].to_pylist() == expected
    assert session.size_bytes() > before
    first = len(store.reads)
    store.reset()
    again = session.open_file(store, "f", num_bytes=num_bytes)
    assert again.take(again.schema.fields, [7, 40_000])["a"].to_pylist() == expected
    assert len(store.reads) < first


def test_session_shares_open_files_among_threads() -> None:
    paths = [f"f{number}" for number in range(5)]
    store = _store(*paths)
    num_bytes = _size(store, "f0")
    session = Session(metadata_cache_size_bytes=3 * UNCACHED.open_file(store, "f0", num_bytes=num_bytes).memory)
    expected = ROWS.column("a").slice(100, 50).to_pylist()

    def read(number: int) -> bool:
        reader = session.open_file(store, paths[number % 5], num_bytes=num_bytes)
        return reader.read_table(reader.schema.fields, row_range=(100, 150))["a"].to_pylist() == expected

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, range(200)))
    assert session.size_bytes() <= session.max_bytes


def test_opening_a_missing_file_raises_not_found_and_caches_nothing() -> None:
    session = Session(metadata_cache_size_bytes=1 << 24)
    with pytest.raises(NotFoundError):
        session.open_file(MemoryStore(), "f", num_bytes=100)
    assert session.size_bytes() == 0


def test_open_files_are_freed_with_their_session_without_garbage_collection() -> None:
    store, session = _store("f"), Session()
    reader = session.open_file(store, "f", num_bytes=_size(store, "f"))
    reader.take(reader.schema.fields, [7])
    kept = weakref.ref(reader)
    gc.disable()
    try:
        del reader, session
        assert kept() is None
    finally:
        gc.enable()


def test_open_file_that_outlives_its_session_can_be_read() -> None:
    store = _store("f")
    reader = Session().open_file(store, "f", num_bytes=_size(store, "f"))
    for _ in range(2):
        assert reader.take(reader.schema.fields, [7])["a"].to_pylist() == ROWS.column("a").take([7]).to_pylist()
