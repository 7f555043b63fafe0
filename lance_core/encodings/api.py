"""Records and protocols shared by all encodings.

A leaf column passes through three representations::

    pa.Array  ⇄  Levels + DataBlock  ⇄  EncodedPage(layout, buffers)

* ``leaf_arrays.py`` and ``levels/`` perform the left step, ``structural/`` the right one;
* inside a page, a *compressive* encoding turns a ``DataBlock`` into bytes in one of three forms: **mini-block** (many
  chunks, each decodable on its own), **per value** (every value addressable, in full-zip pages) and **block** (one
  opaque unit: level buffers, dictionaries).

Encodings process all chunks of a page at once, so that the work happens in numpy: chunk i of buffer b is segment i of
``Chunks.buffers[b]``.

Source: ``lance.encodings21.CompressiveEncoding``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from lance_core.encodings.kernels.bits import slice_bitmap
from lance_core.encodings.kernels.segments import Segments
from lance_core.errors import CorruptDataError
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from google.protobuf.message import Message
    from numpy.typing import NDArray

    from lance_core.proto import pb21

__all__ = [
    "BlockForm",
    "Chunks",
    "DataBlock",
    "Decoder",
    "DictionaryBlock",
    "EncodedChunks",
    "EncodedPage",
    "EncodedPages",
    "Encoder",
    "Encoding",
    "FixedRows",
    "FixedSizeListBlock",
    "FixedWidthBlock",
    "MiniBlockForm",
    "NullBlock",
    "PagesForm",
    "PerValueForm",
    "Picks",
    "StructBlock",
    "VariableWidthBlock",
]


@dataclass(frozen=True, slots=True)
class FixedWidthBlock:
    """Values of equal width, stored contiguously.

    Attributes:
        num_values: number of slots, including null slots.
        bits_per_value: number of bits per value: 1 (a bitmap) or a multiple of 8, including 0.
        data: (num_bytes,) uint8, exactly the bytes of the values.
    """

    num_values: int
    bits_per_value: int
    data: NDArray[np.uint8]

    def slice(self, start: int, stop: int) -> FixedWidthBlock:
        """Return values ``[start, stop)``; a view, except for a bitmap if ``start`` is not a multiple of 8."""
        if self.bits_per_value == 1:
            data = slice_bitmap(self.data, start, stop - start)
        else:
            width = self.bits_per_value // 8
            data = self.data[start * width : stop * width]
        return FixedWidthBlock(stop - start, self.bits_per_value, data)


@dataclass(frozen=True, slots=True)
class VariableWidthBlock:
    """Byte strings, stored contiguously.

    Attributes:
        offsets: (num_values + 1,) int32 or int64, ascending; value i is ``data[offsets[i] : offsets[i + 1]]``.
        data: (num_bytes,) uint8, the bytes of the strings.
    """

    offsets: NDArray[Any]
    data: NDArray[np.uint8]

    @property
    def num_values(self) -> int:
        """Number of slots, including null slots."""
        return len(self.offsets) - 1

    def slice(self, start: int, stop: int) -> VariableWidthBlock:
        """Return values ``[start, stop)`` as a view."""
        return VariableWidthBlock(self.offsets[start : stop + 1], self.data)


@dataclass(frozen=True, slots=True)
class FixedSizeListBlock:
    """Lists of ``dimension`` items each, flattened.

    Attributes:
        num_values: number of lists.
        dimension: number of items in each list.
        items: the ``num_values * dimension`` items.
        validity: (num_values * dimension,) bool, validity of the items; None = all valid.
    """

    num_values: int
    dimension: int
    items: DataBlock
    validity: NDArray[np.bool_] | None

    def slice(self, start: int, stop: int) -> FixedSizeListBlock:
        """Return lists ``[start, stop)`` as a view."""
        first, last = start * self.dimension, stop * self.dimension
        validity = None if self.validity is None else self.validity[first:last]
        return FixedSizeListBlock(stop - start, self.dimension, self.items.slice(first, last), validity)


@dataclass(frozen=True, slots=True)
class DictionaryBlock:
    """Indices into distinct items; every index has been checked to be in range.

    Attributes:
        indices: index of the item of each slot, as unsigned words.
        items: the distinct values.
    """

    indices: FixedWidthBlock
    items: DataBlock

    @property
    def num_values(self) -> int:
        """Number of slots, including null slots."""
        return self.indices.num_values

    def slice(self, start: int, stop: int) -> DictionaryBlock:
        """Return values ``[start, stop)`` as a view."""
        return DictionaryBlock(self.indices.slice(start, stop), self.items)


@dataclass(frozen=True, slots=True)
class StructBlock:
    """Packed structs, as one block per member. In a page, the members of a row are stored side by side.

    Attributes:
        num_values: number of structs.
        members: one block per member, each of ``num_values`` values without nulls.
    """

    num_values: int
    members: tuple[DataBlock, ...]

    def slice(self, start: int, stop: int) -> StructBlock:
        """Return structs ``[start, stop)`` as a view."""
        return StructBlock(stop - start, tuple(member.slice(start, stop) for member in self.members))


@dataclass(frozen=True, slots=True)
class NullBlock:
    """A block of slots without values."""

    num_values: int

    def slice(self, start: int, stop: int) -> NullBlock:
        """Return slots ``[start, stop)``."""
        return NullBlock(stop - start)


DataBlock: TypeAlias = (
    FixedWidthBlock | VariableWidthBlock | FixedSizeListBlock | DictionaryBlock | StructBlock | NullBlock
)


@dataclass(frozen=True, slots=True)
class FixedRows:
    """Rows of a full-zip page, all of equal width.

    Attributes:
        rows: (num_rows, row_bytes) uint8; may be a view with any row stride.
        values_per_row: number of values in each row; more than 1 if the values are the items of fixed-size lists.
    """

    rows: NDArray[np.uint8]
    values_per_row: int = 1

    @property
    def num_values(self) -> int:
        """Total number of values in all rows."""
        return len(self.rows) * self.values_per_row


@dataclass(frozen=True, slots=True)
class Chunks:
    """The buffers of many chunks.

    Attributes:
        num_values: (num_chunks,) int64, number of values in each chunk.
        buffers: for each buffer of a chunk, one segment per chunk.
    """

    num_values: NDArray[np.int64]
    buffers: tuple[Segments, ...]

    @classmethod
    def single(cls, data: NDArray[np.uint8], num_values: int) -> Self:
        """Return one chunk with a single buffer, which contains ``data``."""
        return cls(np.array([num_values], np.int64), (Segments.back_to_back(data, np.array([len(data)], np.int64)),))

    @property
    def total_values(self) -> int:
        """Total number of values in all chunks."""
        return int(self.num_values.sum())

    def only_buffer(self, what: str) -> Segments:
        """Return the only buffer of each chunk.

        Raises:
            CorruptDataError: the chunks do not have exactly one buffer each.
        """
        if len(self.buffers) != 1:
            raise CorruptDataError(f"{what}: a chunk has {counted(len(self.buffers), 'buffer')}, expected 1")
        return self.buffers[0]

    def exact_buffer(self, what: str, bits_per_value: int) -> Segments:
        """Return the only buffer of each chunk, without the padding that writers may append to the values.

        Raises:
            CorruptDataError: a chunk is too short for its values.
        """
        buffer = self.only_buffer(what)
        sizes = (self.num_values * bits_per_value + 7) // 8
        if bool((sizes > buffer.sizes).any()):
            chunk = int(np.argmax(sizes > buffer.sizes))
            raise CorruptDataError(
                f"{what}: chunk {chunk} has {counted(int(buffer.sizes[chunk]), 'byte')}, expected "
                f"{int(sizes[chunk])} for {counted(int(self.num_values[chunk]), 'value')} of "
                f"{counted(bits_per_value, 'bit')}"
            )
        return Segments(buffer.data, buffer.starts, sizes)


@dataclass(frozen=True, slots=True)
class Picks:
    """Positions of values in chunks, ascending and without duplicates.

    Attributes:
        chunks: (num_picks,) int64, index of the chunk of each value.
        slots: (num_picks,) int64, the position within the chunk; checked to be in range.
    """

    chunks: NDArray[np.int64]
    slots: NDArray[np.int64]

    def indices(self, num_values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of each value in the concatenation of all chunks; for ``num_values``, see ``Chunks``."""
        return (np.cumsum(num_values) - num_values)[self.chunks] + self.slots


