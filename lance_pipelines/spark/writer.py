"""Writes a DataFrame as Lance fragments, in parallel, without committing anything.

In one Spark job, every task streams its Arrow batches into ``lance_core.write_fragments`` and returns one row that
describes what it wrote; the driver collects these rows. No data passes through the driver, and no version of the
dataset refers to the files until the fragments are committed.

The name of every data file of one write ends in that write's *file token*. ``leftovers.py`` uses it to find the files
of failed attempts.

Source: ``DataFrame.mapInArrow`` and ``DataFrame.observe`` of PySpark 4.3.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  # the name in every Spark text

import lance_core
from lance_pipelines.spark.conform import conform_batch, detach_small_columns
from lance_pipelines.spark.failures import reported_to_driver, translated
from lance_pipelines.spark.leftovers import check_token, discard_lost_attempts
from lance_pipelines.spark.narrow_rows import NarrowBatches, marked_rows, uncounted_batches
from lance_pipelines.spark.owned_jobs import owned_jobs
from lance_pipelines.spark.tasks import default_parallelism, may_lose_attempts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, Row

__all__ = [
    "AttemptReport",
    "FrameWrite",
    "WriteSettings",
    "coalesce_small_partitions",
    "write_frame",
    "write_partition",
]

PARTITION_BYTES: Final = 128 * 1024**2
"""Number of input bytes per writing task, as estimated by Spark; the same as Spark's default size of a file split."""

_REPORT: Final = pa.schema(
    [
        pa.field("partition_id", pa.int32(), nullable=False),
        pa.field("attempt_number", pa.int32(), nullable=False),
        pa.field("num_rows", pa.int64(), nullable=False),
        pa.field("num_bytes", pa.int64(), nullable=False),
        pa.field("fragments", pa.string(), nullable=False),
        pa.field("is_stopped", pa.bool_(), nullable=False),
    ]
)
_REPORT_DDL: Final = (
    "partition_id INT NOT NULL, attempt_number INT NOT NULL, num_rows BIGINT NOT NULL, num_bytes BIGINT NOT NULL, "
    "fragments STRING NOT NULL, is_stopped BOOLEAN NOT NULL"
)

_OPTIMIZED_PLAN: Final = "== Optimized Logical Plan =="
_COALESCED: Final = re.compile(r"Repartition \d+, false")
_ESTIMATE: Final = re.compile(r"sizeInBytes=([\d.]+(?:E\+?\d+)?) (\w+)")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWrite:
    """The result of a write job.

    Attributes:
        fragments: the fragments, each serialized by ``FragmentMetadata.to_json()``, in the order of the DataFrame's
            partitions.
        rows_counted: number of rows that Spark passed to the workers, as counted by the JVM.
        rows_written: number of rows that the tasks passed to the writer.
        bytes_written: total size of the data files, in bytes.
        num_tasks: number of tasks that wrote rows; empty partitions write nothing.
    """

    fragments: tuple[dict[str, Any], ...]
    rows_counted: int
    rows_written: int
    bytes_written: int
    num_tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """The parameters of every task that writes fragments; sent to the workers.

    Attributes:
        dataset_uri: location of the dataset whose data directory receives the files.
        mode: as for ``lance_core.write_fragments``.
        target: the fragments' schema.
        max_rows_per_file: number of rows at which a task starts its next file.
        max_bytes_per_file: approximate number of bytes at which a task starts its next file.
        data_storage_version: format version of the data files; None means that of the dataset.
        file_token: 16 hex digits, unique to the write.
        storage_options: credentials and settings of the dataset's store; not shown by ``repr``.
        target_bases: names or paths of the bases to which files are written in turn; None means the dataset itself.
    """

    dataset_uri: str
    mode: str
    target: pa.Schema
    max_rows_per_file: int
    max_bytes_per_file: int
    data_storage_version: str | None
    file_token: str
    storage_options: dict[str, str] | None = field(repr=False)
    target_bases: tuple[str, ...] | None = None


