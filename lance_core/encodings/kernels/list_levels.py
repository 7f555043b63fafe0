"""List offsets derived from levels: peels one list layer off the repetition and definition levels of a page.

::

    repetition   1 0 1 1 1 0        a nonzero level starts an entry of the layer
    definition   0 0 2 3 0 1        2 is a null list, 3 an empty list: neither has items

    offsets      0 2 2 2 4          validity 1 0 1 1

The levels of the entries remain for the outer layers, with the repetition levels reduced by one.

Source: ``lance.encodings21.RepDefLayer``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.buffers.pool_arrays import uninitialized
from lance_core.encodings.kernels.loading import compiled_kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ListRules", "PeeledLists", "peel_full_lists", "peel_lists"]

_MAX_INT32: Final = (1 << 31) - 1
_BYTES_PER_LEVEL: Final = 8


@dataclass(frozen=True, slots=True)
class ListRules:
    """Meaning of the definition levels of a list layer.

    Attributes:
        null_level: level of a null list; 0 if the layer has none.
        empty_level: level of an empty list; 0 if the layer has none.
        highest_own: highest level of the layer itself; higher levels, up to ``highest_slot``, represent null structs
            directly outside the list.
        highest_slot: highest level that represents a slot of the layer.
    """

    null_level: int
    empty_level: int
    highest_own: int
    highest_slot: int


@dataclass(frozen=True, slots=True)
class PeeledLists:
    """The result of peeling off a list layer.

    Attributes:
        offsets: (num_slots + 1,) int32 or int64 offsets of the lists, starting with 0.
        validity: (num_slots,) mask; None = all valid.
        repetition: (num_entries,) uint16 levels for the outer layers.
        definition: (num_entries,) uint16 levels for the outer layers; None if there were no definition levels.
    """

    offsets: NDArray[Any]
    validity: NDArray[np.bool_] | None
    repetition: NDArray[np.uint16]
    definition: NDArray[np.uint16] | None


def peel_full_lists(repetition: NDArray[np.uint16]) -> PeeledLists:
    """Peel off a layer in which no list is null or empty, given the (num_levels,) repetition levels."""
    compiled = compiled_kernels("lists", _BYTES_PER_LEVEL * len(repetition))
    if compiled is not None:
        num_entries = int(np.count_nonzero(repetition))
        offsets = uninitialized(num_entries + 1, _offset_dtype(len(repetition)))
        outer = np.empty(num_entries + 1, np.uint16)
        compiled.peel_full(repetition, offsets, outer)
        return PeeledLists(offsets, None, outer[:-1], None)
    starts = np.flatnonzero(repetition != 0)
    return PeeledLists(np.append(starts, len(repetition)), None, repetition[starts] - np.uint16(1), None)


def peel_lists(repetition: NDArray[np.uint16], definition: NDArray[np.uint16], rules: ListRules) -> PeeledLists:
    """Peel off a layer of lists that may be null, empty, or absent, given the (num_levels,) levels of each kind."""
    compiled = compiled_kernels("lists", _BYTES_PER_LEVEL * len(repetition))
    if compiled is None or len(repetition) != len(definition):
        return _peel_with_numpy(repetition, definition, rules)
    num_entries = int(np.count_nonzero(repetition))
    offsets = uninitialized(num_entries + 1, _offset_dtype(len(repetition)))
    is_valid = np.empty(num_entries + 1, np.bool_)
    outer_repetition, outer_definition = np.empty(num_entries + 1, np.uint16), np.empty(num_entries + 1, np.uint16)
    levels = (rules.null_level, rules.empty_level, rules.highest_own, rules.highest_slot)
    outputs = (offsets, is_valid, outer_repetition, outer_definition)
    num_slots = compiled.peel(repetition, definition, *levels, *outputs)
    validity = is_valid[:num_slots]
    has_nulls = not bool(validity.all())
    return PeeledLists(
        offsets[: num_slots + 1], validity if has_nulls else None, outer_repetition[:-1], outer_definition[:-1]
    )


def _peel_with_numpy(repetition: NDArray[np.uint16], definition: NDArray[np.uint16], rules: ListRules) -> PeeledLists:
    starts = np.flatnonzero(repetition != 0)
    own = definition[starts]
    is_slot = own <= rules.highest_slot
    is_null = own > rules.highest_own
    if rules.null_level:
        is_null |= own == rules.null_level
    is_hollow = is_null | (own == rules.empty_level) if rules.empty_level else is_null
    # Levels that start a null or empty entry, or an entry that is not a slot, have no child.
    is_child = np.ones(len(repetition), np.bool_)
    is_child[starts] = is_slot & ~is_hollow
    children_before = np.zeros(len(repetition) + 1, np.int64)
    np.cumsum(is_child, out=children_before[1:])
    offsets = np.append(children_before[starts[is_slot]], children_before[-1])
    validity = ~is_null[is_slot]
    outer = repetition[starts] - np.uint16(1)
    return PeeledLists(offsets, None if bool(validity.all()) else validity, outer, own)


def _offset_dtype(num_levels: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if num_levels <= _MAX_INT32 else np.int64
