"""Reads one version through Spark's data source API.

Spark calls ``pushFilters`` and ``partitions`` in a process on the driver's machine, and ``read`` in the workers, with a
copy of the reader. All tasks read the version that the driver has opened.

Source: ``DataSourceReader`` of PySpark 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_pipelines.spark.data_source.pushdown import to_sql
from lance_pipelines.spark.failures import reported_to_driver, stated_plainly
from lance_pipelines.spark.read_tasks import TASK_BYTES, ReadTask, Scan, column_share, plan_tasks, read_task
from lance_pipelines.spark.types import natural_schema, same_type, spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql.datasource import Filter

    from lance_core import LanceDataset
    from lance_pipelines.spark.data_source.location import Location

__all__ = ["LanceReader", "TaskPartition", "check_schema", "read_schema"]

_BLOBS = "all_binary"
_SYSTEM_COLUMNS = frozenset({"_rowid", "_rowaddr", "_rowoffset"})


class TaskPartition(InputPartition):
    """The rows of one task, and the version that contains them."""

    def __init__(self, version: int, task: ReadTask) -> None:
        """Initialize."""
        super().__init__(None)
        self.version = version
        self.task = task


class LanceReader(DataSourceReader):
    """Reads one version.

    Args:
        location: the table.
        dataset: a handle to the version.
        schema: the columns that Spark asks for; see :func:`check_schema`.
        options: the parsed options.
        parallelism: the number of tasks that the cluster executes at a time.
    """

    def __init__(
        self,
        location: Location,
        dataset: LanceDataset,
        schema: StructType,
        options: Mapping[str, Any],
        parallelism: int = 1,
    ) -> None:
        """Check the schema and the filter; no rows are read."""
        self._location = location
        self._version = dataset.version
        self._options = dict(options)
        self._parallelism = parallelism
        self._conditions = [options["filter"]] if "filter" in options else []
        self._stored = dataset.schema
        self._scan = plan_scan(dataset, schema, options)
        # Refuses an invalid filter before any task starts.
        dataset.scanner(columns=[], filter=self._scan.filter)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Take the filters that can be translated, and return the others."""
        left = []
        for each in filters:
            translated = to_sql(each, self._stored)
            if translated is None:
                left.append(each)
            else:
                self._conditions.append(translated)
        return left

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the version into tasks."""
        with stated_plainly():
            dataset = self._location.open(self._version)
            tasks = plan_tasks(
                dataset.manifest.fragments,
                share=column_share(self._stored, self._scan.columns),
                task_bytes=self._options.get("taskBytes", TASK_BYTES),
                parallelism=1 if "taskBytes" in self._options else self._parallelism,
            )
            return [TaskPartition(self._version, task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task. For an empty table, Spark passes a partition of its own, without rows."""
        if isinstance(partition, TaskPartition):
            # A condition may end in a comment, which the end of the line closes.
            condition = " AND ".join(f"({each}\n)" for each in self._conditions) or None
            yield from read_partition(self._location, partition, self._scan.with_filter(condition))


def read_partition(location: Location, partition: TaskPartition, scan: Scan) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task; runs in a worker."""
    with reported_to_driver():
        yield from read_task(location.open(partition.version), partition.task, scan)


def read_schema(dataset: LanceDataset, options: Mapping[str, Any]) -> StructType:
    """Return the schema in which Spark reads the columns that the options select.

    Raises:
        InvalidInputError: a column is unknown.
        NotSupportedError: Spark has no type for a column.
    """
    columns = options.get("columns")
    scanner = dataset.scanner(columns=None if columns is None else list(columns), blob_handling=_BLOBS)
    fields = []
    for field in scanner.projected_schema:
        if field.name in _SYSTEM_COLUMNS:
            # Unsigned, but never greater than the largest long.
            fields.append(StructField(field.name, LongType(), field.nullable))
        else:
            fields += spark_schema(pa.schema([field])).fields
    return StructType(fields)


def check_schema(dataset: LanceDataset, schema: StructType, options: Mapping[str, Any]) -> None:
    """Check the columns that Spark asks for, which the user may have chosen.

    Raises:
        InvalidInputError: a column is not in the table.
        SchemaMismatchError: the type of a column is not the one that Spark reads.
    """
    known = {field.name: field for field in read_schema(dataset, options).fields}
    for field in schema.fields:
        if field.name not in known:
            raise InvalidInputError(
                f"column {field.name!r} is not in {dataset.uri}, which has {', '.join(known) or 'no columns'}",
                column=field.name,
            )
        found = known[field.name].dataType
        if not same_type(field.dataType, found) or _is_collated(field.dataType):
            raise SchemaMismatchError(
                f"column {field.name!r} has type {found.simpleString()} in {dataset.uri}, but type "
                f"{field.dataType.simpleString()} in the schema of the DataFrame",
                column=field.name,
                expected=found.simpleString(),
                found=field.dataType.simpleString(),
            )


def _is_collated(data_type: DataType) -> bool:
    """Return whether a type is text with a collation, which Spark does not accept from a worker."""
    return isinstance(data_type, StringType) and not data_type.isUTF8BinaryCollation()


def plan_scan(dataset: LanceDataset, schema: StructType, options: Mapping[str, Any]) -> Scan:
    """Return what the tasks read.

    Raises:
        InvalidInputError: as for :func:`check_schema`.
        SchemaMismatchError: as for :func:`check_schema`.
    """
    check_schema(dataset, schema, options)
    return Scan(
        columns=tuple(schema.fieldNames()),
        filter=options.get("filter"),
        target=natural_schema(schema),
        batch_rows=options.get("batchSize"),
        blob_handling=_BLOBS,
    )
