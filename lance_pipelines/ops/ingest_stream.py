"""The ops that ingest a stream: the first prepares the run, the second ingests what is new.

The second op commits every micro-batch itself, so it holds the pool slot of the dataset while it reads: two runs of one
instance never read the same stream at the same time.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from lance_pipelines.events.committed_write import CommittedWrite
from lance_pipelines.ingest.declaration import DatasetDeclaration, required_source
from lance_pipelines.ops.commit_fragments import materialization
from lance_pipelines.ops.commit_settings import commit_pool
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.ingest_config import apply_config, config_class
from lance_pipelines.ops.output import duration, say
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.ops.run_entry import begin_run, prepare_for_pool, tag_ingest
from lance_pipelines.resources.spark import SparkResource
from lance_pipelines.runs.dead_runs import stop_watching
from lance_pipelines.spark.interruption import run_interruptibly
from lance_pipelines.spark.stream_ingest import ingest_available
from lance_pipelines.spark.task_progress import watched_tasks

__all__ = ["build_stream_op", "build_stream_preparation_op"]


def build_stream_preparation_op(declaration: DatasetDeclaration, *, upstream: Sequence[str] = ()) -> dg.OpDefinition:
    """Return the op that records the process of the run, and releases the dataset's pool slot if a dead run holds it.

    Args:
        declaration: the dataset.
        upstream: names of the inputs that make the op wait for other assets, without a value.
    """

    @dg.op(
        name=f"{declaration.name}__prepare_stream",
        description=f"Releases the pool slot of {declaration.name} if it is held by a run whose process no longer "
        "exists.",
        ins={name: dg.In(dg.Nothing) for name in upstream},
        out=dg.Out(dg.Nothing),
    )
    def prepare_stream(context: dg.OpExecutionContext) -> None:
        begin_run(context)
        tag_ingest(context, declaration.key)
        prepare_for_pool(context)

    return prepare_stream


def build_stream_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that ingests what is new in the stream of one dataset. Its output is the asset's materialization.

    There is no materialization as long as the dataset does not exist. The op has no retry policy: the next run
    continues where a failed one has ended.
    """
    config_type = config_class(declaration)

    @dg.op(
        name=f"{declaration.name}__ingest_stream",
        description=f"Ingests what has arrived in the stream of {declaration.name} since the last run. Each "
        "micro-batch becomes a version.",
        config_schema=config_field(config_type, {}),
        ins={"prepared": dg.In(dg.Nothing)},
        out=dg.Out(dg.Nothing, is_required=False),
        pool=commit_pool(declaration.name),
    )
    def ingest_stream(context: dg.OpExecutionContext, lance_spark: SparkResource) -> Iterator[dg.Output[None]]:
        stop_watching(context.run_id)
        with reported_as_failure(declaration.name, context.log):
            wanted = apply_config(declaration, config_type(**context.op_config))
            context.log.info("Reading the %s into %s.", required_source(wanted).kind, wanted.uri)
            session = lance_spark.spark_session
            step_key = context.get_step_execution_context().step.key
            report = progress_lines(context, declaration.name).report
            with watched_tasks(session, "ingesting the stream", report):
                ingested = run_interruptibly(
                    session,
                    lambda: ingest_available(wanted, session, run_id=context.run_id, step_key=step_key, report=report),
                )
            committed = None if ingested is None else CommittedWrite.of_report(ingested, wanted)
        if committed is None:
            say(context, declaration.name, f"{wanted.uri}: nothing to do (no row has arrived in the stream yet)")
        else:
            say(context, declaration.name, committed.report.summary())
            yield materialization(committed, committed.metadata(duration(context)))

    return ingest_stream
