"""The rows of the demonstration, and the expected rows after each delete.

The expected rows are computed with Arrow functions alone, without reading the dataset.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["DELETES", "EMBEDDING_LENGTH", "Delete", "ExpectedRows", "events", "write_batch"]

EMBEDDING_LENGTH: Final = 8

_KINDS: Final = ("view", "click", "purchase", "bot")
_SHARES: Final = (0.5, 0.3, 0.16, 0.04)
_SEED: Final = 7

_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("score", pa.float64()),
        pa.field("embedding", pa.list_(pa.float32(), EMBEDDING_LENGTH)),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """One delete of the demonstration.

    Attributes:
        predicate: the predicate for the job, in SQL.
        matches: function that evaluates the same predicate with Arrow; it maps a table to a boolean array.
    """

    predicate: str
    matches: Callable[[pa.Table], pa.ChunkedArray]


DELETES: Final = (
    Delete(predicate="kind = 'bot'", matches=lambda rows: pc.equal(rows["kind"], "bot")),
    Delete(
        predicate="id >= 2100 AND id < 4180",
        matches=lambda rows: pc.and_(pc.greater_equal(rows["id"], 2100), pc.less(rows["id"], 4180)),
    ),
    Delete(predicate="score < 0.02", matches=lambda rows: pc.less(rows["score"], 0.02)),
    Delete(
        predicate="id IN (501, 1002, 1503, 4504)",
        matches=lambda rows: pc.is_in(rows["id"], value_set=pa.array([501, 1002, 1503, 4504])),
    ),
    Delete(
        predicate="kind = 'view' AND score > 0.97",
        matches=lambda rows: pc.and_(pc.equal(rows["kind"], "view"), pc.greater(rows["score"], 0.97)),
    ),
)
"""The five deletes of the demonstration. They select rows by kind, by a range of ids, by a threshold, by individual
ids, and by a combination of conditions. The range covers some fragments completely and two partly."""


def events(number: int, num_rows: int) -> pa.Table:
    """Return the rows of one batch; ids continue from batch to batch.

    Args:
        number: number of the batch, from 0.
        num_rows: number of rows in each batch.
    """
    random = np.random.default_rng((_SEED, number))
    vectors = random.standard_normal(num_rows * EMBEDDING_LENGTH, dtype=np.float32)
    return pa.table(
        [
            pa.array(np.arange(number * num_rows, (number + 1) * num_rows)),
            pa.array(random.choice(_KINDS, num_rows, p=_SHARES)),
            pa.array(random.random(num_rows)),
            pa.FixedSizeListArray.from_arrays(pa.array(vectors), EMBEDDING_LENGTH),
        ],
        schema=_SCHEMA,
    )


def write_batch(directory: Path, number: int, num_rows: int) -> Path:
    """Write one batch as a Parquet file and return its path."""
    path = directory / f"batch-{number:03d}.parquet"
    pq.write_table(events(number, num_rows), path)
    return path


class ExpectedRows:
    """The rows that the dataset is expected to contain."""

    def __init__(self) -> None:
        """Initialize without rows."""
        self._rows = _SCHEMA.empty_table()

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        num_rows: int = self._rows.num_rows
        return num_rows

    @property
    def rows(self) -> pa.Table:
        """All rows, in ascending order of id."""
        return self._rows.sort_by("id").combine_chunks()

    def append(self, rows: pa.Table) -> None:
        """Add the rows of a batch."""
        self._rows = pa.concat_tables([self._rows, rows])

    def delete(self, delete: Delete) -> int:
        """Delete the matching rows and return their number."""
        kept = self._rows.filter(pc.invert(delete.matches(self._rows)))
        num_deleted: int = self._rows.num_rows - kept.num_rows
        self._rows = kept
        return num_deleted
