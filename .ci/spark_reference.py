"""Write the reference page of the data source ``lance``: its options, and the types, as the code treats them.

Run: ``uv run python .ci/spark_reference.py`` after a change of an option or of a type. A test compares.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812

from lance_core.errors import LanceError
from lance_pipelines.spark.data_source.options import OPTIONS, PROPERTY_PREFIX, STORAGE_PREFIX
from lance_pipelines.spark.types import NATURAL, READ_AS, natural_field, spark_schema, stored_field

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "spark.md"

BEGINNING = """\
# Reference: the data source `lance` for Spark

Generated from the code by `.ci/spark_reference.py`. Guide: [Spark](../guides/spark.md).

## Options

Option names are not case-sensitive. All other names are refused, except those with one of these prefixes:

"""

PREFIXES = (
    (STORAGE_PREFIX, "reads and writes", "credentials and settings of the table's store, hidden in Spark's plans"),
    (PROPERTY_PREFIX, "writes", "properties of the transaction of a write"),
)

TYPES = """\
## Types: what Spark writes

A new table stores each column with this type. Rows that are added to a table are stored with the table's own types if
Spark reads these as the type of the DataFrame's column, or if the conversion cannot change a value.
"""

READS = """\
## Types: what Spark reads

A stored type that Spark does not have is read as the Spark type in this table. The schema of the DataFrame records the
stored type in the metadata of the column, which select, filter, alias, union, and repartition keep; with this metadata,
the column is written with the same type again. The metadata can also be set with `DataFrame.withMetadata`. If a value
cannot be represented, such as a time with nanoseconds, the read fails, and the error names the column.
"""

WRITTEN = (
    *(kind() for kind in NATURAL if kind not in (T.CharType, T.VarcharType, T.DayTimeIntervalType)),
    T.VarcharType(9),
    T.DayTimeIntervalType(),
    T.DecimalType(10, 2),
    T.ArrayType(T.FloatType()),
    T.StructType([T.StructField("a", T.LongType())]),
    T.MapType(T.StringType(), T.LongType()),
    T.YearMonthIntervalType(),
    T.CalendarIntervalType(),
    T.GeometryType(4326),
    T.GeographyType(4326),
)

STORED = (
    *READ_AS,
    pa.binary(16),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Asia/Tokyo"),
    pa.decimal128(10, 2),
    pa.decimal256(10, 2),
    pa.decimal256(50, 2),
    pa.dictionary(pa.int32(), pa.string()),
    pa.list_(pa.int64()),
    pa.large_list(pa.int64()),
    pa.list_(pa.float32(), 768),
    pa.list_(pa.float16(), 768),
    pa.list_(pa.uint8()),
    pa.struct({"a": pa.uint8()}),
    pa.map_(pa.string(), pa.uint8()),
    NATURAL[T.VariantType],
    pa.month_day_nano_interval(),
)


def page() -> str:
    """Return the text of the page."""
    options = (
        (f"`{each.name}`", ", ".join(sorted(each.uses)), each.meaning, each.default.replace("none", "–"))
        for each in OPTIONS
    )
    return "\n".join(
        [
            BEGINNING.rstrip("\n") + "\n",
            *_table(("Prefix", "Applies to", "Meaning"), ((f"`{name}`", *rest) for name, *rest in PREFIXES)),
            *_table(("Option", "Applies to", "Meaning", "Default"), options),
            TYPES,
            *_table(("Spark", "Lance (Arrow)"), map(_written, WRITTEN)),
            READS,
            *_table(("Lance (Arrow)", "Spark", "Metadata"), map(_read, STORED)),
        ]
    )


def _written(data_type: T.DataType) -> tuple[str, str]:
    name = f"`{data_type.simpleString()}`"
    try:
        return name, f"`{_arrow(stored_field(T.StructField('c', data_type), 'c').type)}`"
    except LanceError:
        return name, "refused; convert the column in the query"


def _read(data_type: pa.DataType) -> tuple[str, str, str]:
    name = f"`{_arrow(data_type)}`"
    try:
        (field,) = spark_schema(pa.schema({"c": data_type})).fields
    except LanceError:
        return name, "refused; select other columns", ""
    metadata = ", ".join(f"`{key}`: `{value}`" for key, value in field.metadata.items())
    if not metadata and not stored_field(field, "c").type.equals(data_type):
        metadata = f"not recorded; written as `{_arrow(natural_field(field, 'c').type)}`"
    return name, f"`{field.dataType.simpleString()}`", metadata


def _arrow(data_type: pa.DataType) -> str:
    if data_type == NATURAL[T.VariantType]:
        return "struct<value, metadata>, marked as variant"
    return str(data_type).replace("extension<arrow.json>", "json").replace("halffloat", "float16")


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
