"""Records and protocols that every encoding shares.

A leaf column travels through three shapes::

    pa.Array  ⇄  Levels + DataBlock  ⇄  EncodedPage(layout, buffers)

* ``leaf_arrays.py`` and ``levels/`` do the left step, ``structural/`` the right one;
* inside a page a *compressive* encoding turns a ``DataBlock`` into bytes, in one of three forms: **mini-block** (many
  chunks, each decodable alone), **per value** (every value addressable, full-zip pages) and **block** (opaque whole:
  level buffers, dictionaries).

Encodings work on all chunks of a page at once, so that numpy does the work: chunk i of buffer b is segment i of
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

if TYPE_CHECKING:
    from collections.abc import Callable

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
    "Encoder",
    "Encoding",
    "FixedRows",
    "FixedSizeListBlock",
    "FixedWidthBlock",
    "MiniBlockForm",
    "NullBlock",
    "PerValueForm",
    "Picks",
    "StructBlock",
    "VariableWidthBlock",
]


@dataclass(frozen=True, slots=True)
class FixedWidthBlock:
    """Values of equal width, back to back.

    Attributes:
        num_values: slots, null ones included.
        bits_per_value: 1 (a bitmap) or a multiple of 8, 0 included.
        data: exactly the bytes of the values, (num_bytes,) uint8.
    """

    num_values: int
    bits_per_value: int
    data: NDArray[np.uint8]

    def slice(self, start: int, stop: int) -> FixedWidthBlock:
        """Values ``[start, stop)``: a view unless a bitmap is cut inside a byte."""
        if self.bits_per_value == 1:
            data = slice_bitmap(self.data, start, stop - start)
        else:
            width = self.bits_per_value // 8
            data = self.data[start * width : stop * width]
        return FixedWidthBlock(stop - start, self.bits_per_value, data)


@dataclass(frozen=True, slots=True)
class VariableWidthBlock:
    """Byte strings, back to back.

    Attributes:
        offsets: (num_values + 1,) int32 or int64, ascending; value i is ``data[offsets[i] : offsets[i + 1]]``.
        data: (num_bytes,) uint8.
    """

    offsets: NDArray[Any]
    data: NDArray[np.uint8]

    @property
    def num_values(self) -> int:
        """Slots, null ones included."""
        return len(self.offsets) - 1

    def slice(self, start: int, stop: int) -> VariableWidthBlock:
        """Values ``[start, stop)`` as a view."""
        return VariableWidthBlock(self.offsets[start : stop + 1], self.data)


@dataclass(frozen=True, slots=True)
class FixedSizeListBlock:
    """Lists of ``dimension`` items each, flattened.

    Attributes:
        num_values: lists.
        dimension: items of one list.
        items: ``num_values * dimension`` items.
        validity: (num_values * dimension,) bool of the items; None = all valid.
    """

    num_values: int
    dimension: int
    items: DataBlock
    validity: NDArray[np.bool_] | None

    def slice(self, start: int, stop: int) -> FixedSizeListBlock:
        """Lists ``[start, stop)`` as a view."""
        first, last = start * self.dimension, stop * self.dimension
        validity = None if self.validity is None else self.validity[first:last]
        return FixedSizeListBlock(stop - start, self.dimension, self.items.slice(first, last), validity)


@dataclass(frozen=True, slots=True)
class DictionaryBlock:
    """Indices into distinct items; every index has been checked to name an item.

    Attributes:
        indices: unsigned words.
        items: the distinct values.
    """

    indices: FixedWidthBlock
    items: DataBlock

    @property
    def num_values(self) -> int:
        """Slots, null ones included."""
        return self.indices.num_values

    def slice(self, start: int, stop: int) -> DictionaryBlock:
        """Values ``[start, stop)`` as a view."""
        return DictionaryBlock(self.indices.slice(start, stop), self.items)


@dataclass(frozen=True, slots=True)
class StructBlock:
    """Packed structs: members of a row that were stored side by side, taken apart.

    Attributes:
        num_values: structs.
        members: one block per member, each of ``num_values`` values without nulls.
    """

    num_values: int
    members: tuple[DataBlock, ...]

    def slice(self, start: int, stop: int) -> StructBlock:
        """Structs ``[start, stop)`` as a view."""
        return StructBlock(stop - start, tuple(member.slice(start, stop) for member in self.members))


@dataclass(frozen=True, slots=True)
class NullBlock:
    """Slots without a value."""

    num_values: int

    def slice(self, start: int, stop: int) -> NullBlock:
        """Slots ``[start, stop)``."""
        return NullBlock(stop - start)


DataBlock: TypeAlias = (
    FixedWidthBlock | VariableWidthBlock | FixedSizeListBlock | DictionaryBlock | StructBlock | NullBlock
)


@dataclass(frozen=True, slots=True)
class FixedRows:
    """Rows of a full-zip page, all of the same width.

    Attributes:
        rows: (num_rows, row_bytes) uint8; a view with any row stride.
        values_per_row: values of the encoding at hand in one row; more than 1 below fixed-size lists.
    """

    rows: NDArray[np.uint8]
    values_per_row: int = 1

    @property
    def num_values(self) -> int:
        """Values of all rows."""
        return len(self.rows) * self.values_per_row


@dataclass(frozen=True, slots=True)
class Chunks:
    """The buffers of many chunks.

    Attributes:
        num_values: (num_chunks,) int64, values of each chunk.
        buffers: per buffer of a chunk, one segment per chunk.
    """

    num_values: NDArray[np.int64]
    buffers: tuple[Segments, ...]

    @classmethod
    def single(cls, data: NDArray[np.uint8], num_values: int) -> Self:
        """One chunk of one buffer, which starts where ``data`` starts."""
        return cls(np.array([num_values], np.int64), (Segments.back_to_back(data, np.array([len(data)], np.int64)),))

    @property
    def total_values(self) -> int:
        """Values of all chunks."""
        return int(self.num_values.sum())

    def only_buffer(self, what: str) -> Segments:
        """The one buffer that each chunk has.

        Raises:
            CorruptDataError: chunks have another number of buffers.
        """
        if len(self.buffers) != 1:
            raise CorruptDataError(f"{what}: a chunk has {len(self.buffers)} buffers, expected 1")
        return self.buffers[0]

    def exact_buffer(self, what: str, bits_per_value: int) -> Segments:
        """The one buffer that each chunk has, cut to exactly its values; writers may leave padding behind them.

        Raises:
            CorruptDataError: a chunk is too short for its values.
        """
        buffer = self.only_buffer(what)
        sizes = (self.num_values * bits_per_value + 7) // 8
        if bool((sizes > buffer.sizes).any()):
            chunk = int(np.argmax(sizes > buffer.sizes))
            raise CorruptDataError(
                f"{what}: chunk {chunk} holds {int(buffer.sizes[chunk])} bytes, but its {int(self.num_values[chunk])} "
                f"values of {bits_per_value} bits need {int(sizes[chunk])}"
            )
        return Segments(buffer.data, buffer.starts, sizes)


@dataclass(frozen=True, slots=True)
class Picks:
    """Places of values in chunks, in ascending order and without repetition.

    Attributes:
        chunks: (num_picks,) int64, which chunk.
        slots: (num_picks,) int64, which value of the chunk; checked to be one of its values.
    """

    chunks: NDArray[np.int64]
    slots: NDArray[np.int64]

    def indices(self, num_values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the values are when all chunks are decoded; ``num_values`` as in ``Chunks``."""
        return (np.cumsum(num_values) - num_values)[self.chunks] + self.slots


