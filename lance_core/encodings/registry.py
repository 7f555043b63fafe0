"""The table of compressive encodings; only this module selects an encoding by the field that is set in the oneof.

``COMPRESSIVE`` is keyed by the arms of ``CompressiveEncoding.compression``. Together, ``COMPRESSIVE`` and
``COMPRESSIVE_NOT_YET`` list every arm; a test compares them with the oneof. The arms of ``PageLayout.layout`` are
selected in ``page_decoder.py``.

Source: ``lance.encodings21.CompressiveEncoding``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.compressive import (
    byte_stream_split,
    constant,
    fixed_size_list,
    flat,
    fsst,
    general,
    inline_bitpacking,
    out_of_line_bitpacking,
    packed_struct,
    rle,
    variable,
    variable_packed_struct,
)
from lance_core.encodings.taken_values import take_values
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message
    from numpy.typing import NDArray

    from lance_core.encodings.api import (
        Chunks,
        DataBlock,
        EncodedChunks,
        EncodedPages,
        Encoding,
        FixedRows,
        Picks,
        VariableWidthBlock,
    )

__all__ = ["COMPRESSIVE", "COMPRESSIVE_NOT_YET", "DECODER", "ENCODER", "describe", "selected_arm"]

_ENCODINGS: Final[tuple[Encoding[Any], ...]] = (
    flat.ENCODING,
    variable.ENCODING,
    constant.ENCODING,
    out_of_line_bitpacking.ENCODING,
    inline_bitpacking.ENCODING,
    fsst.ENCODING,
    rle.ENCODING,
    byte_stream_split.ENCODING,
    general.ENCODING,
    fixed_size_list.ENCODING,
    packed_struct.ENCODING,
    variable_packed_struct.ENCODING,
)

COMPRESSIVE: Final[Mapping[str, Encoding[Any]]] = MappingProxyType({item.arm: item for item in _ENCODINGS})
"""Maps each supported arm of the oneof ``compression`` to its encoding."""

COMPRESSIVE_NOT_YET: Final[Mapping[str, str]] = MappingProxyType(
    {
        "dictionary": "used only by the unstable format 2.3; formats 2.1 and 2.2 store dictionaries in the page layout",
        "range": "used only by the unstable format 2.3",
        "delta": "used only by the unstable format 2.3",
    }
)
"""Maps each known but unsupported arm of the oneof ``compression`` to a description."""

_MAX_DEPTH: Final = 16
_BOUNDED_ARM: Final = "fixed_size_list"
"""Arm that does not count toward the maximum depth, because the column's type limits how deeply it can be nested."""


def selected_arm(message: Message, oneof: str, what: str) -> str:
    """Return the name of the oneof field that is set.

    Raises:
        UnsupportedEncodingError: the field that is set does not exist in this library's version of the protocol.
        CorruptDataError: no field is set.
    """
    arm = message.WhichOneof(oneof)
    if arm is not None:
        return str(arm)
    # protobuf keeps fields of newer writers as unknown fields, which are part of the serialized bytes.
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    if known.ByteSize() != message.ByteSize():
        raise UnsupportedEncodingError(f"{what} has an unknown type")
    raise CorruptDataError(f"{what} has no type")


def describe(encoding: pb21.CompressiveEncoding) -> str:
    """Return a short description of a tree of encodings: ``general[zstd](variable(offsets=flat[32]))``."""
    arm = encoding.WhichOneof("compression")
    if arm is None:
        return "none"
    known = COMPRESSIVE.get(arm)
    return known.describe(getattr(encoding, arm), describe) if known else arm


