"""Removes unreferenced files written by a failed or interrupted call.

Files that cannot be removed are left for a later cleanup. An interrupt (Ctrl-C) that arrives during the removal is
raised after the remaining files have been removed; a second interrupt ends the removal.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.errors import LanceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.io.object_store import ObjectStore

__all__ = ["Leftover", "remove_leftovers", "remove_objects", "remove_objects_below"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """An unreferenced file.

    Attributes:
        store: the store of the file.
        path: path of the file.
        directory: a directory that belongs to the file alone, and is removed with its content; None if there is none.
        durable: whether the removal must survive a power loss.
    """

    store: ObjectStore
    path: str
    directory: str | None = None
    durable: bool = True


def remove_objects(store: ObjectStore, paths: Iterable[str]) -> None:
    """Remove objects; see the module docstring. A power loss may undo the removal, which is harmless."""
    remove_leftovers(Leftover(store, path, durable=False) for path in paths)


def remove_leftovers(leftovers: Iterable[Leftover]) -> None:
    """Remove files in the given order; see the module docstring. An interrupted removal is repeated once."""
    waiting = deque(leftovers)
    try:
        _work_off(waiting)
    except BaseException:
        _work_off(waiting)
        raise


def remove_objects_below(store: ObjectStore, directory: str) -> None:
    """Remove a directory and all objects in it. If one cannot be removed, the rest is left for a later cleanup."""
    with suppress(LanceError):
        for info in list(store.list(directory)):
            store.delete(info.path)
        store.remove_empty_directory(directory)


def _work_off(waiting: deque[Leftover]) -> None:
    while waiting:
        leftover = waiting[0]
        with suppress(LanceError):
            leftover.store.delete(leftover.path, durable=leftover.durable)
        if leftover.directory is not None:
            remove_objects_below(leftover.store, leftover.directory)
        waiting.popleft()
