"""deletion_sensor: requests the materialization of deletions in datasets with many deleted rows."""

from typing import Final

import lance_core
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.evaluate import NotDue, Verdict, evaluate_deletions
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.rewrite_plan import RewriteOperation, plan_rewrite
from lance_pipelines.ops.maintenance_config import MaterializeDeletionsConfig, materialization_options
from lance_pipelines.runs.runs_in_flight import INGEST
from lance_pipelines.sensors.latest import Latest
from lance_pipelines.sensors.run_requests import MaintenanceKind

__all__ = ["DELETIONS"]


def _examine(declaration: DatasetDeclaration, latest: Latest) -> Verdict:
    storage_options = declaration.resolved_storage_options()
    dataset = lance_core.dataset(declaration.uri, version=latest.version, storage_options=storage_options)
    health = TableHealth.of(dataset, declaration.maintenance, versions=len(latest.names))
    verdict = evaluate_deletions(declaration.maintenance.deletion, health)
    if isinstance(verdict, NotDue):
        return verdict
    # Same plan as the job's, so that no run is requested that would find nothing to do.
    plan = plan_rewrite(
        dataset,
        RewriteOperation.MATERIALIZE_DELETIONS,
        materialization_options(declaration, MaterializeDeletionsConfig()),
    )
    return verdict if plan.tasks else NotDue(f"{verdict.reason}, but there is nothing to rewrite")


DELETIONS: Final = MaintenanceKind(
    sensor="deletion_sensor",
    description="Requests rewrites of fragments that have too many deleted rows according to the policies.",
    op="materialize_deletions",
    excludes=(INGEST, "compact", "materialize_deletions"),
    examine=_examine,
)
