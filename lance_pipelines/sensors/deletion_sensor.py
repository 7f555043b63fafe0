"""deletion_sensor: requests the materialization of deletions in datasets with many deleted rows."""

from typing import Final

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.evaluate import Verdict, evaluate_deletions
from lance_pipelines.maintenance.rewrite_plan import RewriteOperation
from lance_pipelines.ops.maintenance_config import MaterializeDeletionsConfig, materialization_options
from lance_pipelines.runs.runs_in_flight import INGEST
from lance_pipelines.sensors.latest import Latest
from lance_pipelines.sensors.rewriting import examine_rewrite
from lance_pipelines.sensors.run_requests import MaintenanceKind
from lance_pipelines.sensors.turns import TAKING_TURNS

__all__ = ["DELETIONS"]


def _examine(declaration: DatasetDeclaration, latest: Latest) -> Verdict:
    return examine_rewrite(
        declaration,
        latest,
        RewriteOperation.MATERIALIZE_DELETIONS,
        lambda each: materialization_options(each, MaterializeDeletionsConfig()),
        lambda policy, health: evaluate_deletions(policy.deletion, health),
    )


DELETIONS: Final = MaintenanceKind(
    sensor="deletion_sensor",
    description="Requests rewrites of fragments that have too many deleted rows according to the policies.",
    op="materialize_deletions",
    excludes=(INGEST, *TAKING_TURNS),
    examine=_examine,
)
