"""Stages a write or a rewrite: Spark writes the fragments, and a message describes them. No version is created here.

After a failure, the files already written are deleted. The functions do not need Dagster, so that a script or a test
can stage a write in the same way as the op.
"""

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lance_core import LanceFileVersion
from lance_core.metadata import DEFAULT_VERSION, check_storable
from lance_pipelines.ingest.declaration import DatasetDeclaration, WriteMode, required_source
from lance_pipelines.ingest.partition_rows import Partition, select_rows
from lance_pipelines.ingest.schema_changes import fit_columns
from lance_pipelines.ingest.sources import OpenAsset, SourceContext, open_latest
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.verify import verify_keys
from lance_pipelines.ingest.write_commit import transaction_properties
from lance_pipelines.ingest.write_plan import WritePlan, check_run_partitions, plan_write, upsert_keys
from lance_pipelines.maintenance.rewrite_commit import Rewritten
from lance_pipelines.spark.leftovers import discard_until_quiet
from lance_pipelines.spark.partition_filter import required_rows, rows_of
from lance_pipelines.spark.rewriter import execute_tasks
from lance_pipelines.spark.schema import plan_target_schema
from lance_pipelines.spark.sources import read_source
from lance_pipelines.spark.writer import write_frame

__all__ = ["Staging", "rewrite_tasks", "stage_frame", "stage_write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The message for the commit step, and statistics of the write.

    Attributes:
        staged: the message for the commit step.
        num_tasks: number of Spark tasks that wrote rows.
    """

    staged: StagedWrite
    num_tasks: int


def stage_write(
    declaration: DatasetDeclaration,
    session: SparkSession,
    *,
    captured_at: datetime,
    run_id: str,
    step_key: str,
    partitions: Sequence[Partition] = (),
    open_asset: OpenAsset = open_latest,
) -> Staging:
    """Read the source and write its rows as fragments to the dataset's data directory.

    Args:
        declaration: the source and the dataset.
        session: a running Spark session.
        captured_at: the timestamp of the rows of an ``environment`` source.
        run_id: id of the run; recorded in the transaction.
        step_key: the key of the writing step in that run.
        partitions: the partitions of the run; only their rows are written, if the declaration determines which rows
            these are. Empty if the run is not for partitions.
        open_asset: opens the dataset of an ``AssetSource``; by default, at its latest version.

    Raises:
        LanceError: the source cannot be read, its schema does not fit the dataset, or the write failed. Files already
            written are deleted.
    """
    check_run_partitions(declaration, partitions)
    plan = plan_write(declaration)
    context = SourceContext(captured_at=captured_at, run_id=run_id, partitions=partitions, open_asset=open_asset)
    frame = read_source(session, required_source(declaration), context)
    if partitions and declaration.partition_by:
        found = plan_target_schema(frame.schema, declaration.vector_columns, None)
        frame = frame.filter(rows_of(select_rows(declaration.partition_columns, partitions, found)))
    return _stage(declaration, frame, plan, partitions, run_id=run_id, step_key=step_key)


def stage_frame(
    declaration: DatasetDeclaration,
    frame: DataFrame,
    *,
    run_id: str,
    step_key: str,
    partitions: Sequence[Partition] = (),
) -> Staging:
    """Write the rows of a DataFrame as fragments to the dataset's data directory, as :func:`stage_write` does.

    No rows are left out: if a row does not belong to the partitions, the write fails.
    """
    check_run_partitions(declaration, partitions)
    if partitions and declaration.partition_by:
        found = plan_target_schema(frame.schema, declaration.vector_columns, None)
        frame = frame.filter(required_rows(select_rows(declaration.partition_columns, partitions, found)))
    return _stage(declaration, frame, plan_write(declaration), partitions, run_id=run_id, step_key=step_key)


def _stage(
    declaration: DatasetDeclaration,
    frame: DataFrame,
    plan: WritePlan,
    partitions: Sequence[Partition],
    *,
    run_id: str,
    step_key: str,
) -> Staging:
    storage_options = declaration.resolved_storage_options()
    found = plan_target_schema(frame.schema, declaration.vector_columns, None)
    properties = transaction_properties(run_id=run_id, step_key=step_key, dataset=declaration.name)
    plan, target = fit_columns(declaration, plan, found, properties=properties)
    replaces = plan.replaces_content
    storage_version = declaration.data_storage_version if replaces else None
    overwrites = declaration.mode is WriteMode.OVERWRITE_PARTITION
    predicate = select_rows(declaration.partition_columns, partitions, target).to_sql() if overwrites else None
    keys = upsert_keys(declaration, target)
    _check_storable(target, storage_version or plan.data_storage_version)
    file_token = secrets.token_hex(8)
    try:
        written = write_frame(
            frame,
            dataset_uri=declaration.uri,
            mode="overwrite" if replaces else "append",
            target=target,
            max_rows_per_file=declaration.max_rows_per_file,
            max_bytes_per_file=declaration.max_bytes_per_file,
            data_storage_version=storage_version,
            file_token=file_token,
            storage_options=storage_options,
        )
        staged = StagedWrite(
            write_id=str(uuid.uuid4()),
            file_token=file_token,
            dataset=declaration.name,
            uri=declaration.uri,
            mode=declaration.mode,
            predicate=predicate,
            keys=keys,
            data_storage_version=storage_version,
            read_version=plan.read_version,
            read_transaction=plan.read_transaction,
            schema=target,
            fragments=tuple(written.fragments),
            rows_counted=written.rows_counted,
            rows_written=written.rows_written,
            bytes_written=written.bytes_written,
            run_id=run_id,
            step_key=step_key,
        )
        verify_keys(staged, storage_options)
    except BaseException as error:
        discard_until_quiet(declaration.uri, file_token, error, storage_options=storage_options)
        raise
    return Staging(staged=staged, num_tasks=written.num_tasks)


def rewrite_tasks(
    session: SparkSession,
    uri: str,
    tasks: Sequence[str],
    *,
    storage_options: dict[str, str] | None = None,
    stop_at: float | None = None,
) -> Rewritten:
    """Write the new fragments of the tasks to the dataset's data directory.

    Args:
        session: a running Spark session.
        uri: the dataset's location.
        tasks: the compaction tasks, each serialized by ``CompactionTask.json()``.
        storage_options: credentials and settings of the dataset's store.
        stop_at: time, in seconds since the epoch, from which no task except the first is started; None for no limit.

    Raises:
        LanceError: a fragment cannot be read, or a file cannot be written. Files already written are deleted.
    """
    file_token = secrets.token_hex(8)
    try:
        results = execute_tasks(
            session, tasks, dataset_uri=uri, file_token=file_token, storage_options=storage_options, stop_at=stop_at
        )
    except BaseException as error:
        discard_until_quiet(uri, file_token, error, storage_options=storage_options)
        raise
    return Rewritten(file_token=file_token, results=results)


def _check_storable(target: pa.Schema, storage_version: str | None) -> None:
    """Reject columns that the format version cannot store, before any row is read."""
    version = DEFAULT_VERSION if storage_version is None else LanceFileVersion.parse(storage_version)
    check_storable(target, version)
