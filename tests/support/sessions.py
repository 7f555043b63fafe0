"""Helpers for tests of Spark sessions."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def read_lance(spark: SparkSession, uri: str, **options: object) -> DataFrame:
    """Return the table as a frame read through the data source ``lance``."""
    return spark.read.format("lance").options(**{name: str(value) for name, value in options.items()}).load(uri)
