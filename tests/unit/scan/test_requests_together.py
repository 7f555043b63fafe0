"""Independent requests to an object store are sent concurrently."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import NotFoundError, StorageError
from lance_core.file.read_config import ReadConfig
from lance_core.io.byte_range import ByteRange
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import StoreCapabilities
from lance_core.io.read_costs import REMOTE_COSTS, ReadCosts
from lance_core.io.request_pool import in_parallel
from lance_core.io.uri import register_store, unregister_store
from lance_core.scan.row_reader import RowReader
from tests.support.counting_store import CountingStore
from tests.support.faulty_store import Call, When

NUM_FRAGMENTS = 8
FRAGMENT_ROWS = 20_000
NUM_ROWS = NUM_FRAGMENTS * FRAGMENT_ROWS
_URI = "memory://together/t.lance"
_PATIENCE_SECONDS = 30


@dataclass
class MeetingStore(CountingStore):
    """A store with the costs of an object store, whose calls can be made to wait for each other."""

    barrier: threading.Barrier | None = None

    @property
    def capabilities(self) -> StoreCapabilities:
        return replace(self.inner.capabilities, read_costs=REMOTE_COSTS)

    def meet(self, num_calls: int) -> None:
        """Make the next reads end only after this many reads have begun, or fail if fewer begin."""
        self.reset()
        self.barrier = threading.Barrier(num_calls, action=self._part)

    def _part(self) -> None:
        self.barrier = None

    def note_ranges(self, path: str, ranges: Sequence[ByteRange]) -> None:
        super().note_ranges(path, ranges)
        self._wait()

    def get(self, path: str) -> pa.Buffer:
        if "_deletions" in path:
            self._wait()
        return super().get(path)

    def _wait(self) -> None:
        if self.barrier is not None:
            self.barrier.wait(_PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    random = np.random.default_rng(13)
    return pa.table(
        {
            "k": random.permutation(NUM_ROWS),
            "x": random.standard_normal(NUM_ROWS),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(random.standard_normal(16 * NUM_ROWS)), 16),
        }
    )


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def store(request: pytest.FixtureRequest, rows: pa.Table) -> Iterator[MeetingStore]:
    store = MeetingStore(MemoryStore())
    register_store("together", store)
    try:
        lance_core.write_dataset(rows, _URI, data_storage_version=request.param, max_rows_per_file=FRAGMENT_ROWS)
        yield store
    finally:
        unregister_store("together")


@pytest.fixture
def dataset(store: MeetingStore) -> lance_core.LanceDataset:
    store.fault = lambda call: None
    return lance_core.dataset(_URI)


READS: dict[str, Callable[[lance_core.LanceDataset], object]] = {
    "take": lambda dataset: dataset.take(list(range(7, NUM_ROWS, FRAGMENT_ROWS))),
    "scan": lambda dataset: dataset.to_table(columns=["x"]),
    "count": lambda dataset: dataset.count_rows(filter="k < 100"),
    "filter": lambda dataset: dataset.to_table(filter="k < 100"),
    "scan of all columns": lambda dataset: dataset.to_table(),
    "scan of matching ranges": lambda dataset: dataset.to_table(filter="k % 2 = 0"),
}


@pytest.mark.parametrize("read", READS)
def test_files_of_all_fragments_are_opened_concurrently(store, dataset, read):
    store.meet(NUM_FRAGMENTS)
    READS[read](dataset)
    assert store.barrier is None


@pytest.mark.parametrize("read", READS)
def test_data_of_all_open_files_is_requested_concurrently(store, dataset, read):
    READS[read](dataset)
    store.meet(NUM_FRAGMENTS)
    READS[read](dataset)
    assert store.barrier is None


def test_deletion_files_of_all_fragments_are_read_concurrently(store, rows):
    keys = rows["k"].take(pa.array(range(5, NUM_ROWS, FRAGMENT_ROWS)))
    lance_core.dataset(_URI).delete(f"k in ({', '.join(map(str, keys.to_pylist()))})")
    try:
        dataset = lance_core.dataset(_URI)
        store.meet(NUM_FRAGMENTS)
        found = dataset.take(list(range(4, NUM_ROWS - NUM_FRAGMENTS, FRAGMENT_ROWS - 1)), columns=["k"])
        assert store.barrier is None
        assert found["k"].equals(rows["k"].take(pa.array(range(4, NUM_ROWS, FRAGMENT_ROWS))))
    finally:
        lance_core.dataset(_URI, version=1).restore()


def test_reads_with_concurrent_requests_return_the_same_rows_as_the_written_table(store, dataset, rows):
    assert dataset.to_table().equals(rows)
    assert dataset.to_table(filter="k % 7 = 3").equals(rows.filter(pa.compute.equal(_modulo(rows["k"], 7), 3)))
    wanted = np.random.default_rng(5).integers(0, NUM_ROWS, 300)
    assert dataset.take(wanted.tolist()).equals(rows.take(pa.array(wanted)))
    assert dataset.to_table(offset=30_000, limit=40_000).equals(rows.slice(30_000, 40_000))


def _modulo(column: pa.ChunkedArray, divisor: int) -> pa.Array:
    return pa.array(column.to_numpy() % divisor)


def test_scan_with_a_limit_opens_one_file(store, dataset):
    store.reset()
    assert dataset.to_table(limit=10).num_rows == 10
    assert len({call.path for call in store.calls}) == 1


def test_error_of_one_request_is_raised_after_the_other_requests_have_ended(store, dataset):
    data_files = sorted({fragment.data_files()[0].path for fragment in dataset.get_fragments()})

    def fails(call: Call) -> When | None:
        return When.BEFORE if call.path.endswith(data_files[3]) else None

    store.fault = fails
    with pytest.raises(StorageError, match="injected"):
        dataset.to_table(columns=["x"])
    store.fault = lambda call: None
    assert dataset.to_table(columns=["x"]).num_rows == NUM_ROWS


def test_read_with_a_missing_data_file_raises_not_found(store, dataset):
    name = dataset.get_fragments()[5].data_files()[0].path
    store.reset()
    dataset.to_table(columns=["x"])
    path = next(call.path for call in store.calls if call.path.endswith(name))
    content = store.get(path)
    store.delete(path)
    try:
        with pytest.raises(NotFoundError):
            lance_core.dataset(_URI).to_table(columns=["x"])
    finally:
        store.put(path, content)


def test_buffer_size_limits_how_far_a_stream_reads_ahead_of_its_consumer(store, dataset):
    dataset.to_table()
    store.reset()
    batches = dataset.to_batches(io_buffer_size=1024 * 1024)
    next(batches)
    batches.close()
    # The buffer, two segments of 2.5 MiB that exceed it, and the current segments of the three columns.
    assert store.num_bytes_read() < 11 * 1024 * 1024
    store.reset()
    assert sum(batch.num_rows for batch in dataset.to_batches(io_buffer_size=1024 * 1024)) == NUM_ROWS
    assert store.num_bytes_read() > 20 * 1024 * 1024


def test_abandoned_stream_sends_no_further_requests(store, dataset):
    dataset.to_table()
    batches = dataset.to_batches(io_buffer_size=4 * 1024 * 1024)
    next(batches)
    batches.close()
    num_reads = len(store.reads)
    # Any task waiting for a thread would run before these tasks.
    in_parallel([lambda: None] * 200)
    assert len(store.reads) == num_reads


def test_forked_process_continues_a_stream(store, dataset, rows):
    batches = dataset.to_batches()
    first = next(batches)
    child = os.fork()
    if child == 0:
        os._exit(0 if pa.Table.from_batches([first, *batches]).equals(rows) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pa.Table.from_batches([first, *batches]).equals(rows)


def test_parallel_calls_return_their_results_in_order():
    assert in_parallel([lambda index=index: index for index in range(200)]) == list(range(200))


def test_parallel_calls_raise_the_error_of_the_first_call_that_failed():
    def fail(index: int) -> None:
        raise StorageError(f"call {index}")

    with pytest.raises(StorageError, match="call 0"):
        in_parallel([lambda index=index: fail(index) for index in range(20)])


def test_interrupt_does_not_wait_for_other_parallel_calls():
    released = threading.Event()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_parallel([interrupt, lambda: released.wait(_PATIENCE_SECONDS)])
    assert not released.is_set()
    released.set()


@pytest.fixture
def fetched_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that the filter does not read are fetched for the matching rows only, as in larger tables."""
    monkeypatch.setattr(ReadCosts, "early_bytes", lambda *_: 0)


