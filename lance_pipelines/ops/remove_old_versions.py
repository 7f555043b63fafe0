"""The ops of a cleanup: the first plans it, the second plans again and removes the files."""

import dagster as dg

import lance_core
from lance_pipelines.events.data_version import is_unknown
from lance_pipelines.events.recorded_versions import find_data_version
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.cleanup_plan import CleanupForecast, PlannedCleanup, plan_removal, remove_planned
from lance_pipelines.maintenance.cleanup_report import CleanupReport
from lance_pipelines.ops.commit_step import build_commit_step, log_commit
from lance_pipelines.ops.maintenance_config import CleanupConfig, cleanup_policy, declared_values
from lance_pipelines.ops.planning_step import Planned, PlanRequest, build_planning_step
from lance_pipelines.ops.progress import progress_lines

__all__ = ["build_cleanup_op", "build_cleanup_plan_op"]


def build_cleanup_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that plans which old versions of one dataset are removed."""

    def plan(request: PlanRequest[CleanupConfig]) -> Planned:
        dataset, policy = request.dataset, cleanup_policy(declaration, request.config)
        return Planned(
            forecast=CleanupForecast(
                uri=request.uri, policy=policy, rows=dataset.count_rows(), plan=plan_removal(dataset, policy)
            ),
            message=lambda: PlannedCleanup(
                uri=request.uri,
                policy=policy,
                data_version=find_data_version(
                    request.context.instance,
                    declaration.key,
                    request.uri,
                    dataset.version,
                    storage_options=request.storage_options,
                ),
            ),
        )

    return build_planning_step(
        declaration,
        "plan_cleanup",
        description=f"Finds old versions of {declaration.name}, and files that no version uses.",
        config=CleanupConfig,
        declared=declared_values("cleanup", declaration.maintenance),
        plan=plan,
        precedes_commit=True,
    )


def build_cleanup_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that removes old versions of one dataset.

    The op does not need the pool slot for correctness: a cleanup keeps the files of versions committed in the meantime.
    """

    def remove(context: dg.OpExecutionContext, planned: PlannedCleanup) -> CleanupReport:
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
            known = planned.data_version if is_unknown(current) else current
            log_commit(context, declaration, report, changes_rows=False, data_version=known)
        return report

    return build_commit_step(
        declaration,
        "remove_old_versions",
        description=f"Removes old versions of {declaration.name} and the files that only they use.",
        kind=PlannedCleanup,
        commit=remove,
    )
