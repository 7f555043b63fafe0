"""ColumnMetadata and Page: locations and encodings of the pages of one column.

Protobuf messages are parsed once, checked against the file, and kept as small records. An ``ArrayEncoding`` describes a
page in format 2.0, and a ``PageLayout`` a page of a later format. The format also allows descriptions to be stored
elsewhere in the file (``indirect``), but no writer does so; the reference implementation and this library reject such
files.

**Source:** ``lance.file.v2.ColumnMetadata``; ``lance.encodings.ColumnEncoding`` and ``ArrayEncoding``;
``lance.encodings21.PageLayout``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.buffers.alignment import BUFFER_ALIGNMENT
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.file.layout import ARRAY_ENCODING_URL, COLUMN_ENCODING_URL, PAGE_LAYOUT_URL
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb20, pb21, pb_file2
from lance_core.versions import LanceFileVersion
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

__all__ = ["ColumnMetadata", "Page"]

_COLUMN_ENCODING: Final = Any(type_url=COLUMN_ENCODING_URL, value=b"\x0a\x00").SerializeToString()
"""``ColumnEncoding{values {}}``: the only column encoding in files in format 2.1 and later."""

_BLOB_ENCODING: Final = Any(type_url=COLUMN_ENCODING_URL, value=b"\x1a\x04\x0a\x02\x0a\x00").SerializeToString()
"""``ColumnEncoding{blob {inner {values {}}}}``: pages contain (position, size) pairs of values outside the pages."""

_MAX_WRAPPERS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of one column.

    Attributes:
        buffers: locations of the buffers, in the order of their numbers in the layout.
        length: number of rows; for leaves inside a fixed-size list of structs, the number of rows times the list size.
        first_row: number of the page's first row, as recorded in the file. Readers do not use it. It is always 0 in
            format 2.0.
        encoding: encoding of the page; see :attr:`layout` and :attr:`array_encoding`.
    """

    buffers: tuple[ByteRange, ...]
    length: int
    first_row: int
    encoding: pb21.PageLayout | pb20.ArrayEncoding

    @property
    def layout(self) -> pb21.PageLayout:
        """The layout of a page in format 2.1 or later."""
        if not isinstance(self.encoding, pb21.PageLayout):
            raise InternalError("expected a page in format 2.1 or later; pages in format 2.0 do not have layouts")
        return self.encoding

    @property
    def array_encoding(self) -> pb20.ArrayEncoding:
        """The encoding of a page in format 2.0."""
        if not isinstance(self.encoding, pb20.ArrayEncoding):
            raise InternalError(
                "expected a page in format 2.0; pages in format 2.1 or later do not have array encodings"
            )
        return self.encoding

    @property
    def num_bytes(self) -> int:
        """Total size of the buffers in bytes."""
        return sum([buffer.stop - buffer.start for buffer in self.buffers])

    @classmethod
    def from_proto(
        cls, message: pb_file2.ColumnMetadata.Page, data_bytes: int, where: str, version: LanceFileVersion
    ) -> Self:
        """Check a page's protobuf message and convert it.

        Args:
            message: the protobuf message that describes the page.
            data_bytes: end of the file's data region.
            where: file, column and page, for messages.
            version: the file's format version; buffers are aligned in format 2.1 and later.

        Raises:
            CorruptDataError: a buffer is not aligned or not inside the data region, or the layout is malformed.
            UnsupportedEncodingError: the kind of layout is unknown to this library.
        """
        is_structural = version.is_structural
        alignment = BUFFER_ALIGNMENT if is_structural else 1
        return cls(
            buffers=_ranges(message.buffer_offsets, message.buffer_sizes, data_bytes, alignment, where),
            length=message.length,
            first_row=message.priority if is_structural else 0,
            encoding=_page_layout(message.encoding, where)
            if is_structural
            else _array_encoding(message.encoding, where),
        )

    def to_proto(self) -> pb_file2.ColumnMetadata.Page:
        """Return the protobuf message."""
        url = PAGE_LAYOUT_URL if isinstance(self.encoding, pb21.PageLayout) else ARRAY_ENCODING_URL
        encoding = Any(type_url=url, value=self.encoding.SerializeToString(deterministic=True))
        message = pb_file2.ColumnMetadata.Page(
            buffer_offsets=[buffer.start for buffer in self.buffers],
            buffer_sizes=[buffer.num_bytes for buffer in self.buffers],
            length=self.length,
            priority=self.first_row,
        )
        message.encoding.direct.encoding = encoding.SerializeToString()
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMetadata:
    """The pages of one column, in row order.

    Attributes:
        pages: all pages, including empty ones.
        buffers: buffers that belong to the column rather than to a page; format 2.0 only.
        is_blob: whether the values are stored outside the pages; format 2.0 only.
    """

    pages: tuple[Page, ...]
    buffers: tuple[ByteRange, ...] = ()
    is_blob: bool = False

    @classmethod
    def parse(
        cls,
        data: pa.Buffer | bytes,
        data_bytes: int,
        where: str,
        version: LanceFileVersion = LanceFileVersion.V2_2,
    ) -> Self:
        """Parse the message that describes one column.

        Args:
            data: exactly the bytes of the message.
            data_bytes: end of the file's data region; all buffers must end at or before this position.
            where: file and column, for messages.
            version: the file's format version.

        Raises:
            CorruptDataError: the bytes are malformed, or the pages do not match the file.
            UnsupportedEncodingError: an encoding is not supported.
        """
        try:
            message = pb_file2.ColumnMetadata.FromString(bytes(data))
        except DecodeError as error:
            raise _corrupt(where, f"not a ColumnMetadata message: {error}") from error
        is_blob = _column_encoding_is_blob(message.encoding, where, version)
        if version.is_structural and (message.buffer_offsets or message.buffer_sizes):
            raise UnsupportedEncodingError(f"{where}: column-level buffers are not supported")
        pages = [
            Page.from_proto(page, data_bytes, f"{where}, page {index}", version)
            for index, page in enumerate(message.pages)
        ]
        buffers: tuple[ByteRange, ...] = ()
        if not version.is_structural:
            buffers = _ranges(message.buffer_offsets, message.buffer_sizes, data_bytes, 1, f"{where}, column buffers")
        return cls(pages=tuple(pages), buffers=buffers, is_blob=is_blob)

    def serialize(self) -> bytes:
        """Return the serialized message."""
        message = pb_file2.ColumnMetadata(
            pages=[page.to_proto() for page in self.pages],
            buffer_offsets=[buffer.start for buffer in self.buffers],
            buffer_sizes=[buffer.num_bytes for buffer in self.buffers],
        )
        message.encoding.direct.encoding = _BLOB_ENCODING if self.is_blob else _COLUMN_ENCODING
        return message.SerializeToString(deterministic=True)

    @property
    def length(self) -> int:
        """Sum of the pages' lengths."""
        return sum(page.length for page in self.pages)


