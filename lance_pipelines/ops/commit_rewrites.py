"""The op that commits rewritten fragments and reports an observation."""

from functools import partial

import dagster as dg

from lance_pipelines.events.commit_events import dataset_observation
from lance_pipelines.events.recorded_versions import find_data_version
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.rewrite_commit import commit_staged_rewrite
from lance_pipelines.maintenance.rewrite_report import report_rewrite
from lance_pipelines.maintenance.staged_rewrite import StagedRewrite
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES, commit_pool
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.output import duration, say
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.ops.rewrite_fragments import rewrite_with
from lance_pipelines.resources.spark import SparkResource
from lance_pipelines.runs.dead_runs import stop_watching
from lance_pipelines.spark.leftovers import discard_files

__all__ = ["build_rewrite_commit_op"]


def build_rewrite_commit_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the commit op of one dataset's rewriting jobs."""

    @dg.op(
        name=f"{declaration.name}__commit_rewrites",
        description=f"Commits the rewritten fragments of {declaration.name}. Only groups that other writers changed "
        "in the meantime are planned and rewritten again.",
        ins={"staged_rewrite": dg.In(str, description="The staged rewrite, as JSON.")},
        out=dg.Out(dg.Nothing),
        pool=commit_pool(declaration.name),
        retry_policy=COMMIT_RETRIES,
    )
    def commit_rewrites(context: dg.OpExecutionContext, lance_spark: SparkResource, staged_rewrite: str) -> None:
        stop_watching(context.run_id)
        with reported_as_failure(declaration.name, context.log):
            staged = StagedRewrite.from_json(staged_rewrite)
            storage_options = declaration.resolved_storage_options()
            outcome = commit_staged_rewrite(
                staged,
                rewrite=partial(
                    rewrite_with,
                    lance_spark,
                    storage_options=storage_options,
                    report=progress_lines(context, declaration.name).report,
                ),
                discard=partial(discard_files, storage_options=storage_options),
                storage_options=storage_options,
            )
            report = report_rewrite(staged.plan, outcome, declaration.maintenance, storage_options=storage_options)
            if report.has_changed:
                event = dataset_observation(
                    dataset=declaration.key,
                    uri=report.uri,
                    op=staged.plan.op,
                    report_metadata=report.metadata() | duration(context),
                    version=report.after.version,
                    # The history may have been cleaned up; then the event log has the value.
                    data_version=find_data_version(
                        context.instance,
                        declaration.key,
                        report.uri,
                        report.after.version,
                        storage_options=storage_options,
                    ),
                    policy=declaration.maintenance,
                    column_descriptions=declaration.column_descriptions,
                    storage_options=storage_options,
                )
                context.log_event(event)
        say(context, declaration.name, report.summary())

    return commit_rewrites
