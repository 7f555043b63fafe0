"""The ops of a restore: the first compares two versions, the second commits the older content as a new version."""

import uuid
from collections.abc import Iterator
from typing import Any

import dagster as dg

import lance_core
from lance_pipelines.events.commit_events import dataset_materialization
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.content import content_digest
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.restore_commit import commit_restore
from lance_pipelines.maintenance.restore_plan import PlannedRestore, RestoreForecast
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES, commit_pool
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_config import RestoreConfig, dataset_uri, is_dry_run
from lance_pipelines.ops.output import duration, say
from lance_pipelines.ops.plan_outputs import PLAN_OUTPUTS, report_plan
from lance_pipelines.ops.run_entry import await_ingests, begin_run, prepare_for_pool
from lance_pipelines.runs.dead_runs import stop_watching

__all__ = ["build_restore_op", "build_restore_plan_op"]


def build_restore_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that compares the latest version of one dataset with the version to restore."""

    @dg.op(
        name=f"{declaration.name}__plan_restore",
        description=f"Compares the latest version of {declaration.name} with the version to restore.",
        config_schema=config_field(RestoreConfig),
        out=dict(PLAN_OUTPUTS),
    )
    def plan_restore(context: dg.OpExecutionContext) -> Iterator[dg.Output[Any]]:
        begin_run(context)
        config = RestoreConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            outputs = _plan(context, declaration, config)
        yield from outputs

    return plan_restore


def build_restore_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that restores a version of one dataset, which is new data for everything downstream."""

    @dg.op(
        name=f"{declaration.name}__commit_restore",
        description=f"Commits the content of an older version of {declaration.name} as the next version.",
        ins={"plan": dg.In(str, description="The planned restore, as JSON.")},
        out=dg.Out(dg.Nothing),
        pool=commit_pool(declaration.name),
        retry_policy=COMMIT_RETRIES,
    )
    def restore_version(context: dg.OpExecutionContext, plan: str) -> None:
        stop_watching(context.run_id)
        with reported_as_failure(declaration.name, context.log):
            storage_options = declaration.resolved_storage_options()
            report = commit_restore(PlannedRestore.from_json(plan), storage_options=storage_options)
            event = dataset_materialization(
                dataset=declaration.key,
                uri=report.planned.uri,
                op="restore",
                report_metadata=report.metadata() | duration(context),
                version=report.version,
                policy=declaration.maintenance,
                column_descriptions=declaration.column_descriptions,
                storage_options=storage_options,
            )
            context.log_event(event)
        say(context, declaration.name, report.summary())

    return restore_version


def _plan(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration, config: RestoreConfig
) -> list[dg.Output[Any]]:
    uri = dataset_uri(declaration, config)
    dry_run = is_dry_run(declaration, config)
    if not dry_run:
        await_ingests(context, declaration.key)
    dataset = lance_core.dataset(uri, storage_options=declaration.resolved_storage_options())
    restored = dataset.checkout_version(config.version)
    forecast = RestoreForecast(
        uri=uri,
        before=TableHealth.of(dataset, declaration.maintenance),
        restored=TableHealth.of(restored, declaration.maintenance),
        has_work=content_digest(dataset.manifest) != content_digest(restored.manifest),
    )
    shown = dg.Output(None, "figures", metadata=forecast.metadata())
    if not report_plan(context, declaration.name, forecast, is_dry_run=dry_run):
        return [shown]
    context.log.info("Restoring %s.", forecast.headline())
    prepare_for_pool(context)
    planned = PlannedRestore(
        restore_id=str(uuid.uuid4()),
        dataset=declaration.name,
        uri=uri,
        version=config.version,
        read_version=dataset.version,
        run_id=context.run_id,
        step_key=context.get_step_execution_context().step.key,
    )
    return [shown, dg.Output(planned.to_json(), "plan")]
