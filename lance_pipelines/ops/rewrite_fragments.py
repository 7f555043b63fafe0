"""The op that rewrites fragments with Spark, one Spark task for each task of the plan."""

from collections.abc import Sequence

import dagster as dg

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.maintenance.rewrite_commit import Rewritten
from lance_pipelines.maintenance.rewrite_report import left_by_time
from lance_pipelines.maintenance.staged_rewrite import PlannedRewrite, StagedRewrite
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_record import cpu_metadata
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.ops.run_entry import prepare_for_pool
from lance_pipelines.progress import Report
from lance_pipelines.resources.messages import MESSAGES
from lance_pipelines.resources.spark import SparkResource
from lance_pipelines.spark.interruption import run_interruptibly
from lance_pipelines.spark.staging import rewrite_tasks
from lance_pipelines.spark.task_progress import watched_tasks

__all__ = ["build_rewrite_op", "rewrite_with"]


def build_rewrite_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the rewrite op of one dataset: it converts a ``PlannedRewrite`` to a ``StagedRewrite``, both as JSON."""

    @dg.op(
        name=f"{declaration.name}__rewrite_fragments",
        description=f"Uses Spark to rewrite fragments of {declaration.name}, omitting deleted rows. No version "
        "refers to the new fragments yet.",
        ins={"plan": dg.In(str, description="The planned rewrite, as JSON.")},
        out=dg.Out(str, description="The staged rewrite, as JSON.", io_manager_key=MESSAGES),
    )
    def rewrite_fragments(context: dg.OpExecutionContext, lance_spark: SparkResource, plan: str) -> dg.Output[str]:
        with reported_as_failure(declaration.name, context.log):
            planned = PlannedRewrite.from_json(plan)
            written = rewrite_with(
                lance_spark,
                planned.uri,
                planned.tasks,
                storage_options=declaration.resolved_storage_options(),
                report=progress_lines(context, declaration.name).report,
                stop_at=planned.stop_at,
            )
        staged = StagedRewrite.of(planned, written.file_token, written.results)
        context.log.info("Rewrote %s of fragments in %s.", amount(len(written.results), "group"), planned.uri)
        if staged.left:
            context.log.info("%s: %s.", planned.uri, left_by_time(staged.left))
        prepare_for_pool(context)
        metadata = {
            "lance/groups": dg.MetadataValue.int(len(written.results)),
            "lance/read_version": dg.MetadataValue.int(planned.before.version),
            "lance/file_token": dg.MetadataValue.text(written.file_token),
            **cpu_metadata(),
        }
        return dg.Output(staged.to_json(), metadata=metadata)

    return rewrite_fragments


def rewrite_with(
    spark: SparkResource,
    uri: str,
    tasks: Sequence[str],
    *,
    storage_options: dict[str, str] | None,
    report: Report,
    stop_at: float | None,
) -> Rewritten:
    """Execute rewrite tasks with Spark, starting the session if needed; interruptible."""
    session = spark.spark_session
    with watched_tasks(session, "rewriting fragments", report):
        return run_interruptibly(
            session, lambda: rewrite_tasks(session, uri, tasks, storage_options=storage_options, stop_at=stop_at)
        )
