"""Unraveling: converts the levels of a page back to validity and list offsets, layer by layer from the leaf outward.

``Unraveler`` walks the layers of one page. For every layer, the caller calls the method that matches the schema:
``validity()`` for the leaf, a struct, or a fixed-size list, and ``offsets()`` for a list. After a list layer is peeled
off, only the levels that start an entry of this layer remain.

Source: ``lance.encodings21.RepDefLayer``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.encodings.kernels.list_levels import ListRules, peel_full_lists, peel_lists
from lance_core.encodings.levels.layers import (
    ALL_VALID_ITEM,
    DEFINITION_LEVELS,
    EMPTYABLE_LIST,
    LIST_LAYERS,
    NULL_AND_EMPTY_LIST,
    NULLABLE_ITEM,
    NULLABLE_LIST,
    described,
)
from lance_core.errors import CorruptDataError
from lance_core.wording import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lance_core.encodings.levels.build import Levels
    from lance_core.proto import pb21

__all__ = ["Unraveler"]


class Unraveler:
    """Walks the layers of one page from the leaf outward.

    Args:
        levels: levels of whole rows; the first repetition level, if any, starts a row.
        what: name of the column, for messages.
    """

    __slots__ = (
        "_codes",
        "_definition",
        "_lists_at_level",
        "_next_layer",
        "_num_definition_passed",
        "_num_lists_passed",
        "_num_slots",
        "_repetition",
        "_what",
    )

    def __init__(self, levels: Levels, what: str) -> None:
        """Start at the leaf layer."""
        self._codes = levels.layers.codes
        self._repetition = levels.repetition
        self._definition = levels.definition
        self._num_slots = levels.num_levels
        self._what = what
        self._next_layer = 0
        self._num_definition_passed = 0
        self._num_lists_passed = 0
        # For each definition level: the number of list layers at or inside the layer that owns it. Level 0 is a value.
        self._lists_at_level = [0]
        num_lists = 0
        for code in self._codes:
            num_lists += code in LIST_LAYERS
            self._lists_at_level += [num_lists] * DEFINITION_LEVELS[code]

    def num_slots(self) -> int:
        """Return the number of slots of the next layer."""
        if self._definition is not None:
            return len(self._current_definition(self._definition))
        return self._num_slots if self._repetition is None else len(self._repetition)

    def validity(self) -> NDArray[np.bool_] | None:
        """Peel off a leaf, struct, or fixed-size list layer, and return its (num_slots,) mask; None = all valid.

        Raises:
            CorruptDataError: the next layer of the page is a list, or there are no more layers.
        """
        code = self._peel(is_list=False)
        if code == ALL_VALID_ITEM:
            return None
        passed = self._num_definition_passed
        self._num_definition_passed += 1
        # pylance omits definition levels that would all be 0.
        if self._definition is None:
            return None
        return self._current_definition(self._definition) <= passed

    def offsets(self) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Peel off a list layer.

        Returns:
            (num_slots + 1,) int32 or int64 offsets into the slots of the inner layer, starting at 0, and the validity
            as returned by :meth:`validity`.

        Raises:
            CorruptDataError: the next layer of the page is not a list, or its repetition levels are missing.
        """
        code = self._peel(is_list=True)
        if self._repetition is None:
            raise CorruptDataError(f"{self._what}: a list layer has no repetition levels")
        # The null level is below the empty level; a level that the layer does not have is 0.
        passed = self._num_definition_passed
        null_level = passed + 1 if code in (NULLABLE_LIST, NULL_AND_EMPTY_LIST) else 0
        self._num_definition_passed += DEFINITION_LEVELS[code]
        empty_level = self._num_definition_passed if code in (EMPTYABLE_LIST, NULL_AND_EMPTY_LIST) else 0
        self._num_lists_passed += 1
        if self._definition is None:
            peeled = peel_full_lists(self._repetition)
        else:
            rules = ListRules(null_level, empty_level, self._num_definition_passed, self._highest_slot())
            peeled = peel_lists(self._repetition, self._definition, rules)
        self._repetition, self._definition = peeled.repetition, peeled.definition
        return peeled.offsets, peeled.validity

    def keep_first_of(self, dimension: int) -> None:
        """Keep the first of every ``dimension`` levels; call before ``validity()`` for a fixed-size list of structs.

        Raises:
            CorruptDataError: the number of levels is not a multiple of the dimension, or a list encloses this layer.
        """
        inside_list = any(code in LIST_LAYERS for code in self._codes[self._next_layer :])
        if inside_list or self.num_slots() % dimension:
            raise CorruptDataError(
                f"{self._what}: levels do not match fixed-size lists of {counted(dimension, 'item')}"
            )
        self._num_slots //= dimension
        if self._repetition is not None:
            self._repetition = self._repetition[::dimension]
        if self._definition is not None:
            self._definition = self._definition[::dimension]

    def _peel(self, *, is_list: bool) -> pb21.RepDefLayer:
        code = self._codes[self._next_layer] if self._next_layer < len(self._codes) else None
        if code is None or (code in LIST_LAYERS) != is_list:
            raise CorruptDataError(f"{self._what}: {described(self._codes)} do not match the nesting of the column")
        self._next_layer += 1
        return code

    def _current_definition(self, definition: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Return the definition levels that represent slots of the current layer."""
        highest = sum(lists <= self._num_lists_passed for lists in self._lists_at_level) - 1
        if highest == len(self._lists_at_level) - 1:
            return definition
        return definition[definition <= highest]

    def _highest_slot(self) -> int:
        """Return the highest definition level that represents a slot of the list layer that was just peeled off."""
        # A null in the item layers directly outside (a null struct) is also a slot of this list layer.
        highest = self._num_definition_passed
        for code in self._codes[self._next_layer :]:
            if code in LIST_LAYERS:
                break
            highest += code == NULLABLE_ITEM
        return highest
