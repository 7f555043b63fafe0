"""The ops that change indices: the first builds them on a branch, the second commits them and reports the commit."""

import time
from datetime import timedelta
from functools import partial
from typing import Final

import dagster as dg

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.index_commit import commit_staged_indices, remove_leftover_branches, stage_indices
from lance_pipelines.maintenance.index_plan import PlannedIndices, StagedIndices
from lance_pipelines.maintenance.index_report import IndexReport
from lance_pipelines.ops.commit_step import build_commit_step, log_commit
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_record import cpu_metadata
from lance_pipelines.ops.run_entry import prepare_for_pool
from lance_pipelines.resources.messages import MESSAGES

__all__ = ["build_index_commit_op", "build_indices_op"]

_MAX_AGE: Final = timedelta(days=7)
"""Age at which a branch is deleted if this instance has no run with the id in the name of the branch."""


def build_indices_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that converts a ``PlannedIndices`` to a ``StagedIndices``, both as JSON."""

    @dg.op(
        name=f"{declaration.name}__build_indices",
        description=f"Builds and updates indices of {declaration.name} on a branch, with pylance. No version of the "
        "dataset refers to them yet.",
        ins={"plan": dg.In(str, description="The planned change, as JSON.")},
        out=dg.Out(str, description="The staged indices, as JSON.", io_manager_key=MESSAGES),
    )
    def build_indices(context: dg.OpExecutionContext, plan: str) -> dg.Output[str]:
        with reported_as_failure(declaration.name, context.log):
            planned = PlannedIndices.from_json(plan)
            storage_options = declaration.resolved_storage_options()
            is_over = partial(_is_over, context.instance)
            for branch in remove_leftover_branches(planned.uri, is_over, storage_options=storage_options):
                context.log.info("%s: deleted branch %s of a run that has ended.", planned.uri, branch)
            staged = stage_indices(planned, declaration.indices, storage_options=storage_options)
        context.log.info("Worked on the indices of %s for %.1f seconds.", planned.uri, staged.seconds)
        prepare_for_pool(context)
        metadata = {
            "lance/indices": dg.MetadataValue.int(len(planned.works)),
            "lance/read_version": dg.MetadataValue.int(planned.version),
            "lance/index_seconds": dg.MetadataValue.float(round(staged.seconds, 1)),
            **cpu_metadata(),
        }
        return dg.Output(staged.to_json(), metadata=metadata)

    return build_indices


def build_index_commit_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the commit op of the jobs that change indices."""

    def commit(context: dg.OpExecutionContext, staged: StagedIndices) -> IndexReport:
        storage_options = declaration.resolved_storage_options()
        report = commit_staged_indices(staged, declaration.indices, storage_options=storage_options)
        if report.has_changed:
            log_commit(context, declaration, report, changes_rows=False)
        return report

    return build_commit_step(
        declaration,
        "commit_indices",
        description=f"Commits the new indices of {declaration.name}. After a conflict, the work is repeated on the "
        "latest version.",
        kind=StagedIndices,
        commit=commit,
    )


def _is_over(instance: dg.DagsterInstance, run_id: str, created_at: int) -> bool:
    run = instance.get_run_by_id(run_id)
    if run is None:
        return time.time() - created_at > _MAX_AGE.total_seconds()
    return run.is_finished
