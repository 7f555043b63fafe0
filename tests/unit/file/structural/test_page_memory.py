"""The memory that the values of a page need, estimated from its description."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.file.column_metadata import Page
from lance_core.file.structural.page_memory import can_be_cut, page_memory
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb21


def _page(layout: pb21.PageLayout, length: int, *sizes: int) -> Page:
    return Page(buffers=tuple(ByteRange(0, size) for size in sizes), length=length, first_row=0, encoding=layout)


def _mini_block(num_items: int) -> pb21.PageLayout:
    return pb21.PageLayout(mini_block=pb21.MiniBlockLayout(num_items=num_items))


def test_page_memory_counts_values_of_fixed_width() -> None:
    packed = _page(_mini_block(1000), 1000, 16, 100)
    assert page_memory(packed, pa.float64()) == 8000
    assert page_memory(packed, pa.bool_()) == 125
    assert page_memory(packed, pa.list_(pa.float32(), 100)) == 400_000
    assert page_memory(_page(_mini_block(0), 10, 0), pa.null()) == 0


def test_page_memory_counts_an_offset_per_list_item() -> None:
    layout = _mini_block(5000)
    layout.mini_block.rep_compression.flat.bits_per_value = 16
    assert page_memory(_page(layout, 1000, 16, 100, 16), pa.int64()) == 5000 * 12


def test_page_memory_of_strings_is_their_stored_size_unless_compressed() -> None:
    layout = _mini_block(100)
    layout.mini_block.value_compression.variable.offsets.flat.bits_per_value = 32
    assert page_memory(_page(layout, 100, 16, 9000), pa.string()) == 400 + 9016
    assert page_memory(_page(layout, 100, 16, 9000), pa.large_string()) == 800 + 9016
    layout.mini_block.value_compression.fsst.values.variable.SetInParent()
    assert page_memory(_page(layout, 100, 16, 9000), pa.string()) == 400 + 4 * 9016


def test_page_memory_multiplies_dictionary_items() -> None:
    layout = _mini_block(1000)
    layout.mini_block.dictionary.variable.SetInParent()
    layout.mini_block.num_dictionary_items = 10
    page = _page(layout, 1000, 16, 1000, 500)
    assert page_memory(page, pa.binary()) == 4000 + 1000 * 50
    assert page_memory(page, pa.int64()) == 8000
    layout.mini_block.dictionary.general.values.flat.SetInParent()
    assert page_memory(page, pa.binary()) == 4000 + 1000 * 200


def test_page_memory_of_full_zip_pages_depends_on_their_buffer_sizes() -> None:
    layout = pb21.PageLayout()
    layout.full_zip.num_items = 50
    layout.full_zip.value_compression.flat.bits_per_value = 8
    assert page_memory(_page(layout, 50, 4000), pa.list_(pa.int8(), 80)) == 4000
    assert page_memory(_page(layout, 50, 4000, 51), pa.large_binary()) == 400 + 4051
    layout.full_zip.value_compression.general.values.flat.SetInParent()
    assert page_memory(_page(layout, 50, 4000, 51), pa.large_binary()) == 400 + 4 * 4051


def test_page_memory_of_a_constant_page_counts_every_row() -> None:
    layout = pb21.PageLayout()
    layout.constant.inline_value = b"\0" * 8
    assert page_memory(_page(layout, 1000), pa.int64()) == 8000
    layout = pb21.PageLayout()
    layout.constant.SetInParent()
    assert page_memory(_page(layout, 1000, 70), pa.binary()) == 4000 + 70_000


@pytest.mark.parametrize("has_levels", [False, True])
@pytest.mark.parametrize("depth", [0, 1])
def test_list_pages_without_a_repetition_index_are_not_split(has_levels: bool, depth: int) -> None:
    layout = _mini_block(10)
    layout.mini_block.repetition_index_depth = depth
    if has_levels:
        layout.mini_block.rep_compression.flat.bits_per_value = 16
    assert can_be_cut(_page(layout, 10, 8, 8)) == (not has_levels or depth == 1)
    assert can_be_cut(_page(pb21.PageLayout(full_zip=pb21.FullZipLayout()), 10, 8))
