"""The op that verifies and commits a staged write, and reports the materialization."""

import warnings
from collections.abc import Mapping

import dagster as dg
from dagster import BetaWarning

from lance_pipelines.events.committed_write import CommittedWrite
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES, commit_pool
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.output import duration, say
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.partitions import run_partitions
from lance_pipelines.runs.dead_runs import stop_watching

__all__ = ["build_commit_op", "materialization"]


def build_commit_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the commit op of one dataset. Its output is the asset's materialization."""

    @dg.op(
        name=f"{declaration.name}__commit_fragments",
        description=f"Checks the staged fragments of {declaration.name} and commits them as the next version.",
        ins={"staged_write": dg.In(str, description="The staged write, as JSON.")},
        out=dg.Out(dg.Nothing),
        pool=commit_pool(declaration.name),
        retry_policy=COMMIT_RETRIES,
    )
    def commit_fragments(context: dg.OpExecutionContext, staged_write: str) -> dg.Output[None]:
        stop_watching(context.run_id)
        with reported_as_failure(declaration.name, context.log):
            staged = StagedWrite.from_json(staged_write)
            committed = CommittedWrite.commit(staged, declaration, progress_lines(context, declaration.name).report)
        say(context, declaration.name, committed.report.summary())
        num_partitions = len(run_partitions(context, declaration.partitions))
        return materialization(committed, committed.metadata(duration(context), num_partitions=num_partitions))

    return commit_fragments


def materialization(committed: CommittedWrite, metadata: Mapping[str, dg.MetadataValue]) -> dg.Output[None]:
    """Return the output that is the materialization of a committed write."""
    with warnings.catch_warnings():
        # Dagster 1.13 calls the data_version of an output beta.
        warnings.simplefilter("ignore", BetaWarning)
        return dg.Output(
            None,
            metadata=metadata,
            data_version=dg.DataVersion(committed.data_version),
            tags=committed.tags(),
        )
