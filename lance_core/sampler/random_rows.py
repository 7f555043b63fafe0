"""Random rows of a dataset.

===============================  =====================================================================================
Request                          Rows
===============================  =====================================================================================
as many rows as there are        all of them, by a scan
at most ``max_takes`` rows       each chosen at random
more rows                        ``max_takes`` ranges of neighboring rows, one at a random position in each equal part
                                 of the dataset
``column IS NOT NULL``, and only ranges of rows in random order, without their nulls, until there are enough; rows of
that column                      other ranges are not read
another filter                   each chosen at random among the matches, whose ids are read first
===============================  =====================================================================================

The functions use the global random number generator of numpy, so that ``numpy.random.seed`` determines the rows.

**Source:** ``lance.sampler.maybe_sample`` of pylance 14.0.2. That function returns too few rows if the requested number
is not a multiple of ``max_takes`` or few rows match, and it rejects all filters except ``IS NOT NULL``; this function
does neither.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_core.api.open_dataset import dataset as open_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance_core.api.dataset import LanceDataset

__all__ = ["maybe_sample"]


def maybe_sample(
    dataset: str | Path | LanceDataset,
    n: int,
    columns: list[str] | dict[str, str] | str,
    batch_size: int = 10240,
    max_takes: int = 2048,
    filt: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield random rows of a dataset; see the module docstring.

    Args:
        dataset: the dataset or its location.
        n: number of rows. If the dataset has fewer rows, all of them are returned.
        columns: the columns to read.
        batch_size: maximum number of rows of a batch.
        max_takes: maximum number of ranges of rows to read.
        filt: a filter that the rows must match.

    Raises:
        InvalidInputError: a column is unknown, or the filter is invalid.
    """
    source = open_dataset(dataset) if isinstance(dataset, (str, Path)) else dataset
    wanted = [columns] if isinstance(columns, str) else columns
    total = len(source)
    if n >= total:
        yield from source.to_batches(columns=wanted, batch_size=batch_size, filter=filt)
    elif filt is None:
        rows = np.random.choice(total, n, replace=False) if n <= max_takes else _spread(total, n, max_takes)
        for chosen in _slices(rows, batch_size):
            yield from _one_batch(source.take(chosen, columns=wanted))
    elif _keeps_values_of(filt, wanted, source):
        ranges = _values_in_random_order(source, wanted, -(-n // max_takes), batch_size)
        yield from _batches(ranges, n, batch_size)
    else:
        ids = source.to_table(columns=[], filter=filt, with_row_id=True)["_rowid"].to_numpy()
        for chosen in _slices(np.random.choice(ids, min(n, len(ids)), replace=False), batch_size):
            yield from _one_batch(source._take_rows(chosen, columns=wanted))


def _spread(total: int, count: int, num_ranges: int) -> np.ndarray[Any, Any]:
    """Return ``count`` positions: a contiguous range at a random place in each of ``num_ranges`` equal parts."""
    parts = np.arange(num_ranges + 1)
    lengths, gaps = np.diff(parts * count // num_ranges), np.diff(parts * (total - count) // num_ranges)
    starts = np.cumsum(lengths + gaps) - lengths - np.random.randint(0, gaps + 1)
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(count)


def _keeps_values_of(filt: str, columns: list[str] | dict[str, str], source: LanceDataset) -> bool:
    """Return whether only one top-level column is requested, and the filter only excludes its nulls."""
    if isinstance(columns, dict) or len(columns) != 1 or columns[0] not in source.schema.names:
        return False
    return filt.lower() == f"{columns[0]} is not null".lower()


def _values_in_random_order(
    source: LanceDataset, columns: list[str] | dict[str, str], range_rows: int, batch_size: int
) -> Iterator[pa.Table]:
    total = len(source)
    starts = np.arange(0, total, range_rows)
    np.random.shuffle(starts)
    for some in _slices(starts, max(1, batch_size // range_rows)):
        rows = (some[:, None] + np.arange(range_rows)).ravel()
        yield source.take(rows[rows < total], columns=columns).drop_null()


def _batches(tables: Iterable[pa.Table], count: int, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Yield the first ``count`` rows of the tables; every batch but the last has ``batch_size`` rows."""
    kept: list[pa.Table] = []
    num_kept = 0
    for table in tables:
        kept.append(table.slice(0, count - num_kept))
        num_kept += kept[-1].num_rows
        if num_kept >= batch_size or num_kept == count:
            joined = pa.concat_tables(kept)
            whole = joined.num_rows if num_kept == count else joined.num_rows // batch_size * batch_size
            for start in range(0, whole, batch_size):
                yield from _one_batch(joined.slice(start, min(batch_size, whole - start)))
            kept = [joined.slice(whole)]
            num_kept -= whole
            count -= whole
        if not count:
            return
    yield from _one_batch(pa.concat_tables(kept))


def _slices(values: np.ndarray[Any, Any], size: int) -> Iterator[np.ndarray[Any, Any]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _one_batch(table: pa.Table) -> Iterator[pa.RecordBatch]:
    if table.num_rows:
        yield from table.combine_chunks().to_batches()