def write_frame(
    frame: DataFrame,
    *,
    dataset_uri: str,
    mode: str,
    target: pa.Schema,
    max_rows_per_file: int,
    max_bytes_per_file: int,
    file_token: str,
    data_storage_version: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    target_bases: Sequence[str] | None = None,
) -> FrameWrite:
    """Write every row of a DataFrame as fragments of a dataset. Nothing is committed.

    If this function fails, no task of the job is still running, and the files that the job wrote can be removed with
    :func:`~lance_pipelines.spark.leftovers.discard_files`.

    Args:
        frame: the DataFrame.
        dataset_uri: location of the dataset whose data directory receives the files.
        mode: ``append``, ``overwrite``, or ``create``, as for ``lance_core.write_fragments``.
        target: the fragments' schema, from :func:`~lance_pipelines.spark.schema.plan_target_schema`.
        max_rows_per_file: number of rows at which a task starts its next file.
        max_bytes_per_file: approximate number of bytes at which a task starts its next file.
        file_token: 16 hex digits, unique to this write.
        data_storage_version: format version of the data files; if None, the dataset's, or the newest stable version.
        storage_options: credentials and settings of the dataset's store.
        target_bases: names or paths of the dataset's bases to which each task writes its files in turn; None means the
            dataset itself.

    Raises:
        InvalidInputError: the token is malformed, a base is unknown, or the source's query fails for a row.
        SchemaMismatchError: a row does not fit the target.
        CorruptDataError: a source file cannot be read.
        StorageError: a storage operation failed, in a worker or in Spark.
        InternalError: an unexpected failure occurred.
    """
    check_token(file_token)
    settings = WriteSettings(
        dataset_uri=dataset_uri,
        mode=mode,
        target=target,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        data_storage_version=data_storage_version,
        file_token=file_token,
        storage_options=None if storage_options is None else dict(storage_options),
        target_bases=None if target_bases is None else tuple(target_bases),
    )
    with translated(f"cannot write fragments of {dataset_uri}"), owned_jobs(frame.sparkSession):
        rows = coalesce_small_partitions(frame)
        marked = marked_rows(rows, target)
        reports, rows_counted = _run(rows if marked is None else marked, settings, is_uncounted=marked is not None)
        has_wide_rows = any(report.is_stopped for report in reports)
        if has_wide_rows:
            reports, rows_counted = _run(rows, settings, is_uncounted=False)
        has_leftovers = has_wide_rows or may_lose_attempts(frame.sparkSession, reports)
    written = _summarize(_one_attempt_each(reports), rows_counted)
    if has_leftovers:
        discard_lost_attempts(dataset_uri, file_token, written.fragments, storage_options=storage_options)
    return written


def _run(rows: DataFrame, settings: WriteSettings, *, is_uncounted: bool) -> tuple[list[Row], int]:
    """Write all rows, and return the reports of the tasks and the number of rows that the JVM has counted."""
    counted = Observation()
    with uncounted_batches(rows.sparkSession, is_uncounted=is_uncounted):
        reports = (
            # Counted by the JVM in the job's only result stage, where Spark counts every partition exactly once.
            rows.observe(counted, F.count(F.lit(1)).alias("num_rows"))
            .mapInArrow(partial(_write_partition, settings), _REPORT_DDL)
            .collect()
        )
        return reports, int(counted.get["num_rows"])


