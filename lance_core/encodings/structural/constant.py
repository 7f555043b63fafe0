"""constant: pages whose visible values are all null, or all the same scalar.

==========================  =====================================  =============================
Case                        Page buffers                           ``inline_value``
==========================  =====================================  =============================
all null, one layer         none                                   absent
all null, nested            rep, def                               absent
scalar of up to 32 bytes    none, or rep, def                      present, possibly empty
other scalar                value, or value, rep, def              absent
==========================  =====================================  =============================

If repetition or definition levels are missing, their buffer is empty. Levels of all-null pages are encoded as the
layout specifies, or raw if it specifies no encoding; levels of scalar pages are always raw. The value buffer is::

    value    u32 k | k x u32 length | the k Arrow buffers of an array of one value, without validity

Source: ``lance.encodings21.ConstantLayout``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import DictionaryBlock, EncodedPage, FixedWidthBlock, NullBlock, VariableWidthBlock
from lance_core.encodings.kernels.segments import Segments
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.levels.layers import NULLABLE_ITEM, Layers, described
from lance_core.encodings.structural.level_buffers import check_levels, decode_levels, encode_levels
from lance_core.encodings.structural.page_requests import Wanted
from lance_core.encodings.structural.rows import cut_rows, pick_rows
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock, Decoder
    from lance_core.encodings.structural.page_requests import PageSteps, Rows

__all__ = ["ConstantState", "encode_all_null", "encode_scalar", "open_page"]

_MAX_INLINE_BYTES: Final = 32
_U32_BYTES: Final = 4
_MAX_LEVELS_PER_BYTE: Final = 256
_MAX_LEVELS_FOR_FREE: Final = 1024


def encode_all_null(
    levels: Levels, *, num_rows: int, encoded_levels: bool = True, run_levels: bool = True
) -> EncodedPage:
    """Encode a page without values: every visible level represents a null, or there are no visible levels.

    Args:
        levels: levels of the page.
        num_rows: value of ``Page.length``.
        encoded_levels: whether levels may be encoded, as in 2.2; otherwise they are raw words.
        run_levels: whether levels may be run-length encoded.
    """
    layout = pb21.ConstantLayout(layers=levels.layers.codes)
    if levels.layers.codes == (NULLABLE_ITEM,):
        return EncodedPage(pb21.PageLayout(constant=layout), (), num_rows)
    buffers = []
    num_levels = np.array([levels.num_levels], np.int64)
    for values, compression, count in (
        (levels.repetition, layout.rep_compression, "num_rep_values"),
        (levels.definition, layout.def_compression, "num_def_values"),
    ):
        if values is None:
            buffers.append(pa.py_buffer(b""))
            continue
        if not encoded_levels:
            buffers.append(pa.py_buffer(values.astype("<u2", copy=False)))
            continue
        encoding, segments = encode_levels(values, num_levels, allow_runs=run_levels)
        compression.CopyFrom(encoding)
        setattr(layout, count, levels.num_levels)
        buffers.append(pa.py_buffer(segments.segment(0)))
    return EncodedPage(pb21.PageLayout(constant=layout), tuple(buffers), num_rows)


def encode_scalar(levels: Levels, value: FixedWidthBlock | VariableWidthBlock, *, num_rows: int) -> EncodedPage:
    """Encode a page whose valid values are all equal to ``value``, a block with one value; a boolean takes one byte."""
    if value.num_values != 1:
        raise InternalError(f"a constant page must have one value, found {value.num_values}")
    layout = pb21.ConstantLayout(layers=levels.layers.codes)
    buffers = []
    if isinstance(value, FixedWidthBlock) and len(value.data) <= _MAX_INLINE_BYTES:
        layout.inline_value = value.data.tobytes()
    else:
        buffers.append(pa.py_buffer(_serialize_scalar(value)))
    if levels.repetition is not None or levels.definition is not None:
        buffers += [
            pa.py_buffer(b"" if values is None else values.astype("<u2", copy=False))
            for values in (levels.repetition, levels.definition)
        ]
        layout.num_rep_values = 0 if levels.repetition is None else levels.num_levels
        layout.num_def_values = 0 if levels.definition is None else levels.num_levels
    return EncodedPage(pb21.PageLayout(constant=layout), tuple(buffers), num_rows)


def _serialize_scalar(value: FixedWidthBlock | VariableWidthBlock) -> bytes:
    parts = [value.data.tobytes()]
    if isinstance(value, VariableWidthBlock):
        first, last = int(value.offsets[0]), int(value.offsets[1])
        offsets = np.array([0, last - first], f"<i{value.offsets.itemsize}")
        parts = [offsets.tobytes(), value.data[first:last].tobytes()]
    sizes = np.array([len(parts), *map(len, parts)], "<u4")
    return sizes.tobytes() + b"".join(parts)


def open_page(
    layout: pb21.ConstantLayout, sizes: Sequence[int], num_rows: int, decoder: Decoder
) -> PageSteps[ConstantState]:
    """Read a whole page: its single value and its levels.

    Args:
        layout: description of the page.
        sizes: size of each buffer of the page in bytes.
        num_rows: value of ``Page.length``.
        decoder: decodes levels.

    Raises:
        CorruptDataError: the bytes are inconsistent or do not match the layout.
        UnsupportedEncodingError: this library does not decode the encoding of the levels.
    """
    layers = Layers.parse(layout.layers, "constant page")
    is_inline = layout.HasField("inline_value")
    if len(sizes) > 3 or (is_inline and len(sizes) % 2):
        raise CorruptDataError(
            f"a constant page {'with' if is_inline else 'without'} an inline value has "
            f"{counted(len(sizes), 'buffer')}, "
            f"expected {'0 or 2' if is_inline else 'at most 3'}"
        )
    buffers: list[NDArray[np.uint8]] = []
    if sizes:
        found = yield [Wanted.span(buffer, 0, size) for buffer, size in enumerate(sizes)]
        buffers = [fetched.only(size) for fetched, size in zip(found, sizes, strict=True)]
    scalar: DataBlock | None = None
    if is_inline:
        scalar = FixedWidthBlock(1, len(layout.inline_value) * 8, np.frombuffer(layout.inline_value, np.uint8))
    elif len(buffers) % 2:
        scalar = _parse_scalar(buffers[0])
    levels = _decode_levels(layout, layers, buffers[-2:], num_rows, decoder) if len(buffers) >= 2 else None
    return ConstantState(layers, num_rows, scalar, levels, sum(sizes))


@dataclass(frozen=True, slots=True)
class ConstantState:
    """A constant page that has been read completely.

    Attributes:
        layers: layers of the page.
        num_rows: value of ``Page.length``.
        scalar: a block with one value; None = all values are null.
        levels: levels of the whole page; None if every row is one value slot, which makes reading a few rows cheap.
        encoded_bytes: size of the page in bytes.
    """

    layers: Layers
    num_rows: int
    scalar: DataBlock | None
    levels: Levels | None
    encoded_bytes: int

    @property
    def num_bytes(self) -> int:
        """Approximate memory use in bytes."""
        return 256 + self.encoded_bytes + (0 if self.levels is None else 4 * self.levels.num_levels)

    def read(self, rows: Rows) -> PageSteps[tuple[Levels, DataBlock]]:
        """Decode rows of the page."""
        yield from ()
        if self.levels is None:
            num_rows = rows[1] - rows[0] if isinstance(rows, tuple) else len(rows)
            levels = _implied_levels(self.layers, num_rows, all_null=self.scalar is None)
            return levels, _repeated(self.scalar, levels.num_levels)
        if isinstance(rows, tuple):
            visible = self.levels.visible()
            block = _repeated(self.scalar, self.levels.num_levels if visible is None else int(visible.sum()))
            return cut_rows(self.levels, block, *rows, self.num_rows)
        levels = pick_rows(self.levels, rows, self.num_rows)
        visible = levels.visible()
        return levels, _repeated(self.scalar, levels.num_levels if visible is None else int(visible.sum()))


def _implied_levels(layers: Layers, num_levels: int, *, all_null: bool) -> Levels:
    if layers.max_repetition:
        raise CorruptDataError(
            f"a constant page has no repetition levels, although {described(layers.codes)} contain a list"
        )
    definition = np.ones(num_levels, np.uint16) if all_null and layers.codes[0] == NULLABLE_ITEM else None
    return Levels(layers, None, definition, num_levels)


def _decode_levels(
    layout: pb21.ConstantLayout,
    layers: Layers,
    buffers: Sequence[NDArray[np.uint8]],
    num_rows: int,
    decoder: Decoder,
) -> Levels:
    repetition = definition = None
    if len(buffers[0]) or layout.num_rep_values:
        compression = layout.rep_compression if layout.HasField("rep_compression") else None
        repetition = _decode_one_kind(compression, buffers[0], layout.num_rep_values, decoder)
    if len(buffers[1]) or layout.num_def_values:
        compression = layout.def_compression if layout.HasField("def_compression") else None
        definition = _decode_one_kind(compression, buffers[1], layout.num_def_values, decoder)
    check_levels(layers, repetition, definition)
    known = repetition if repetition is not None else definition
    return Levels(layers, repetition, definition, num_rows if known is None else len(known))


def _decode_one_kind(
    encoding: pb21.CompressiveEncoding | None, data: NDArray[np.uint8], num_levels: int, decoder: Decoder
) -> NDArray[np.uint16]:
    if encoding is None:
        if len(data) % 2:
            raise CorruptDataError(f"raw 16-bit levels take {counted(len(data), 'byte')}, expected an even number")
        return data.view("<u2")
    if num_levels > _MAX_LEVELS_FOR_FREE + _MAX_LEVELS_PER_BYTE * len(data):
        raise CorruptDataError(
            f"a constant page declares {counted(num_levels, 'level')}, too many for their buffer "
            f"({counted(len(data), 'byte')})"
        )
    chunk = np.array([num_levels], np.int64)
    return decode_levels(encoding, Segments.back_to_back(data, np.array([len(data)], np.int64)), chunk, decoder)


def _parse_scalar(data: NDArray[np.uint8]) -> FixedWidthBlock | VariableWidthBlock:
    num_parts = int.from_bytes(data[:_U32_BYTES].tobytes(), "little")
    if num_parts not in (1, 2):
        raise UnsupportedEncodingError(
            f"a constant page whose value has {counted(num_parts, 'buffer')} is not supported"
        )
    header_bytes = _U32_BYTES * (1 + num_parts)
    if len(data) < header_bytes:
        raise CorruptDataError(f"the value of a constant page has {counted(len(data), 'byte')}, too few for its header")
    sizes = [int(size) for size in data[_U32_BYTES:header_bytes].view("<u4")]
    if header_bytes + sum(sizes) != len(data):
        raise CorruptDataError(
            f"the value of a constant page takes {counted(len(data), 'byte')}, but the sizes of its parts are {sizes}"
        )
    body = data[header_bytes:]
    if num_parts == 1:
        return FixedWidthBlock(1, sizes[0] * 8, body)
    return _parse_string(body[: sizes[0]], body[sizes[0] :])


def _parse_string(offsets_bytes: NDArray[np.uint8], data: NDArray[np.uint8]) -> VariableWidthBlock:
    if len(offsets_bytes) not in (8, 16):
        raise CorruptDataError(
            f"the offsets of a constant page take {counted(len(offsets_bytes), 'byte')}, expected 8 or 16"
        )
    offsets: NDArray[Any] = offsets_bytes.view(f"<i{len(offsets_bytes) // 2}")
    if int(offsets[0]) != 0 or int(offsets[1]) != len(data):
        raise CorruptDataError(f"the offsets of a constant page are {offsets.tolist()}, expected {[0, len(data)]}")
    return VariableWidthBlock(offsets.astype(np.int64), data)


def _repeated(scalar: DataBlock | None, num_values: int) -> DataBlock:
    if scalar is None:
        return NullBlock(num_values)
    return DictionaryBlock(FixedWidthBlock(num_values, 8, np.zeros(num_values, np.uint8)), scalar)
