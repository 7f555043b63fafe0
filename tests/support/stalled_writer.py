"""A process of a race: writes keys, deletes some of them, compacts, or cleans up; its journal says what it was told.

The journal has one line before and one after each operation, so that a process that is killed leaves open only its last
one. Keys are never used twice: ``writer * 1_000_000 + number``.
"""

import os
import random
import sys
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

import lance_core

KEYS_OF_A_WRITER = 1_000_000


def main() -> None:
    """``library uri writer journal role``: go on until killed."""
    library, uri, writer, journal, role = sys.argv[1:]
    worker = _Worker(import_module(library), uri, int(writer), Path(journal))
    {"write": worker.write_on, "append": worker.append_on, "clean up": worker.clean_up_on}[role]()


class _Worker:
    def __init__(self, library: Any, uri: str, writer: int, journal: Path) -> None:
        self._library = library
        self._uri = uri
        self._writer = writer
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._random = random.Random(writer)
        self._next = writer * KEYS_OF_A_WRITER
        self._mine: list[int] = []

    def write_on(self) -> None:
        while True:
            choice = self._random.random()
            if choice < 0.55 or not self._mine:
                self._append()
            elif choice < 0.93:
                self._delete()
            else:
                self._do("compact", 0, lambda: self._open().optimize.compact_files(num_threads=1))

    def append_on(self) -> None:
        while True:
            self._append()

    def clean_up_on(self) -> None:
        while True:
            self._do("clean up", 0, lambda: self._open().cleanup_old_versions(older_than=timedelta(0)))

    def _append(self) -> None:
        key = self._next
        self._next += 1
        rows = pa.table({"key": pa.array([key], pa.int64()), "value": pa.array([key * 7], pa.int64())})
        if self._do("append", key, lambda: self._library.write_dataset(rows, self._target(), mode="append")):
            self._mine.append(key)

    def _target(self) -> Any:
        # The reference replaces the table with the new rows when its listing, beside a cleanup, shows it no version.
        return self._uri if self._library is lance_core else self._open()

    def _delete(self) -> None:
        key = self._mine.pop(self._random.randrange(len(self._mine)))
        self._do("delete", key, lambda: self._open().delete(f"key = {key}"))

    def _open(self) -> Any:
        return self._library.dataset(self._uri)

    def _do(self, verb: str, key: int, act: Callable[[], object]) -> bool:
        self._note(f"try {verb} {key}")
        try:
            act()
        except Exception as error:  # noqa: BLE001  # the reference raises many kinds; the journal has them all
            self._note(f"{_verdict(error)} {verb} {key} {type(error).__name__}: {str(error)[:300]!r}")
            return False
        self._note(f"done {verb} {key}")
        return True

    def _note(self, line: str) -> None:
        os.write(self._journal, f"{line}\n".encode())


def _verdict(error: Exception) -> str:
    kind = getattr(error, "kind", None)
    # The reference does not tell whether a failure is final.
    return "refused" if kind is not None and kind.value != "commit_outcome_unknown" else "unknown"


if __name__ == "__main__":
    main()
