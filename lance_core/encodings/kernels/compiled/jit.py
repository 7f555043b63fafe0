"""The decorator of every compiled kernel, and views that let one instruction move eight bytes.

The compiled code is kept on disk (beside the source, or in the user's cache directory where the package is read-only),
so that only the first process on a machine compiles. Where no directory can be written every process compiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["WORD_BYTES", "check", "inlined", "kernel", "read_only", "words_at"]

WORD_BYTES: Final = 8

F = TypeVar("F", bound="Callable[..., Any]")


def kernel(function: F) -> F:
    """Compile a function at its first call for the types it is called with; it runs without the interpreter lock."""
    try:
        compiled: F = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # numba finds no directory to keep the code in.
        compiled = numba.njit(nogil=True)(function)
    return compiled


def inlined(function: F) -> F:
    """Compile a function into each kernel that calls it. It takes numbers: arrays would be counted at every call."""
    compiled: F = numba.njit(inline="always")(function)
    return compiled


def check() -> None:
    """Compile something small and run it.

    Raises:
        Exception: of any class: numba does not work here.
    """
    if _sum_of(np.arange(5)) != 10:
        raise RuntimeError("a compiled kernel returned a wrong count")


@kernel
def _sum_of(values: NDArray[np.int64]) -> int:
    total = 0
    for value in values:
        total += value
    return total


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written: numba would compile once for inputs that can be and once for those that cannot."""
    view = array.view()
    view.flags.writeable = False
    return view


def words_at(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The 8-byte word that starts at every byte: entry i is bytes ``[i, i + 8)``; a view, (max(0, num_bytes - 7),)."""
    num_words = max(0, len(data) - WORD_BYTES + 1)
    return np.ndarray((num_words,), np.dtype("<u8"), data, strides=(1,)) if num_words else np.empty(0, np.dtype("<u8"))
