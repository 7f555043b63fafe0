"""Compiled kernels that derive list offsets from levels. See ``kernels/list_levels.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_core.encodings.kernels.compiled.jit import kernel, read_only

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["peel", "peel_full"]


def peel_full(repetition: NDArray[np.uint16], offsets: NDArray[Any], outer_repetition: NDArray[np.uint16]) -> None:
    """Peel off a layer in which no list is null or empty.

    Each output has one element more than the layer has entries. The last element of ``outer_repetition`` is scratch
    space.
    """
    _peel_full(read_only(repetition), offsets, outer_repetition)


@kernel
def _peel_full(repetition: Any, offsets: Any, outer_repetition: Any) -> None:
    # Unsigned positions need no check for negative indices, which would take as long as the work itself.
    entry = np.uint64(0)
    for level in range(len(repetition)):
        # Written for every level, but overwritten unless an entry starts: this is faster than an unpredictable branch.
        offsets[entry] = level
        outer_repetition[entry] = np.uint16(repetition[level] - np.uint16(1))
        entry += np.uint64(repetition[level] != 0)
    offsets[entry] = len(repetition)


def peel(
    repetition: NDArray[np.uint16],
    definition: NDArray[np.uint16],
    null_level: int,
    empty_level: int,
    highest_own: int,
    highest_slot: int,
    offsets: NDArray[Any],
    is_valid: NDArray[np.bool_],
    outer_repetition: NDArray[np.uint16],
    outer_definition: NDArray[np.uint16],
) -> int:
    """Peel off lists that may be null or empty; return the number of slots. Both inputs have the same length.

    All outputs have one element more than the layer has entries. ``offsets`` contains the start of each slot and the
    end of the last slot, and ``is_valid`` contains one element per slot. All other elements are scratch space.
    """
    levels = (read_only(repetition), read_only(definition), null_level, empty_level, highest_own, highest_slot)
    return int(_peel(*levels, offsets, is_valid, outer_repetition, outer_definition))


@kernel
def _peel(
    repetition: Any,
    definition: Any,
    null_level: Any,
    empty_level: Any,
    highest_own: Any,
    highest_slot: Any,
    offsets: Any,
    is_valid: Any,
    outer_repetition: Any,
    outer_definition: Any,
) -> Any:
    entry = np.uint64(0)
    slot = np.uint64(0)
    num_children = 0
    # A level that the layer does not have is 0; -1 means that there is no entry below.
    null = null_level if null_level != 0 else -1
    empty = empty_level if empty_level != 0 else -1
    for level in range(len(repetition)):
        starts = repetition[level] != 0
        own = np.int64(definition[level])
        is_null = (own > highest_own) | (own == null)
        is_hollow = is_null | (own == empty)
        is_slot = own <= highest_slot
        offsets[slot] = num_children
        is_valid[slot] = not is_null
        outer_repetition[entry] = np.uint16(repetition[level] - np.uint16(1))
        outer_definition[entry] = own
        entry += np.uint64(starts)
        slot += np.uint64(starts & is_slot)
        num_children += (not starts) | (is_slot & (not is_hollow))
    offsets[slot] = num_children
    return np.int64(slot)