@dataclass(frozen=True, slots=True)
class EncodedPages:
    """The encodings of several pages whose chunks are decoded together.

    Attributes:
        encodings: the encoding of each page.
        numbers: (num_chunks,) int64, the number of the page of each chunk, ascending.
    """

    encodings: Sequence[pb21.CompressiveEncoding]
    numbers: NDArray[np.int64]

    def num_values(self, chunks: Chunks, picks: Picks | None) -> NDArray[np.int64]:
        """Return the number of values in the chunks of each page or, with picks, the number of picked values."""
        counts = np.zeros(len(self.encodings), np.int64)
        if picks is None:
            np.add.at(counts, self.numbers, chunks.num_values)
        else:
            np.add.at(counts, self.numbers[picks.chunks], 1)
        return counts


@dataclass(frozen=True, slots=True)
class EncodedChunks:
    """Values of a page, split into chunks and encoded.

    Attributes:
        encoding: encoding of the chunks.
        num_values: (num_chunks,) int64, number of values in each chunk; the same power of two for all chunks except the
            last.
        buffers: for each buffer of a chunk, its parts, which are stored back to back without padding; each part has one
            segment per chunk.
        alignment: alignment in bytes; the size of every buffer is rounded up to a multiple of it.
    """

    encoding: pb21.CompressiveEncoding
    num_values: NDArray[np.int64]
    buffers: tuple[tuple[Segments, ...], ...]
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """One page, ready to be written to a file.

    Attributes:
        layout: description of the page.
        buffers: the buffers in order; they may be views of the column's own memory.
        num_rows: value of ``Page.length``: number of rows or, inside a fixed-size list of structs, number of slots.
    """

    layout: pb21.PageLayout
    buffers: tuple[pa.Buffer, ...]
    num_rows: int

    @property
    def num_bytes(self) -> int:
        """Total size of the buffers in bytes, excluding padding between them."""
        return sum(buffer.size for buffer in self.buffers)


