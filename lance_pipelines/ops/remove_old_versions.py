"""The ops of a cleanup: the first plans it, the second plans again and removes the files."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

import lance_core
from lance_pipelines.events.commit_events import dataset_observation
from lance_pipelines.events.data_version import is_unknown
from lance_pipelines.events.recorded_versions import find_data_version
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.cleanup_plan import CleanupForecast, PlannedCleanup, plan_removal, remove_planned
from lance_pipelines.maintenance.cleanup_report import CleanupReport
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES, commit_pool
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_config import (
    CleanupConfig,
    cleanup_policy,
    dataset_uri,
    declared_values,
    is_dry_run,
)
from lance_pipelines.ops.output import duration, say
from lance_pipelines.ops.plan_outputs import PLAN_OUTPUTS, report_plan
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.ops.run_entry import await_ingests, begin_run, prepare_for_pool
from lance_pipelines.runs.dead_runs import stop_watching

__all__ = ["build_cleanup_op", "build_cleanup_plan_op"]


def build_cleanup_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which old versions of one dataset are removed."""

    @dg.op(
        name=f"{declaration.name}__plan_cleanup",
        description=f"Finds old versions of {declaration.name}, and files that no version uses.",
        config_schema=config_field(CleanupConfig, declared_values("cleanup", declaration.maintenance)),
        out=dict(PLAN_OUTPUTS),
    )
    def plan_cleanup(context: dg.OpExecutionContext) -> Iterator[dg.Output[Any]]:
        begin_run(context)
        config = CleanupConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            outputs = _plan(context, declaration, config)
        yield from outputs

    return plan_cleanup


def build_cleanup_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that removes old versions of one dataset."""

    @dg.op(
        name=f"{declaration.name}__remove_old_versions",
        description=f"Removes old versions of {declaration.name} and the files that only they use.",
        ins={"plan": dg.In(str, description="The planned cleanup, as JSON.")},
        out=dg.Out(dg.Nothing),
        # Not needed for correctness: a cleanup keeps files to which a commit refers in the meantime.
        pool=commit_pool(declaration.name),
        retry_policy=COMMIT_RETRIES,
    )
    def remove_old_versions(context: dg.OpExecutionContext, plan: str) -> None:
        stop_watching(context.run_id)
        with reported_as_failure(declaration.name, context.log):
            planned = PlannedCleanup.from_json(plan)
            storage_options = declaration.resolved_storage_options()
            removal = plan_removal(lance_core.dataset(planned.uri, storage_options=storage_options), planned.policy)
            for warning in removal.warnings():
                context.log.warning("%s: %s", planned.uri, warning)
            # Others may have committed since the plan; an earlier attempt may have removed the history.
            current = find_data_version(
                context.instance,
                declaration.key,
                planned.uri,
                removal.read_version,
                storage_options=storage_options,
            )
            stats = remove_planned(removal, progress_lines(context, declaration.name).report)
            report = CleanupReport(uri=planned.uri, plan=removal, stats=stats)
            for warning in report.warnings():
                context.log.warning("%s: %s", planned.uri, warning)
            report.require_progress()
            if report.has_changed:
                event = dataset_observation(
                    dataset=declaration.key,
                    uri=report.uri,
                    op="cleanup",
                    report_metadata=report.metadata() | duration(context),
                    version=removal.read_version,
                    data_version=planned.data_version if is_unknown(current) else current,
                    policy=declaration.maintenance,
                    column_descriptions=declaration.column_descriptions,
                    storage_options=storage_options,
                )
                context.log_event(event)
        say(context, declaration.name, report.summary())

    return remove_old_versions


def _plan(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration, config: CleanupConfig
) -> list[dg.Output[Any]]:
    uri = dataset_uri(declaration, config)
    policy, dry_run = cleanup_policy(declaration, config), is_dry_run(declaration, config)
    if not dry_run:
        await_ingests(context, declaration.key)
    storage_options = declaration.resolved_storage_options()
    dataset = lance_core.dataset(uri, storage_options=storage_options)
    forecast = CleanupForecast(uri=uri, policy=policy, rows=dataset.count_rows(), plan=plan_removal(dataset, policy))
    shown = dg.Output(None, "figures", metadata=forecast.metadata())
    if not report_plan(context, declaration.name, forecast, is_dry_run=dry_run):
        return [shown]
    context.log.info(forecast.headline())
    prepare_for_pool(context)
    data_version = find_data_version(
        context.instance, declaration.key, uri, dataset.version, storage_options=storage_options
    )
    planned = PlannedCleanup(uri=uri, policy=policy, data_version=data_version)
    return [shown, dg.Output(planned.to_json(), "plan")]
