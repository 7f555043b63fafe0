"""DataFrames of Spark, whose rows never pass through the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lance_pipelines.frames.table_slice import TableSlice
    from lance_pipelines.ingest.declaration import DatasetDeclaration
    from lance_pipelines.ingest.partition_rows import Partition
    from lance_pipelines.ingest.staged_write import StagedWrite

__all__ = ["load_spark", "spark_of_table", "stage_spark"]


def load_spark(rows: TableSlice) -> DataFrame:
    """Return a DataFrame of the active session; if there is none, one is started with the project's defaults."""
    from lance_pipelines.spark.reader import read_version

    return read_version(_session(), rows.dataset, columns=rows.columns, filter=rows.filter)


def spark_of_table(table: pa.Table) -> DataFrame:
    """Return a DataFrame of a table, in the same session as :func:`load_spark`."""
    return _session().createDataFrame(table)


def stage_spark(
    frame: DataFrame,
    declaration: DatasetDeclaration,
    *,
    run_id: str,
    step_key: str,
    partitions: Sequence[Partition] = (),
) -> StagedWrite:
    """Let the tasks of Spark write the rows as fragments."""
    from lance_pipelines.spark.staging import stage_frame

    return stage_frame(declaration, frame, run_id=run_id, step_key=step_key, partitions=partitions).staged


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    from lance_pipelines.spark.session import start_session

    return SparkSession.getActiveSession() or start_session()
