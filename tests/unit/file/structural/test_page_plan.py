"""Read plans: from rows of a field to pages of its leaves."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.field_source import Pace
from lance_core.file.structural.page_plan import LeafColumn, PageSegment, leaf_columns, plan_segments
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb21
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Field

ALL_NULL = pb21.PageLayout(constant=pb21.ConstantLayout(layers=[pb21.REPDEF_NULLABLE_ITEM]))


def _column(*lengths: int) -> ColumnMetadata:
    pages = [Page(buffers=(ByteRange(0, 64),), length=length, first_row=0, encoding=ALL_NULL) for length in lengths]
    return ColumnMetadata(pages=tuple(pages))


def _field(dtype: pa.DataType) -> Field:
    return schema_from_arrow(pa.schema([("c", dtype)])).fields[0]


def _columns(dtype: pa.DataType, num_rows: int, *lengths: tuple[int, ...]) -> list[LeafColumn]:
    metadatas = [_column(*each) for each in lengths]
    return leaf_columns(_field(dtype), range(len(metadatas)), metadatas, num_rows, "f")


def _shape(segments: list[PageSegment]) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
    return [(s.start, s.stop, [(p.page_index, p.start, p.stop) for p in s.slices]) for s in segments]


def test_pages_of_one_leaf_become_one_segment_each() -> None:
    columns = _columns(pa.int8(), 10, (4, 6))
    assert _shape(plan_segments(columns, 0, 10, max_rows=100, max_bytes=1000)) == [
        (0, 4, [(0, 0, 4)]),
        (4, 10, [(1, 0, 6)]),
    ]


def test_plan_of_a_row_range_includes_only_the_pages_that_contain_its_rows() -> None:
    columns = _columns(pa.int8(), 12, (4, 4, 4))
    assert _shape(plan_segments(columns, 5, 7, max_rows=100, max_bytes=1000)) == [(5, 7, [(1, 1, 3)])]
    assert _shape(plan_segments(columns, 4, 8, max_rows=100, max_bytes=1000)) == [(4, 8, [(1, 0, 4)])]
    assert plan_segments(columns, 5, 5, max_rows=100, max_bytes=1000) == []


def test_leaves_with_different_pages_are_split_at_every_page_boundary() -> None:
    columns = _columns(pa.struct([("a", pa.int8()), ("b", pa.int8())]), 10, (4, 6), (7, 3))
    assert _shape(plan_segments(columns, 0, 10, max_rows=100, max_bytes=1000)) == [
        (0, 4, [(0, 0, 4), (0, 0, 4)]),
        (4, 7, [(1, 0, 3), (0, 4, 7)]),
        (7, 10, [(1, 3, 6), (1, 0, 3)]),
    ]


def test_pages_of_many_rows_are_split_into_segments() -> None:
    columns = _columns(pa.int8(), 10, (10,))
    assert _shape(plan_segments(columns, 0, 10, max_rows=4, max_bytes=1000)) == [
        (0, 4, [(0, 0, 4)]),
        (4, 8, [(0, 4, 8)]),
        (8, 10, [(0, 8, 10)]),
    ]


def test_pages_of_many_bytes_are_split_into_segments() -> None:
    columns = _columns(pa.int8(), 10, (10,))
    segments = plan_segments(columns, 0, 10, max_rows=100, max_bytes=20)
    assert [(segment.start, segment.stop) for segment in segments] == [(0, 3), (3, 6), (6, 9), (9, 10)]


def test_empty_pages_are_skipped() -> None:
    columns = _columns(pa.int8(), 3, (0, 2, 0, 1, 0))
    assert _shape(plan_segments(columns, 0, 3, max_rows=9, max_bytes=1000)) == [
        (0, 2, [(0, 0, 2)]),
        (2, 3, [(1, 0, 1)]),
    ]


def test_page_length_inside_a_fixed_size_list_of_structs_counts_slots() -> None:
    columns = _columns(pa.list_(pa.struct([("a", pa.int8())]), 3), 4, (6, 6))
    assert _shape(plan_segments(columns, 1, 4, max_rows=9, max_bytes=1000)) == [
        (1, 2, [(0, 3, 6)]),
        (2, 4, [(1, 0, 6)]),
    ]


@pytest.mark.parametrize("lengths", [(), (9,), (10, 1), (2**63, 2**63 + 10)])
def test_pages_that_do_not_add_up_to_the_rows_raise_corrupt_data(lengths: tuple[int, ...]) -> None:
    with pytest.raises(CorruptDataError, match=r"has pages with a total of \d+ slots?, expected 10 for 10 rows"):
        _columns(pa.int8(), 10, lengths)


def test_page_with_a_partial_fixed_size_list_raises_corrupt_data() -> None:
    with pytest.raises(CorruptDataError):
        _columns(pa.list_(pa.struct([("a", pa.int8())]), 3), 4, (5, 7))


def test_bytes_of_a_segment_are_proportional_to_its_rows() -> None:
    [segment] = plan_segments(_columns(pa.int8(), 10, (10,)), 0, 5, max_rows=9, max_bytes=1000)
    assert segment.num_bytes == 32


def _pages(layout: pb21.PageLayout, num_bytes: int, length: int) -> list[LeafColumn]:
    page = Page(buffers=(ByteRange(0, num_bytes),), length=length, first_row=0, encoding=layout)
    return leaf_columns(_field(pa.binary()), [0], [ColumnMetadata(pages=(page,))], length, "f")


def test_compressed_values_are_decoded_in_smaller_segments() -> None:
    compressed, plain = pb21.PageLayout(), pb21.PageLayout()
    compressed.full_zip.value_compression.general.values.variable.SetInParent()
    plain.full_zip.value_compression.variable.SetInParent()
    limits = {"max_rows": 10**6, "max_bytes": 1000}
    for layout, num_bytes, length, expected in (
        (compressed, 64, 10, 5),
        (compressed, 64, 10**5, 1021),
        (plain, 64, 10, 1),
        (ALL_NULL, 64, 10, 1),
        (ALL_NULL, 640, 10, 5),
    ):
        columns = _pages(layout, num_bytes, length)
        assert len(plan_segments(columns, 0, length, batch_rows=2, **limits)) == expected
        assert len(plan_segments(columns, 0, length, **limits)) == 1


def _edges(segments: list[PageSegment]) -> list[int]:
    return [segments[0].start, *(segment.stop for segment in segments)]


@pytest.mark.parametrize(
    ("start", "batch_rows", "expected"),
    [
        # Each batch of up to a page comes from one segment; smaller batches share segments of 1,000 bytes.
        (0, 100, [0, 100]),
        (0, 60, [0, 100]),
        (0, 30, [0, 30, 60, 90, 100]),
        (5, 30, [5, 35, 65, 95, 100]),
        (0, 5, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
        (0, 1000, [0, 100]),
    ],
)
def test_uncompressed_vectors_are_decoded_in_segments_of_complete_batches(
    start: int, batch_rows: int, expected: list[int]
) -> None:
    layout = pb21.PageLayout()
    layout.full_zip.bits_per_value = 800
    layout.full_zip.value_compression.fixed_size_list.values.flat.bits_per_value = 32
    columns = _pages(layout, 10_000, 100)
    limits = {"max_rows": 10**6, "max_bytes": 1000}
    assert _edges(plan_segments(columns, start, 100, batch_rows=batch_rows, **limits)) == expected
    layout.full_zip.bits_def = 1
    with_levels = plan_segments(_pages(layout, 10_000, 100), 0, 100, batch_rows=60, **limits)
    assert len(with_levels) == 10


def test_pages_are_split_to_fit_the_memory_share_of_a_stream() -> None:
    layout = pb21.PageLayout()
    layout.mini_block.num_items = 100
    page = Page(buffers=(ByteRange(0, 10), ByteRange(0, 90)), length=100, first_row=0, encoding=layout)
    columns = leaf_columns(_field(pa.int64()), [0], [ColumnMetadata(pages=(page,))], 100, "f")
    limits = {"max_rows": 10**6, "max_bytes": 1000}
    [whole] = plan_segments(columns, 0, 100, batch_rows=10, **limits)
    assert whole.memory == 800
    for pace, expected in (
        (Pace(800, 10, 0), [0, 100]),
        (Pace(400, 10, 0), [0, 50, 100]),
        (Pace(400, 10, 7), [0, 47, 97, 100]),
        (Pace(1, 40, 0), [0, 34, 68, 100]),
        (Pace(1, 200, 0), [0, 100]),
    ):
        assert _edges(plan_segments(columns, 0, 100, batch_rows=pace.batch_rows, pace=pace, **limits)) == expected
    layout.mini_block.rep_compression.flat.bits_per_value = 16
    assert len(plan_segments(columns, 0, 100, batch_rows=10, pace=Pace(1, 10, 0), **limits)) == 1
