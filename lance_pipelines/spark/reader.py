"""Reads one version of a dataset as a DataFrame: each Spark task scans some of its fragments.

The driver reads only the manifest. The columns get the types that Spark has: unsigned integers become wider signed
ones, vectors become arrays, and times have microseconds.

Source: ``DataFrame.mapInArrow`` of PySpark 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

import lance_core
from lance_core.errors import NotSupportedError
from lance_pipelines.spark.conform import conform_batch
from lance_pipelines.spark.failures import reported_to_driver
from lance_pipelines.spark.writer import PARTITION_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_version", "spark_arrow_schema"]

_SPARK_TYPES: Final[Mapping[pa.DataType, pa.DataType]] = MappingProxyType(
    {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.large_string(): pa.string(),
        pa.large_binary(): pa.binary(),
        pa.date64(): pa.date32(),
        pa.time32("s"): pa.time64("ns"),
        pa.time32("ms"): pa.time64("ns"),
        pa.time64("us"): pa.time64("ns"),
        **{
            same: same
            for same in (
                pa.null(),
                pa.bool_(),
                pa.int8(),
                pa.int16(),
                pa.int32(),
                pa.int64(),
                pa.float32(),
                pa.float64(),
                pa.string(),
                pa.binary(),
                pa.date32(),
                pa.time64("ns"),
            )
        },
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScanSettings:
    """The parameters of every task; sent to the workers."""

    dataset_uri: str
    version: int
    storage_options: dict[str, str] | None = field(repr=False)
    columns: tuple[str, ...] | None
    filter: str | None
    target: pa.Schema
    fragment_ids: tuple[tuple[int, ...], ...]


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
    settings = _ScanSettings(
        dataset_uri=dataset.uri,
        version=dataset.version,
        storage_options=dataset.storage_options,
        columns=None if columns is None else tuple(columns),
        filter=filter,
        target=spark_arrow_schema(dataset.scanner(columns=names, filter=filter).projected_schema),
        fragment_ids=_tasks(dataset),
    )
    num_tasks = len(settings.fragment_ids)
    indices = session.range(0, num_tasks, 1, max(num_tasks, 1))
    return indices.mapInArrow(partial(_scan, settings), from_arrow_schema(settings.target))


def spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types in which Spark takes the columns.

    Raises:
        NotSupportedError: Spark has no type for a column.
    """
    return pa.schema([_spark_field(field, field.name) for field in schema])


def _tasks(dataset: lance_core.LanceDataset) -> tuple[tuple[int, ...], ...]:
    """Return the fragments that each task scans: consecutive ones, of about ``PARTITION_BYTES`` together."""
    tasks: list[list[int]] = []
    room = 0
    for fragment in dataset.get_fragments():
        num_bytes = sum(file.file_size_bytes or PARTITION_BYTES for file in fragment.metadata.files)
        if not tasks or num_bytes > room:
            tasks.append([])
            room = PARTITION_BYTES
        tasks[-1].append(fragment.fragment_id)
        room -= num_bytes
    return tuple(map(tuple, tasks))


def _scan(settings: _ScanSettings, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Scan the fragments of the tasks whose numbers are in the batches; runs in a worker."""
    with reported_to_driver():
        dataset = lance_core.dataset(
            settings.dataset_uri, version=settings.version, storage_options=settings.storage_options
        )
        columns = None if settings.columns is None else list(settings.columns)
        for batch in batches:
            for index in batch.column(0).to_pylist():
                wanted = set(settings.fragment_ids[index])
                fragments = [fragment for fragment in dataset.get_fragments() if fragment.fragment_id in wanted]
                scanner = dataset.scanner(columns=columns, filter=settings.filter, fragments=fragments)
                for rows in scanner.to_batches():
                    yield conform_batch(rows, settings.target)


def _spark_field(field: pa.Field, path: str) -> pa.Field:
    return pa.field(field.name, _spark_type(field.type, path), field.nullable)


def _spark_type(data_type: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", None if data_type.tz is None else "UTC")
    if pa.types.is_duration(data_type):
        return pa.duration("us")
    if pa.types.is_fixed_size_binary(data_type):
        return pa.binary()
    if pa.types.is_decimal128(data_type):
        return data_type
    if pa.types.is_dictionary(data_type):
        return _spark_type(data_type.value_type, path)
    if pa.types.is_struct(data_type):
        return pa.struct([_spark_field(child, f"{path}.{child.name}") for child in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(_spark_type(data_type.key_type, f"{path}.key"), _spark_field(data_type.item_field, path))
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return pa.list_(_spark_field(data_type.value_field, f"{path}.item"))
    found = _SPARK_TYPES.get(data_type)
    if found is None:
        raise NotSupportedError(
            f"column {path!r}: Spark has no type for {data_type}; select other columns",
            column=path,
            found=str(data_type),
        )
    return found
