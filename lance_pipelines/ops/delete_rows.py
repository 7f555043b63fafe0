"""The ops of a delete: the first counts the matching rows, the second deletes them and reports a materialization."""

import uuid
from collections.abc import Iterator
from typing import Any

import dagster as dg

import lance_core
from lance_core.metadata import plan_delete as plan_delete_of
from lance_pipelines.events.commit_events import dataset_materialization
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.delete_commit import commit_delete
from lance_pipelines.maintenance.delete_plan import DeleteForecast, PlannedDelete
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES, commit_pool
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_config import DeleteRowsConfig, dataset_uri, is_dry_run
from lance_pipelines.ops.output import duration, say
from lance_pipelines.ops.plan_outputs import PLAN_OUTPUTS, report_plan
from lance_pipelines.ops.run_entry import await_ingests, begin_run, prepare_for_pool
from lance_pipelines.runs.dead_runs import stop_watching

__all__ = ["build_delete_op", "build_delete_plan_op"]


def build_delete_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that counts the rows of one dataset that match a predicate."""

    @dg.op(
        name=f"{declaration.name}__plan_delete",
        description=f"Counts the rows of {declaration.name} for which the predicate is true.",
        config_schema=config_field(DeleteRowsConfig),
        out=dict(PLAN_OUTPUTS),
    )
    def plan_delete(context: dg.OpExecutionContext) -> Iterator[dg.Output[Any]]:
        begin_run(context)
        config = DeleteRowsConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            outputs = _plan(context, declaration, config)
        yield from outputs

    return plan_delete


def build_delete_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that deletes rows of one dataset."""

    @dg.op(
        name=f"{declaration.name}__commit_delete",
        description=f"Deletes rows of {declaration.name}: writes deletion files and commits the next version.",
        ins={"plan": dg.In(str, description="The planned delete, as JSON.")},
        out=dg.Out(dg.Nothing),
        pool=commit_pool(declaration.name),
        retry_policy=COMMIT_RETRIES,
    )
    def delete_rows(context: dg.OpExecutionContext, plan: str) -> None:
        stop_watching(context.run_id)
        with reported_as_failure(declaration.name, context.log):
            planned = PlannedDelete.from_json(plan)
            storage_options = declaration.resolved_storage_options()
            report = commit_delete(planned, declaration.maintenance, storage_options=storage_options)
            if report.has_changed:
                event = dataset_materialization(
                    dataset=declaration.key,
                    uri=report.uri,
                    op="delete_rows",
                    report_metadata=report.metadata() | duration(context),
                    version=report.after.version,
                    policy=declaration.maintenance,
                    column_descriptions=declaration.column_descriptions,
                    storage_options=storage_options,
                )
                context.log_event(event)
        say(context, declaration.name, report.summary())

    return delete_rows


def _plan(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration, config: DeleteRowsConfig
) -> list[dg.Output[Any]]:
    uri = dataset_uri(declaration, config)
    dry_run = is_dry_run(declaration, config)
    if not dry_run:
        await_ingests(context, declaration.key)
    dataset = lance_core.dataset(uri, storage_options=declaration.resolved_storage_options())
    before = TableHealth.of(dataset, declaration.maintenance)
    found = plan_delete_of(dataset, config.predicate)
    forecast = DeleteForecast(uri=uri, predicate=config.predicate, before=before, plan=found)
    shown = dg.Output(None, "figures", metadata=forecast.metadata())
    if not report_plan(context, declaration.name, forecast, is_dry_run=dry_run):
        return [shown]
    context.log.info("Deleting from %s.", forecast.headline())
    prepare_for_pool(context)
    planned = PlannedDelete(
        delete_id=str(uuid.uuid4()),
        dataset=declaration.name,
        uri=uri,
        predicate=config.predicate,
        before=before,
        run_id=context.run_id,
        step_key=context.get_step_execution_context().step.key,
    )
    return [shown, dg.Output(planned.to_json(), "plan")]
