"""Converts the partitions of a run to the form that the rules of an ingest use: keys and time windows, without Dagster.

A run for one partition, and a backfill of a range of partitions in a single run, differ only in the number of
partitions: both make one commit. Dagster then records a materialization for each partition.
"""

from collections.abc import Iterable

import dagster as dg
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.declaration import DatasetDeclaration, WriteMode
from lance_pipelines.ingest.partition_rows import Partition, PartitionValue
from lance_pipelines.ingest.partitions_of_rows import find_partitions

__all__ = ["check_partitions", "partition_keys_of_rows", "partitions_of", "run_partitions"]


def check_partitions(declaration: DatasetDeclaration) -> None:
    """Check that the columns to partition by are declared for the dimensions of the partitions.

    Raises:
        InvalidInputError: a dimension has no column, a column has no dimension, or there are no partitions.
    """
    if declaration.partitions is None:
        if declaration.mode is WriteMode.OVERWRITE_PARTITION or declaration.partition_by:
            raise InvalidInputError(
                f"dataset {declaration.name}: partition_by requires partitions, but none are declared"
            )
        return
    if not declaration.partition_by:
        return
    dimensions = sorted(name or "" for name in _dimensions(declaration.partitions))
    declared = sorted(column.dimension or "" for column in declaration.partition_columns)
    if dimensions != declared:
        raise InvalidInputError(
            f"dataset {declaration.name}: partition_by must have one column for each dimension of the partitions; "
            f"expected {_listed(dimensions)}, found {_listed(declared)}"
        )


def _listed(dimensions: Iterable[str]) -> str:
    return ", ".join(f"dimension {name!r}" if name else "no dimension" for name in dimensions)


def run_partitions(context: dg.OpExecutionContext, definition: dg.PartitionsDefinition[str] | None) -> list[Partition]:
    """Return the partitions of a run; empty if the run is not for partitions."""
    if definition is None or not (context.has_partition_key or context.has_partition_key_range):
        return []
    return partitions_of(definition, context.partition_keys)


def partitions_of(definition: dg.PartitionsDefinition[str], keys: Iterable[str]) -> list[Partition]:
    """Return the partitions with these keys."""
    dimensions = _dimensions(definition)
    return [{name: _value(each, _key(key, name)) for name, each in dimensions.items()} for key in keys]


def partition_keys_of_rows(
    declaration: DatasetDeclaration, rows: pa.RecordBatchReader, instance: dg.DagsterInstance
) -> list[str]:
    """Return the keys of the partitions that have at least one of the rows; none if the dataset has no partitions.

    Args:
        declaration: a dataset; if it has partitions, its columns assign rows to them.
        rows: the rows, with these columns.
        instance: the Dagster instance, which has the keys of dynamic partitions.
    """
    definition = declaration.partitions
    if definition is None:
        return []
    columns = declaration.partition_columns
    dimensions = {
        name: [_value(each, key) for key in each.get_partition_keys(dynamic_partitions_store=instance)]
        for name, each in _dimensions(definition).items()
    }
    found = find_partitions(columns, dimensions, rows, rows.schema)
    if isinstance(definition, dg.MultiPartitionsDefinition):
        names = [column.dimension or "" for column in columns]
        return sorted(dg.MultiPartitionKey(dict(zip(names, keys, strict=True))) for keys in found)
    return sorted(key for (key,) in found)


def _key(key: str, dimension: str | None) -> str:
    """Return the part of a key that belongs to a dimension."""
    if dimension is None or not isinstance(key, dg.MultiPartitionKey):
        return key
    return key.keys_by_dimension[dimension]


def _dimensions(definition: dg.PartitionsDefinition[str]) -> dict[str | None, dg.PartitionsDefinition[str]]:
    if isinstance(definition, dg.MultiPartitionsDefinition):
        return {each.name: each.partitions_def for each in definition.partitions_defs}
    return {None: definition}


def _value(definition: dg.PartitionsDefinition[str], key: str) -> PartitionValue:
    if not isinstance(definition, dg.TimeWindowPartitionsDefinition):
        return PartitionValue(key)
    window = definition.time_window_for_partition_key(key)
    return PartitionValue(key, (window.start, window.end))
