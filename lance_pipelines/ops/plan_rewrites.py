"""The ops that plan a rewrite: a dry run prints the plan; otherwise, the next steps execute it."""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

import lance_core
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.rewrite_plan import RewriteForecast, RewriteOperation, plan_rewrite, task_documents
from lance_pipelines.maintenance.staged_rewrite import PlannedRewrite
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_config import (
    CompactConfig,
    MaintenanceConfig,
    MaterializeDeletionsConfig,
    compaction_options,
    dataset_uri,
    declared_values,
    is_dry_run,
    materialization_options,
)
from lance_pipelines.ops.plan_outputs import PLAN_OUTPUTS, report_plan
from lance_pipelines.ops.run_entry import await_ingests, begin_run

__all__ = ["build_compaction_plan_op", "build_materialization_plan_op"]


def build_compaction_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which fragments of one dataset are merged."""

    @dg.op(
        name=f"{declaration.name}__plan_compaction",
        description=f"Finds small fragments of {declaration.name} that can be merged.",
        config_schema=config_field(CompactConfig, declared_values("compact", declaration.maintenance)),
        out=dict(PLAN_OUTPUTS),
    )
    def plan_compaction(context: dg.OpExecutionContext) -> Iterator[dg.Output[Any]]:
        begin_run(context)
        config = CompactConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            options = compaction_options(declaration, config)
            planned = _plan(context, declaration, config, RewriteOperation.COMPACT, options)
        yield from planned

    return plan_compaction


def build_materialization_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which fragments of one dataset are rewritten without their deleted rows."""

    @dg.op(
        name=f"{declaration.name}__plan_materialization",
        description=f"Finds fragments of {declaration.name} with many deleted rows.",
        config_schema=config_field(
            MaterializeDeletionsConfig, declared_values("materialize_deletions", declaration.maintenance)
        ),
        out=dict(PLAN_OUTPUTS),
    )
    def plan_materialization(context: dg.OpExecutionContext) -> Iterator[dg.Output[Any]]:
        begin_run(context)
        config = MaterializeDeletionsConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            options = materialization_options(declaration, config)
            planned = _plan(context, declaration, config, RewriteOperation.MATERIALIZE_DELETIONS, options)
        yield from planned

    return plan_materialization


def _plan(
    context: dg.OpExecutionContext,
    declaration: DatasetDeclaration,
    config: MaintenanceConfig,
    operation: RewriteOperation,
    options: Mapping[str, Any],
) -> list[dg.Output[Any]]:
    uri = dataset_uri(declaration, config)
    dry_run = is_dry_run(declaration, config)
    if not dry_run:
        await_ingests(context, declaration.key)
    dataset = lance_core.dataset(uri, storage_options=declaration.resolved_storage_options())
    before = TableHealth.of(dataset, declaration.maintenance)
    plan = plan_rewrite(dataset, operation, options)
    forecast = RewriteForecast.of(dataset, operation, options, before=before, figures=plan.figures)
    shown = dg.Output(None, "figures", metadata=forecast.metadata())
    if not report_plan(context, declaration.name, forecast, is_dry_run=dry_run):
        return [shown]
    context.log.info("Rewriting %s.", forecast.headline())
    planned = PlannedRewrite(
        rewrite_id=str(uuid.uuid4()),
        dataset=declaration.name,
        uri=uri,
        op=operation.value,
        options=dict(options),
        tasks=task_documents(plan.tasks),
        before=before,
        run_id=context.run_id,
        step_key=context.get_step_execution_context().step.key,
    )
    return [shown, dg.Output(planned.to_json(), "plan")]
