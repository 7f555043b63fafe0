"""The op that writes the new fragments of a dataset: with Spark, or in its own process if the source needs no Spark."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import dagster as dg

import lance_core
from lance_pipelines.events.asset_metadata import staged_metadata
from lance_pipelines.frames.staging import stage_reader
from lance_pipelines.ingest.declaration import DatasetDeclaration, key_parts, required_source
from lance_pipelines.ingest.sources import AssetSource, FunctionSource, SourceContext
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.ingest_config import apply_config, config_class
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.ops.run_entry import begin_run, prepare_for_pool, tag_ingest
from lance_pipelines.partitions import run_partitions
from lance_pipelines.reads.held_leases import HeldLeases
from lance_pipelines.reads.pins import Reader
from lance_pipelines.resources.messages import MESSAGES
from lance_pipelines.resources.spark import SparkResource
from lance_pipelines.spark.interruption import run_interruptibly
from lance_pipelines.spark.staging import Staging, stage_write
from lance_pipelines.spark.task_progress import watched_tasks

__all__ = ["build_write_op"]

_LEASE: Final = timedelta(hours=1)
"""Maximum time that a version of a source asset stays protected from cleanups after the step's process is killed."""


def build_write_op(declaration: DatasetDeclaration, *, upstream: Sequence[str] = ()) -> dg.OpDefinition:
    """Return the write op of one dataset. Its output is the JSON text of a ``StagedWrite``.

    Args:
        declaration: the dataset.
        upstream: names of the inputs that make the op wait for other assets, without a value.
    """
    config_type = config_class(declaration)

    @dg.op(
        name=f"{declaration.name}__write_fragments",
        description=f"Reads the source of {declaration.name} and writes its rows as Lance fragments. No version refers "
        "to them yet.",
        config_schema=config_field(config_type, {}),
        ins={name: dg.In(dg.Nothing) for name in upstream},
        out=dg.Out(str, description="The staged write, as JSON.", io_manager_key=MESSAGES),
    )
    def write_fragments(context: dg.OpExecutionContext, lance_spark: SparkResource) -> dg.Output[str]:
        begin_run(context)
        tag_ingest(context, declaration.key)
        with reported_as_failure(declaration.name, context.log):
            wanted = apply_config(declaration, config_type(**context.op_config))
            source = required_source(wanted)
            context.log.info("Reading the %s source into %s (mode %s).", source.kind, wanted.uri, wanted.mode)
            leases = HeldLeases(_LEASE)
            known = SourceContext(
                captured_at=datetime.now(UTC),
                run_id=context.run_id,
                partitions=run_partitions(context, declaration.partitions),
                open_asset=partial(_open_asset, Reader(context.get_step_execution_context(), leases)),
            )
            try:
                if isinstance(source, FunctionSource):
                    staging = _stage_function(context, wanted, source, known)
                else:
                    staging = _stage_with_spark(context, wanted, known, lance_spark)
            finally:
                leases.release()
        staged = staging.staged
        context.log.info(
            "Finished writing. Rows: %d, fragments: %d, bytes: %d, Spark tasks: %d.",
            staged.rows_written,
            len(staged.fragments),
            staged.bytes_written,
            staging.num_tasks,
        )
        # The commit takes a pool slot next; a dead run must not keep that slot.
        prepare_for_pool(context)
        return dg.Output(staged.to_json(), metadata=staged_metadata(staged, staging.num_tasks))

    return write_fragments


def _stage_with_spark(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration, known: SourceContext, spark: SparkResource
) -> Staging:
    session = spark.spark_session
    step_key = context.get_step_execution_context().step.key
    with watched_tasks(session, "writing fragments", progress_lines(context, declaration.name).report):
        return run_interruptibly(
            session,
            lambda: stage_write(
                declaration,
                session,
                captured_at=known.captured_at,
                run_id=known.run_id,
                step_key=step_key,
                partitions=known.partitions,
                open_asset=known.open_asset,
            ),
        )


def _stage_function(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration, source: FunctionSource, known: SourceContext
) -> Staging:
    step_key = context.get_step_execution_context().step.key
    staged = stage_reader(
        source.read(known), declaration, run_id=known.run_id, step_key=step_key, partitions=known.partitions
    )
    return Staging(staged=staged, num_tasks=0)


def _open_asset(reader: Reader, source: AssetSource) -> lance_core.LanceDataset:
    """Return a handle to the version of another asset that the step reads, leased for the duration of the step."""
    return reader.open(
        dg.AssetKey(key_parts(source.key)), source.uri, source.resolved_storage_options(), tag=source.tag
    )
