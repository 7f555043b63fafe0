"""index_sensor: requests an update of indices that do not cover enough rows or fragments, or are not built yet."""

from typing import Final

import lance_core
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.evaluate import Verdict, evaluate_indices
from lance_pipelines.maintenance.index_plan import IndexForecast, IndexOperation
from lance_pipelines.maintenance.pylance_indices import missing_extra
from lance_pipelines.runs.runs_in_flight import INGEST
from lance_pipelines.sensors.latest import Latest
from lance_pipelines.sensors.run_requests import MaintenanceKind
from lance_pipelines.sensors.turns import TAKING_TURNS

__all__ = ["INDICES"]


def _examine(declaration: DatasetDeclaration, latest: Latest) -> Verdict:
    storage_options = declaration.resolved_storage_options()
    dataset = lance_core.dataset(declaration.uri, version=latest.version, storage_options=storage_options)
    # Same plan as the job's, so that no run is requested that would find nothing to do.
    forecast = IndexForecast.of(dataset, declaration.indices, IndexOperation.OPTIMIZE, problem=missing_extra())
    return evaluate_indices(declaration.maintenance.indices, forecast)


INDICES: Final = MaintenanceKind(
    sensor="index_sensor",
    description="Requests updates of indices that do not cover enough rows or fragments according to the policies, and "
    "builds of declared indices.",
    op="optimize_indices",
    excludes=(INGEST, *TAKING_TURNS),
    examine=_examine,
)
