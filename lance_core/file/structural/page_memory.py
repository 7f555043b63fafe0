"""Estimates the memory of a page's decoded values from the page's description alone.

The memory of fixed-width values and dictionary values is estimated from their number. Strings are assumed to take their
stored size, or several times their stored size if they are compressed.

**Source:** ``lance.encodings21.PageLayout``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.encodings.leaf_arrays import is_variable_width
from lance_core.encodings.v2_0.api import bits_per_row

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from lance_core.file.column_metadata import Page
    from lance_core.proto import pb21

__all__ = ["can_be_cut", "page_memory"]

_EXPANSION: Final = 4
"""Assumed ratio of decoded to stored size of compressed strings; FSST and zstd reach 2 to 4 for most text."""

_OFFSET_BITS: Final = 32
"""Assumed bits per offset of a string or list. In mini-block pages with lists, one list offset per item is assumed;
nested lists and 64-bit offsets can take more."""

_SHORT_OFFSETS: Final = (pa.string(), pa.binary())


def page_memory(page: Page, dtype: pa.DataType) -> int:
    """Estimate the memory of the decoded values in bytes.

    Args:
        page: a page of a leaf.
        dtype: Arrow type of the leaf.
    """
    layout = page.layout
    has_bytes = is_variable_width(dtype) or pa.types.is_struct(dtype)
    bits = _OFFSET_BITS if dtype in _SHORT_OFFSETS else bits_per_row(dtype)
    if layout.HasField("mini_block"):
        return _mini_block_memory(layout.mini_block, page, bits, has_bytes)
    num_items, value_bytes = page.length, page.num_bytes
    if layout.HasField("full_zip"):
        num_items = max(num_items, layout.full_zip.num_items)
        value_bytes *= _EXPANSION if _is_compressed(layout.full_zip.value_compression) else 1
    elif layout.HasField("constant"):
        num_items = max(num_items, layout.constant.num_def_values, layout.constant.num_rep_values)
        # Only the value or the levels are stored.
        value_bytes *= num_items if has_bytes and not layout.constant.num_def_values else 1
    memory = num_items * bits // 8
    return memory + value_bytes if has_bytes else max(memory, page.num_bytes)


def can_be_cut(page: Page) -> bool:
    """Return whether rows of the page can be decoded without decoding all rows before them."""
    layout = page.layout
    if not layout.HasField("mini_block"):
        return True
    mini_block = layout.mini_block
    return not mini_block.HasField("rep_compression") or mini_block.repetition_index_depth > 0


def _mini_block_memory(layout: pb21.MiniBlockLayout, page: Page, bits: int, has_bytes: bool) -> int:
    num_items = max(layout.num_items, page.length)
    memory = num_items * bits // 8
    if layout.HasField("rep_compression"):
        memory += num_items * _OFFSET_BITS // 8
    if not has_bytes:
        return memory
    if not layout.HasField("dictionary"):
        return memory + page.num_bytes * (_EXPANSION if _is_compressed(layout.value_compression) else 1)
    items_bytes = page.buffers[2].num_bytes if len(page.buffers) > 2 else page.num_bytes
    items_bytes *= _EXPANSION if _is_compressed(layout.dictionary) else 1
    return memory + num_items * items_bytes // max(1, layout.num_dictionary_items)


def _is_compressed(message: Message) -> bool:
    """Return whether some part of an encoding is compressed."""
    return any(
        field.name in ("fsst", "general") or _is_compressed(part)
        for field, value in message.ListFields()
        if field.message_type is not None
        for part in (value if field.is_repeated else [value])
    )