class Decoder(Protocol):
    """Decodes any encoding; encodings use it to decode their children."""

    def mini_block(self, encoding: pb21.CompressiveEncoding, chunks: Chunks) -> DataBlock:
        """Decode the chunks of a mini-block page."""

    def per_value(self, encoding: pb21.CompressiveEncoding, rows: FixedRows | VariableWidthBlock) -> DataBlock:
        """Decode the values of a full-zip page."""

    def block(self, encoding: pb21.CompressiveEncoding, blocks: Chunks) -> DataBlock:
        """Decode opaque blocks, each with one buffer."""

    def pick(self, encoding: pb21.CompressiveEncoding, chunks: Chunks, picks: Picks) -> DataBlock:
        """Decode individual values from the chunks of a mini-block page."""

    def pick_blocks(self, encoding: pb21.CompressiveEncoding, blocks: Chunks, picks: Picks) -> DataBlock:
        """Decode individual values from opaque blocks."""

    def common(self, encoding: pb21.CompressiveEncoding) -> pb21.CompressiveEncoding | None:
        """Return the encoding without what may differ between pages decoded together; None = nothing may differ."""

    def pages(self, pages: EncodedPages, chunks: Chunks, picks: Picks | None = None) -> DataBlock:
        """Decode the chunks of several mini-block pages, or individual values from them.

        Args:
            pages: the pages; for all of their encodings, :meth:`common` returns the same message, not None.
            chunks: the chunks of all pages, in order.
            picks: the values to decode; None = all values.
        """


