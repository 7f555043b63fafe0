"""compaction_sensor: requests a compaction of datasets with many small fragments."""

from typing import Final

import lance_core
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.evaluate import NotDue, Verdict, evaluate_compaction
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.rewrite_plan import RewriteOperation, plan_rewrite
from lance_pipelines.ops.maintenance_config import CompactConfig, compaction_options
from lance_pipelines.runs.runs_in_flight import INGEST
from lance_pipelines.sensors.latest import Latest
from lance_pipelines.sensors.run_requests import MaintenanceKind

__all__ = ["COMPACTION"]


def _examine(declaration: DatasetDeclaration, latest: Latest) -> Verdict:
    storage_options = declaration.resolved_storage_options()
    dataset = lance_core.dataset(declaration.uri, version=latest.version, storage_options=storage_options)
    health = TableHealth.of(dataset, declaration.maintenance, versions=len(latest.names))
    verdict = evaluate_compaction(declaration.maintenance.compaction, health)
    if isinstance(verdict, NotDue):
        return verdict
    # Same plan as the job's, so that no run is requested that would find nothing to do.
    options = compaction_options(declaration, CompactConfig())
    plan = plan_rewrite(dataset, RewriteOperation.COMPACT, options)
    return verdict if plan.tasks else NotDue(f"{verdict.reason}, but there is nothing to rewrite")


COMPACTION: Final = MaintenanceKind(
    sensor="compaction_sensor",
    description="Requests compactions of datasets that have too many small fragments according to their policies.",
    op="compact",
    excludes=(INGEST, "compact", "materialize_deletions"),
    examine=_examine,
)
