"""The ops that plan a change of indices: a dry run prints the plan; otherwise, the next steps execute it."""

import uuid
from typing import TypeVar

import dagster as dg

from lance_core.errors import NotSupportedError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.index_plan import IndexForecast, IndexOperation, PlannedIndices
from lance_pipelines.maintenance.pylance_indices import missing_extra
from lance_pipelines.ops.maintenance_config import BuildIndexConfig, IndexConfig, OptimizeIndicesConfig
from lance_pipelines.ops.planning_step import Planned, PlanRequest, build_planning_step

__all__ = ["build_index_build_plan_op", "build_index_update_plan_op"]

_Config = TypeVar("_Config", bound=IndexConfig)


def build_index_build_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which declared indices of one dataset are built."""
    return build_planning_step(
        declaration,
        "plan_index_build",
        description=f"Plans which declared indices of {declaration.name} to build.",
        config=BuildIndexConfig,
        declared={"dry_run": False, "replace": False},
        plan=lambda request: _plan(declaration, request, IndexOperation.BUILD, anew=bool(request.config.replace)),
    )


def build_index_update_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which indices of one dataset are brought up to date."""
    return build_planning_step(
        declaration,
        "plan_index_update",
        description=f"Plans which indices of {declaration.name} to update, and which declared ones to build.",
        config=OptimizeIndicesConfig,
        declared={"dry_run": False, "retrain": False},
        plan=lambda request: _plan(declaration, request, IndexOperation.OPTIMIZE, anew=bool(request.config.retrain)),
    )


def _plan(
    declaration: DatasetDeclaration, request: PlanRequest[_Config], operation: IndexOperation, *, anew: bool
) -> Planned:
    forecast = IndexForecast.of(
        request.dataset,
        declaration.indices,
        operation,
        names=request.config.names or (),
        anew=anew,
        problem=missing_extra(),
    )
    forecast.require(request.config.plan_digest)

    def message() -> PlannedIndices:
        if forecast.problem:
            names = ", ".join(work.name for work in forecast.works)
            raise NotSupportedError(
                f"{request.uri} version {forecast.version}: cannot build or update {names}: {forecast.problem}"
            )
        return PlannedIndices(
            update_id=str(uuid.uuid4()),
            op=operation,
            version=forecast.version,
            works=forecast.works,
            **request.origin,
        )

    return Planned(forecast=forecast, message=message)
