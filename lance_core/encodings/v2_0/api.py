"""Types and functions shared by the page encodings of format 2.0.

A page is a tree of ``ArrayEncoding`` messages whose leaves refer to buffers. A tree is decoded in rounds of requests::

    decoder  →  spans of bytes that it needs                  yield
    reader   →  those bytes, with the runs back to back       send
    …                                                         until the array is complete

Most arms need one round; strings whose offsets must be read first need two. :func:`together` runs several decoders in
parallel, so that a page takes only as many rounds as its slowest decoder. The first round requests all bytes whose
location is known before anything is read.

Source: ``lance.encodings.ArrayEncoding``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from lance_core.errors import CorruptDataError, NotSupportedError, UnsupportedEncodingError
from lance_core.proto import pb20
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from lance_core.encodings.v2_0.spans import Spans

__all__ = [
    "MAX_INT32",
    "Arm",
    "Decode",
    "PageBuffers",
    "PageBuilder",
    "Steps",
    "bits_per_row",
    "blank_array",
    "checked_values",
    "done",
    "is_variable_width",
    "may_be_invalid",
    "together",
    "wrong_type",
]

T = TypeVar("T")

Steps: TypeAlias = "Generator[list[Spans], list[pa.Buffer], T]"
"""A decoder that works in rounds: it yields spans of the file, receives one buffer per span, and returns the result."""

MAX_INT32: Final = (1 << 31) - 1

_MAX_BLANK_BYTES: Final = 1 << 30
_TYPE_BYTES_LIMIT: Final = 1 << 40


class Decode(Protocol):
    """Decodes any arm; it is passed to the arms for decoding their child encodings."""

    def __call__(
        self, encoding: pb20.ArrayEncoding, dtype: pa.DataType, rows: Spans, page: PageBuffers
    ) -> Steps[pa.Array]:
        """Decode rows of one encoding to an array of ``dtype``; see :class:`Arm`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One arm of ``ArrayEncoding.array_encoding`` that represents values.

    Attributes:
        name: name of the arm in the protocol.
        decode: ``(message, dtype, rows, page, decode) -> Steps[array]``: decodes the rows to an array of exactly this
            type. Raises CorruptDataError if the message, the buffers and the type are inconsistent.
    """

    name: str
    decode: Callable[[Any, pa.DataType, Spans, PageBuffers, Decode], Steps[pa.Array]]


class PageBuffers:
    """Locations of the buffers of one page, and a cache of its dictionary items for the decoders of the page.

    Args:
        page: (offset in the file, size) of each buffer of the page, in bytes.
        column: (offset in the file, size) of each buffer of the column.
    """

    __slots__ = ("_tables", "items")

    def __init__(self, page: Sequence[tuple[int, int]], column: Sequence[tuple[int, int]] = ()) -> None:
        """See the class docstring."""
        self._tables = {pb20.Buffer.page: page, pb20.Buffer.column: column}
        self.items: pa.Array | None = None

    def size(self, buffer: pb20.Buffer) -> int:
        """Return the size of a buffer in bytes.

        Raises:
            CorruptDataError: the buffer does not exist.
            UnsupportedEncodingError: the buffer belongs to the whole file.
        """
        return self._place(buffer)[1]

    def bytes(self, buffer: pb20.Buffer, wanted: Spans) -> Spans:
        """Convert byte positions in a buffer to byte positions in the file.

        Raises:
            CorruptDataError: the buffer does not exist, or the bytes extend past its end.
            UnsupportedEncodingError: the buffer belongs to the whole file.
        """
        offset, size = self._place(buffer)
        if wanted.stop > size:
            raise CorruptDataError(
                f"bytes [{wanted.start}, {wanted.stop}) of buffer {buffer.buffer_index} were requested, but the "
                f"buffer has {counted(size, 'byte')}",
                expected=wanted.stop,
                found=size,
            )
        return wanted.shifted(offset)

    def _place(self, buffer: pb20.Buffer) -> tuple[int, int]:
        table = self._tables.get(buffer.buffer_type)
        if table is None:
            raise UnsupportedEncodingError("pages that refer to file-level buffers are not supported")
        if buffer.buffer_index >= len(table):
            raise CorruptDataError(f"buffer {buffer.buffer_index} does not exist; number of buffers: {len(table)}")
        return table[buffer.buffer_index]


class PageBuilder:
    """The buffers of a page that is being written, ordered by their numbers in the encoding."""

    __slots__ = ("buffers",)

    def __init__(self) -> None:
        """Create a builder without buffers."""
        self.buffers: list[pa.Buffer] = []

    def add(self, buffer: pa.Buffer) -> pb20.Buffer:
        """Add a buffer and return a reference to it."""
        self.buffers.append(buffer)
        return pb20.Buffer(buffer_index=len(self.buffers) - 1)


def together(parts: Sequence[Steps[Any]]) -> Steps[list[Any]]:
    """Run several decoders in parallel, round by round. Those that read offsets go first, and the others wait."""
    results: list[Any] = [None] * len(parts)
    answers: dict[int, list[pa.Buffer] | None] = dict.fromkeys(range(len(parts)))
    waiting: dict[int, list[Spans]] = {}
    while True:
        for index, answer in answers.items():
            try:
                waiting[index] = parts[index].send(answer) if answer is not None else next(parts[index])
            except StopIteration as stop:
                results[index] = stop.value
        if not waiting:
            return results
        first = {index: wanted for index, wanted in waiting.items() if wanted and wanted[0].are_offsets} or waiting
        waiting = {index: wanted for index, wanted in waiting.items() if index not in first}
        buffers = yield [spans for wanted in first.values() for spans in wanted]
        answers = {}
        position = 0
        for index, wanted in first.items():
            answers[index] = buffers[position : position + len(wanted)]
            position += len(wanted)


def done(value: T) -> Steps[T]:
    """Wrap a value as a decoder that reads nothing."""
    yield from ()
    return value


def is_variable_width(dtype: pa.DataType) -> bool:
    """Return whether a type is a string or binary type."""
    return bool(
        pa.types.is_string(dtype)
        or pa.types.is_large_string(dtype)
        or pa.types.is_binary(dtype)
        or pa.types.is_large_binary(dtype)
    )


def may_be_invalid(dtype: pa.DataType) -> bool:
    """Return whether bytes of the right size can be invalid for a type or, if it is nested, for a type inside it."""
    if pa.types.is_dictionary(dtype):
        return may_be_invalid(dtype.value_type)
    if dtype.num_fields:
        return any(may_be_invalid(dtype.field(index).type) for index in range(dtype.num_fields))
    return bool(
        is_variable_width(dtype) or pa.types.is_decimal(dtype) or pa.types.is_time(dtype) or pa.types.is_date64(dtype)
    )


def checked_values(array: pa.Array) -> pa.Array:
    """Return the array after checking that its bytes are valid for its type.

    Raises:
        CorruptDataError: a string is not valid UTF-8, a decimal has too many digits, or a time or date is invalid.
    """
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptDataError(f"a column of type {array.type} contains invalid bytes: {error}") from error
    return array


def bits_per_row(dtype: pa.DataType) -> int:
    """Return the number of bits per row in memory, without validity; for variable-width types, the bits per offset."""
    if pa.types.is_fixed_size_list(dtype):
        return min(_TYPE_BYTES_LIMIT, int(dtype.list_size) * bits_per_row(dtype.value_type))
    if pa.types.is_struct(dtype):
        return sum(bits_per_row(dtype.field(index).type) for index in range(dtype.num_fields))
    if pa.types.is_null(dtype):
        return 0
    if pa.types.is_dictionary(dtype):
        return int(dtype.index_type.bit_width)
    try:
        return int(dtype.bit_width)
    except ValueError:
        return 64


def blank_array(dtype: pa.DataType, num_rows: int) -> pa.Array:
    """Return an array of nulls.

    Raises:
        NotSupportedError: there are more nulls than any page can represent.
    """
    if num_rows * (bits_per_row(dtype) + 1) > 8 * _MAX_BLANK_BYTES:
        raise NotSupportedError(
            f"{num_rows} nulls are too many for one array of type {dtype}; read fewer rows at a time"
        )
    return pa.nulls(num_rows, dtype)


def wrong_type(arm: str, dtype: pa.DataType) -> CorruptDataError:
    """Return the error for a page whose encoding does not match the type of the column."""
    return CorruptDataError(f"values of type {dtype} cannot be encoded as {arm!r}", expected=str(dtype), found=arm)
