"""The Arrow schema with which a DataFrame is written.

A new table stores each column with the type that ``types.py`` determines, except that a declared *vector column* (an
array of integers or floating-point numbers) becomes a fixed-size list. Rows that are added to a table are written with
the table's own types.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import StructField

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.metadata import check_storable
from lance_pipelines.ingest.fitting import fit_schema
from lance_pipelines.spark.types import natural_field, natural_schema, spark_type, stored_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import types as spark_types

__all__ = ["arrow_schema", "plan_target_schema"]

_VECTOR_ITEMS: Final = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()})


def plan_target_schema(
    struct_type: spark_types.StructType, vector_columns: Mapping[str, int], existing: pa.Schema | None
) -> pa.Schema:
    """Return the Arrow schema with which a DataFrame is written.

    Args:
        struct_type: the DataFrame's schema.
        vector_columns: maps each vector column to the length of its lists, at least 1.
        existing: the dataset's schema if rows are added to it; None for a new dataset or an overwrite.

    Returns:
        If ``existing`` is None, the DataFrame's columns in their order; otherwise, the dataset's schema, unchanged.

    Raises:
        InvalidInputError: the DataFrame has no columns, a repeated name, or an invalid name, a vector column is not an
            array of integers or floating-point numbers, or the metadata of a column declares a type that does not fit.
        NotSupportedError: a column's type is not supported.
        SchemaMismatchError: the DataFrame does not fit the dataset.
    """
    _check_names(struct_type)
    columns = [stored_field(field, field.name) for field in struct_type.fields]
    found = _with_vectors(pa.schema(columns), vector_columns)
    if existing is None:
        # Rejects types that a dataset cannot store, before any row is read.
        check_storable(found)
        return found
    return fit_schema(_with_own_types(found, arrow_schema(struct_type), existing), existing)


def arrow_schema(struct_type: spark_types.StructType) -> pa.Schema:
    """Return the schema of the Arrow batches in which Spark passes a DataFrame.

    Raises:
        InvalidInputError: there are no columns, a name is repeated, or a name contains a backtick.
        NotSupportedError: a column's type is not supported.
    """
    _check_names(struct_type)
    return natural_schema(struct_type)


def _check_names(struct_type: spark_types.StructType) -> None:
    repeated = [name for name, times in Counter(struct_type.names).items() if times > 1]
    if repeated:
        raise InvalidInputError(f"the source has more than one column named {repeated[0]!r}", column=repeated[0])
    if not struct_type.fields:
        raise InvalidInputError("the source has no columns")
    quoted = [name for name in struct_type.names if "`" in name]
    if quoted:
        raise InvalidInputError(
            f"column {quoted[0]!r}: column names that contain a backtick are not supported; rename the column in the "
            "source",
            column=quoted[0],
        )


def _with_own_types(found: pa.Schema, natural: pa.Schema, existing: pa.Schema) -> pa.Schema:
    """Return the columns, each with the table's type if Spark represents both alike, or else with its natural type.

    For example, Spark has no unsigned integers: values of a ``smallint`` column may be appended to a column of type
    uint8. Each value is checked when it is written. The type that a column had in another table, which its metadata
    records, does not matter, except for the length of its lists.
    """
    for index, field in enumerate(found):
        place = existing.get_field_index(field.name)
        if place < 0 or pa.types.is_fixed_size_list(field.type):
            continue
        stored, passed = existing.field(place).type, natural.field(index).type
        fitting = passed
        with suppress(NotSupportedError):
            if natural_field(StructField(field.name, spark_type(stored, field.name)), field.name).type.equals(passed):
                fitting = stored
        found = found.set(index, field.with_type(fitting))
    return found


def _with_vectors(schema: pa.Schema, vector_columns: Mapping[str, int]) -> pa.Schema:
    for name, length in vector_columns.items():
        index = schema.get_field_index(name)
        if index < 0:
            close = get_close_matches(name, schema.names, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f", which has {', '.join(schema.names)}"
            raise InvalidInputError(f"vector column {name!r} is not in the source{hint}", column=name)
        field = schema.field(index)
        if not pa.types.is_list(field.type) or field.type.value_type not in _VECTOR_ITEMS:
            raise InvalidInputError(
                f"vector column {name!r} must be an array of integers or floating-point numbers, found {field.type}",
                column=name,
                found=str(field.type),
            )
        # A dataset does not record whether items may be null, so every item may.
        schema = schema.set(index, field.with_type(pa.list_(field.type.value_type, length)))
    return schema