class _Decoder:
    """Looks up the arm and the form, and passes itself to the decoders of children; see ``api.Decoder``."""

    __slots__ = ("_depth",)

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth

    def mini_block(self, encoding: pb21.CompressiveEncoding, chunks: Chunks) -> DataBlock:
        found = _resolve(encoding)
        if found.mini_block is None:
            raise _missing_form(found.arm, "mini-block")
        return found.mini_block.decode(getattr(encoding, found.arm), chunks, self._deeper(found.arm))

    def per_value(self, encoding: pb21.CompressiveEncoding, rows: FixedRows | VariableWidthBlock) -> DataBlock:
        found = _resolve(encoding)
        if found.per_value is None:
            raise _missing_form(found.arm, "per-value")
        return found.per_value.decode(getattr(encoding, found.arm), rows, self._deeper(found.arm))

    def block(self, encoding: pb21.CompressiveEncoding, blocks: Chunks) -> DataBlock:
        found = _resolve(encoding)
        if found.block is None:
            raise _missing_form(found.arm, "block")
        return found.block.decode(getattr(encoding, found.arm), blocks, self._deeper(found.arm))

    def pick(self, encoding: pb21.CompressiveEncoding, chunks: Chunks, picks: Picks) -> DataBlock:
        found = _resolve(encoding)
        if found.mini_block is None or found.mini_block.pick is None:
            return take_values(self.mini_block(encoding, chunks), picks.indices(chunks.num_values))
        return found.mini_block.pick(getattr(encoding, found.arm), chunks, picks, self._deeper(found.arm))

    def pick_blocks(self, encoding: pb21.CompressiveEncoding, blocks: Chunks, picks: Picks) -> DataBlock:
        found = _resolve(encoding)
        if found.block is None or found.block.pick is None:
            return take_values(self.block(encoding, blocks), picks.indices(blocks.num_values))
        return found.block.pick(getattr(encoding, found.arm), blocks, picks, self._deeper(found.arm))

    def common(self, encoding: pb21.CompressiveEncoding) -> pb21.CompressiveEncoding | None:
        found = COMPRESSIVE.get(encoding.WhichOneof("compression") or "")
        if found is None or found.mini_block is None or found.mini_block.pages is None:
            return None
        return pb21.CompressiveEncoding(**{found.arm: found.mini_block.pages.common(getattr(encoding, found.arm))})

    def pages(self, pages: EncodedPages, chunks: Chunks, picks: Picks | None = None) -> DataBlock:
        found = _resolve(pages.encodings[0])
        if found.mini_block is None or found.mini_block.pages is None:
            raise InternalError(f"pages with different {found.arm} encodings cannot be decoded together")
        form, deeper = found.mini_block.pages, self._deeper(found.arm)
        messages = [getattr(encoding, found.arm) for encoding in pages.encodings]
        child = form.child(messages[0])
        block = deeper.mini_block(child, chunks) if picks is None else deeper.pick(child, chunks, picks)
        num_values = pages.num_values(chunks, picks)
        used = np.flatnonzero(num_values)
        return form.decode([messages[page] for page in used.tolist()], num_values[used].tolist(), block)

    def _deeper(self, arm: str) -> _Decoder:
        if arm == _BOUNDED_ARM:
            return self
        if self._depth >= _MAX_DEPTH:
            raise UnsupportedEncodingError(f"encodings are nested more than {_MAX_DEPTH} levels deep")
        return _Decoder(self._depth + 1)


class _Encoder:
    """Looks up the arm, and passes itself to the encoders of children; see ``api.Encoder``."""

    __slots__ = ()

    def mini_block(self, arm: str, block: DataBlock, values_per_chunk: int) -> EncodedChunks:
        form = COMPRESSIVE[arm].mini_block
        if form is None or form.encode is None:
            raise InternalError(f"{arm} was chosen for mini-block values but cannot encode them")
        return form.encode(block, values_per_chunk, self)

    def per_value(
        self, arm: str, block: DataBlock, values_per_row: int = 1
    ) -> tuple[pb21.CompressiveEncoding, FixedRows | VariableWidthBlock]:
        form = COMPRESSIVE[arm].per_value
        if form is None or form.encode is None:
            raise InternalError(f"{arm} was chosen for full-zip values but cannot encode them")
        return form.encode(block, values_per_row, self)

    def block(self, arm: str, block: DataBlock) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
        form = COMPRESSIVE[arm].block
        if form is None or form.encode is None:
            raise InternalError(f"{arm} was chosen for a block but cannot encode it")
        return form.encode(block)


def _resolve(encoding: pb21.CompressiveEncoding) -> Encoding[Any]:
    arm = selected_arm(encoding, "compression", "an encoding")
    found = COMPRESSIVE.get(arm)
    if found is None:
        raise UnsupportedEncodingError(
            f"encoding {arm!r} is not supported: {COMPRESSIVE_NOT_YET.get(arm, 'unknown')}", arm=arm
        )
    return found


def _missing_form(arm: str, form: str) -> UnsupportedEncodingError:
    return UnsupportedEncodingError(f"encoding {arm!r} is not supported for {form} data", arm=arm, form=form)


DECODER: Final = _Decoder()
"""Decodes any tree of encodings."""

ENCODER: Final = _Encoder()
"""Encodes with the encoding whose name the caller passes."""
