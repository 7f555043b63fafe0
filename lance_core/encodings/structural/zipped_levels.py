"""Reads the control words of full-zip pages and locates the levels of a row.

The size of an entry depends on its own definition level, so the levels of a row can only be located one after another.
All rows are walked in parallel, one level per step, while many rows remain; the last few rows are walked separately.

Source: ``lance.encodings21.FullZipLayout``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.kernels.segments import Segments
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.levels.layers import Layers, described
from lance_core.encodings.structural.level_buffers import check_levels
from lance_core.errors import CorruptDataError
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.proto import pb21

__all__ = ["ZippedForm", "find_levels"]

_MAX_LEVEL_BITS: Final = 16
_FEW_ROWS: Final = 8


@dataclass(frozen=True, slots=True)
class ZippedForm:
    """Layout of the entries of a full-zip page.

    Attributes:
        layers: layers of the page.
        bits_rep: number of bits of the repetition level in a control word.
        bits_def: number of bits of the definition level in a control word.
        value_bytes: size of a fixed-width value in bytes; 0 for variable width.
        length_bytes: size in bytes of the length prefix of a variable-width value; 0 for fixed width.
        is_variable: whether values have a length prefix.
    """

    layers: Layers
    bits_rep: int
    bits_def: int
    value_bytes: int
    length_bytes: int
    is_variable: bool

    @classmethod
    def parse(cls, layout: pb21.FullZipLayout) -> ZippedForm:
        """Check the layout message.

        Raises:
            CorruptDataError: the widths are invalid, or the levels do not match the layers.
        """
        layers = Layers.parse(layout.layers, "full-zip page")
        details = layout.WhichOneof("details")
        if max(layout.bits_rep, layout.bits_def) > _MAX_LEVEL_BITS:
            raise CorruptDataError(
                f"found repetition levels of {counted(layout.bits_rep, 'bit')} and definition levels of "
                f"{counted(layout.bits_def, 'bit')}; "
                "at most 16 bits are allowed"
            )
        if (layout.bits_rep > 0) != (layers.max_repetition > 0):
            expected = "more than 0" if layers.max_repetition else "0"
            raise CorruptDataError(
                f"found repetition levels of {counted(layout.bits_rep, 'bit')}, expected {expected} for "
                f"{described(layers.codes)}"
            )
        if details == "bits_per_value" and layout.bits_per_value % 8 == 0:
            value_bytes, length_bytes = layout.bits_per_value // 8, 0
        elif details == "bits_per_offset" and layout.bits_per_offset in (32, 64):
            value_bytes, length_bytes = 0, layout.bits_per_offset // 8
        else:
            raise CorruptDataError("a full-zip page has neither values of whole bytes nor lengths of 32 or 64 bits")
        return cls(layers, layout.bits_rep, layout.bits_def, value_bytes, length_bytes, details == "bits_per_offset")

    @staticmethod
    def control_word_bytes(bits_rep: int, bits_def: int) -> int:
        """Return the size in bytes of a control word that contains ``bits_rep + bits_def`` bits."""
        num_bits = bits_rep + bits_def
        return 0 if num_bits == 0 else 1 if num_bits <= 8 else 2 if num_bits <= 16 else 4

    @property
    def word_bytes(self) -> int:
        """Size of a control word in bytes."""
        return self.control_word_bytes(self.bits_rep, self.bits_def)

    @property
    def fixed_bytes(self) -> int:
        """Size of a visible fixed-width entry in bytes."""
        return self.word_bytes + self.value_bytes

    def levels_of(self, words: NDArray[np.uint8]) -> Levels:
        """Split control words, (num_levels, word_bytes) uint8, into levels.

        Raises:
            CorruptDataError: a level is higher than the layers allow.
        """
        repetition = definition = None
        if self.word_bytes:
            numbers = np.ascontiguousarray(words).view(f"<u{self.word_bytes}").reshape(-1)
            if self.bits_rep:
                repetition = (numbers >> numbers.dtype.type(self.bits_def)).astype(np.uint16)
            if self.bits_def:
                definition = (numbers & numbers.dtype.type((1 << self.bits_def) - 1)).astype(np.uint16)
        check_levels(self.layers, repetition, definition)
        return Levels(self.layers, repetition, definition, len(words))

    def is_valid(self, levels: Levels) -> NDArray[np.bool_]:
        """Return a mask of the levels that represent values; only these levels are followed by a length prefix."""
        return np.ones(levels.num_levels, np.bool_) if levels.definition is None else levels.definition == 0

    def value_lengths(
        self, data: NDArray[np.uint8], value_starts: NDArray[np.int64], levels: Levels
    ) -> NDArray[np.int64]:
        """Read the sizes of variable-width values in bytes, (num_levels,); 0 for levels without a value.

        Raises:
            CorruptDataError: a length prefix is outside the page, or a length is larger than the page.
        """
        valid = self.is_valid(levels)
        lengths = np.zeros(levels.num_levels, np.int64)
        lengths[valid] = read_words(data, value_starts[valid], self.length_bytes)
        return lengths


def read_words(data: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Read little-endian numbers of ``width`` bytes at many positions.

    Raises:
        CorruptDataError: a position is outside the data, or a number is larger than the size of the data.
    """
    if len(starts) and int(starts[-1]) + width > len(data):
        raise CorruptDataError(
            f"the length prefix at byte {int(starts[-1])} extends past the end of its page "
            f"({counted(len(data), 'byte')})"
        )
    words = Segments(data, starts, np.full(len(starts), width, np.int64)).rows(width)
    numbers: NDArray[Any] = np.ascontiguousarray(words).view(f"<u{width}").reshape(-1)
    if int(numbers.max(initial=0)) > len(data):
        raise CorruptDataError(
            f"a value has {counted(int(numbers.max()), 'byte')}, but its page has only {counted(len(data), 'byte')}"
        )
    return numbers.astype(np.int64)


