"""Ranges that are being fetched are read from memory, with few requests; other ranges are read from the file."""

from dataclasses import replace

import numpy as np

from lance_core.file.fetched_bytes import FetchedBytes
from lance_core.file.file_bytes import FileBytes
from lance_core.io.byte_range import ByteRange
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import StoreCapabilities
from lance_core.io.read_costs import REMOTE_COSTS
from tests.support.counting_store import CountingStore

CONTENT = np.random.default_rng(5).bytes(2_000_000)


class RemoteStore(CountingStore):
    """Counts requests that cost as much as those of an object store."""

    @property
    def capabilities(self) -> StoreCapabilities:
        return replace(self.inner.capabilities, read_costs=REMOTE_COSTS)


def _opened() -> tuple[CountingStore, FileBytes]:
    store = RemoteStore(MemoryStore())
    store.put("f", CONTENT)
    file = FileBytes(store, "f", len(CONTENT))
    store.reset()
    return store, file


def _read(fetched: FetchedBytes, *ranges: tuple[int, int]) -> list[bytes]:
    return [buffer.to_pybytes() for buffer in fetched.read([ByteRange(*each) for each in ranges])]


def test_neighboring_ranges_and_their_parts_are_read_with_one_request():
    store, file = _opened()
    fetched = FetchedBytes(file, [ByteRange(2000, 3000), ByteRange(64, 1000), ByteRange(1024, 2000), ByteRange(70, 80)])
    wanted = [(2000, 3000), (64, 1000), (1500, 2500), (990, 1030), (500, 500), (2999, 3000)]
    assert _read(fetched, *wanted) == [CONTENT[start:stop] for start, stop in wanted]
    assert [len(ranges) for ranges in store.reads] == [1]
    assert store.num_bytes_read() == 3000 - 64
    assert fetched.is_done


def test_distant_ranges_are_not_joined():
    store, file = _opened()
    fetched = FetchedBytes(file, [ByteRange(0, 100), ByteRange(1_000_000, 1_000_100)])
    assert _read(fetched, (1_000_000, 1_000_050), (50, 100)) == [CONTENT[1_000_000:1_000_050], CONTENT[50:100]]
    assert store.num_bytes_read() == 200


def test_ranges_that_were_not_fetched_are_read_from_the_file():
    store, file = _opened()
    fetched = FetchedBytes(file, [ByteRange(1000, 2000)])
    wanted = [(1000, 1500), (1900, 2001), (0, 10), (999, 1001)]
    assert _read(fetched, *wanted) == [CONTENT[start:stop] for start, stop in wanted]
    assert len(store.reads) == 2


def test_nothing_is_fetched_for_empty_ranges():
    store, file = _opened()
    fetched = FetchedBytes(file, [ByteRange(10, 10)])
    assert _read(fetched, (10, 10)) == [b""]
    assert store.reads == []
