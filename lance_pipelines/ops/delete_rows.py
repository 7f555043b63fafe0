"""The ops of a delete: the first counts the matching rows, the second deletes them and reports a materialization."""

import uuid

import dagster as dg

from lance_core.metadata import plan_delete as plan_delete_of
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.delete_commit import DeleteReport, commit_delete
from lance_pipelines.maintenance.delete_plan import DeleteForecast, PlannedDelete
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.ops.commit_step import build_commit_step, log_commit
from lance_pipelines.ops.maintenance_config import DeleteRowsConfig
from lance_pipelines.ops.planning_step import Planned, PlanRequest, build_planning_step

__all__ = ["build_delete_op", "build_delete_plan_op"]


def build_delete_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that counts the rows of one dataset that match a predicate."""

    def plan(request: PlanRequest[DeleteRowsConfig]) -> Planned:
        predicate = request.config.predicate
        before = TableHealth.of(request.dataset, declaration.maintenance)
        found = plan_delete_of(request.dataset, predicate)
        return Planned(
            forecast=DeleteForecast(uri=request.uri, predicate=predicate, before=before, plan=found),
            message=lambda: PlannedDelete(
                delete_id=str(uuid.uuid4()), predicate=predicate, before=before, **request.origin
            ),
        )

    return build_planning_step(
        declaration,
        "plan_delete",
        description=f"Counts the rows of {declaration.name} for which the predicate is true.",
        config=DeleteRowsConfig,
        plan=plan,
        precedes_commit=True,
    )


def build_delete_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that deletes rows of one dataset."""

    def commit(context: dg.OpExecutionContext, planned: PlannedDelete) -> DeleteReport:
        storage_options = declaration.resolved_storage_options()
        report = commit_delete(planned, declaration.maintenance, storage_options=storage_options)
        if report.has_changed:
            log_commit(context, declaration, report, changes_rows=True)
        return report

    return build_commit_step(
        declaration,
        "commit_delete",
        description=f"Deletes rows of {declaration.name}: writes deletion files and commits the next version.",
        kind=PlannedDelete,
        commit=commit,
    )
