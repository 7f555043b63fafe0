"""Sends narrow rows to the workers without Spark's count of bytes, which takes longer than sending the rows.

A batch of rows is limited by ``spark.sql.execution.arrow.maxRecordsPerBatch``, because Spark and the worker both hold
several of them, and by ``maxBytesPerBatch``, because rows may be of any size. For the second limit, Spark computes the
size of the batch after each row, from all of its columns: 0.6 microseconds for three columns, twice what it takes to
convert and send the row. The count is unnecessary if no row is wide::

    columns     those of variable size are replaced by null in a row that is wider than the limit of a row
    one more    says whether the row is wide; the worker stops at the first batch with such a row, and reports it
    the job     is repeated with Spark's count if a worker has reported a wide row

Therefore, a batch that is sent without Spark's count has at most 64 MiB.

Source: ``BasicPythonArrowInput`` and ``ArrowFieldWriter.getSizeInBytes`` of Spark 4.3.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # the name in every Spark text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["NarrowBatches", "marked_rows", "uncounted_batches"]

_WIDE: Final = "__lance_row_is_wide"
"""The column that is true in wide rows: those that need more bytes than their share of a full batch."""

_MAX_BATCH_BYTES: Final = 64 * 1024**2
_MIN_ROW_BYTES: Final = 1024
"""Minimum number of bytes per row of a full batch that the fixed-size columns must leave for values of variable size.
If they leave fewer, Spark counts the bytes, because too many jobs would have to be repeated otherwise."""

_RECORDS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNCOUNTED: Final = 2**31 - 1
"""The value of the byte limit that prevents Spark from counting bytes."""


def marked_rows(frame: DataFrame, target: pa.Schema) -> DataFrame | None:
    """Return the frame with the additional column :data:`_WIDE`; None if its batches must be counted.

    The bytes must be counted if the types alone make every row wide, if a column has a nested type other than a vector,
    if column names are ambiguous, or if the session does not limit the number of rows in a batch. If the session does
    not limit the number of bytes, no mark is needed, and None is returned, too.

    Args:
        frame: the rows.
        target: the schema with which the rows are written; its fixed-size lists determine the lengths of arrays.
    """
    max_rows = int(frame.sparkSession.conf.get(_RECORDS, "0") or 0)
    if max_rows <= 0 or int(frame.sparkSession.conf.get(_BYTES, "0") or 0) >= _UNCOUNTED:
        return None
    if len({name.lower() for name in frame.columns}) < len(frame.columns) or _WIDE in frame.columns:
        return None
    room = _MAX_BATCH_BYTES // max_rows
    variable: list[Column] = []
    columns: dict[str, Column] = {}
    for found in frame.schema.fields:
        columns[found.name] = column = F.col(f"`{found.name}`")
        index = target.get_field_index(found.name)
        stored = None if index < 0 else target.field(index).type
        if found.dataType.typeName() in ("string", "binary"):
            variable.append(F.coalesce(F.octet_length(column), F.lit(0)))
        elif stored is not None and pa.types.is_fixed_size_list(stored) and not pa.types.is_nested(stored.value_type):
            item = _fixed_bytes(stored.value_type)
            if item is None:
                return None
            room -= stored.list_size * item
            # An array of another length is an error, which the counted job reports.
            is_wrong = F.coalesce(F.size(column) > stored.list_size, F.lit(False))
            variable.append(F.when(is_wrong, F.lit(_MAX_BATCH_BYTES)).otherwise(F.lit(0)))
        elif stored is None or (width := _fixed_bytes(stored)) is None:
            return None
        else:
            room -= width
            continue
    if room < _MIN_ROW_BYTES:
        return None
    is_wide = F.lit(False)
    if variable:
        total = variable[0].cast("long")
        for each in variable[1:]:
            total = total + each
        is_wide = total > room
    shown = [
        F.when(~is_wide, columns[found.name]).alias(found.name)
        if found.dataType.typeName() in ("string", "binary", "array")
        else columns[found.name]
        for found in frame.schema.fields
    ]
    return frame.select(*shown, is_wide.alias(_WIDE))


class NarrowBatches:
    """The batches that a worker receives, up to the first one with a wide row.

    Args:
        batches: batches of the frame that :func:`marked_rows` has returned, or of any other frame, all of whose batches
            are returned.

    Attributes:
        is_stopped: whether there was a wide row.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Initialize without reading anything."""
        self._batches = batches
        self.is_stopped = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield each batch, with the mark as its last column; the caller selects the other columns by name."""
        for batch in self._batches:
            if batch.schema.names[-1:] == [_WIDE] and batch.column(batch.num_columns - 1).true_count:
                self.is_stopped = True
                return
            yield batch


def _fixed_bytes(data_type: pa.DataType) -> int | None:
    """Return the size of the values of a type, at least 8 bytes; None if values may be of any size."""
    try:
        return max(8, -(-int(data_type.bit_width) // 8))
    except ValueError:
        return None


@dataclass
class _Mode:
    """Which jobs of a session are running: those with the count, or those without it."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    running: Counter[bool] = field(default_factory=Counter)
    before: str | None = None


_modes: Final[WeakKeyDictionary[SparkSession, _Mode]] = WeakKeyDictionary()
_modes_lock: Final = threading.Lock()


@contextmanager
def uncounted_batches(session: SparkSession, *, is_uncounted: bool) -> Iterator[None]:
    """Run the jobs of the block without Spark's count of bytes, or with it.

    The count is a setting of the session, so jobs with the count and jobs without it never run at the same time.

    Args:
        session: the session of the jobs.
        is_uncounted: whether the jobs of the block need no count.
    """
    with _modes_lock:
        mode = _modes.setdefault(session, _Mode())
    with mode.changed:
        mode.changed.wait_for(lambda: not mode.running[not is_uncounted])
        if is_uncounted and not mode.running[True]:
            mode.before = session.conf.get(_BYTES, None)
            session.conf.set(_BYTES, _UNCOUNTED)
        mode.running[is_uncounted] += 1
    try:
        yield
    finally:
        with mode.changed:
            mode.running[is_uncounted] -= 1
            if is_uncounted and not mode.running[True]:
                if mode.before is None:
                    session.conf.unset(_BYTES)
                else:
                    session.conf.set(_BYTES, mode.before)
            mode.changed.notify_all()
