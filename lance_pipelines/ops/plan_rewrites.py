"""The ops that plan a rewrite: a dry run prints the plan; otherwise, the next steps execute it."""

import time
import uuid
from typing import TypeVar

import dagster as dg

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.rewrite_plan import RewriteForecast, RewriteOperation, plan_rewrite, task_documents
from lance_pipelines.maintenance.staged_rewrite import PlannedRewrite
from lance_pipelines.ops.maintenance_config import (
    CompactConfig,
    MaterializeDeletionsConfig,
    compaction_options,
    declared_values,
    materialization_options,
    max_duration,
)
from lance_pipelines.ops.planning_step import Planned, PlanRequest, build_planning_step

__all__ = ["build_compaction_plan_op", "build_materialization_plan_op"]

_Config = TypeVar("_Config", bound=MaterializeDeletionsConfig)


def build_compaction_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which fragments of one dataset are merged."""
    return build_planning_step(
        declaration,
        "plan_compaction",
        description=f"Finds fragments of {declaration.name} to merge or to rewrite.",
        config=CompactConfig,
        declared=declared_values("compact", declaration.maintenance),
        options=lambda config: compaction_options(declaration, config),
        plan=lambda request: _plan(declaration, request, RewriteOperation.COMPACT),
    )


def build_materialization_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which fragments of one dataset are rewritten without their deleted rows."""
    return build_planning_step(
        declaration,
        "plan_materialization",
        description=f"Finds fragments of {declaration.name} with many deleted rows.",
        config=MaterializeDeletionsConfig,
        declared=declared_values("materialize_deletions", declaration.maintenance),
        options=lambda config: materialization_options(declaration, config),
        plan=lambda request: _plan(declaration, request, RewriteOperation.MATERIALIZE_DELETIONS),
    )


def _plan(declaration: DatasetDeclaration, request: PlanRequest[_Config], operation: RewriteOperation) -> Planned:
    options = request.options
    before = TableHealth.of(request.dataset, declaration.maintenance)
    limit = max_duration(declaration, request.config)
    plan = plan_rewrite(request.dataset, operation, options)
    return Planned(
        forecast=RewriteForecast.of(request.dataset, operation, options, before=before, figures=plan.figures),
        message=lambda: PlannedRewrite(
            rewrite_id=str(uuid.uuid4()),
            op=operation.value,
            options=dict(options),
            tasks=task_documents(plan.tasks),
            before=before,
            stop_at=None if limit is None else time.time() + limit.total_seconds(),
            **request.origin,
        ),
    )
