"""When compiled kernels replace numpy: not before enough bytes have passed.

Importing numba takes some 0.4 s, and compiling a kernel for the first time on a machine about as long again. A short
job never gets that back. So every kernel has a numpy implementation, and says how many bytes it is about to move; once
the process has moved ``LOAD_BYTES`` of them, and for inputs of at least ``MIN_BYTES``, the compiled one serves. Where
numba cannot be imported numpy goes on serving.

``LANCE_CORE_COMPILED`` in the environment overrides that: ``0`` never, ``1`` from the first byte.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["LOAD_BYTES", "MIN_BYTES", "compiled_kernels", "load_now"]

MIN_BYTES: Final = 1 << 16
"""An input below this size is faster, or not slower, in numpy."""

LOAD_BYTES: Final = 1 << 27
"""So many bytes take numpy about as long as loading numba does."""

_SWITCH: Final = "LANCE_CORE_COMPILED"


class _Meter:
    """Bytes that all kernels of this process have moved; an estimate, so threads may lose an addition."""

    def __init__(self) -> None:
        self.num_bytes = 0


_METER: Final = _Meter()


def compiled_kernels(name: str, num_bytes: int) -> Any | None:
    """The module ``compiled/<name>.py`` if it should serve an input of so many bytes, else None: use numpy."""
    switch = os.environ.get(_SWITCH)
    if switch == "0":
        return None
    if switch != "1":
        _METER.num_bytes += num_bytes
        if num_bytes < MIN_BYTES or _METER.num_bytes < LOAD_BYTES:
            return None
    return load_now(name)


@cache
def load_now(name: str) -> ModuleType | None:
    """The module ``compiled/<name>.py``; None where numba does not work."""
    try:
        return import_module(f"lance_core.encodings.kernels.compiled.{name}")
    except (ImportError, OSError, SystemError):
        return None