def _ranges(
    offsets: Sequence[int], sizes: Sequence[int], data_bytes: int, alignment: int, where: str
) -> tuple[ByteRange, ...]:
    if len(offsets) != len(sizes):
        raise _corrupt(
            where, f"found {counted(len(offsets), 'buffer offset')} but {counted(len(sizes), 'buffer size')}"
        )
    buffers = []
    for index, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if offset % alignment:
            raise _corrupt(where, f"buffer {index} starts at {offset}, not at a multiple of {alignment}")
        if offset + size > data_bytes:
            raise _corrupt(
                where, f"buffer {index} is at [{offset}, {offset + size}), but the data ends at {data_bytes}"
            )
        buffers.append(ByteRange(offset, offset + size))
    return tuple(buffers)


def _page_layout(encoding: pb_file2.Encoding, where: str) -> pb21.PageLayout:
    value = _described(encoding, PAGE_LAYOUT_URL, where)
    try:
        layout = _parsed_layout(value)
    except DecodeError as error:
        raise _corrupt(where, f"not a PageLayout message: {error}") from error
    if layout.WhichOneof("layout") is None:
        if len(UnknownFieldSet(layout)):
            raise UnsupportedEncodingError(f"{where}: the page layout is of an unknown kind")
        raise _corrupt(where, "the page layout is empty")
    return layout


def _array_encoding(encoding: pb_file2.Encoding, where: str) -> pb20.ArrayEncoding:
    value = _described(encoding, ARRAY_ENCODING_URL, where)
    try:
        return _parsed_array_encoding(value)
    except DecodeError as error:
        raise _corrupt(where, f"not an ArrayEncoding message: {error}") from error


@lru_cache(maxsize=256)
def _parsed_layout(data: bytes) -> pb21.PageLayout:
    # The pages of small files often have identical layouts.
    return pb21.PageLayout.FromString(data)


@lru_cache(maxsize=256)
def _parsed_array_encoding(data: bytes) -> pb20.ArrayEncoding:
    return pb20.ArrayEncoding.FromString(data)


def _column_encoding_is_blob(encoding: pb_file2.Encoding, where: str, version: LanceFileVersion) -> bool:
    """Return whether the values are stored outside the pages.

    Raises:
        CorruptDataError: the column encoding is missing.
        UnsupportedEncodingError: the column encoding is unknown, or is not supported in files of this version.
    """
    if encoding.HasField("direct") and encoding.direct.encoding == _COLUMN_ENCODING:
        return False
    value = _described(encoding, COLUMN_ENCODING_URL, where)
    try:
        column = pb20.ColumnEncoding.FromString(value)
    except DecodeError as error:
        raise _corrupt(where, f"not a ColumnEncoding message: {error}") from error
    is_blob = False
    for _ in range(_MAX_WRAPPERS):
        arm = column.WhichOneof("column_encoding")
        if arm == "values":
            return is_blob
        if arm is None and not len(UnknownFieldSet(column)):
            raise _corrupt(where, "the column encoding is empty")
        if arm is None or version.is_structural:
            raise UnsupportedEncodingError(
                f"{where}: column encoding {arm or 'of an unknown kind'} is not supported", arm=arm
            )
        if arm == "blob":
            is_blob, column = True, column.blob.inner
        else:
            # Zone statistics: the inner message describes the values.
            column = column.zone_index.inner
    raise UnsupportedEncodingError(f"{where}: column encodings are nested more than {_MAX_WRAPPERS} levels deep")


def _described(encoding: pb_file2.Encoding, type_url: str, where: str) -> bytes:
    """Return the serialized message inside an ``Encoding``, after checking its type."""
    location = encoding.WhichOneof("location")
    if location == "indirect":
        raise UnsupportedEncodingError(f"{where}: encodings that are described elsewhere in the file are not supported")
    if location != "direct":
        raise _corrupt(where, f"the encoding is {'empty' if location else 'missing'}")
    try:
        wrapped = Any.FromString(encoding.direct.encoding)
    except DecodeError as error:
        raise _corrupt(where, f"the encoding is not a google.protobuf.Any: {error}") from error
    _, slash, name = wrapped.type_url.rpartition("/")
    if not slash or f"/{name}" != type_url:
        raise UnsupportedEncodingError(
            f"{where}: encoding {wrapped.type_url!r} is not supported; expected {type_url!r}",
            type_url=wrapped.type_url,
        )
    return bytes(wrapped.value)


def _corrupt(where: str, reason: str) -> CorruptDataError:
    return CorruptDataError(f"{where}: {reason}", section="column metadata")
