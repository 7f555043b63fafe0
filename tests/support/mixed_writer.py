"""A process that appends, updates, deletes and compacts at once with others, with either implementation.

Run as ``python -m tests.support.mixed_writer library uri writer num_commits seed``. It says "ready", waits for a line,
and in the end prints which rows of its own must be there: the value by the number. It changes only rows of its own, so
that this is known whatever the others do; but they lie in one fragment with rows of others as soon as someone compacts.

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
    """One writer, and what its rows are."""

    def __init__(self, library: ModuleType, uri: str, writer: int, seed: int) -> None:
        self.library, self.uri, self.writer = library, uri, writer
        self.rng = random.Random(seed)
        self.rows: dict[int, int] = {}
        self.next_number = 0

    def work(self, num_commits: int) -> None:
        """Start with an append, so that there is something to change."""
        self.append()
        for _ in range(num_commits - 1):
            actions = [self.append, self.append, self.delete, self.update, self.update, self.compact]
            self.rng.choice(actions if self.rows else [self.append])()

    def append(self) -> None:
        numbers = list(range(self.next_number, self.next_number + self.rng.randrange(1, 4)))
        self.next_number = numbers[-1] + 1
        rows = self._table(dict.fromkeys(numbers, 0))
        self._until_done(lambda _: self.library.write_dataset(rows, self.uri, mode="append"))
        self.rows.update(dict.fromkeys(numbers, 0))

    def delete(self) -> None:
        number = self.rng.choice(sorted(self.rows))
        self._until_done(lambda dataset: dataset.delete(self._where(number)))
        del self.rows[number]

    def update(self) -> None:
        number, value = self.rng.choice(sorted(self.rows)), self.rng.randrange(1, 100)
        if self.library.__name__ == "lance":
            self._until_done(lambda dataset: dataset.update({"value": str(value)}, where=self._where(number)))
        else:
            self._until_done(lambda dataset: self._move(dataset, number, value))
        self.rows[number] = value

    def compact(self) -> None:
        options = {"target_rows_per_fragment": self.rng.choice((10, 1000)), "materialize_deletions_threshold": 0.0}
        self._until_done(lambda dataset: dataset.optimize.compact_files(**options))

    def _move(self, dataset: Any, number: int, value: int) -> None:
        """An update from a fragment and a deletion: what this library's callers do."""
        import lance
        from lance.fragment import RowIdSequence

        found = dataset.to_table(filter=self._where(number), with_row_address=True)["_rowaddr"].to_pylist()
        [address] = found
        new = self.library.write_fragments(self._table({number: value}), dataset, mode="append")
        if dataset.has_stable_row_ids:
            same = lance.dataset(self.uri, version=dataset.version)
            row_ids = same.to_table(columns=[], filter=self._where(number), with_row_id=True)["_rowid"].to_pylist()
            new[0].row_id_meta = RowIdSequence(row_ids).to_inline_metadata().asdict()
        left = dataset.get_fragment(address >> 32).delete(self._where(number))
        update = self.library.LanceOperation.Update(
            removed_fragment_ids=[address >> 32] if left is None else [],
            updated_fragments=[] if left is None else [left],
            new_fragments=new,
            fields_for_preserving_frag_bitmap=[2],
            update_mode="rewrite_rows",
        )
        self.library.LanceDataset.commit(dataset, update, read_version=dataset.version)

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
    """Work as the command line says."""
    library, uri, writer, num_commits, seed = sys.argv[1:]
    mixed = MixedWriter(__import__(library), uri, int(writer), int(seed))
    mixed.library.dataset(uri)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    mixed.work(int(num_commits))
    sys.stdout.write(json.dumps(mixed.rows))


if __name__ == "__main__":
    main()
