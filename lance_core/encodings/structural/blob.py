"""blob: pages of v1 blob columns, whose values are outside the pages, anywhere in the data region of the file.

A blob page wraps a page with a different layout. The inner page contains one descriptor per row and has no levels::

    descriptor   u64 position | u64 size       absolute position in the file

==============  =========  ==========================================================================
Descriptor      Size       Meaning
==============  =========  ==========================================================================
(0, 0)          0          an empty value
(other, 0)      0          no value: the position is ``definition level << 16 | repetition level``
(any, other)    above 0    the bytes [position, position + size) of the file
==============  =========  ==========================================================================

The levels in the descriptors belong to the layers of the blob layout. No release has written lists correctly in this
form, so they are rejected.

Source: ``lance.encodings21.BlobLayout``; files of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import EncodedPage, FixedWidthBlock, StructBlock
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.levels.layers import ALL_VALID_ITEM, Layers
from lance_core.encodings.structural import full_zip_pages, mini_block, mini_block_pages
from lance_core.errors import CorruptDataError, InternalError, NotSupportedError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock, Decoder, Encoder
    from lance_core.encodings.structural.page_requests import PageState, PageSteps, Rows

__all__ = ["BlobState", "encode", "open_page"]

_INNER: Final[Mapping[str, Callable[..., PageSteps[PageState]]]] = MappingProxyType(
    {"mini_block": mini_block_pages.open_page, "full_zip": full_zip_pages.open_page}
)
_LEVEL_SHIFT: Final = 16
_REPETITION_MASK: Final = 0xFFFF
_WORD_BITS: Final = 64
_VALUES_PER_CHUNK: Final = 256


def encode(
    levels: Levels,
    descriptors: StructBlock,
    *,
    num_rows: int,
    encoder: Encoder,
    version: LanceFileVersion,
) -> EncodedPage:
    """Encode one page of descriptors.

    Args:
        levels: levels of the column.
        descriptors: position and size of every slot, as uint64; the contents of null slots are ignored.
        num_rows: value of ``Page.length``.
        encoder: encodes the descriptors.
        version: format version of the file.

    Raises:
        NotSupportedError: a layer is a list.
    """
    if levels.layers.max_repetition:
        raise NotSupportedError("lists of v1 blobs (lance-encoding:blob) cannot be written")
    position, size = (_words(member) for member in descriptors.members)
    position = np.where(size == 0, np.uint64(0), position)
    if levels.definition is not None:
        null = levels.definition > 0
        position = np.where(null, levels.definition.astype(np.uint64) << np.uint64(_LEVEL_SHIFT), position)
        size = np.where(null, np.uint64(0), size)
    num_values = descriptors.num_values
    members = (_block(position), _block(size))
    chunks = encoder.mini_block("packed_struct", StructBlock(num_values, members), _VALUES_PER_CHUNK)
    plain = Levels(Layers((ALL_VALID_ITEM,)), None, None, num_values)
    is_large = version >= LanceFileVersion.V2_2
    inner = mini_block.encode(plain, chunks, num_rows=num_rows, is_large=is_large)
    if inner is None:
        raise InternalError("a chunk of blob descriptors is too large")
    layout = pb21.BlobLayout(inner_layout=inner.layout, layers=levels.layers.codes)
    return EncodedPage(pb21.PageLayout(blob=layout), inner.buffers, num_rows)


def open_page(layout: pb21.BlobLayout, sizes: Sequence[int], num_rows: int, decoder: Decoder) -> PageSteps[BlobState]:
    """Read the metadata of a page before its rows.

    Args:
        layout: description of the page.
        sizes: size of each buffer of the page in bytes.
        num_rows: value of ``Page.length``.
        decoder: decodes child encodings.

    Raises:
        CorruptDataError: the bytes are inconsistent or do not match the layout.
        UnsupportedEncodingError: the page has lists, or this library does not decode the layout of the descriptors.
    """
    layers = Layers.parse(layout.layers, "blob page")
    if layers.max_repetition:
        raise UnsupportedEncodingError("a blob page with lists is not supported", arm="blob")
    arm = layout.inner_layout.WhichOneof("layout")
    if arm not in _INNER:
        raise UnsupportedEncodingError(
            f"a blob page with descriptors in layout {arm or 'unknown'} is not supported", arm="blob"
        )
    inner = yield from _INNER[arm](getattr(layout.inner_layout, arm), sizes, num_rows, decoder)
    return BlobState(layers, inner)


@dataclass(frozen=True, slots=True)
class BlobState:
    """A page of descriptors.

    Attributes:
        layers: layers of the column.
        inner: the page that contains the descriptors.
    """

    layers: Layers
    inner: PageState

    @property
    def num_bytes(self) -> int:
        """Approximate memory use in bytes."""
        return self.inner.num_bytes

    def read(self, rows: Rows) -> PageSteps[tuple[Levels, DataBlock]]:
        """Read the descriptors of rows; null slots get (0, 0)."""
        _, block = yield from self.inner.read(rows)
        return _with_levels(self.layers, block)


def _with_levels(layers: Layers, block: DataBlock) -> tuple[Levels, StructBlock]:
    """Split descriptors into levels and descriptors of values."""
    if not isinstance(block, StructBlock) or len(block.members) != 2:
        raise CorruptDataError("a blob page must contain pairs of position and size")
    position, size = (_words(member) for member in block.members)
    if not layers.max_definition:
        return Levels(layers, None, None, len(position)), block
    special = (size == 0) & (position != 0)
    definition = np.where(special, position >> np.uint64(_LEVEL_SHIFT), np.uint64(0))
    if bool((position[special] & np.uint64(_REPETITION_MASK)).any()):
        raise CorruptDataError("a descriptor of a blob page has a repetition level, but the column has no lists")
    if int(definition.max(initial=0)) > layers.max_definition:
        raise CorruptDataError(
            f"a descriptor of a blob page has definition level {int(definition.max())}, but the maximum is "
            f"{layers.max_definition}"
        )
    shown = np.where(special, np.uint64(0), position)
    members = (_block(shown), block.members[1])
    return (
        Levels(layers, None, definition.astype(np.uint16), len(shown)),
        StructBlock(len(shown), members),
    )


def _block(words: NDArray[np.uint64]) -> FixedWidthBlock:
    return FixedWidthBlock(len(words), _WORD_BITS, words.astype("<u8", copy=False).view(np.uint8))


def _words(member: DataBlock) -> NDArray[np.uint64]:
    if not isinstance(member, FixedWidthBlock) or member.bits_per_value != _WORD_BITS:
        raise CorruptDataError("a member of a blob descriptor is not stored as 64-bit words")
    return member.data.view("<u8")