@dataclass(frozen=True, slots=True)
class EncodedChunks:
    """Values of a page cut into chunks and encoded.

    Attributes:
        encoding: how to decode them.
        num_values: (num_chunks,) int64; a power of two, the same for every chunk but the last.
        buffers: per buffer of a chunk the pieces it consists of; pieces follow each other without padding.
        alignment: every buffer's size is rounded up to a multiple of this many bytes.
    """

    encoding: pb21.CompressiveEncoding
    num_values: NDArray[np.int64]
    buffers: tuple[tuple[Segments, ...], ...]
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """One page, ready to be placed in a file.

    Attributes:
        layout: its description.
        buffers: its buffers in order, possibly views of the column's own memory.
        num_rows: value of ``Page.length``: rows of the column; below a fixed-size list of structs, its slots.
    """

    layout: pb21.PageLayout
    buffers: tuple[pa.Buffer, ...]
    num_rows: int

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffers, padding between them not counted."""
        return sum(buffer.size for buffer in self.buffers)


class Decoder(Protocol):
    """Decodes any encoding: the way an encoding reaches its children."""

    def mini_block(self, encoding: pb21.CompressiveEncoding, chunks: Chunks) -> DataBlock:
        """Decode the chunks of a mini-block page."""

    def per_value(self, encoding: pb21.CompressiveEncoding, rows: FixedRows | VariableWidthBlock) -> DataBlock:
        """Decode the values of a full-zip page."""

    def block(self, encoding: pb21.CompressiveEncoding, blocks: Chunks) -> DataBlock:
        """Decode opaque blocks, each of one buffer."""

    def pick(self, encoding: pb21.CompressiveEncoding, chunks: Chunks, picks: Picks) -> DataBlock:
        """Decode single values of the chunks of a mini-block page."""

    def pick_blocks(self, encoding: pb21.CompressiveEncoding, blocks: Chunks, picks: Picks) -> DataBlock:
        """Decode single values of opaque blocks."""


class Encoder(Protocol):
    """Encodes with an encoding chosen by name: the way an encoding reaches its children."""

    def mini_block(self, arm: str, block: DataBlock, values_per_chunk: int) -> EncodedChunks:
        """Cut a block into chunks of ``values_per_chunk`` (the last one holds the rest) and encode them."""

    def per_value(
        self, arm: str, block: DataBlock, values_per_row: int = 1
    ) -> tuple[pb21.CompressiveEncoding, FixedRows | VariableWidthBlock]:
        """Encode a block for a full-zip page, several values to a row below fixed-size lists."""

    def block(self, arm: str, block: DataBlock) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
        """Encode an opaque block, such as a dictionary."""


D = TypeVar("D", bound="Message")


@dataclass(frozen=True, slots=True)
class MiniBlockForm(Generic[D]):
    """Chunked form of an encoding.

    Attributes:
        decode: all values of some chunks.
        encode: None where this library only reads it.
        pick: single values of some chunks; None where a chunk can only be decoded whole.
    """

    decode: Callable[[D, Chunks, Decoder], DataBlock]
    encode: Callable[[Any, int, Encoder], EncodedChunks] | None = None
    pick: Callable[[D, Chunks, Picks, Decoder], DataBlock] | None = None


@dataclass(frozen=True, slots=True)
class PerValueForm(Generic[D]):
    """Row-addressable form of an encoding; ``encode`` is None where this library only reads it."""

    decode: Callable[[D, FixedRows | VariableWidthBlock, Decoder], DataBlock]
    encode: Callable[[Any, int, Encoder], tuple[pb21.CompressiveEncoding, FixedRows | VariableWidthBlock]] | None = None


@dataclass(frozen=True, slots=True)
class BlockForm(Generic[D]):
    """Opaque form of an encoding, one buffer per block; attributes as in :class:`MiniBlockForm`."""

    decode: Callable[[D, Chunks, Decoder], DataBlock]
    encode: Callable[[Any], tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]] | None = None
    pick: Callable[[D, Chunks, Picks, Decoder], DataBlock] | None = None


@dataclass(frozen=True, slots=True)
class Encoding(Generic[D]):
    """Everything about one arm of ``CompressiveEncoding.compression``.

    Attributes:
        arm: name of the oneof field, which is also the file's name.
        describe: short text of a message ("flat[32]"); the second argument describes children.
        mini_block: None = the arm has no such form.
        per_value: None = the arm has no such form.
        block: None = the arm has no such form.
    """

    arm: str
    describe: Callable[[D, Callable[[pb21.CompressiveEncoding], str]], str]
    mini_block: MiniBlockForm[D] | None = None
    per_value: PerValueForm[D] | None = None
    block: BlockForm[D] | None = None