class Encoder(Protocol):
    """Encodes with an encoding chosen by name; encodings use it to encode their children."""

    def mini_block(self, arm: str, block: DataBlock, values_per_chunk: int) -> EncodedChunks:
        """Split a block into chunks of ``values_per_chunk`` values each (the last may have fewer), and encode them."""

    def per_value(
        self, arm: str, block: DataBlock, values_per_row: int = 1
    ) -> tuple[pb21.CompressiveEncoding, FixedRows | VariableWidthBlock]:
        """Encode a block for a full-zip page, with ``values_per_row`` values in each row (see :class:`FixedRows`)."""

    def block(self, arm: str, block: DataBlock) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
        """Encode an opaque block, such as a dictionary."""


D = TypeVar("D", bound="Message")


@dataclass(frozen=True, slots=True)
class MiniBlockForm(Generic[D]):
    """Chunked form of an encoding.

    Attributes:
        decode: decodes all values of some chunks.
        encode: encodes a block; None if this library only reads this form.
        pick: decodes individual values of some chunks; None if a chunk can only be decoded as a whole.
        pages: decodes chunks of pages whose messages differ; None if no part of the message may differ.
    """

    decode: Callable[[D, Chunks, Decoder], DataBlock]
    encode: Callable[[Any, int, Encoder], EncodedChunks] | None = None
    pick: Callable[[D, Chunks, Picks, Decoder], DataBlock] | None = None
    pages: PagesForm[D] | None = None


@dataclass(frozen=True, slots=True)
class PagesForm(Generic[D]):
    """How values of several pages are decoded together although the messages of the pages differ.

    Attributes:
        common: returns the message without the parts that may differ between the pages.
        child: returns the encoding of the values, which is the same for all pages.
        decode: converts decoded values of the child; receives the message of each page, and the number of its values.
    """

    common: Callable[[D], D]
    child: Callable[[D], pb21.CompressiveEncoding]
    decode: Callable[[Sequence[D], Sequence[int], DataBlock], DataBlock]


@dataclass(frozen=True, slots=True)
class PerValueForm(Generic[D]):
    """Row-addressable form of an encoding; ``encode`` is None if this library only reads it."""

    decode: Callable[[D, FixedRows | VariableWidthBlock, Decoder], DataBlock]
    encode: Callable[[Any, int, Encoder], tuple[pb21.CompressiveEncoding, FixedRows | VariableWidthBlock]] | None = None


@dataclass(frozen=True, slots=True)
class BlockForm(Generic[D]):
    """Opaque form of an encoding, with one buffer per block. For the attributes, see :class:`MiniBlockForm`."""

    decode: Callable[[D, Chunks, Decoder], DataBlock]
    encode: Callable[[Any], tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]] | None = None
    pick: Callable[[D, Chunks, Picks, Decoder], DataBlock] | None = None


@dataclass(frozen=True, slots=True)
class Encoding(Generic[D]):
    """The implementation of one arm of ``CompressiveEncoding.compression``.

    Attributes:
        arm: name of the oneof field, which is also the module name.
        describe: returns a short description of a message ("flat[32]"); the second argument describes child encodings.
        mini_block: the mini-block form; None if the arm has none.
        per_value: the per-value form; None if the arm has none.
        block: the block form; None if the arm has none.
    """

    arm: str
    describe: Callable[[D, Callable[[pb21.CompressiveEncoding], str]], str]
    mini_block: MiniBlockForm[D] | None = None
    per_value: PerValueForm[D] | None = None
    block: BlockForm[D] | None = None
