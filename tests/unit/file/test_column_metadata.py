"""Converting ColumnMetadata and Page to and from bytes, and what is refused."""

from __future__ import annotations

import pytest

from lance_core.errors import CorruptDataError, NotSupportedError, UnsupportedEncodingError
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb21, pb_file2

DATA_BYTES = 128

# The column metadata of the 342-byte file that pylance 14.0.2 writes for pa.array([1, 2, 3], pa.int32()).
BYTES = (
    bytes.fromhex("0a29 1227 0a25 0a1f")
    + b"/lance.encodings.ColumnEncoding"
    + bytes.fromhex("1202 0a00 1242 0a020040 12020418 1803 2236 1234 0a32 0a1d")
    + b"/lance.encodings21.PageLayout"
    + bytes.fromhex("1211 0a0f 1a04 0a020820 320101 3801 4803 5001")
)


def _message() -> pb_file2.ColumnMetadata:
    return pb_file2.ColumnMetadata.FromString(BYTES)


def _parse(message: pb_file2.ColumnMetadata) -> ColumnMetadata:
    return ColumnMetadata.parse(message.SerializeToString(), DATA_BYTES, "f: column 0")


def test_column_metadata_round_trips_through_bytes() -> None:
    column = ColumnMetadata.parse(BYTES, DATA_BYTES, "f: column 0")
    [page] = column.pages
    assert page.buffers == (ByteRange(0, 4), ByteRange(64, 88))
    assert (page.length, page.first_row, page.num_bytes) == (3, 0, 28)
    assert page.layout.mini_block.value_compression.flat.bits_per_value == 32
    assert column.serialize() == BYTES


def test_column_metadata_without_pages_survives_a_round_trip() -> None:
    column = ColumnMetadata(pages=())
    assert column.serialize() == BYTES[:43]
    assert ColumnMetadata.parse(column.serialize(), 0, "f") == column


def test_priority_of_a_page_is_its_first_row() -> None:
    layout = pb21.PageLayout(constant=pb21.ConstantLayout(layers=[pb21.REPDEF_NULLABLE_ITEM]))
    column = ColumnMetadata(pages=(Page(buffers=(), length=5, first_row=300, encoding=layout),))
    message = pb_file2.ColumnMetadata.FromString(column.serialize())
    assert message.pages[0].priority == 300
    assert ColumnMetadata.parse(column.serialize(), 0, "f") == column


def test_misplaced_page_buffers_raise_corrupt_data() -> None:
    message = _message()
    message.pages[0].buffer_offsets[1] = 65
    with pytest.raises(CorruptDataError, match=r"column 0, page 0: buffer 1 starts at 65, not at a multiple of 64"):
        _parse(message)
    message.pages[0].buffer_offsets[1] = 128
    with pytest.raises(CorruptDataError, match=r"buffer 1 is at \[128, 152\), but the data ends at 128"):
        _parse(message)
    del message.pages[0].buffer_sizes[1]
    with pytest.raises(CorruptDataError, match="2 buffer offsets but 1 buffer size"):
        _parse(message)


def test_missing_column_encoding_raises_corrupt_data() -> None:
    message = _message()
    message.ClearField("encoding")
    with pytest.raises(CorruptDataError, match="the encoding is missing"):
        _parse(message)
    message = _message()
    message.pages[0].encoding.none.SetInParent()
    with pytest.raises(CorruptDataError, match="the encoding is empty"):
        _parse(message)


def test_unknown_column_encodings_raise_not_supported() -> None:
    message = _message()
    message.pages[0].encoding.indirect.buffer_location = 64
    with pytest.raises(UnsupportedEncodingError, match="elsewhere in the file"):
        _parse(message)
    for tail in (b"PageLayouX", b"/"):
        changed = (
            BYTES.replace(b"PageLayout", tail)
            if tail != b"/"
            else BYTES.replace(b"/lance.encodings21", b".lance.encodings21")
        )
        with pytest.raises(NotSupportedError, match="is not supported"):
            ColumnMetadata.parse(changed, DATA_BYTES, "f")
    message = _message()
    message.buffer_offsets.append(0)
    with pytest.raises(UnsupportedEncodingError, match="column-level buffers"):
        _parse(message)


def test_unknown_page_layout_is_unsupported_and_an_empty_one_is_corrupt() -> None:
    def with_layout(layout: bytes) -> pb_file2.ColumnMetadata:
        message = _message()
        wrapped = b"\x0a\x1d/lance.encodings21.PageLayout\x12" + bytes([len(layout)]) + layout
        message.pages[0].encoding.direct.encoding = wrapped
        return message

    with pytest.raises(UnsupportedEncodingError, match="unknown kind"):
        _parse(with_layout(b"\x52\x00"))
    with pytest.raises(CorruptDataError, match="empty"):
        _parse(with_layout(b""))
    with pytest.raises(CorruptDataError, match="not a PageLayout"):
        _parse(with_layout(b"\x0a\xff"))


def test_truncated_column_metadata_raises_a_typed_error() -> None:
    for stop in range(1, len(BYTES)):
        try:
            ColumnMetadata.parse(BYTES[:stop], DATA_BYTES, "f")
        except (CorruptDataError, NotSupportedError):
            continue
        # A truncation between two members leaves a valid, shorter message.
        assert stop == 43
