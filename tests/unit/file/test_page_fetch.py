"""PageFetcher: one request per page, however many segments share it."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from lance_core.errors import StorageError
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.page_fetch import PageFetcher
from lance_core.file.page_plan import leaf_columns, plan_segments
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb21
from lance_core.schema.convert import schema_from_arrow

LAYOUT = pb21.PageLayout(constant=pb21.ConstantLayout(layers=[pb21.REPDEF_NULLABLE_ITEM]))
DATA = pa.py_buffer(bytes(range(200)))


class _Source:
    def __init__(self) -> None:
        self.requests: list[list[ByteRange]] = []

    def fetch(self, ranges: list[ByteRange]) -> list[pa.Buffer]:
        self.requests.append(ranges)
        return [DATA.slice(wanted.start, wanted.num_bytes) for wanted in ranges]


def _segments(max_rows: int) -> list:
    pages = tuple(
        Page(
            buffers=(ByteRange(start, start + 10), ByteRange(start + 64, start + 70)),
            length=8,
            first_row=0,
            layout=LAYOUT,
        )
        for start in (0, 128)
    )
    field = schema_from_arrow(pa.schema([("c", pa.int8())])).fields[0]
    columns = leaf_columns(field, [0], [ColumnMetadata(pages=pages)], 16, "f")
    return plan_segments(columns, 0, 16, max_rows=max_rows, max_bytes=1000)


def test_whole_pages_are_fetched_with_one_request_each() -> None:
    source = _Source()
    fetcher = PageFetcher(source.fetch)
    found = [fetcher.buffers(segment.slices) for segment in _segments(100)]
    assert [[bytes(buffer)[0] for buffer in page] for [page] in found] == [[0, 64], [128, 192]]
    assert len(source.requests) == 2


def test_shared_pages_are_fetched_once() -> None:
    source = _Source()
    fetcher = PageFetcher(source.fetch)
    segments = _segments(3)
    for segment in segments:
        fetcher.buffers(segment.slices)
    assert len(segments) == 6
    assert source.requests == [
        [ByteRange(0, 10), ByteRange(64, 70)],
        [ByteRange(128, 138), ByteRange(192, 198)],
    ]


def test_who_comes_during_the_fetch_waits_for_it() -> None:
    started, release = threading.Event(), threading.Event()
    source = _Source()

    def fetch(ranges: list[ByteRange]) -> list[pa.Buffer]:
        started.set()
        assert release.wait(10)
        return source.fetch(ranges)

    fetcher = PageFetcher(fetch)
    first, second, *_ = _segments(3)
    results: list[list[list[pa.Buffer]]] = []
    threads = [threading.Thread(target=lambda s=s: results.append(fetcher.buffers(s.slices))) for s in (first, second)]
    threads[0].start()
    assert started.wait(10)
    threads[1].start()
    release.set()
    for thread in threads:
        thread.join(10)
    assert len(source.requests) == 1
    assert results[0] == results[1]


def test_a_failed_fetch_fails_those_who_wait() -> None:
    def fetch(ranges: list[ByteRange]) -> list[pa.Buffer]:
        raise StorageError("gone")

    fetcher = PageFetcher(fetch)
    for segment in _segments(3)[:2]:
        with pytest.raises(StorageError, match="gone"):
            fetcher.buffers(segment.slices)
