"""Decides when compiled kernels replace numpy: only after enough bytes have been processed.

Importing numba takes about 0.4 s, and compiling a kernel for the first time on a machine takes about as long again. For
a short job, this is never worthwhile. Every kernel therefore has a numpy implementation, and the bytes that kernels
process are counted. Once ``LOAD_BYTES`` bytes have been processed, compiled kernels are used for inputs of at least
``MIN_BYTES`` bytes. If numba does not work, numpy is always used.

A fork waits until no other thread of the process is loading or compiling a kernel: the forked process could neither
finish nor repeat this work.

The environment variable ``LANCE_CORE_COMPILED`` overrides these rules: if it is ``0``, compiled kernels are never used;
if it is ``1``, they are used from the first byte.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["LOAD_BYTES", "MIN_BYTES", "compiled_kernels", "load_now"]

MIN_BYTES: Final = 1 << 16
"""Minimum input size in bytes for compiled kernels; for smaller inputs, numpy is at least as fast."""

LOAD_BYTES: Final = 1 << 27
"""Number of bytes that numpy can process in approximately the time that loading numba takes."""

_SWITCH: Final = "LANCE_CORE_COMPILED"

_PACKAGE: Final = "lance_core.encodings.kernels.compiled"

_lock: Final = threading.RLock()
_loaded: Final[dict[str, ModuleType | None]] = {}


class _Meter:
    """Number of bytes processed by the kernels of this process; an estimate, because concurrent updates may be lost."""

    def __init__(self) -> None:
        self.num_bytes = 0


_METER: Final = _Meter()


def compiled_kernels(name: str, num_bytes: int) -> Any | None:
    """Return the module ``compiled/<name>.py`` if ``num_bytes`` justifies its use; None means that numpy is used."""
    switch = os.environ.get(_SWITCH)
    if switch == "0":
        return None
    if switch != "1":
        _METER.num_bytes += num_bytes
        if num_bytes < MIN_BYTES or _METER.num_bytes < LOAD_BYTES:
            return None
    return load_now(name)


def load_now(name: str) -> ModuleType | None:
    """Return the module ``compiled/<name>.py``, or None if numba does not work."""
    if name not in _loaded:
        with _lock:
            if name not in _loaded:
                _loaded[name] = _imported(name)
    return _loaded[name]


def _imported(name: str) -> ModuleType | None:
    before = set(sys.modules)
    try:
        import_module(f"{_PACKAGE}.jit").check()
        return import_module(f"{_PACKAGE}.{name}")
    except Exception:  # noqa: BLE001 - a broken numba fails in any way: half installed, nowhere to keep its code
        for module in set(sys.modules) - before:
            if module.startswith(f"{_PACKAGE}."):
                del sys.modules[module]
        return None


class _Fork:
    """Prevents the threads of the process from loading and compiling during a fork."""

    def __init__(self) -> None:
        self._compiler_lock: Any = None

    def begin(self) -> None:
        """Wait for a thread that is loading, then for one that is compiling."""
        _lock.acquire()
        numba = sys.modules.get("numba.core.compiler_lock")
        self._compiler_lock = getattr(numba, "global_compiler_lock", None)
        if self._compiler_lock is not None:
            self._compiler_lock.acquire()

    def end(self) -> None:
        """Release the locks, in both processes."""
        if self._compiler_lock is not None:
            self._compiler_lock.release()
            self._compiler_lock = None
        _lock.release()


if hasattr(os, "register_at_fork"):
    _fork: Final = _Fork()
    os.register_at_fork(before=_fork.begin, after_in_parent=_fork.end, after_in_child=_fork.end)
