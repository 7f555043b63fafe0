"""Segments and reads of columns in format 0.1: many batches are read together, and only the needed bytes are read."""

import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError
from lance_core.file.file_bytes import FileBytes, run_steps
from lance_core.file.v0_1.fields import v0_1_sources
from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
from lance_core.file.v0_1.page_table import PageTable
from lance_core.file.v0_1.writer import LegacyFileWriter
from lance_core.file.write_config import WriteConfig
from lance_core.io.byte_range import ByteRange
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion


def opened(table: pa.Table, **options: object) -> LegacyMetadataReader:
    store = MemoryStore()
    writer = LegacyFileWriter(
        store.create("file"), schema_from_arrow(table.schema), WriteConfig(version=LanceFileVersion.V0_1, **options)
    )
    for batch in table.to_batches():
        writer.write_batch(batch)
    writer.finish()
    return LegacyMetadataReader(FileBytes(store, "file"))


def test_one_thousand_small_batches_become_one_segment_and_one_read() -> None:
    num_rows = 200_000
    table = pa.table({"a": np.arange(num_rows), "s": [f"{row}" for row in range(num_rows)]})
    metadata = opened(table, max_rows_per_group=200)
    assert metadata.num_batches == 1_000
    for source in v0_1_sources(metadata, metadata.schema.fields):
        [segment] = source.plan(0, num_rows)
        rounds = []

        def read(ranges: list[ByteRange], rounds: list[int] = rounds) -> list[pa.Buffer]:
            rounds.append(len(ranges))
            return metadata.read(ranges)

        assert source.decode(segment, read).equals(table[source.field.name].combine_chunks())
        assert len(rounds) == 1


@pytest.mark.parametrize("batch_rows", [None, 1_000, 8_192])
def test_segments_in_format_0_1_cover_all_rows_and_stay_small(batch_rows: int | None) -> None:
    num_rows = 5_000
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(num_rows * 2_000)), 2_000)})
    metadata = opened(table, max_rows_per_group=num_rows)
    [source] = v0_1_sources(metadata, metadata.schema.fields)
    segments = source.plan(10, num_rows, batch_rows=batch_rows)
    assert [segments[0].start, *(segment.stop for segment in segments)] == [
        *(segment.start for segment in segments),
        num_rows,
    ]
    assert segments[0].start == 10
    if batch_rows is None:
        assert max(segment.num_bytes for segment in segments) <= 9 * 1024 * 1024
    else:
        assert all((segment.start - 10) % batch_rows == 0 for segment in segments)
    assert source.plan(7, 7) == []


def test_row_range_of_a_file_in_format_0_1_reads_only_its_bytes() -> None:
    num_rows = 100_000
    table = pa.table({"a": np.arange(num_rows), "s": [f"text {row:06}" for row in range(num_rows)]})
    metadata = opened(table)
    for source, width in zip(v0_1_sources(metadata, metadata.schema.fields), (8, 19), strict=True):
        total = []

        def read(ranges: list[ByteRange], total: list[int] = total) -> list[pa.Buffer]:
            total.append(sum(each.num_bytes for each in ranges))
            return metadata.read(ranges)

        [segment] = source.plan(50_100, 50_200)
        assert source.decode(segment, read).equals(table[source.field.name].combine_chunks()[50_100:50_200])
        assert sum(total) <= 100 * width + 16
        total.clear()
        [taken] = run_steps(source.take_steps(np.array([5, 50_000, 50_000, 99_999])), read)
        assert taken.equals(table[source.field.name].combine_chunks().take([5, 50_000, 50_000, 99_999]))
        assert sum(total) <= 3 * (width + 8)


def test_overlapping_pages_in_format_0_1_are_not_expanded() -> None:
    table = pa.table({"a": np.arange(1_000, dtype=np.int64)})
    metadata = opened(table, max_rows_per_group=500)
    many = 50
    overlapping = PageTable(
        first_id=0, positions=np.zeros((1, many), np.int64), lengths=np.full((1, many), 1_000, np.int64)
    )
    metadata.batch_offsets = np.arange(many + 1) * 1_000
    metadata.pages._table = overlapping
    metadata.spans._table = overlapping
    [source] = v0_1_sources(metadata, metadata.schema.fields)
    [segment] = source.plan(0, many * 1_000)
    with pytest.raises(CorruptDataError, match="overlap"):
        source.decode(segment, metadata.read)
