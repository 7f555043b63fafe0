"""The rows of the demonstration's batches, and the rows that the datasets must then contain.

The expected rows are computed with Arrow functions alone, without reading the datasets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["DELETES", "HOURS", "Delete", "ExpectedRows", "events", "profiles", "query_vector", "write_batch"]

HOURS: Final = [f"hour-{number:03d}" for number in range(500)]
"""The partitions of the events, one for each batch."""

_EMBEDDING_LENGTH: Final = 8
_KINDS: Final = ("view", "click", "purchase", "bot")
_SHARES: Final = (0.5, 0.3, 0.16, 0.04)
_PLANS: Final = ("free", "team", "business")
_SEED: Final = 7
_PARQUET: Final = ".parquet"


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
    Delete(
        predicate="plan = 'free' AND batch < 3",
        matches=lambda rows: pc.and_(pc.equal(rows["plan"], "free"), pc.less(rows["batch"], 3)),
    ),
    Delete(
        predicate="user >= 100 AND user < 630",
        matches=lambda rows: pc.and_(pc.greater_equal(rows["user"], 100), pc.less(rows["user"], 630)),
    ),
)
"""The deletes of profiles. The range of users covers some fragments completely and others partly."""


def events(number: int, num_rows: int) -> pa.Table:
    """Return the events of an hour. They depend only on the arguments.

    Args:
        number: number of the batch, from 0.
        num_rows: number of rows in each batch.
    """
    random = np.random.default_rng((_SEED, number))
    return pa.table(
        {
            "id": pa.array(np.arange(number * num_rows, (number + 1) * num_rows)),
            "hour": pa.array([HOURS[number]] * num_rows),
            "kind": pa.array(random.choice(_KINDS, num_rows, p=_SHARES)),
            "embedding": pa.FixedSizeListArray.from_arrays(
                pa.array(random.standard_normal(num_rows * _EMBEDDING_LENGTH, dtype=np.float32)), _EMBEDDING_LENGTH
            ),
        }
    )


def profiles(number: int, num_rows: int) -> pa.Table:
    """Return a batch of profiles. Half of the users are also in the previous batch.

    Args:
        number: number of the batch, from 0.
        num_rows: number of rows in each batch.
    """
    random = np.random.default_rng((_SEED, number))
    first = number * (num_rows // 2)
    return pa.table(
        {
            "user": pa.array(np.arange(first, first + num_rows)),
            "plan": pa.array(random.choice(_PLANS, num_rows)),
            "batch": pa.array([number] * num_rows),
        }
    )


def query_vector() -> list[float]:
    """Return the vector whose nearest neighbors the demonstration searches for."""
    vector: list[float] = np.random.default_rng(_SEED).standard_normal(_EMBEDDING_LENGTH, dtype=np.float32).tolist()
    return vector


def write_batch(directory: Path, number: int, rows: pa.Table) -> None:
    """Put a batch into the landing directory of its dataset, in a file with the name of the batch's hour."""
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, directory / f"{HOURS[number]}{_PARQUET}")


class ExpectedRows:
    """The rows that a dataset is expected to contain.

    Args:
        key: the column whose values identify rows.
    """

    def __init__(self, key: str) -> None:
        """Initialize without rows."""
        self._key = key
        self._rows: pa.Table | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        num_rows: int = self.rows.num_rows
        return num_rows

    @property
    def rows(self) -> pa.Table:
        """All rows, in ascending order of key.

        Raises:
            ValueError: no batch was added.
        """
        if self._rows is None:
            raise ValueError("no batch was added")
        return self._rows

    def upsert(self, rows: pa.Table) -> None:
        """Add the rows of a batch, which replace rows with the same keys."""
        parts = [rows]
        if self._rows is not None:
            kept = pc.invert(pc.is_in(self._rows[self._key], value_set=rows[self._key].combine_chunks()))
            parts.append(self._rows.filter(kept))
        self._rows = pa.concat_tables(parts).sort_by(self._key).combine_chunks()

    def delete(self, delete: Delete) -> int:
        """Delete the matching rows and return their number."""
        num_rows = self.num_rows
        self._rows = self.rows.filter(pc.invert(delete.matches(self.rows))).combine_chunks()
        return num_rows - self.num_rows
