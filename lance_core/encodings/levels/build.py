"""Shredding: converts the nesting of a column, layer by layer, to a repetition and a definition level per leaf entry.

Layers are processed from the outermost to the innermost. After each step, there is one entry per slot of the current
layer, and one for each null or empty list of outer layers (such a list is *closed*); all other lists are replaced by
their items::

    rows                    [[1, 2], null, [], [3, null]]
    after the list layer    1       2       null    []      3       null
      repetition            1       0       1       1       1       0
      definition            0       0       2       3       0       0
    after the leaf layer
      definition            0       0       2       3       0       1       layers (leaf first): 3, 6

Source: ``lance.encodings21.RepDefLayer``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lance_core.encodings.kernels.level_runs import replace_by_items
from lance_core.encodings.levels.layers import (
    ALL_VALID_ITEM,
    ALL_VALID_LIST,
    DEFINITION_LEVELS,
    EMPTYABLE_LIST,
    NULL_AND_EMPTY_LIST,
    NULLABLE_ITEM,
    NULLABLE_LIST,
    Layers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.proto import pb21

__all__ = ["FixedSizeListSlots", "ItemSlots", "Levels", "ListSlots", "Slots", "shred"]


@dataclass(frozen=True, slots=True)
class ItemSlots:
    """A struct layer, or the leaf layer.

    Attributes:
        validity: (num_slots,) bool, True = valid; None = all valid. If all values of the mask are True, the layer is
            still declared nullable, which some readers need.
        num_slots: number of entries in the layer.
    """

    validity: NDArray[np.bool_] | None
    num_slots: int


@dataclass(frozen=True, slots=True)
class FixedSizeListSlots:
    """A fixed-size list of structs: every slot, null or not, has ``dimension`` slots in the next layer."""

    validity: NDArray[np.bool_] | None
    num_slots: int
    dimension: int


@dataclass(frozen=True, slots=True)
class ListSlots:
    """A list layer.

    Attributes:
        validity: see :class:`ItemSlots`.
        lengths: (num_slots,) int64 number of items; 0 for null lists.
    """

    validity: NDArray[np.bool_] | None
    lengths: NDArray[np.int64]

    @property
    def num_slots(self) -> int:
        """Number of entries in the layer."""
        return len(self.lengths)


Slots: TypeAlias = ItemSlots | FixedSizeListSlots | ListSlots


@dataclass(frozen=True, slots=True)
class Levels:
    """Repetition and definition levels of one page.

    Attributes:
        layers: meaning of the levels.
        repetition: (num_levels,) uint16; None without list layers.
        definition: (num_levels,) uint16; None if no layer uses definition levels.
        num_levels: number of levels; for a page without levels, the number of value slots.
    """

    layers: Layers
    repetition: NDArray[np.uint16] | None
    definition: NDArray[np.uint16] | None
    num_levels: int

    def visible(self) -> NDArray[np.bool_] | None:
        """Return a (num_levels,) mask of the levels that own a value slot; None = all levels."""
        if self.definition is None or not self.layers.has_invisible:
            return None
        visible = self.definition <= self.layers.max_visible
        return None if bool(visible.all()) else visible


def shred(slots: Sequence[Slots]) -> Levels:
    """Convert the layers of a column, outermost first, to levels.

    Args:
        slots: the layers from the row layer to the leaf; each layer determines the number of slots of the next.
    """
    codes = [_layer_code(layer) for layer in slots]
    layers = Layers(tuple(reversed(codes)))
    state = _Shredding(slots[0].num_slots)
    definition_top, repetition_top = layers.max_definition, layers.max_repetition
    for layer, code in zip(slots, codes, strict=True):
        num_definition = DEFINITION_LEVELS[code]
        if layer.validity is not None:
            state.mark_nulls(layer.validity, definition_top - (code == NULL_AND_EMPTY_LIST))
        if isinstance(layer, ListSlots):
            state.open_lists(layer.lengths, definition_top, repetition_top)
            repetition_top -= 1
        elif isinstance(layer, FixedSizeListSlots):
            state.repeat_slots(layer.dimension)
        definition_top -= num_definition
    definition = state.definition
    if definition is None and layers.max_definition:
        definition = np.zeros(state.num_levels, np.uint16)
    return Levels(layers, state.repetition, definition, state.num_levels)


def _layer_code(layer: Slots) -> pb21.RepDefLayer:
    nullable = layer.validity is not None
    if not isinstance(layer, ListSlots):
        return NULLABLE_ITEM if nullable else ALL_VALID_ITEM
    empty = layer.lengths == 0
    if layer.validity is not None:
        empty &= layer.validity
    if bool(empty.any()):
        return NULL_AND_EMPTY_LIST if nullable else EMPTYABLE_LIST
    return NULLABLE_LIST if nullable else ALL_VALID_LIST


class _Shredding:
    """The levels built so far: one entry per slot of the current layer, including closed lists.

    ``definition`` is None while all levels are 0, and ``closed`` is None while no list is closed.
    """

    __slots__ = ("closed", "definition", "num_levels", "repetition")

    def __init__(self, num_slots: int) -> None:
        self.num_levels = num_slots
        self.repetition: NDArray[np.uint16] | None = None
        self.definition: NDArray[np.uint16] | None = None
        self.closed: NDArray[np.bool_] | None = None

    def mark_nulls(self, validity: NDArray[np.bool_], level: int) -> None:
        """Assign a level to the null slots of this layer; nulls of outer layers take precedence."""
        null = self._spread(~validity, np.False_)
        marks = np.multiply(null, np.uint16(level), dtype=np.uint16)
        self.definition = marks if self.definition is None else np.where(self.definition == 0, marks, self.definition)

    def open_lists(self, lengths: NDArray[np.int64], empty_level: int, repetition_level: int) -> None:
        """Replace lists with their items; null and empty lists are closed."""
        lengths = self._spread(lengths, np.int64(0))
        filled = lengths > 0
        if not bool(filled.all()):
            self._mark_empties(~filled, empty_level)
        if self.repetition is None:
            self.repetition = np.full(self.num_levels, repetition_level, np.uint16)
        else:
            opens = self.repetition == 0 if self.closed is None else (self.repetition == 0) & ~self.closed
            self.repetition[opens] = repetition_level
        self.repetition, self.definition, self.closed = replace_by_items(lengths, self.repetition, self.definition)
        self.num_levels = len(self.repetition)

    def repeat_slots(self, dimension: int) -> None:
        """Replace every slot with ``dimension`` slots; only allowed outside lists."""
        if self.definition is not None:
            self.definition = np.repeat(self.definition, dimension)
        self.num_levels *= dimension

    def _mark_empties(self, hollow: NDArray[np.bool_], level: int) -> None:
        """Mark lists without items as empty unless they are null, inside a null, or already closed."""
        empty = hollow if self.closed is None else hollow & ~self.closed
        marks = np.multiply(empty, np.uint16(level), dtype=np.uint16)
        self.definition = marks if self.definition is None else np.where(self.definition == 0, marks, self.definition)

    def _spread(self, slots: NDArray[Any], fill: np.generic) -> NDArray[Any]:
        """Expand one entry per slot to one entry per level; closed levels get ``fill``."""
        if self.closed is None:
            return slots
        spread = np.full(self.num_levels, fill, slots.dtype)
        spread[~self.closed] = slots
        return spread
