"""Writing a frame as Lance fragments, in parallel, without committing anything.

One Spark job: every task streams its Arrow batches into ``lance_core.write_fragments`` and answers with one row that
describes what it wrote; the driver collects these rows. No data passes through the driver, and no version of the
dataset refers to the files until the fragments are committed.

Every data file of one write ends in that write's *file token*. Attempts that failed, or that lost against another
attempt at the same partition, can leave files, which are found by the token.

Source: ``DataFrame.mapInArrow`` and ``DataFrame.observe`` of PySpark 4.3.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  # the name in every Spark text

import lance_core
from lance_core.errors import InvalidInputError, LanceError
from lance_core.metadata import open_store
from lance_pipelines.spark.batch_memory import detach_small_columns
from lance_pipelines.spark.conform import conform_batch
from lance_pipelines.spark.failures import reported_to_driver, translated
from lance_pipelines.spark.owned_jobs import owned_jobs
from lance_pipelines.spark.partitioning import coalesce_small_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, Row

__all__ = ["FrameWrite", "discard_files", "write_frame"]

_TOKEN: Final = re.compile(r"[0-9a-f]{16}")
_REPORT: Final = pa.schema(
    [
        pa.field("partition_id", pa.int32(), nullable=False),
        pa.field("attempt_number", pa.int32(), nullable=False),
        pa.field("num_rows", pa.int64(), nullable=False),
        pa.field("num_bytes", pa.int64(), nullable=False),
        pa.field("fragments", pa.string(), nullable=False),
    ]
)
_REPORT_DDL: Final = (
    "partition_id INT NOT NULL, attempt_number INT NOT NULL, num_rows BIGINT NOT NULL, num_bytes BIGINT NOT NULL, "
    "fragments STRING NOT NULL"
)


_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWrite:
    """What a job wrote.

    Attributes:
        fragments: one ``FragmentMetadata.to_json()`` document each, in the order of the frame's partitions.
        rows_counted: rows that Spark's JVM counted on their way to the workers.
        rows_written: rows that the tasks passed to the writer.
        bytes_written: bytes of their data files.
        num_tasks: tasks that wrote rows; empty partitions write nothing.
    """

    fragments: tuple[dict[str, Any], ...]
    rows_counted: int
    rows_written: int
    bytes_written: int
    num_tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskSettings:
    """The parameters of every task; sent to the workers."""

    dataset_uri: str
    mode: str
    target: pa.Schema
    max_rows_per_file: int
    max_bytes_per_file: int
    data_storage_version: str | None
    file_token: str
    storage_options: dict[str, str] | None


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
) -> FrameWrite:
    """Write every row of a frame as fragments of a dataset. Nothing is committed.

    When this raises, no task of the job is still running, and :func:`discard_files` removes what it wrote.

    Args:
        frame: the rows.
        dataset_uri: the dataset whose data directory receives the files.
        mode: ``append``, ``overwrite`` or ``create``, as for ``lance_core.write_fragments``.
        target: the fragments' schema, from :func:`~lance_pipelines.spark.schema.plan_target_schema`.
        max_rows_per_file: a task starts its next file at this many rows.
        max_bytes_per_file: a task starts its next file at about this many bytes.
        file_token: 16 hex digits, unique to this write.
        data_storage_version: format version of the data files; None for the dataset's, or the newest stable one.
        storage_options: credentials and settings of the dataset's store.

    Raises:
        InvalidInputError: the token is malformed, or the source's query fails for a row.
        SchemaMismatchError: a row does not fit the target.
        CorruptDataError: a source file cannot be read.
        StorageError: a storage operation failed, in a worker or in Spark.
        InternalError: an unexpected failure.
    """
    _check_token(file_token)
    settings = _TaskSettings(
        dataset_uri=dataset_uri,
        mode=mode,
        target=target,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        data_storage_version=data_storage_version,
        file_token=file_token,
        storage_options=None if storage_options is None else dict(storage_options),
    )
    counted = Observation()
    with translated(f"cannot write fragments of {dataset_uri}"), owned_jobs(frame.sparkSession):
        reports = (
            coalesce_small_partitions(frame)
            # Counted by the JVM in the job's only result stage, where Spark counts every partition exactly once.
            .observe(counted, F.count(F.lit(1)).alias("num_rows"))
            .mapInArrow(partial(_write_partition, settings), _REPORT_DDL)
            .collect()
        )
        rows_counted = int(counted.get["num_rows"])
    written = _summarize(_one_attempt_each(reports), rows_counted)
    if any(report.attempt_number for report in reports):
        _discard_lost_attempts(settings, written)
    return written


def discard_files(
    dataset_uri: str,
    file_token: str,
    *,
    keep: Iterable[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Delete the data files of one write, finished or not; for a write that will certainly not be committed.

    Args:
        dataset_uri: the dataset.
        file_token: the write's token; files of other writes are never touched.
        keep: names of data files to keep: those that will be committed.
        storage_options: credentials and settings of the dataset's store.

    Returns:
        Paths of the files deleted.

    Raises:
        InvalidInputError: the token is malformed.
        StorageError: a file cannot be deleted.
    """
    _check_token(file_token)
    store, root = open_store(dataset_uri, storage_options)
    whole = re.compile(rf"[^.][^/]*{file_token}\.lance")
    unfinished = re.compile(rf"\.tmp[^/]*{file_token}[^/]*")
    kept = frozenset(keep)
    discarded = []
    for entry in list(store.list(store.join(root, "data"))):
        name = entry.path.replace("\\", "/").rpartition("/")[2]
        if (whole.fullmatch(name) and name not in kept) or unfinished.fullmatch(name):
            store.delete(entry.path)
            discarded.append(entry.path)
    return tuple(discarded)


def _discard_lost_attempts(settings: _TaskSettings, written: FrameWrite) -> None:
    """Attempts before the ones that count may have finished files; leaving them costs room, not correctness."""
    keep = [data_file["path"] for fragment in written.fragments for data_file in fragment["files"]]
    try:
        discard_files(settings.dataset_uri, settings.file_token, keep=keep, storage_options=settings.storage_options)
    except LanceError as error:
        _logger.warning("files of failed attempts could not be removed (*%s.lance): %s", settings.file_token, error)


def _write_partition(settings: _TaskSettings, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: one partition in, one report out; nothing for an empty partition."""
    with reported_to_driver():
        conformed = _ConformedRows(batches, settings.target)
        first = next(conformed, None)
        if first is None:
            return
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
        )
    documents = [fragment.to_json() for fragment in cast("list[lance_core.FragmentMetadata]", fragments)]
    task = cast("TaskContext", TaskContext.get())
    report = {
        "partition_id": task.partitionId(),
        "attempt_number": task.attemptNumber(),
        "num_rows": conformed.num_rows,
        "num_bytes": sum(data_file["file_size_bytes"] for document in documents for data_file in document["files"]),
        "fragments": json.dumps(documents),
    }
    yield pa.RecordBatch.from_pylist([report], schema=_REPORT)


class _ConformedRows:
    """The batches of one partition in the target's types, and how many rows went by."""

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
    """One report per partition, in order. Spark hands over one attempt's output; a second would double its rows."""
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


def _check_token(file_token: str) -> None:
    if not _TOKEN.fullmatch(file_token):
        raise InvalidInputError(f"file token {file_token!r} is not 16 lower-case hex digits")
