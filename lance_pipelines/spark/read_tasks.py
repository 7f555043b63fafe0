"""Divides the rows of a version into tasks of about the same size, and reads the rows of one task.

Adjacent small fragments are read by one task, and a large fragment is divided among several::

    fragments   [ 30 MB ][ 40 MB ][        400 MB        ][ 10 MB ]
    tasks       0 0 0 0 0 0 0 0 0 [  1  ][  2  ][  3  ][4] 5 5 5 5       at most 128 MiB each

If this would result in fewer tasks than processors, the tasks are made smaller.

The sizes are those of the columns that are read. They are estimated from the types, because only the sizes of whole
files are known without opening them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from lance_core.metadata import scan_row_range
from lance_pipelines.spark.conform import conform_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core import LanceDataset
    from lance_core.metadata import Fragment

__all__ = ["ReadTask", "Scan", "column_share", "plan_tasks", "read_task"]

TASK_BYTES: Final = 128 * 1024**2
"""Number of bytes that a task reads, by default; the same as Spark's default size of a file split."""

_SMALLEST_TASK_BYTES: Final = 4 * 1024**2
"""Minimum target size of a task, in bytes; the same as Spark's default cost of opening a file. A smaller task would
take longer to start than to read."""

_BATCH_BYTES: Final = 16 * 1024**2
"""Maximum size of a batch, in bytes: the JVM and the worker both hold several."""

_VARIABLE_BYTES: Final = 32
"""Assumed size of a variable-width value, in bytes."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The rows that one task reads.

    Attributes:
        fragment_ids: the fragments.
        rows: if there is only one fragment, the range of its rows, counted without deleted rows; None means all rows.
    """

    fragment_ids: tuple[int, ...]
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a task reads from its rows.

    Attributes:
        columns: names of the columns; None means all. Columns that the version does not have are read as nulls.
        filter: a SQL condition, as for ``LanceDataset.scanner``; None means all rows.
        target: the schema in which Spark takes the columns.
        batch_rows: maximum number of rows in a batch; None means the default of a scan.
        blob_handling: as for ``LanceDataset.scanner``.
    """

    columns: tuple[str, ...] | None
    filter: str | None
    target: pa.Schema
    batch_rows: int | None = None
    blob_handling: str | None = None

    def with_filter(self, condition: str | None) -> Self:
        """Return a copy with another filter."""
        return replace(self, filter=condition)


def plan_tasks(
    fragments: Sequence[Fragment], *, share: float = 1.0, task_bytes: int = TASK_BYTES, parallelism: int = 1
) -> tuple[ReadTask, ...]:
    """Divide fragments into tasks.

    Args:
        fragments: the fragments, in order.
        share: the part of their bytes that is read, from :func:`column_share`.
        task_bytes: number of bytes that a task should read at most, at least 1. A file of unknown size counts as this
            number of bytes.
        parallelism: minimum number of tasks, provided that each of them reads at least 4 MiB.
    """
    # If there are a few more fragments than fit, they must not leave a small task, which would be executed last.
    overhang = 0.0
    if parallelism > 1:
        overhang = 0.5
        total = sum(size or task_bytes for fragment in fragments for size in fragment.data_file_bytes) * share
        task_bytes = min(task_bytes, max(_SMALLEST_TASK_BYTES, int(total / parallelism) + 1))
    tasks: list[ReadTask] = []
    group: list[int] = []
    room = float(task_bytes)

    def close() -> None:
        nonlocal room
        if group:
            tasks.append(ReadTask(tuple(group)))
            group.clear()
        room = task_bytes

    for fragment in fragments:
        num_bytes = sum(size or task_bytes for size in fragment.data_file_bytes) * share
        num_rows = fragment.num_live_rows
        pieces = min(int(-(-num_bytes // task_bytes)), num_rows)
        if pieces > 1:
            close()
            bounds = [num_rows * piece // pieces for piece in range(pieces + 1)]
            # Where the number of deleted rows is not recorded, there are fewer rows than assumed.
            tasks += [ReadTask((fragment.id,), rows) for rows in pairwise(bounds)]
            continue
        if num_bytes * (1 - overhang) > room:
            close()
        group.append(fragment.id)
        room -= num_bytes
    close()
    return tuple(tasks)


def column_share(schema: pa.Schema, columns: Sequence[str] | None) -> float:
    """Estimate the part of the bytes of a table that some of its columns take up, from 0 to 1."""
    total = sum(_value_bytes(field.type) for field in schema)
    if columns is None or not total:
        return 1.0
    return sum(_value_bytes(field.type) for field in schema if field.name in columns) / total


def read_task(dataset: LanceDataset, task: ReadTask, scan: Scan) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task in the target schema.

    Raises:
        SchemaMismatchError: a value cannot be represented in Spark.
        NotFoundError: a file is missing.
        CorruptDataError: a file cannot be decoded.
        StorageError: a storage operation failed.
    """
    absent = () if scan.columns is None else _absent(dataset, scan)
    columns = None if scan.columns is None else [name for name in scan.columns if name not in absent]
    if task.rows is None:
        wanted = set(task.fragment_ids)
        scanner = dataset.scanner(
            columns=columns,
            filter=scan.filter,
            fragments=[fragment for fragment in dataset.get_fragments() if fragment.fragment_id in wanted],
            batch_size=scan.batch_rows,
            batch_size_bytes=_BATCH_BYTES,
            blob_handling=scan.blob_handling,
        )
    else:
        scanner = scan_row_range(
            dataset,
            task.fragment_ids[0],
            *task.rows,
            columns=columns,
            filter=scan.filter,
            batch_size=scan.batch_rows,
            batch_size_bytes=_BATCH_BYTES,
            blob_handling=scan.blob_handling,
        )
    for batch in scanner.to_batches():
        if not scan.target.names:
            yield batch
            continue
        rows = batch
        for name in absent:
            rows = rows.append_column(name, pa.nulls(batch.num_rows, scan.target.field(name).type))
        yield conform_batch(rows, scan.target)


def _absent(dataset: LanceDataset, scan: Scan) -> tuple[str, ...]:
    known = {*dataset.schema.names}
    return tuple(name for name in scan.columns or () if name not in known and not name.startswith("_row"))


def _value_bytes(data_type: pa.DataType) -> float:
    if pa.types.is_fixed_size_list(data_type):
        return float(data_type.list_size * _value_bytes(data_type.value_type))
    if pa.types.is_struct(data_type):
        return sum(_value_bytes(child.type) for child in data_type)
    try:
        return float(data_type.bit_width / 8)
    except ValueError:
        return float(_VARIABLE_BYTES)
