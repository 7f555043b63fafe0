"""A process that changes rows and columns concurrently with other processes, and compacts, with either implementation.

Run as ``python -m tests.support.mixed_writer library uri writer num_commits seed``. It says "ready", waits for a line,
and in the end prints which rows of its own must be there, the value by the number, and whether its column must be. It
changes only rows of its own, so that this is known whatever the others do; but they lie in one fragment with rows of
others as soon as someone compacts. Its column contains the number of a row, or null.

What fails with a conflict is done again from the latest version; it must have changed nothing.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pyarrow as pa

from lance_core.errors import CommitConflictError

_ATTEMPTS: Final = 400
_CONFLICT: Final = ("conflict", "concurrent", "preempted", "contention")


class MixedWriter:
    """One writer and its rows."""

    def __init__(self, library: ModuleType, uri: str, writer: int, seed: int) -> None:
        self.library, self.uri, self.writer = library, uri, writer
        self.rng = random.Random(seed)
        self.rows: dict[int, int] = {}
        self.next_number = 0
        self.has_column = False

    def work(self, num_commits: int) -> None:
        """Run the commits, of which the first is an append."""
        self.append()
        actions = [self.append, self.insert, self.delete, self.update, self.upsert, self.change_columns, self.compact]
        for _ in range(num_commits - 1):
            self.rng.choice(actions if self.rows else [self.append])()

    def append(self) -> None:
        numbers = self._new_numbers()
        rows = self._table(dict.fromkeys(numbers, 0))
        self._until_done(lambda _: self.library.write_dataset(rows, self.uri, mode="append"))
        self.rows.update(dict.fromkeys(numbers, 0))

    def insert(self) -> None:
        numbers = self._new_numbers()
        rows = self._table(dict.fromkeys(numbers, 0))
        self._until_done(lambda dataset: dataset.insert(rows))
        self.rows.update(dict.fromkeys(numbers, 0))

    def upsert(self) -> None:
        """Update some rows and insert others; the columns of all writers keep their values."""
        known = self.rng.sample(sorted(self.rows), min(len(self.rows), 3))
        rows = dict.fromkeys([*known, *self._new_numbers()], self.rng.randrange(1, 100))

        def merge(dataset: Any) -> None:
            builder = dataset.merge_insert(["writer", "number"])
            merged = builder.when_matched_update_all().when_not_matched_insert_all().execute(self._table(rows))
            assert (merged["num_updated_rows"], merged["num_inserted_rows"]) == (len(known), len(rows) - len(known))

        self._until_done(merge)
        self.rows.update(rows)

    def change_columns(self) -> None:
        """Add the column of this writer, or drop it."""
        name = f"column_{self.writer}"
        if self.has_column:
            self._until_done(lambda dataset: dataset.drop_columns([name]))
        else:
            self._until_done(lambda dataset: dataset.add_columns({name: "number"}))
        self.has_column = not self.has_column

    def delete(self) -> None:
        number = self.rng.choice(sorted(self.rows))
        self._until_done(lambda dataset: dataset.delete(self._where(number)))
        del self.rows[number]

    def update(self) -> None:
        number, value = self.rng.choice(sorted(self.rows)), self.rng.randrange(1, 100)
        self._until_done(lambda dataset: dataset.update({"value": str(value)}, where=self._where(number)))
        self.rows[number] = value

    def compact(self) -> None:
        options = {"target_rows_per_fragment": self.rng.choice((10, 1000)), "materialize_deletions_threshold": 0.0}
        self._until_done(lambda dataset: dataset.optimize.compact_files(**options))

    def _until_done(self, action: Callable[[Any], object]) -> None:
        for _ in range(_ATTEMPTS):
            try:
                action(self.library.dataset(self.uri))
            except CommitConflictError:
                continue
            except (OSError, RuntimeError) as error:
                if not any(word in str(error).lower() for word in _CONFLICT):
                    raise
                continue
            return
        raise AssertionError(f"{_ATTEMPTS} attempts met conflicts")

    def _new_numbers(self) -> list[int]:
        numbers = list(range(self.next_number, self.next_number + self.rng.randrange(1, 4)))
        self.next_number = numbers[-1] + 1
        return numbers

    def _where(self, number: int) -> str:
        return f"writer = {self.writer} AND number = {number}"

    def _table(self, rows: dict[int, int]) -> pa.Table:
        return pa.table(
            {
                "writer": pa.array([self.writer] * len(rows), pa.int64()),
                "number": pa.array(list(rows), pa.int64()),
                "value": pa.array(list(rows.values()), pa.int64()),
            }
        )


def main() -> None:
    """Run the writer described by the command line."""
    library, uri, writer, num_commits, seed = sys.argv[1:]
    mixed = MixedWriter(__import__(library), uri, int(writer), int(seed))
    mixed.library.dataset(uri)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    mixed.work(int(num_commits))
    sys.stdout.write(json.dumps({"rows": mixed.rows, "has_column": mixed.has_column}))


if __name__ == "__main__":
    main()
