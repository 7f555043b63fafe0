"""Removes unreferenced files written by a failed or interrupted call.

Files that cannot be removed are left for a later cleanup. An interrupt (Ctrl-C) that arrives during the removal is
raised after the remaining files have been removed; a second interrupt ends the removal.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from lance_core.errors import LanceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_core.io.object_store import ObjectStore

__all__ = ["remove_all", "remove_objects"]


def remove_objects(store: ObjectStore, paths: Iterable[str]) -> None:
    """Remove objects; see the module docstring. A power loss may undo the removal, which is harmless."""
    remove_all(partial(store.delete, path, durable=False) for path in paths)


def remove_all(removals: Iterable[Callable[[], object]]) -> None:
    """Call every function in the given order; see the module docstring. An interrupted function is called again."""
    waiting = deque(removals)
    try:
        _work_off(waiting)
    except BaseException:
        _work_off(waiting)
        raise


def _work_off(waiting: deque[Callable[[], object]]) -> None:
    while waiting:
        with suppress(LanceError):
            waiting[0]()
        waiting.popleft()
