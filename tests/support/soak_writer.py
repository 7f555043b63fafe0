"""A writer of the soak test, with either implementation: appends, deletes, updates, and upserts rows of its own.

Run as ``python -m tests.support.soak_writer library uri writer seed``. It says "ready", waits for a line, and works
until its standard input ends; then it prints the values of its rows by their numbers.
"""

from __future__ import annotations

import json
import sys
import threading

import numpy as np
import pyarrow as pa

from tests.support.mixed_writer import MixedWriter

DIMENSION = 4
IDS_OF_WRITER = 10_000_000
"""The ids of a writer's rows begin at this multiple of its number."""

_PAUSE_SECONDS = 1.0


def soak_rows(writer: int, rows: dict[int, int]) -> pa.Table:
    """Return rows of a writer: their values by their numbers. The vector of a row is its id in all dimensions."""
    ids = np.array(list(rows), np.int64) + writer * IDS_OF_WRITER
    return pa.table(
        {
            "writer": pa.array([writer] * len(rows), pa.int64()),
            "number": pa.array(list(rows), pa.int64()),
            "value": pa.array(list(rows.values()), pa.int64()),
            "id": pa.array(ids),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(np.repeat(ids.astype(np.float32), DIMENSION)), DIMENSION
            ),
        }
    )


class SoakWriter(MixedWriter):
    """A writer that leaves the columns and the maintenance of the table to others."""

    def work_until(self, stop: threading.Event) -> None:
        """Change rows, one commit after another."""
        self.append()
        actions = [self.append, self.insert, self.delete, self.update, self.upsert]
        while not stop.wait(_PAUSE_SECONDS):
            self.rng.choice(actions if self.rows else [self.append])()

    def _table(self, rows: dict[int, int]) -> pa.Table:
        return soak_rows(self.writer, rows)


def main() -> None:
    """Run the writer described by the command line."""
    library, uri, writer, seed = sys.argv[1:]
    soak = SoakWriter(__import__(library), uri, int(writer), int(seed))
    soak.library.dataset(uri)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    soak.work_until(stop)
    sys.stdout.write(json.dumps(soak.rows))


if __name__ == "__main__":
    main()
