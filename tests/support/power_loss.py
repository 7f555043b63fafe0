"""A power loss after any step: a model of a disk that forgets what was not synced.

The calls of :mod:`os` that change or sync what is below a directory are recorded while something is done. A
:class:`Disk` replays the first of them and tells what is there when the power comes back: of a file the bytes of its
last fsync; of a directory the entries of its last fsync, and of what happened since as much as a :class:`Loss` says,
for a file system may write the changes of a directory in any order.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest

CALLS = ("open", "write", "fsync", "close", "link", "rename", "unlink", "mkdir", "rmdir")


class Loss(Enum):
    """What is lost of the changes of a directory that were not synced. Unsynced bytes of files are always lost."""

    ALL = "all"
    REMOVALS = "removals"
    ADDITIONS = "additions"
    NONE = "none"


@dataclass(frozen=True)
class Change:
    """One recorded call.

    Attributes:
        call: its name; ``sync`` for an fsync, of a file or a directory.
        path: below the directory, empty for itself; of two the old one.
        target: of two the new one.
        data: that was written.
    """

    call: str
    path: str
    target: str = ""
    data: bytes = b""


@contextmanager
def recorded_changes(root: Path) -> Iterator[list[Change]]:
    """Record the changes below a directory."""
    recorder = _Recorder(str(root))
    with pytest.MonkeyPatch.context() as patch:
        for call in CALLS:
            patch.setattr(os, call, recorder.watched(getattr(os, call), call))
        yield recorder.changes


class _Recorder:
    def __init__(self, root: str) -> None:
        self.changes: list[Change] = []
        self._root = root
        self._names: dict[int, str] = {}
        # Threads write deletion files, so that the calls are recorded under a lock in their order.
        self._lock = threading.RLock()

    def watched(self, real: Callable[..., object], call: str) -> Callable[..., object]:
        def watched(*arguments: object, **more: object) -> object:
            with self._lock:
                made = real(*arguments, **more)
                self._note(call, arguments, made)
                return made

        return watched

    def _note(self, call: str, arguments: Sequence[object], made: object) -> None:
        first = arguments[0]
        if call == "open":
            self._note_open(str(first), int(arguments[1]), int(made))
        elif isinstance(first, int):
            self._note_descriptor(call, first, arguments, made)
        else:
            paths = [os.fspath(path) for path in (arguments[:2] if call in ("link", "rename") else arguments[:1])]
            if any(map(self._is_below, paths)):
                assert all(map(self._is_below, paths)), paths
                self.changes.append(Change(call, *map(self._short, paths)))

    def _note_open(self, path: str, flags: int, descriptor: int) -> None:
        self._names.pop(descriptor, None)
        if self._is_below(path):
            self._names[descriptor] = self._short(path)
            if flags & os.O_CREAT:
                assert flags & os.O_EXCL, f"{path} is opened for writing and may be there"
                self.changes.append(Change("open", self._short(path)))

    def _note_descriptor(self, call: str, descriptor: int, arguments: Sequence[object], made: object) -> None:
        if descriptor not in self._names:
            return
        path = self._names[descriptor]
        if call == "write":
            self.changes.append(Change("write", path, data=bytes(arguments[1])[: int(made)]))
        elif call == "fsync":
            self.changes.append(Change("sync", path))
        else:
            del self._names[descriptor]

    def _is_below(self, path: str) -> bool:
        return path == self._root or path.startswith(f"{self._root}/")

    def _short(self, path: str) -> str:
        return os.path.relpath(path, self._root).removeprefix(".")


@dataclass
class _File:
    content: bytes = b""
    durable: bytes = b""


@dataclass
class _Directory:
    entries: "dict[str, _File | _Directory]" = field(default_factory=dict)
    durable: "dict[str, _File | _Directory]" = field(default_factory=dict)

    def after(self, loss: Loss) -> "dict[str, _File | _Directory]":
        removals_kept, additions_kept = loss in (Loss.NONE, Loss.ADDITIONS), loss in (Loss.NONE, Loss.REMOVALS)
        kept = {name: entry for name, entry in self.durable.items() if name in self.entries or not removals_kept}
        return {**kept, **self.entries} if additions_kept else kept


class Disk:
    """The content of a directory, and the part of it that is durable."""

    def __init__(self) -> None:
        """Start with an empty directory."""
        self._root = _Directory()

    def apply(self, change: Change) -> None:
        """Apply the next recorded change."""
        directory, name = self._parent(change.path)
        match change.call:
            case "open":
                directory.entries[name] = _File()
            case "mkdir":
                directory.entries[name] = _Directory()
            case "write":
                directory.entries[name].content += change.data
            case "sync":
                entry = directory.entries[name] if change.path else self._root
                if isinstance(entry, _File):
                    entry.durable = entry.content
                else:
                    entry.durable = dict(entry.entries)
            case "link" | "rename":
                target, target_name = self._parent(change.target)
                target.entries[target_name] = directory.entries[name]
                if change.call == "rename":
                    del directory.entries[name]
            case "unlink" | "rmdir":
                del directory.entries[name]

    def files(self) -> dict[str, bytes]:
        """Return the path and content of every file while the power is on."""
        return dict(_files("", self._root))

    def restart(self, root: Path, loss: Loss) -> None:
        """Fill a directory with the content that remains after a power loss."""
        shutil.rmtree(root)
        root.mkdir()
        _fill(root, self._root, loss)

    def _parent(self, path: str) -> tuple[_Directory, str]:
        above, _, name = path.rpartition("/")
        directory = self._root
        for each in filter(None, above.split("/")):
            directory = directory.entries[each]
        return directory, name


def _fill(path: Path, directory: _Directory, loss: Loss) -> None:
    for name, entry in directory.after(loss).items():
        if isinstance(entry, _File):
            (path / name).write_bytes(entry.durable)
        else:
            (path / name).mkdir()
            _fill(path / name, entry, loss)


def _files(above: str, directory: _Directory) -> Iterator[tuple[str, bytes]]:
    for name, entry in directory.entries.items():
        if isinstance(entry, _File):
            yield f"{above}{name}", entry.content
        else:
            yield from _files(f"{above}{name}/", entry)
