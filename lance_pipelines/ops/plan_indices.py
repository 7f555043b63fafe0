"""The ops that plan a change of indices: a dry run prints the plan; otherwise, the next steps execute it."""

import uuid
from collections.abc import Iterator
from typing import Any

import dagster as dg

import lance_core
from lance_core.errors import NotSupportedError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.index_plan import IndexForecast, IndexOperation, PlannedIndices
from lance_pipelines.maintenance.pylance_indices import missing_extra
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_config import (
    BuildIndexConfig,
    IndexConfig,
    OptimizeIndicesConfig,
    dataset_uri,
    is_dry_run,
)
from lance_pipelines.ops.plan_outputs import PLAN_OUTPUTS, report_plan
from lance_pipelines.ops.run_entry import await_ingests, begin_run

__all__ = ["build_index_build_plan_op", "build_index_update_plan_op"]


def build_index_build_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which declared indices of one dataset are built."""

    @dg.op(
        name=f"{declaration.name}__plan_index_build",
        description=f"Finds declared indices of {declaration.name} that are not built.",
        config_schema=config_field(BuildIndexConfig, {"dry_run": False, "replace": False}),
        out=dict(PLAN_OUTPUTS),
    )
    def plan_index_build(context: dg.OpExecutionContext) -> Iterator[dg.Output[Any]]:
        begin_run(context)
        config = BuildIndexConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            planned = _plan(context, declaration, config, IndexOperation.BUILD, anew=bool(config.replace))
        yield from planned

    return plan_index_build


def build_index_update_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which indices of one dataset are brought up to date."""

    @dg.op(
        name=f"{declaration.name}__plan_index_update",
        description=f"Finds indices of {declaration.name} that do not cover all rows, and declared ones to build.",
        config_schema=config_field(OptimizeIndicesConfig, {"dry_run": False, "retrain": False}),
        out=dict(PLAN_OUTPUTS),
    )
    def plan_index_update(context: dg.OpExecutionContext) -> Iterator[dg.Output[Any]]:
        begin_run(context)
        config = OptimizeIndicesConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            planned = _plan(context, declaration, config, IndexOperation.OPTIMIZE, anew=bool(config.retrain))
        yield from planned

    return plan_index_update


def _plan(
    context: dg.OpExecutionContext,
    declaration: DatasetDeclaration,
    config: IndexConfig,
    operation: IndexOperation,
    *,
    anew: bool,
) -> list[dg.Output[Any]]:
    uri = dataset_uri(declaration, config)
    dry_run = is_dry_run(declaration, config)
    if not dry_run:
        await_ingests(context, declaration.key)
    dataset = lance_core.dataset(uri, storage_options=declaration.resolved_storage_options())
    forecast = IndexForecast.of(
        dataset, declaration.indices, operation, names=config.names or (), anew=anew, problem=missing_extra()
    )
    forecast.require(config.plan_digest)
    shown = dg.Output(None, "figures", metadata=forecast.metadata())
    if not report_plan(context, declaration.name, forecast, is_dry_run=dry_run):
        return [shown]
    if forecast.problem:
        names = ", ".join(work.name for work in forecast.works)
        raise NotSupportedError(f"{uri} version {forecast.version}: cannot change {names}: {forecast.problem}")
    context.log.info(forecast.headline())
    planned = PlannedIndices(
        update_id=str(uuid.uuid4()),
        dataset=declaration.name,
        uri=uri,
        op=operation,
        version=forecast.version,
        works=forecast.works,
        run_id=context.run_id,
        step_key=context.get_step_execution_context().step.key,
    )
    return [shown, dg.Output(planned.to_json(), "plan")]
