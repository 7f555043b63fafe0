"""The thread pool for decoding is shared and small, and a forked process gets a new one."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError
from lance_core.file.decode_pool import decode_pool
from lance_core.file.families import open_writer
from lance_core.file.read_config import ReadConfig
from lance_core.file.reader import FileReader
from lance_core.file.write_config import WriteConfig
from lance_core.io.byte_range import ByteRange
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.convert import schema_from_arrow

# Each column has several segments, because neighboring pages are decoded in steps of 4 MiB.
TABLE = pa.table({name: np.random.default_rng(2).integers(0, 1 << 62, 700_000) for name in "ab"})


def _reader() -> FileReader:
    store = MemoryStore()
    _write(store)
    return FileReader.open(store, "f")


def _write(store: MemoryStore) -> None:
    writer = open_writer(store.create("f"), schema_from_arrow(TABLE.schema), WriteConfig(data_cache_bytes=200_000))
    for batch in TABLE.to_batches(max_chunksize=20_000):
        writer.write_batch(batch)
    writer.finish()


class _GatedStore(MemoryStore):
    """A store in which reads from the second half of an object wait until a gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.waits = threading.Event(), threading.Event()
        self.num_reading = 0

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        if ranges[0].start > self.head(path).num_bytes // 2:
            self.num_reading += 1
            self.waits.set()
            assert self.gate.wait(60)
            self.num_reading -= 1
        return super().get_ranges(path, ranges)


@pytest.fixture
def gated() -> Iterator[_GatedStore]:
    store = _GatedStore()
    _write(store)
    yield store
    store.gate.set()


def _started_scan(store: _GatedStore) -> Iterator[pa.RecordBatch]:
    """Return a scan with tasks that wait for the gate."""
    reader = FileReader.open(store, "f")
    batches = reader.read_batches(reader.schema.fields, ReadConfig(inline_bytes=0))
    next(batches)
    assert store.waits.wait(60)
    return batches


def _scan(reader: FileReader) -> bool:
    return pa.Table.from_batches(reader.read_batches(reader.schema.fields)).equals(TABLE)


def test_decode_pool_is_created_only_once() -> None:
    assert decode_pool() is decode_pool()


def test_scans_inside_the_decode_pool_do_not_deadlock() -> None:
    reader = _reader()
    # More scans than threads, each of which waits for tasks of the same pool.
    scans = [decode_pool().submit(_scan, reader) for _ in range(20)]
    assert all(scan.result(timeout=60) for scan in scans)


def test_forked_process_gets_its_own_decode_threads() -> None:
    reader = _reader()
    assert _scan(reader)
    child = os.fork()
    if child == 0:
        os._exit(0 if _scan(reader) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_closing_a_scan_waits_for_its_running_tasks(gated: _GatedStore) -> None:
    batches = _started_scan(gated)
    threading.Thread(target=gated.gate.set).start()
    batches.close()
    assert gated.num_reading == 0


def test_garbage_collection_of_an_abandoned_scan_does_not_wait_for_the_running_tasks(gated: _GatedStore) -> None:
    cycle: list[object] = [_started_scan(gated)]
    cycle.append(cycle)
    dropped = weakref.ref(cycle[0])
    del cycle
    # The collector may run in the thread of a task, or while a lock is held that the tasks need.
    gc.collect()
    assert dropped() is None
    assert gated.num_reading > 0


def test_errors_of_decode_threads_reach_the_caller() -> None:
    store = MemoryStore()
    writer = open_writer(store.create("f"), schema_from_arrow(TABLE.schema), WriteConfig())
    for batch in TABLE.to_batches(max_chunksize=20_000):
        writer.write_batch(batch)
    writer.finish()
    reader = FileReader.open(store, "f")
    page = reader.column_metadatas[0].pages[0]
    data = bytearray(store.get("f"))
    data[page.buffers[0].start : page.buffers[0].stop] = bytes(page.buffers[0].num_bytes)
    store.put("f", bytes(data))
    with pytest.raises(CorruptDataError, match="column 0, page 0"):
        list(FileReader.open(store, "f").read_batches(reader.schema.fields))
