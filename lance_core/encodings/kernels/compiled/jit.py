"""The decorator of all compiled kernels, and views that let one instruction move eight bytes.

Compiled code is cached on disk (next to the source, or in the user's cache directory if the package is read-only), so
that only the first process on a machine compiles. If no directory is writable, every process compiles.
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
    """Compile a function on its first call with each set of argument types; it runs without the interpreter lock."""
    try:
        compiled: F = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # numba found no writable directory for the compiled code.
        compiled = numba.njit(nogil=True)(function)
    return compiled


def inlined(function: F) -> F:
    """Inline a function into each kernel that calls it. Its parameters must be numbers: passing arrays is slow."""
    compiled: F = numba.njit(inline="always")(function)
    return compiled


def check() -> None:
    """Compile and run a small function.

    Raises:
        Exception: numba does not work on this system; the exception can be of any type.
    """
    if _sum_of(np.arange(5)) != 10:
        raise RuntimeError("a compiled kernel returned an incorrect result")


@kernel
def _sum_of(values: NDArray[np.int64]) -> int:
    total = 0
    for value in values:
        total += value
    return total


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view; without it, numba would compile separately for writable and read-only inputs."""
    view = array.view()
    view.flags.writeable = False
    return view


def words_at(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the overlapping 8-byte words at all positions as a view; word i is bytes ``[i, i + 8)``.

    The shape is (max(0, num_bytes - 7),).
    """
    num_words = max(0, len(data) - WORD_BYTES + 1)
    return np.ndarray((num_words,), np.dtype("<u8"), data, strides=(1,)) if num_words else np.empty(0, np.dtype("<u8"))
