"""ColumnMetadata and Page: where the pages of one column are and how they are encoded.

Messages are parsed once, checked against the file, and kept as small records. Descriptions stored elsewhere in the
file (``indirect``) are defined by the format but no writer produces them and the reference refuses them: so do we.

**Source:** ``lance.file.v2.ColumnMetadata``; ``lance.encodings.ColumnEncoding``; ``lance.encodings21.PageLayout``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.buffers.alignment import BUFFER_ALIGNMENT
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.file.layout import COLUMN_ENCODING_URL, PAGE_LAYOUT_URL
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb20, pb21, pb_file2

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnMetadata", "Page"]

_COLUMN_ENCODING: Final = Any(type_url=COLUMN_ENCODING_URL, value=b"\x0a\x00").SerializeToString()
"""``ColumnEncoding{values {}}``: the only column encoding of 2.1+ files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of one column.

    Attributes:
        buffers: where its buffers are, in the order in which the layout numbers them.
        length: rows of the page; times the dimension under a fixed-size list of structs.
        first_row: number of the file row the page starts with, as recorded; readers count instead.
        layout: how the page is encoded.
    """

    buffers: tuple[ByteRange, ...]
    length: int
    first_row: int
    layout: pb21.PageLayout

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.num_bytes for buffer in self.buffers)

    @classmethod
    def from_proto(cls, message: pb_file2.ColumnMetadata.Page, data_bytes: int, where: str) -> Self:
        """Check one message.

        Args:
            message: the page.
            data_bytes: end of the file's data region.
            where: file, column and page, for messages.

        Raises:
            CorruptDataError: a buffer is misplaced or the layout is malformed.
            UnsupportedEncodingError: a newer kind of layout.
        """
        if len(message.buffer_offsets) != len(message.buffer_sizes):
            raise _corrupt(
                where, f"{len(message.buffer_offsets)} buffer offsets, {len(message.buffer_sizes)} buffer sizes"
            )
        buffers = []
        for index, (offset, size) in enumerate(zip(message.buffer_offsets, message.buffer_sizes, strict=True)):
            if offset % BUFFER_ALIGNMENT:
                raise _corrupt(where, f"buffer {index} starts at {offset}, not at a multiple of {BUFFER_ALIGNMENT}")
            if offset + size > data_bytes:
                raise _corrupt(where, f"buffer {index} is [{offset}, {offset + size}), data ends at {data_bytes}")
            buffers.append(ByteRange(offset, offset + size))
        return cls(
            buffers=tuple(buffers),
            length=message.length,
            first_row=message.priority,
            layout=_page_layout(message.encoding, where),
        )

    def to_proto(self) -> pb_file2.ColumnMetadata.Page:
        """The message."""
        layout = Any(type_url=PAGE_LAYOUT_URL, value=self.layout.SerializeToString(deterministic=True))
        message = pb_file2.ColumnMetadata.Page(
            buffer_offsets=[buffer.start for buffer in self.buffers],
            buffer_sizes=[buffer.num_bytes for buffer in self.buffers],
            length=self.length,
            priority=self.first_row,
        )
        message.encoding.direct.encoding = layout.SerializeToString()
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMetadata:
    """The pages of one column, in row order."""

    pages: tuple[Page, ...]

    @classmethod
    def parse(cls, data: pa.Buffer | bytes, data_bytes: int, where: str) -> Self:
        """Parse one column's message.

        Args:
            data: exactly the message.
            data_bytes: end of the file's data region: buffers end at or before it.
            where: file and column, for messages.

        Raises:
            CorruptDataError: malformed bytes, or pages that contradict the file.
            UnsupportedEncodingError: an encoding that is not read here.
        """
        try:
            message = pb_file2.ColumnMetadata.FromString(bytes(data))
        except DecodeError as error:
            raise _corrupt(where, f"not a ColumnMetadata message: {error}") from error
        _check_column_encoding(message.encoding, where)
        if message.buffer_offsets or message.buffer_sizes:
            raise UnsupportedEncodingError(f"{where}: column-level buffers are not read here")
        pages = tuple(
            Page.from_proto(page, data_bytes, f"{where}, page {index}") for index, page in enumerate(message.pages)
        )
        return cls(pages=pages)

    def serialize(self) -> bytes:
        """The message's bytes."""
        message = pb_file2.ColumnMetadata(pages=[page.to_proto() for page in self.pages])
        message.encoding.direct.encoding = _COLUMN_ENCODING
        return message.SerializeToString(deterministic=True)

    @property
    def length(self) -> int:
        """Sum of the pages' lengths."""
        return sum(page.length for page in self.pages)


def _page_layout(encoding: pb_file2.Encoding, where: str) -> pb21.PageLayout:
    value = _described(encoding, PAGE_LAYOUT_URL, where)
    try:
        layout = _parsed_layout(value)
    except DecodeError as error:
        raise _corrupt(where, f"not a PageLayout message: {error}") from error
    if layout.WhichOneof("layout") is None:
        if len(UnknownFieldSet(layout)):
            raise UnsupportedEncodingError(f"{where}: a page layout that is newer than this library")
        raise _corrupt(where, "the page layout is empty")
    return layout


@lru_cache(maxsize=256)
def _parsed_layout(data: bytes) -> pb21.PageLayout:
    # The pages of small files often look alike.
    return pb21.PageLayout.FromString(data)


def _check_column_encoding(encoding: pb_file2.Encoding, where: str) -> None:
    if encoding.HasField("direct") and encoding.direct.encoding == _COLUMN_ENCODING:
        return
    value = _described(encoding, COLUMN_ENCODING_URL, where)
    try:
        column = pb20.ColumnEncoding.FromString(value)
    except DecodeError as error:
        raise _corrupt(where, f"not a ColumnEncoding message: {error}") from error
    arm = column.WhichOneof("column_encoding")
    if arm is None and not len(UnknownFieldSet(column)):
        raise _corrupt(where, "the column encoding is empty")
    if arm != "values":
        raise UnsupportedEncodingError(f"{where}: column encoding {arm or 'of a newer kind'} is not read here", arm=arm)


def _described(encoding: pb_file2.Encoding, type_url: str, where: str) -> bytes:
    """The serialized message inside an ``Encoding``, after checking what it is."""
    location = encoding.WhichOneof("location")
    if location == "indirect":
        raise UnsupportedEncodingError(f"{where}: encodings described elsewhere in the file are not read here")
    if location != "direct":
        raise _corrupt(where, f"the encoding is {location or 'missing'}")
    try:
        wrapped = Any.FromString(encoding.direct.encoding)
    except DecodeError as error:
        raise _corrupt(where, f"the encoding is not a google.protobuf.Any: {error}") from error
    _, slash, name = wrapped.type_url.rpartition("/")
    if not slash or f"/{name}" != type_url:
        raise UnsupportedEncodingError(
            f"{where}: encoding {wrapped.type_url!r} is not read here, expected {type_url!r}",
            type_url=wrapped.type_url,
        )
    return bytes(wrapped.value)


def _corrupt(where: str, reason: str) -> CorruptDataError:
    return CorruptDataError(f"{where}: {reason}", section="column metadata")