@pytest.mark.usefixtures("fetched_later")
def test_range_of_matching_rows_is_read_with_one_request_per_file(store, dataset, rows):
    keys = rows["k"].to_numpy()
    # The range begins and ends inside pages.
    condition = f"k % 2 = 0 and k not in ({keys[0]}, {keys[-1]})"
    expected = rows.filter(pa.array((keys % 2 == 0) & ~np.isin(keys, keys[[0, -1]])))
    assert dataset.to_table(filter=condition).equals(expected)
    store.reset()
    assert dataset.to_table(filter=condition).equals(expected)
    # One for the column of the filter, and one for the other columns, which have at most 3 MiB together.
    assert len(store.reads) == 2 * NUM_FRAGMENTS


@pytest.mark.usefixtures("fetched_later")
def test_bytes_are_read_once_if_matching_rows_are_read_in_several_ranges(store, dataset, rows, monkeypatch):
    monkeypatch.setattr("lance_core.scan.matching._MOST_HELD", NUM_ROWS // 4)
    expected = rows.filter(pa.array(rows["k"].to_numpy() % 2 == 0))
    dataset.to_table(filter="k % 2 = 0")
    store.reset()
    assert dataset.to_table(filter="k % 2 = 0").equals(expected)
    # The column of the filter is read twice.
    assert store.num_bytes_read() < 1.3 * rows.nbytes


@pytest.mark.usefixtures("fetched_later")
def test_matching_rows_are_taken_in_portions_whose_bytes_fit_into_memory(store, dataset, rows, monkeypatch):
    portions: list[int] = []
    take = RowReader.take

    def recording(reader: RowReader, wanted: object, live_rows: np.ndarray, table: object) -> pa.RecordBatch:
        portions.append(len(live_rows))
        return take(reader, wanted, live_rows, table)

    monkeypatch.setattr(RowReader, "take", recording)
    monkeypatch.setattr(
        "lance_core.scan.scanner._read_config", lambda *arguments: ReadConfig(decoded_bytes=4 * 1024 * 1024)
    )
    expected = rows.filter(pa.array(rows["k"].to_numpy() % 50 == 0))
    assert dataset.to_table(filter="k % 50 = 0").equals(expected)
    row_bytes = rows.nbytes / NUM_ROWS
    assert sum(portions) == expected.num_rows
    assert max(portions) * 50 * row_bytes < 5 * 1024 * 1024


@pytest.mark.parametrize("is_known", [False, True])
def test_parts_of_large_pages_are_requested_before_they_are_decoded(store, is_known):
    num_rows, width = 300_000, 32
    vectors = pa.array(np.random.default_rng(5).standard_normal(num_rows * width, np.float32))
    written = pa.table({"v": pa.FixedSizeListArray.from_arrays(vectors, width), "n": np.arange(num_rows)})
    uri = f"memory://together/large-pages-{is_known}.lance"
    lance_core.write_dataset(written, uri, data_storage_version="2.2", max_page_bytes=16 * 1024 * 1024)
    dataset = lance_core.dataset(uri)
    dataset.to_table(columns=["v" if is_known else "n"])
    # There are fewer decoding threads than parts of pages.
    store.meet(5)
    assert dataset.to_table(columns=["v"]).equals(written.select(["v"]))
    assert store.barrier is None
    assert store.num_bytes_read() < 1.05 * vectors.nbytes
