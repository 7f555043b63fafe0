"""fixed_size_list: fixed-length lists of primitive items, flattened, preceded by the validity of the items.

::

    mini-block   bitmap of the chunk's items (if has_validity) | buffers of the items
    full zip     per row: bitmap of the row's items (if has_validity) | the items
    block        the items, all valid; no release writes this form

In a row of nested lists, all bitmaps come first, from the outermost to the innermost list; each contains the
validity of all items at its nesting level in the row.

Source: ``lance.encodings21.FixedSizeList``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.api import (
    BlockForm,
    Chunks,
    Decoder,
    EncodedChunks,
    Encoder,
    Encoding,
    FixedRows,
    FixedSizeListBlock,
    FixedWidthBlock,
    MiniBlockForm,
    NullBlock,
    PerValueForm,
    Picks,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.bits import bitmap_bytes, pack_mask
from lance_core.encodings.kernels.segments import Segments
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["ENCODING"]

_MAX_DIMENSION: Final = (1 << 31) - 1
_MAX_CHUNK_ITEMS: Final = 1 << 40


def _describe(message: pb21.FixedSizeList, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    nullable = ", nullable" if message.has_validity else ""
    return f"fixed_size_list[{message.items_per_value}{nullable}]({child(message.values)})"


def _decode_chunks(message: pb21.FixedSizeList, chunks: Chunks, decoder: Decoder) -> FixedSizeListBlock:
    dimension = _checked_dimension(message, chunks)
    num_items = chunks.num_values * dimension
    buffers, validity = chunks.buffers, None
    if message.has_validity:
        bitmaps = Chunks(num_items, buffers[:1]).exact_buffer("fixed_size_list validity", 1)
        buffers, validity = buffers[1:], _join_bitmaps(bitmaps, num_items)
    items = decoder.mini_block(message.values, Chunks(num_items, buffers))
    return FixedSizeListBlock(chunks.total_values, dimension, items, validity)


def _pick(message: pb21.FixedSizeList, chunks: Chunks, picks: Picks, decoder: Decoder) -> FixedSizeListBlock:
    dimension = _checked_dimension(message, chunks)
    num_items, num_lists = chunks.num_values * dimension, len(picks.slots)
    slots = (picks.slots[:, None] * dimension + np.arange(dimension)).reshape(-1)
    item_picks = Picks(np.repeat(picks.chunks, dimension), slots)
    buffers, validity = chunks.buffers, None
    if message.has_validity:
        bitmaps = Chunks(num_items, buffers[:1]).exact_buffer("fixed_size_list validity", 1)
        found = bitmaps.data[bitmaps.starts[item_picks.chunks] + slots // 8] >> (slots % 8).astype(np.uint8) & 1
        buffers, validity = buffers[1:], found.view(np.bool_)
    items = decoder.pick(message.values, Chunks(num_items, buffers), item_picks)
    return FixedSizeListBlock(num_lists, dimension, items, validity)


def _decode_rows(
    message: pb21.FixedSizeList, rows: FixedRows | VariableWidthBlock, decoder: Decoder
) -> FixedSizeListBlock:
    dimension = _checked_dimension(message)
    if not isinstance(rows, FixedRows):
        raise CorruptDataError("fixed_size_list: expected values of fixed width, found variable width")
    items_per_row = rows.values_per_row * dimension
    item_rows, validity = rows.rows, None
    if message.has_validity:
        validity_bytes = bitmap_bytes(items_per_row)
        if validity_bytes > item_rows.shape[1]:
            raise CorruptDataError(
                f"fixed_size_list: the validity of {counted(items_per_row, 'item')} requires "
                f"{counted(validity_bytes, 'byte')}, found {item_rows.shape[1]}"
            )
        bits = np.unpackbits(item_rows[:, :validity_bytes], axis=1, count=items_per_row, bitorder="little")
        item_rows, validity = item_rows[:, validity_bytes:], bits.reshape(-1).view(np.bool_)
    items = decoder.per_value(message.values, FixedRows(item_rows, items_per_row))
    return FixedSizeListBlock(rows.num_values, dimension, items, validity)


def _decode_block(message: pb21.FixedSizeList, blocks: Chunks, decoder: Decoder) -> FixedSizeListBlock:
    if message.has_validity:
        raise UnsupportedEncodingError(
            "fixed_size_list: a block whose items have nulls is not supported", arm="fixed_size_list"
        )
    dimension = _checked_dimension(message, blocks)
    items = decoder.block(message.values, Chunks(blocks.num_values * dimension, blocks.buffers))
    return FixedSizeListBlock(blocks.total_values, dimension, items, None)


def _encode_chunks(block: Any, values_per_chunk: int, encoder: Encoder) -> EncodedChunks:
    if not isinstance(block, FixedSizeListBlock) or values_per_chunk * block.dimension % 8:
        raise InternalError(
            "fixed_size_list: expected a FixedSizeListBlock and a multiple of 8 items per chunk, found "
            f"{type(block).__name__} and {counted(values_per_chunk, 'list')} per chunk"
        )
    items_per_chunk = values_per_chunk * block.dimension
    items = encoder.mini_block(_item_arm(block), block.items, items_per_chunk)
    buffers = items.buffers
    if block.validity is not None:
        bitmaps = Segments.evenly(pack_mask(block.validity), len(items.num_values), items_per_chunk // 8)
        buffers = ((bitmaps,), *buffers)
    return EncodedChunks(_message(block, items.encoding), items.num_values // block.dimension, buffers)


def _encode_rows(block: Any, values_per_row: int, encoder: Encoder) -> tuple[pb21.CompressiveEncoding, FixedRows]:
    if not isinstance(block, FixedSizeListBlock):
        raise InternalError(f"fixed_size_list: expected a FixedSizeListBlock, found {type(block).__name__}")
    items_per_row = values_per_row * block.dimension
    encoding, items = encoder.per_value(_item_arm(block), block.items, items_per_row)
    if not isinstance(items, FixedRows):
        raise InternalError("fixed_size_list: items of variable width cannot be encoded")
    rows = items.rows
    if block.validity is not None:
        bitmaps = np.packbits(block.validity.reshape(len(rows), items_per_row), axis=1, bitorder="little")
        rows = np.hstack([bitmaps, rows])
    return _message(block, encoding), FixedRows(rows, values_per_row)


def _encode_block(block: Any) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
    if not isinstance(block, FixedSizeListBlock) or block.validity is not None:
        found = type(block).__name__ + (" with nulls" if isinstance(block, FixedSizeListBlock) else "")
        raise InternalError(f"fixed_size_list: expected a FixedSizeListBlock without nulls, found {found}")
    if isinstance(block.items, FixedSizeListBlock):
        values, data = _encode_block(block.items)
    elif isinstance(block.items, FixedWidthBlock):
        flat = pb21.Flat(bits_per_value=block.items.bits_per_value)
        values, data = pb21.CompressiveEncoding(flat=flat), block.items.data
    else:
        raise InternalError(f"fixed_size_list: expected items in a FixedWidthBlock, found {type(block.items).__name__}")
    return _message(block, values), data


def _item_arm(block: FixedSizeListBlock) -> str:
    if isinstance(block.items, NullBlock):
        return "constant"
    return "fixed_size_list" if isinstance(block.items, FixedSizeListBlock) else "flat"


def _message(block: FixedSizeListBlock, values: pb21.CompressiveEncoding) -> pb21.CompressiveEncoding:
    return pb21.CompressiveEncoding(
        fixed_size_list=pb21.FixedSizeList(
            items_per_value=block.dimension, values=values, has_validity=block.validity is not None
        )
    )


def _checked_dimension(message: pb21.FixedSizeList, chunks: Chunks | None = None) -> int:
    dimension = message.items_per_value
    if not 1 <= dimension <= _MAX_DIMENSION:
        raise CorruptDataError(
            f"fixed_size_list: found {counted(dimension, 'item')} per list, expected 1 to {_MAX_DIMENSION}"
        )
    if chunks is not None and int(chunks.num_values.max(initial=0)) * dimension >= _MAX_CHUNK_ITEMS:
        raise CorruptDataError(
            f"fixed_size_list: a chunk must have fewer than {_MAX_CHUNK_ITEMS} items, found "
            f"{int(chunks.num_values.max()) * dimension}"
        )
    return dimension


def _join_bitmaps(bitmaps: Segments, num_items: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Join the bitmaps of all chunks into one mask; each bitmap starts on a byte boundary."""
    bits = np.unpackbits(bitmaps.gather(), bitorder="little")
    first_bit = (np.cumsum(bitmaps.sizes) - bitmaps.sizes) * 8
    return Segments(bits, first_bit, num_items).gather().view(np.bool_)


ENCODING: Final = Encoding(
    arm="fixed_size_list",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, _encode_chunks, _pick),
    per_value=PerValueForm(_decode_rows, _encode_rows),
    block=BlockForm(_decode_block, _encode_block),
)