def coalesce_small_partitions(frame: DataFrame, *, partition_bytes: int = PARTITION_BYTES) -> DataFrame:
    """Merge small partitions, so that ten thousand small files do not become ten thousand fragments.

    Every task with rows writes at least one fragment. Therefore, partitions are merged until there is one for every
    ``partition_bytes`` of the size that Spark estimates, but not to fewer partitions than there are cores in the
    cluster. Merging does not move rows between machines. If Spark cannot estimate the size, it assumes a huge
    DataFrame, and nothing is merged. If the last operation of the DataFrame is ``coalesce``, its partitions are kept:
    Spark's optimizer replaces two such operations in a row with the second one, even if that has more partitions.

    Args:
        frame: any DataFrame.
        partition_bytes: number of bytes per partition, at least 1.

    Returns:
        The DataFrame, with the same number of partitions or fewer.
    """
    try:
        node, estimate = _plan_estimate(frame)
    except (PySparkException, Py4JError, AttributeError) as error:
        _logger.debug("partitions are not merged, because there is no estimate of the DataFrame's size: %s", error)
        return frame
    if _COALESCED.match(node):
        return frame
    wanted = max(default_parallelism(frame.sparkSession), -(-estimate // partition_bytes))
    # More than Java's largest int is certainly more than the frame has.
    return frame if wanted >= 2**31 else frame.coalesce(wanted)


def _plan_estimate(frame: DataFrame) -> tuple[str, int]:
    """Return the last operation, and the estimated size in bytes, which is far too large if Spark has no estimate."""
    if hasattr(frame, "_jdf"):
        plan = frame._jdf.queryExecution().optimizedPlan()
        return str(plan.simpleString(1)), int(str(plan.stats().sizeInBytes()))
    # Of a Spark Connect session, the estimate is only in the description of the plan, rounded.
    description = cast("Any", frame)._explain_string(mode="cost")
    node = description.partition(_OPTIMIZED_PLAN)[2].lstrip()
    found = _ESTIMATE.search(description)
    return node, sys.maxsize if found is None else int(float(found[1]) * 1024 ** _UNITS.index(found[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """What one attempt of a task wrote.

    Attributes:
        partition_id: index of the partition.
        attempt_number: number of attempts of the task before this one.
        num_rows: number of rows.
        num_bytes: total size of the data files, in bytes.
        fragments: the fragments, each serialized by ``FragmentMetadata.to_json()``.
    """

    partition_id: int
    attempt_number: int
    num_rows: int
    num_bytes: int
    fragments: tuple[dict[str, Any], ...]


def write_partition(settings: WriteSettings, batches: Iterable[pa.RecordBatch]) -> AttemptReport | None:
    """Write the rows of one partition; return None if the partition is empty. Runs in a worker.

    Raises:
        SchemaMismatchError: a row does not fit the target.
        StorageError: a storage operation failed.
    """
    with reported_to_driver():
        conformed = _ConformedRows(batches, settings.target)
        first = next(conformed, None)
        if first is None:
            return None
        fragments = lance_core.write_fragments(
            pa.RecordBatchReader.from_batches(settings.target, chain([first], conformed)),
            settings.dataset_uri,
            schema=settings.target,
            mode=settings.mode,
            max_rows_per_file=settings.max_rows_per_file,
            max_bytes_per_file=settings.max_bytes_per_file,
            data_storage_version=settings.data_storage_version,
            storage_options=settings.storage_options,
            file_token=settings.file_token,
            target_bases=None if settings.target_bases is None else list(settings.target_bases),
        )
    documents = [fragment.to_json() for fragment in cast("list[lance_core.FragmentMetadata]", fragments)]
    task = cast("TaskContext", TaskContext.get())
    return AttemptReport(
        partition_id=task.partitionId(),
        attempt_number=task.attemptNumber(),
        num_rows=conformed.num_rows,
        num_bytes=sum(data_file["file_size_bytes"] for document in documents for data_file in document["files"]),
        fragments=tuple(documents),
    )


def _write_partition(settings: WriteSettings, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write one partition and yield one row with its report, or none for an empty partition; runs in a worker."""
    narrow = NarrowBatches(batches)
    report = write_partition(settings, narrow)
    if narrow.is_stopped:
        row = {**dict.fromkeys(_REPORT.names, 0), "fragments": "[]", "is_stopped": True}
    elif report is not None:
        row = {**asdict(report), "fragments": json.dumps(report.fragments), "is_stopped": False}
    else:
        return
    yield pa.RecordBatch.from_pylist([row], schema=_REPORT)


class _ConformedRows:
    """The batches of one partition in the target's types, and the number of rows so far."""

    def __init__(self, batches: Iterable[pa.RecordBatch], target: pa.Schema) -> None:
        self._batches = iter(batches)
        self._target = target
        self.num_rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        while batch.num_rows == 0:
            batch = next(self._batches)
        conformed = conform_batch(batch, self._target, first_row=self.num_rows)
        self.num_rows += batch.num_rows
        return detach_small_columns(conformed)


def _one_attempt_each(reports: Sequence[Row]) -> list[Row]:
    """Return one report per partition, in order. If a partition was written again, only the last attempt counts."""
    latest: dict[int, Row] = {}
    for report in reports:
        known = latest.get(report.partition_id)
        if known is None or known.attempt_number < report.attempt_number:
            latest[report.partition_id] = report
    return [latest[partition_id] for partition_id in sorted(latest)]


def _summarize(reports: Sequence[Row], rows_counted: int) -> FrameWrite:
    return FrameWrite(
        fragments=tuple(fragment for report in reports for fragment in json.loads(report.fragments)),
        rows_counted=rows_counted,
        rows_written=sum(report.num_rows for report in reports),
        bytes_written=sum(report.num_bytes for report in reports),
        num_tasks=len(reports),
    )
