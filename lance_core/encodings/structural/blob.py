"""blob: pages of columns whose values lie outside the pages, anywhere in the data region of the file.

The page is a page of another layout that holds one descriptor per row, without levels of its own::

    descriptor   u64 position | u64 size       absolute position in the file

==============  =========  ==========================================================================
Descriptor      Size       Meaning
==============  =========  ==========================================================================
(0, 0)          0          an empty value
(other, 0)      0          no value: position is ``definition level << 16 | repetition level``
(any, other)    above 0    the bytes [position, position + size) of the file
==============  =========  ==========================================================================

The levels in the descriptors belong to the layers of the blob layout. Lists have never been written correctly in this
form and are refused.

Source: ``lance.encodings21.BlobLayout``; files of pylance 14.0.2.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import EncodedPage, FixedWidthBlock, StructBlock
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.levels.layers import ALL_VALID_ITEM, Layers
from lance_core.encodings.structural import full_zip, mini_block
from lance_core.errors import CorruptDataError, NotSupportedError, UnsupportedEncodingError
from lance_core.proto import pb21

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock, Decoder, Encoder
    from lance_core.versions import LanceFileVersion

__all__ = ["decode", "encode"]

_INNER: Final[Mapping[str, Callable[..., tuple[Levels, DataBlock]]]] = MappingProxyType(
    {"mini_block": mini_block.decode, "full_zip": full_zip.decode}
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
    """Lay out one page of descriptors.

    Args:
        levels: of the column; none of its layers is a list.
        descriptors: position and size of every slot, uint64; what null slots hold does not matter.
        num_rows: value of ``Page.length``.
        encoder: encodes the rows of descriptors.
        version: of the file.

    Raises:
        NotSupportedError: a layer is a list.
    """
    if levels.layers.max_repetition:
        raise NotSupportedError("lists of values outside the pages (lance-encoding:blob) cannot be written")
    rows = np.stack([_words(member) for member in descriptors.members], axis=1)
    if levels.definition is not None:
        null = levels.definition > 0
        rows[null, 0] = levels.definition[null].astype(np.uint64) << np.uint64(_LEVEL_SHIFT)
        rows[null, 1] = 0
    data = rows.reshape(-1).view(np.uint8)
    chunks = encoder.mini_block(
        "flat", FixedWidthBlock(descriptors.num_values, 2 * _WORD_BITS, data), _VALUES_PER_CHUNK
    )
    packed = pb21.PackedStruct(bits_per_value=[_WORD_BITS, _WORD_BITS], values=chunks.encoding)
    chunks = type(chunks)(
        pb21.CompressiveEncoding(packed_struct=packed), chunks.num_values, chunks.buffers, chunks.alignment
    )
    plain = Levels(Layers((ALL_VALID_ITEM,)), None, None, descriptors.num_values)
    inner = mini_block.encode(plain, chunks, num_rows=num_rows, version=version)
    layout = pb21.BlobLayout(inner_layout=inner.layout, layers=levels.layers.codes)
    return EncodedPage(pb21.PageLayout(blob=layout), inner.buffers, num_rows)


def decode(
    layout: pb21.BlobLayout,
    buffers: Sequence[NDArray[np.uint8]],
    num_rows: int,
    rows: tuple[int, int],
    decoder: Decoder,
) -> tuple[Levels, StructBlock]:
    """Decode the descriptors of rows ``[start, stop)``; null slots get (0, 0).

    Raises:
        CorruptDataError: the bytes contradict the layout or themselves.
        UnsupportedEncodingError: lists, or descriptors in a layout that this library does not decode.
    """
    layers = Layers.parse(layout.layers, "blob page")
    if layers.max_repetition:
        raise UnsupportedEncodingError("a blob page with lists is not supported", arm="blob")
    arm = layout.inner_layout.WhichOneof("layout")
    if arm not in _INNER:
        raise UnsupportedEncodingError(f"a blob page with descriptors in layout {arm!r} is not supported", arm="blob")
    _, block = _INNER[arm](getattr(layout.inner_layout, arm), buffers, num_rows, rows, decoder)
    if not isinstance(block, StructBlock) or len(block.members) != 2:
        raise CorruptDataError("a blob page does not hold pairs of position and size")
    position, size = (_words(member) for member in block.members)
    if not layers.max_definition:
        return Levels(layers, None, None, len(position)), block
    special = (size == 0) & (position != 0)
    definition = np.where(special, position >> np.uint64(_LEVEL_SHIFT), np.uint64(0))
    if bool((position[special] & np.uint64(_REPETITION_MASK)).any()):
        raise CorruptDataError("a descriptor of a blob page names a repetition level, and there is no list")
    if int(definition.max(initial=0)) > layers.max_definition:
        raise CorruptDataError(
            f"a descriptor of a blob page names definition level {int(definition.max())}, the highest is "
            f"{layers.max_definition}"
        )
    shown = np.where(special, np.uint64(0), position).astype("<u8")
    members = (FixedWidthBlock(len(shown), _WORD_BITS, shown.view(np.uint8)), block.members[1])
    return (
        Levels(layers, None, definition.astype(np.uint16), len(shown)),
        StructBlock(len(shown), members),
    )


def _words(member: DataBlock) -> NDArray[np.uint64]:
    if not isinstance(member, FixedWidthBlock) or member.bits_per_value != _WORD_BITS:
        raise CorruptDataError("a member of a blob descriptor is not a 64-bit word")
    return member.data.view("<u8")
