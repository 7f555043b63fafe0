"""Splitting scattered rows of a field into rows of pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.structural.page_plan import LeafColumn, leaf_columns, merge_segments, plan_segments
from lance_core.file.structural.row_split import split_rows
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb21
from lance_core.schema.convert import schema_from_arrow

LAYOUT = pb21.PageLayout(constant=pb21.ConstantLayout(layers=[pb21.REPDEF_NULLABLE_ITEM]))


def _columns(dtype: pa.DataType, num_rows: int, *lengths: tuple[int, ...]) -> list[LeafColumn]:
    field = schema_from_arrow(pa.schema([("c", dtype)])).fields[0]
    metadatas = [
        ColumnMetadata(
            pages=tuple(
                Page(buffers=(ByteRange(0, 100),), length=length, first_row=0, encoding=LAYOUT) for length in each
            )
        )
        for each in lengths
    ]
    return leaf_columns(field, range(len(metadatas)), metadatas, num_rows, "f")


def _split(columns: list[LeafColumn], rows: list[int], keys: dict[int, list[bytes | None]]) -> list:
    parts = split_rows(columns, np.array(rows, np.int64), lambda column: keys[column.index])
    return [[(pages, slots if isinstance(slots, tuple) else slots.tolist()) for pages, slots in part] for part in parts]


TWO = pa.struct([("a", pa.int8()), ("b", pa.int8())])


def test_rows_of_pages_that_cannot_be_joined_are_split_by_page() -> None:
    columns = _columns(pa.int8(), 30, (10, 10, 10))
    keys = {0: [None, None, None]}
    assert _split(columns, [1, 5, 12, 25, 26], keys) == [
        [([0], [1, 5])],
        [([1], (2, 3))],
        [([2], (5, 7))],
    ]


def test_rows_of_pages_with_equal_layout_are_read_together() -> None:
    columns = _columns(pa.int8(), 40, (10, 10, 10, 10))
    keys = {0: [b"x", b"x", b"x", b"y"]}
    # Page 1 has no requested row, and rows are numbered as if the page did not exist.
    assert _split(columns, [1, 5, 25, 31], keys) == [[([0, 2], [1, 5, 15])], [([3], (1, 2))]]


def test_rows_are_split_when_pages_of_leaves_are_not_aligned() -> None:
    columns = _columns(TWO, 20, (10, 10), (5, 15))
    apart = {0: [None] * 2, 1: [None] * 2}
    assert _split(columns, [1, 7, 15, 17], apart) == [
        [([0], (1, 2)), ([0], (1, 2))],
        [([0], (7, 8)), ([1], (2, 3))],
        [([1], [5, 7]), ([1], [10, 12])],
    ]
    joined = {0: [b"x"] * 2, 1: [b"y"] * 2}
    assert _split(columns, [1, 7, 15, 17], joined) == [[([0, 1], [1, 7, 15, 17]), ([0, 1], [1, 7, 15, 17])]]
    one_of_two = {0: [b"x"] * 2, 1: [b"y", b"z"]}
    assert _split(columns, [1, 7, 15], one_of_two) == [
        [([0], (1, 2)), ([0], (1, 2))],
        [([0, 1], [7, 15]), ([1], [2, 10])],
    ]


def test_rows_inside_a_fixed_size_list_of_structs_are_split_by_slots() -> None:
    columns = _columns(pa.list_(pa.struct([("a", pa.int8())]), 3), 8, (12, 12))
    assert _split(columns, [1, 3, 6], {0: [b"x", b"x"]}) == [[([0, 1], [3, 4, 5, 9, 10, 11, 18, 19, 20])]]
    assert _split(columns, [4, 5], {0: [b"x", b"x"]}) == [[([1], (0, 6))]]


@pytest.mark.parametrize("seed", range(20))
def test_split_rows_reads_every_row_once(seed: int) -> None:
    random = np.random.default_rng(seed)
    columns = _columns(TWO, 60, (7, 23, 30), (20, 1, 19, 20))
    keys = {index: random.choice([None, b"x", b"y"], 4).tolist() for index in (0, 1)}
    rows = np.sort(random.choice(60, 25, replace=False))
    for column, found in zip(
        columns, zip(*split_rows(columns, rows, lambda c: keys[c.index]), strict=True), strict=True
    ):
        read = []
        for pages, slots in found:
            every = np.concatenate([np.arange(*column.row_starts[page : page + 2]) for page in pages])
            read += every[slice(*slots) if isinstance(slots, tuple) else slots].tolist()
        assert read == rows.tolist()


def _merged(columns: list[LeafColumn], keys: dict[int, list[bytes | None]], start: int, stop: int, max_bytes: int):
    segments = plan_segments(columns, start, stop, max_rows=1000, max_bytes=1000)
    merged = merge_segments(segments, lambda column: keys[column.index], max_bytes)
    return [(s.start, s.stop, [(p.page_index, p.num_pages, p.start, p.stop) for p in s.slices]) for s in merged]


def test_small_neighboring_pages_are_merged() -> None:
    columns = _columns(pa.int8(), 40, (10, 10, 10, 10))
    keys = {0: [b"x", b"x", b"x", b"y"]}
    assert _merged(columns, keys, 3, 35, 1000) == [(3, 30, [(0, 3, 3, 30)]), (30, 35, [(3, 1, 0, 5)])]
    # Each page has 100 bytes.
    assert _merged(columns, keys, 0, 40, 200) == [
        (0, 20, [(0, 2, 0, 20)]),
        (20, 30, [(2, 1, 0, 10)]),
        (30, 40, [(3, 1, 0, 10)]),
    ]
    assert len(_merged(columns, keys, 0, 40, 100)) == 4


def test_pages_of_all_leaves_are_merged_together_or_not_at_all() -> None:
    columns = _columns(TWO, 20, (10, 10), (5, 15))
    assert _merged(columns, {0: [b"x"] * 2, 1: [b"y"] * 2}, 0, 20, 1000) == [(0, 20, [(0, 2, 0, 20), (0, 2, 0, 20)])]
    assert _merged(columns, {0: [b"x"] * 2, 1: [b"y", b"z"]}, 0, 20, 1000) == [
        (0, 5, [(0, 1, 0, 5), (0, 1, 0, 5)]),
        (5, 20, [(0, 2, 5, 20), (1, 1, 0, 15)]),
    ]
