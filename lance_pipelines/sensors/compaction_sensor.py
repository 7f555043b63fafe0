"""compaction_sensor: requests a compaction of datasets with many small fragments."""

from typing import Final

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.evaluate import Verdict, evaluate_compaction
from lance_pipelines.maintenance.rewrite_plan import RewriteOperation
from lance_pipelines.ops.maintenance_config import CompactConfig, compaction_options
from lance_pipelines.runs.runs_in_flight import INGEST
from lance_pipelines.sensors.latest import Latest
from lance_pipelines.sensors.rewriting import examine_rewrite
from lance_pipelines.sensors.run_requests import MaintenanceKind
from lance_pipelines.sensors.turns import TAKING_TURNS

__all__ = ["COMPACTION"]


def _examine(declaration: DatasetDeclaration, latest: Latest) -> Verdict:
    return examine_rewrite(
        declaration,
        latest,
        RewriteOperation.COMPACT,
        lambda each: compaction_options(each, CompactConfig()),
        lambda policy, health: evaluate_compaction(policy.compaction, health),
    )


COMPACTION: Final = MaintenanceKind(
    sensor="compaction_sensor",
    description="Requests compactions of datasets that have too many small fragments according to their policies.",
    op="compact",
    excludes=(INGEST, *TAKING_TURNS),
    examine=_examine,
)
