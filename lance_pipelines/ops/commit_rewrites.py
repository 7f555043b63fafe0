"""The op that commits rewritten fragments and reports an observation."""

from functools import partial

import dagster as dg

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.rewrite_commit import commit_staged_rewrite
from lance_pipelines.maintenance.rewrite_report import RewriteReport, report_rewrite
from lance_pipelines.maintenance.staged_rewrite import StagedRewrite
from lance_pipelines.ops.commit_step import build_commit_step, log_commit
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.ops.rewrite_fragments import rewrite_with
from lance_pipelines.resources.spark import SPARK_RESOURCE
from lance_pipelines.spark.leftovers import discard_files

__all__ = ["build_rewrite_commit_op"]


def build_rewrite_commit_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the commit op of one dataset's rewriting jobs."""

    def commit(context: dg.OpExecutionContext, staged: StagedRewrite) -> RewriteReport:
        storage_options = declaration.resolved_storage_options()
        outcome = commit_staged_rewrite(
            staged,
            rewrite=partial(
                rewrite_with,
                getattr(context.resources, SPARK_RESOURCE),
                storage_options=storage_options,
                report=progress_lines(context, declaration.name).report,
                stop_at=staged.plan.stop_at,
            ),
            discard=partial(discard_files, storage_options=storage_options),
            storage_options=storage_options,
        )
        report = report_rewrite(staged.plan, outcome, declaration.maintenance, storage_options=storage_options)
        if report.has_changed:
            log_commit(context, declaration, report, changes_rows=False)
        return report

    return build_commit_step(
        declaration,
        "commit_rewrites",
        description=f"Commits the rewritten fragments of {declaration.name}. Only groups that other writers changed "
        "in the meantime are planned and rewritten again.",
        kind=StagedRewrite,
        commit=commit,
        resources=[SPARK_RESOURCE],
    )
