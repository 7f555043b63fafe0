"""Requests as reported by store counters, scan statistics, and analyzed plans."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.dataset import IOStats, ScannerBuilder, ScanStatistics
from lance_core.errors import InvalidInputError
from lance_core.io.io_counters import IOCounters
from lance_core.io.memory_store import MemoryStore
from lance_core.io.uri import register_store, unregister_store
from tests.support.counting_store import CountingStore
from tests.support.fault_proxy import fault_proxy
from tests.support.s3_servers import S3Server

ROWS = pa.table({"k": range(50_000), "s": [f"word {row}" for row in range(50_000)]})
URI = "memory://counted/t.lance"


@pytest.fixture
def store() -> Iterator[CountingStore]:
    store = CountingStore(MemoryStore())
    register_store("counted", store)
    yield store
    unregister_store("counted")


def test_io_counters_equal_those_of_the_store(store: CountingStore) -> None:
    lance_core.write_dataset(ROWS, URI)
    dataset = lance_core.dataset(URI)
    dataset.io_stats_incremental()
    store.reset()
    dataset.to_table()
    dataset.take([40_000])
    assert len({call.method for call in store.calls}) == 1
    expected = IOStats(sum(map(len, store.reads)), store.num_bytes_read(), 0, 0)
    assert dataset.io_stats_snapshot() == dataset.io_stats_snapshot() == expected
    assert dataset.io_stats_incremental() == expected
    assert dataset.io_stats_snapshot() == IOStats()


def test_number_of_written_bytes_is_the_size_of_the_new_files(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t")
    stats = dataset.io_stats_snapshot()
    sizes = [path.stat().st_size for path in (tmp_path / "t").rglob("*") if path.is_file()]
    assert (stats.write_iops, stats.written_bytes) == (len(sizes), sum(sizes))
    assert repr(stats).startswith("IOStats(read_iops=")


def test_handles_that_share_a_session_share_counters_as_in_pylance(tmp_path: Path) -> None:
    lance.write_dataset(ROWS, tmp_path / "t")
    for library in (lance, lance_core):
        session = library.Session()
        one, two = (library.dataset(str(tmp_path / "t"), session=session) for _ in range(2))
        other = library.dataset(str(tmp_path / "t"))
        opened = other.io_stats_snapshot()
        assert (opened.read_iops, opened.write_iops, opened.written_bytes) == (1, 0, 0)
        one.to_table()
        two.checkout_version(1).take([1])
        assert repr(one.io_stats_snapshot()) == repr(two.io_stats_snapshot())
        assert one.io_stats_snapshot().read_bytes > 50_000 * 8
        assert repr(other.io_stats_snapshot()) == repr(opened)


def test_local_takes_count_the_bytes_of_the_rows_and_not_of_the_mapping(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(3_000_000), pa.float32()), 300)
    dataset = lance_core.write_dataset(pa.table({"v": vectors}), tmp_path / "t")
    dataset.take([10])
    dataset.io_stats_incremental()
    dataset.take([5_000])
    assert dataset.io_stats_incremental() == IOStats(1, 300 * 4)


def test_counters_of_the_process_include_every_store(tmp_path: Path) -> None:
    requests, num_bytes = lance_core.iops_counter(), lance_core.bytes_read_counter()
    datasets = [lance_core.write_dataset(ROWS, uri) for uri in (tmp_path / "t", "memory://other/t")]
    for dataset in datasets:
        dataset.to_table()
    stats = [dataset.io_stats_snapshot() for dataset in datasets]
    assert lance_core.iops_counter() - requests == sum(each.read_iops for each in stats)
    assert lance_core.bytes_read_counter() - num_bytes == sum(each.read_bytes for each in stats)


def test_reads_from_base_paths_count_toward_their_table(tmp_path: Path) -> None:
    base = lance_core.DatasetBasePath(str(tmp_path / "base"), name="base")
    lance_core.write_dataset(ROWS, tmp_path / "t", initial_bases=[base], target_bases=["base"])
    dataset = lance_core.dataset(tmp_path / "t")
    [path] = [path for path in (tmp_path / "base").rglob("*.lance") if path.is_file()]
    dataset.io_stats_incremental()
    dataset.to_table()
    assert dataset.io_stats_snapshot().read_bytes > path.stat().st_size // 2


def test_concurrent_threads_lose_no_counts() -> None:
    counters = IOCounters()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(lambda: [counters.add_read(1, 10) for _ in range(20_000)])
    assert counters.take() == IOStats(80_000, 800_000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forked_process_has_separate_counters() -> None:
    counters = IOCounters()
    counters.add_read(1, 10)
    child = os.fork()
    if not child:
        counters.add_read(1, 10)
        os._exit(counters.total().read_iops)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert counters.total().read_iops == 1


def test_s3_reads_and_writes_are_counted_as_requests(server: S3Server) -> None:
    uri = server.uri()
    large = pa.table({"b": [os.urandom(1 << 20) for _ in range(20)]})
    dataset = lance_core.write_dataset(large.slice(0, 1), uri, storage_options=server.options())
    dataset.io_stats_incremental()
    dataset = lance_core.write_dataset(large, dataset, mode="overwrite")
    written = dataset.io_stats_incremental()
    # Three parts of the data file, the transaction, and the manifest.
    assert (written.write_iops, written.written_bytes > 20 << 20) == (5, True)
    with fault_proxy(server.endpoint) as proxy:
        dataset = lance_core.dataset(uri, storage_options=server.options(aws_endpoint=proxy.endpoint))
        dataset.io_stats_incremental()
        before = len(proxy.requests)
        assert dataset.to_table().equals(large)
        read = dataset.io_stats_incremental()
        assert (read.read_iops, read.write_iops) == (len(proxy.requests) - before, 0)
        assert read.read_bytes >= 20 << 20


def test_scan_reports_what_it_has_read_after_its_last_batch(store: CountingStore) -> None:
    lance_core.write_dataset(ROWS, URI, max_rows_per_file=30_000)
    dataset = lance_core.dataset(URI)
    reports: list[ScanStatistics] = []
    store.reset()
    batches = dataset.scanner(filter="k < 40000", scan_stats_callback=reports.append).to_batches()
    next(batches)
    assert not reports
    rest = sum(batch.num_rows for batch in batches)
    [report] = reports
    assert (report.iops, report.bytes_read) == (sum(map(len, store.reads)), store.num_bytes_read())
    assert report.all_counts["output_rows"] == 40_000 > rest
    assert report.all_counts["fragments_scanned"] == 2
    names = [name for name in dir(lance.ScanStatistics) if not name.startswith("_")]
    assert all(hasattr(report, name) for name in names)


def test_row_counts_and_abandoned_scans_report_no_statistics(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t")
    reports: list[ScanStatistics] = []
    scanner = ScannerBuilder(dataset).scan_stats_callback(reports.append).batch_size(10).to_scanner()
    next(scanner.to_batches())
    assert scanner.count_rows() == len(ROWS)
    assert not reports
    scanner.to_table()
    assert len(reports) == 1


def test_errors_of_the_statistics_callback_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t")

    def fail(_: ScanStatistics) -> None:
        raise ValueError("full disk")

    with caplog.at_level(logging.ERROR, "lance_core"):
        assert dataset.scanner(scan_stats_callback=fail).to_table().equals(ROWS)
    assert "full disk" in caplog.text
    for library in (lance_core, lance):
        with pytest.raises(ValueError, match="must be callable") as caught:
            library.dataset(str(tmp_path / "t")).scanner(scan_stats_callback=5)
        assert library is lance or isinstance(caught.value, InvalidInputError)


def test_analyzed_plan_shows_the_requests(store: CountingStore) -> None:
    lance_core.write_dataset(ROWS, URI)
    dataset = lance_core.dataset(URI)
    store.reset()
    found = re.search(r"iops=(\d+), bytes_read=(\d+)", dataset.scanner(filter="k < 10").analyze_plan())
    assert found is not None
    assert tuple(map(int, found.groups())) == (sum(map(len, store.reads)), store.num_bytes_read())