def find_levels(
    form: ZippedForm, data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the start of every level of some rows, in row order.

    Args:
        form: layout of the entries.
        data: bytes of page buffer 0.
        starts: (num_rows,) start of each row in ``data``.
        stops: (num_rows,) end of each row in ``data``.

    Raises:
        CorruptDataError: an entry extends past the end of its row.
    """
    found = []
    unfinished = starts < stops
    at, stops = starts[unfinished], stops[unfinished]
    while len(at) > _FEW_ROWS:
        found.append(at)
        at = at + _entry_sizes(form, data, at)
        if bool((at > stops).any()):
            raise CorruptDataError("an entry of a full-zip page extends past the end of its row")
        unfinished = at < stops
        at, stops = at[unfinished], stops[unfinished]
    found += [_walk_row(form, data, start, stop) for start, stop in zip(at.tolist(), stops.tolist(), strict=True)]
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


def _entry_sizes(form: ZippedForm, data: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    definition = read_control_words(data, starts, form.word_bytes) & ((1 << form.bits_def) - 1)
    if not form.is_variable:
        return form.word_bytes + np.where(definition <= form.layers.max_visible, form.value_bytes, 0)
    sizes = np.full(len(starts), form.word_bytes, np.int64)
    valid = definition == 0
    sizes[valid] += form.length_bytes + read_words(data, starts[valid] + form.word_bytes, form.length_bytes)
    return sizes


def read_control_words(data: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Read control words at many positions; positions outside the data raise an error, as in :func:`read_words`."""
    if len(starts) and int(starts.max()) + width > len(data):
        raise CorruptDataError("a control word extends past the end of its page")
    words = Segments(data, starts, np.full(len(starts), width, np.int64)).rows(width)
    numbers: NDArray[Any] = np.ascontiguousarray(words).view(f"<u{width}").reshape(-1)
    return numbers.astype(np.int64)


def _walk_row(form: ZippedForm, data: NDArray[np.uint8], start: int, stop: int) -> NDArray[np.int64]:
    """Return the starts of the levels of one row, found one after another; used only for a few long rows."""
    row = data[start:stop].tobytes()
    mask = (1 << form.bits_def) - 1
    word_bytes, length_bytes = form.word_bytes, form.length_bytes
    found = []
    at = 0
    while at < len(row):
        found.append(at)
        definition = int.from_bytes(row[at : at + word_bytes], "little") & mask
        at += word_bytes
        if not form.is_variable:
            at += form.value_bytes if definition <= form.layers.max_visible else 0
        elif definition == 0:
            at += length_bytes + int.from_bytes(row[at : at + length_bytes], "little")
    if at != len(row):
        raise CorruptDataError("an entry of a full-zip page extends past the end of its row")
    return np.array(found, np.int64) + start
