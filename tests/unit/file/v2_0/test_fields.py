"""Files in the form of releases before 0.14, written by the tests, and how their rows are divided into segments."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.v2_0.struct import encode_header
from lance_core.errors import CorruptDataError
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.file_bytes import run_steps
from lance_core.file.v2_0.assignment import assigned_columns
from lance_core.file.v2_0.fields import v2_0_sources
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb20
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Schema
from tests.support.pages_v2_0 import flat, no_nulls, u64


@dataclass
class _Footer:
    num_columns: int


@dataclass
class _File:
    """A file in memory with only the parts needed to read fields, and with unaligned buffers."""

    schema: Schema
    num_rows: int
    content: bytes = b"?"
    metadata: list[ColumnMetadata] = field(default_factory=list)
    path: str = "f"
    is_mapped: bool = True

    def add(self, pages: list[tuple[int, pb20.ArrayEncoding, list[bytes]]]) -> None:
        placed = []
        for length, encoding, buffers in pages:
            ranges = []
            for data in buffers:
                ranges.append(ByteRange(len(self.content), len(self.content) + len(data)))
                self.content += data
            placed.append(Page(buffers=tuple(ranges), length=length, first_row=0, encoding=encoding))
        self.metadata.append(ColumnMetadata(pages=tuple(placed)))

    @property
    def footer(self) -> _Footer:
        return _Footer(len(self.metadata))

    @property
    def num_bytes(self) -> int:
        return len(self.content)

    def columns(self, indices: list[int]) -> list[ColumnMetadata]:
        return [self.metadata[index] for index in indices]

    def read(self, ranges: list[ByteRange]) -> list[pa.Buffer]:
        return [pa.py_buffer(self.content[part.start : part.stop]) for part in ranges]


def _lists(num_items: int, *ends: int) -> tuple[int, pb20.ArrayEncoding, list[bytes]]:
    message = pb20.List(offsets=no_nulls(flat(64)), null_offset_adjustment=num_items + 1, num_items=num_items)
    return len(ends), pb20.ArrayEncoding(list=message), [u64(*ends)]


def _old_strings() -> _File:
    schema = schema_from_arrow(pa.schema([("i", pa.int8()), ("s", pa.string()), ("b", pa.large_binary())]))
    file = _File(schema, 4)
    file.add([(4, flat(8), [b"\1\2\3\4"])])
    # Two pages of offsets into one page of bytes.
    file.add([_lists(3, 2, 3), _lists(2, 3, 2)])
    file.add([(5, flat(8), [b"abcde"])])
    file.add([_lists(1, 0, 0, 0, 1)])
    file.add([(0, flat(8), [b""]), (1, flat(8), [b"z"])])
    return file


def _rows(file: _File, start: int, stop: int) -> list[list[object]]:
    found = []
    for source in v2_0_sources(file, file.schema.fields):
        segments = source.plan(start, stop)
        found.append([value for segment in segments for value in source.decode(segment, file.read).to_pylist()])
    return found


def test_strings_of_pylance_0_12_occupy_two_columns() -> None:
    file = _old_strings()
    assert dict(assigned_columns(file, None)) == {0: 0, 1: 1, 2: 3}
    strings, binaries = ["ab", "c", None, "de"], [b"", b"", b"", b"z"]
    for start in range(4):
        for stop in range(start, 5):
            assert _rows(file, start, stop) == [
                list(range(start + 1, stop + 1)),
                strings[start:stop],
                binaries[start:stop],
            ]
    _, source, _ = v2_0_sources(file, file.schema.fields)
    [taken] = run_steps(source.take_steps(np.array([0, 0, 2, 3])), file.read)
    assert taken.to_pylist() == ["ab", "ab", None, "de"]


def test_strings_of_pylance_0_12_are_found_by_manifest_column_indices() -> None:
    file = _old_strings()
    [source] = v2_0_sources(file, [file.schema.field("b")], {2: 3})
    assert [source.decode(part, file.read).to_pylist() for part in source.plan(0, 4)] == [[b"", b"", b"", b"z"]]
    file.metadata.pop()
    with pytest.raises(CorruptDataError, match="missing"):
        v2_0_sources(file, [file.schema.field("b")], {2: 3})


def test_page_at_an_unaligned_position_is_read() -> None:
    file = _File(schema_from_arrow(pa.schema([("x", pa.int64())])), 3)
    file.add([(3, flat(64), [u64(7, 8, 9)])])
    assert _rows(file, 0, 3) == [[7, 8, 9]]


def test_segments_end_where_pages_of_any_member_end() -> None:
    schema = schema_from_arrow(pa.schema([("s", pa.struct([("a", pa.int8()), ("b", pa.int8())]))]))
    file = _File(schema, 6)
    file.add([(6, encode_header(), [])])
    file.add([(2, flat(8), [b"\0\1"]), (0, flat(8), [b""]), (4, flat(8), [b"\2\3\4\5"])])
    file.add([(5, flat(8), [b"\0\1\2\3\4"]), (1, flat(8), [b"\5"])])
    [source] = v2_0_sources(file, schema.fields)
    assert [(part.start, part.stop) for part in source.plan(0, 6)] == [(0, 2), (2, 5), (5, 6)]
    assert [(part.start, part.stop) for part in source.plan(1, 4)] == [(1, 2), (2, 4)]
    assert source.plan(3, 3) == []
    assert _rows(file, 1, 6) == [[{"a": row, "b": row} for row in range(1, 6)]]


def test_large_pages_are_split_at_whole_bytes_of_bitmaps() -> None:
    num_rows = 5_000_000
    file = _File(schema_from_arrow(pa.schema([("x", pa.bool_()), ("n", pa.list_(pa.float64(), 64))])), num_rows)
    file.add([(num_rows, no_nulls(flat(1)), [bytes(num_rows // 8)])])
    all_nulls = pb20.ArrayEncoding(nullable=pb20.Nullable(all_nulls=pb20.Nullable.AllNull()))
    file.add([(num_rows, all_nulls, [])])
    bits, nulls = v2_0_sources(file, file.schema.fields)
    segments = bits.plan(0, num_rows)
    assert len(segments) == 5
    assert all(part.start % 8 == 0 for part in segments)
    # Nothing is stored, but 64 words per row are returned.
    assert max(part.stop - part.start for part in nulls.plan(0, num_rows)) * 64 * 8 <= 17 * 1024 * 1024
    assert bits.first_ranges(segments[1])[0].num_bytes == (segments[1].stop - segments[1].start) // 8


def test_compressed_pages_are_not_split() -> None:
    num_rows = 3_000_000
    compressed = flat(8, compression=pb20.Compression(scheme="zstd"))
    file = _File(schema_from_arrow(pa.schema([("x", pa.int8())])), num_rows)
    file.add([(num_rows, compressed, [b"?"])])
    [source] = v2_0_sources(file, file.schema.fields)
    assert len(source.plan(0, num_rows)) == 1


@pytest.mark.parametrize("num_rows", [3, 5])
def test_columns_of_the_wrong_length_are_refused(num_rows: int) -> None:
    file = _File(schema_from_arrow(pa.schema([("x", pa.int8())])), 4)
    file.add([(num_rows, flat(8), [bytes(num_rows)])])
    with pytest.raises(CorruptDataError, match="expected 4"):
        v2_0_sources(file, file.schema.fields)


@pytest.mark.parametrize("num_items", [2, 4])
def test_list_items_that_contradict_the_list_page_are_refused(num_items: int) -> None:
    file = _File(schema_from_arrow(pa.schema([("x", pa.list_(pa.int8()))])), 1)
    file.add([_lists(3, 3)])
    file.add([(num_items, flat(8), [bytes(num_items)])])
    with pytest.raises(CorruptDataError, match="expected 3"):
        v2_0_sources(file, file.schema.fields)


def test_missing_and_surplus_columns_raise_corrupt_data() -> None:
    file = _old_strings()
    for wrong in ({0: 9}, {1: 1}):
        with pytest.raises(CorruptDataError, match="column"):
            v2_0_sources(file, [file.schema.field("i")], wrong)
    file.metadata.append(file.metadata[0])
    with pytest.raises(CorruptDataError, match="needs 5 columns, but the file has 6"):
        v2_0_sources(file, file.schema.fields)
    short = _File(schema_from_arrow(pa.schema([("a", pa.int8()), ("b", pa.int8())])), 0)
    short.add([])
    with pytest.raises(CorruptDataError, match="needs 2 columns, but the file has 1"):
        v2_0_sources(short, short.schema.fields)
