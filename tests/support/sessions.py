"""What tests of Spark sessions have in common."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def read_lance(spark: SparkSession, uri: str, **options: object) -> DataFrame:
    """The table as a frame of the data source ``lance``."""
    return spark.read.format("lance").options(**{name: str(value) for name, value in options.items()}).load(uri)
