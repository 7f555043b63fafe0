"""Reads one version of a dataset as a DataFrame: each Spark task scans some of its fragments.

The driver reads only the manifest. ``types.py`` determines the types of the columns in Spark.

Source: ``DataFrame.mapInArrow`` of PySpark 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import lance_core
from lance_pipelines.spark.failures import reported_to_driver
from lance_pipelines.spark.read_tasks import TASK_BYTES, ReadTask, Scan, column_share, plan_tasks, read_task
from lance_pipelines.spark.tasks import default_parallelism
from lance_pipelines.spark.types import natural_schema, spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScanSettings:
    """The parameters of every task; sent to the workers."""

    dataset_uri: str
    version: int
    storage_options: dict[str, str] | None = field(repr=False)
    scan: Scan
    tasks: tuple[ReadTask, ...]


def read_version(
    session: SparkSession,
    dataset: lance_core.LanceDataset,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
) -> DataFrame:
    """Return a DataFrame of the handle's version. The rows are read when Spark needs them.

    Args:
        session: a running Spark session.
        dataset: a handle to the version.
        columns: names of the columns; None means all.
        filter: a SQL condition, as for ``LanceDataset.scanner``; None means all rows.

    Raises:
        NotSupportedError: Spark has no type for a column.
        InvalidInputError: a column or the filter is invalid.
    """
    names = None if columns is None else list(columns)
    projected = dataset.scanner(columns=names, filter=filter).projected_schema
    struct_type = spark_schema(projected)
    scan = Scan(columns=None if columns is None else tuple(columns), filter=filter, target=natural_schema(struct_type))
    settings = _ScanSettings(
        dataset_uri=dataset.uri,
        version=dataset.version,
        storage_options=dataset.storage_options,
        scan=scan,
        tasks=plan_tasks(
            dataset.manifest.fragments,
            share=column_share(dataset.schema, columns),
            task_bytes=TASK_BYTES,
            parallelism=default_parallelism(session),
        ),
    )
    num_tasks = len(settings.tasks)
    indices = session.range(0, num_tasks, 1, max(num_tasks, 1))
    return indices.mapInArrow(partial(_scan, settings), struct_type)


def _scan(settings: _ScanSettings, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the rows of the tasks whose numbers are in the batches; runs in a worker."""
    with reported_to_driver():
        dataset = lance_core.dataset(
            settings.dataset_uri, version=settings.version, storage_options=settings.storage_options
        )
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from read_task(dataset, settings.tasks[index], settings.scan)
