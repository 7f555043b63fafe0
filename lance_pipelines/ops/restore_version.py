"""The ops of a restore: the first compares two versions, the second commits the older content as a new version."""

import uuid

import dagster as dg

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.content import content_digest
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.restore_commit import RestoreReport, commit_restore
from lance_pipelines.maintenance.restore_plan import PlannedRestore, RestoreForecast
from lance_pipelines.ops.commit_step import build_commit_step, log_commit
from lance_pipelines.ops.maintenance_config import RestoreConfig
from lance_pipelines.ops.planning_step import Planned, PlanRequest, build_planning_step

__all__ = ["build_restore_op", "build_restore_plan_op"]


def build_restore_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that compares the latest version of one dataset with the version to restore."""

    def plan(request: PlanRequest[RestoreConfig]) -> Planned:
        dataset, version = request.dataset, request.config.version
        restored = dataset.checkout_version(version)
        return Planned(
            forecast=RestoreForecast(
                uri=request.uri,
                before=TableHealth.of(dataset, declaration.maintenance),
                restored=TableHealth.of(restored, declaration.maintenance),
                has_work=content_digest(dataset.manifest) != content_digest(restored.manifest),
            ),
            message=lambda: PlannedRestore(
                restore_id=str(uuid.uuid4()), version=version, read_version=dataset.version, **request.origin
            ),
        )

    return build_planning_step(
        declaration,
        "plan_restore",
        description=f"Compares the latest version of {declaration.name} with the version to restore.",
        config=RestoreConfig,
        plan=plan,
        precedes_commit=True,
    )


def build_restore_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that restores a version of one dataset; everything downstream treats the result as new data."""

    def commit(context: dg.OpExecutionContext, planned: PlannedRestore) -> RestoreReport:
        report = commit_restore(planned, storage_options=declaration.resolved_storage_options())
        log_commit(context, declaration, report, changes_rows=True)
        return report

    return build_commit_step(
        declaration,
        "commit_restore",
        description=f"Commits the content of an older version of {declaration.name} as the next version.",
        kind=PlannedRestore,
        commit=commit,
    )
