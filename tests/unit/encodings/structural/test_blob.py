"""Pages of blob descriptors: where values are stored, and which rows have no value."""

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.api import EncodedPage, FixedWidthBlock, StructBlock
from lance_core.encodings.levels.build import ItemSlots, ListSlots, shred
from lance_core.encodings.page_decoder import run_in_memory
from lance_core.encodings.registry import DECODER, ENCODER
from lance_core.encodings.structural import blob
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb21
from lance_core.versions import LanceFileVersion


def _words(values: list[int]) -> FixedWidthBlock:
    return FixedWidthBlock(len(values), 64, np.array(values, "<u8").view(np.uint8))


def _block(descriptors: list[tuple[int, int]]) -> StructBlock:
    return StructBlock(len(descriptors), tuple(_words([pair[member] for pair in descriptors]) for member in (0, 1)))


def _encode(levels, descriptors, version=LanceFileVersion.V2_2):
    return blob.encode(levels, _block(descriptors), num_rows=len(descriptors), encoder=ENCODER, version=version)


def _decode(page, rows=None):
    buffers = [np.frombuffer(buffer, np.uint8) for buffer in page.buffers]
    sizes = [len(buffer) for buffer in buffers]
    state = run_in_memory(blob.open_page(page.layout.blob, sizes, page.num_rows, DECODER), buffers)
    assert state.num_bytes > 0
    levels, block = run_in_memory(state.read((0, page.num_rows) if rows is None else rows), buffers)
    pairs = zip(*(member.data.view("<u8").tolist() for member in block.members), strict=True)
    return levels, list(pairs)


def _stored(page) -> list[int]:
    """Return the words of the page's only chunk, after its header of 8 bytes."""
    return np.frombuffer(page.buffers[1], np.uint8)[8:].view("<u8").tolist()


@pytest.mark.parametrize("version", [LanceFileVersion.V2_1, LanceFileVersion.V2_2])
def test_blob_page_keeps_levels_in_its_descriptors(version: LanceFileVersion) -> None:
    outer = ItemSlots(np.array([True, True, False, True]), 4)
    inner = ItemSlots(np.array([True, False, False, True]), 4)
    page = _encode(shred([outer, inner]), [(64, 5), (7, 7), (8, 8), (0, 0)], version)
    assert page.layout.blob.inner_layout.mini_block.has_large_chunk == (version is LanceFileVersion.V2_2)
    assert list(page.layout.blob.layers) == [pb21.REPDEF_NULLABLE_ITEM] * 2
    assert _stored(page) == [64, 5, 1 << 16, 0, 2 << 16, 0, 0, 0]
    levels, pairs = _decode(page)
    assert levels.definition.tolist() == [0, 1, 2, 0]
    assert pairs == [(64, 5), (0, 0), (0, 0), (0, 0)]


def test_blob_page_without_nulls_has_no_definition_levels() -> None:
    page = _encode(shred([ItemSlots(None, 3)]), [(0, 1), (64, 2), (0, 0)])
    levels, pairs = _decode(page)
    assert levels.definition is None
    assert pairs == [(0, 1), (64, 2), (0, 0)]


def test_blob_page_of_many_chunks_reads_ranges_and_single_rows() -> None:
    descriptors = [(64 * row, row % 7) for row in range(1000)]
    valid = np.arange(1000) % 5 != 0
    page = _encode(shred([ItemSlots(valid, 1000)]), descriptors)
    expected = [pair if keep and pair[1] else (0, 0) for pair, keep in zip(descriptors, valid, strict=True)]
    levels, pairs = _decode(page, (250, 600))
    assert pairs == expected[250:600]
    assert (levels.definition == 0).tolist() == valid[250:600].tolist()
    rows = np.array([0, 3, 255, 256, 999])
    levels, pairs = _decode(page, rows)
    assert pairs == [expected[row] for row in rows]


def test_blob_page_refuses_lists_when_encoding_and_decoding() -> None:
    levels = shred([ListSlots(None, np.array([1, 1])), ItemSlots(None, 2)])
    with pytest.raises(NotSupportedError):
        _encode(levels, [(0, 1), (64, 1)])
    page = _encode(shred([ItemSlots(None, 2)]), [(0, 1), (64, 1)])
    page.layout.blob.layers.append(pb21.REPDEF_ALL_VALID_LIST)
    with pytest.raises(NotSupportedError):
        _decode(page)


@pytest.mark.parametrize("special", [3 << 16, 1 << 16 | 1])
def test_blob_page_with_levels_beyond_its_layers_raises_corrupt_data(special: int) -> None:
    page = _encode(shred([ItemSlots(None, 1)]), [(special, 1)])
    chunk = bytearray(page.buffers[1])
    chunk[16:24] = bytes(8)
    page = EncodedPage(page.layout, (page.buffers[0], pa.py_buffer(bytes(chunk))), 1)
    assert _decode(page)[1] == [(special, 0)]
    page.layout.blob.layers[0] = pb21.REPDEF_NULLABLE_ITEM
    with pytest.raises(CorruptDataError):
        _decode(page)


def test_blob_page_with_malformed_inner_layout_is_refused() -> None:
    page = _encode(shred([ItemSlots(None, 1)]), [(0, 1)])
    page.layout.blob.inner_layout.mini_block.value_compression.CopyFrom(
        page.layout.blob.inner_layout.mini_block.value_compression.packed_struct.values
    )
    with pytest.raises(CorruptDataError, match="pairs"):
        _decode(page)
    page.layout.blob.inner_layout.Clear()
    with pytest.raises(NotSupportedError):
        _decode(page)
