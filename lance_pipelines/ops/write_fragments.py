"""The op that writes the new fragments of a dataset with Spark."""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from lance_pipelines.events.asset_metadata import staged_metadata
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.ingest_config import IngestConfig, apply_config
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.ops.run_entry import begin_run, prepare_for_pool, tag_ingest
from lance_pipelines.partitions import run_partitions
from lance_pipelines.resources.spark import SparkResource
from lance_pipelines.spark.interruption import run_interruptibly
from lance_pipelines.spark.staging import stage_write
from lance_pipelines.spark.task_progress import watched_tasks

__all__ = ["build_write_op"]


def build_write_op(declaration: DatasetDeclaration, *, upstream: Sequence[str] = ()) -> dg.OpDefinition:
    """Return the write op of one dataset. Its output is the JSON text of a ``StagedWrite``.

    Args:
        declaration: the dataset.
        upstream: names of the inputs that make the op wait for other assets, without a value.
    """

    @dg.op(
        name=f"{declaration.name}__write_fragments",
        description=f"Reads the source of {declaration.name} with Spark and writes its rows as Lance fragments. No "
        "version refers to them yet.",
        config_schema=config_field(IngestConfig, {}),
        ins={name: dg.In(dg.Nothing) for name in upstream},
        out=dg.Out(str, description="The staged write, as JSON."),
    )
    def write_fragments(context: dg.OpExecutionContext, lance_spark: SparkResource) -> dg.Output[str]:
        begin_run(context)
        tag_ingest(context, declaration.key)
        config = IngestConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            wanted = apply_config(declaration, config)
            context.log.info("Reading %s into %s (%s).", wanted.source.format, wanted.uri, wanted.mode)
            partitions = run_partitions(context, declaration.partitions)
            session = lance_spark.spark_session
            step_key = context.get_step_execution_context().step.key
            with watched_tasks(session, "writing fragments", progress_lines(context, declaration.name).report):
                staging = run_interruptibly(
                    session,
                    lambda: stage_write(
                        wanted,
                        session,
                        captured_at=datetime.now(UTC),
                        run_id=context.run_id,
                        step_key=step_key,
                        partitions=partitions,
                    ),
                )
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
