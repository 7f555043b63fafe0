"""maintenance/<dataset>: the asset that stands for the maintenance of a dataset; maintenance jobs materialize it."""

import dagster as dg

from lance_pipelines.events.asset_metadata import STORAGE_KIND
from lance_pipelines.ingest.declaration import DatasetDeclaration, maintenance_key

__all__ = ["build_maintenance_asset"]

_GROUP = "maintenance"


def build_maintenance_asset(declaration: DatasetDeclaration) -> dg.AssetSpec:
    """Return the asset of the maintenance of one dataset.

    The asset depends on no other, and no other depends on it, so that neither an ingest nor maintenance makes anything
    stale.
    """
    overdue_after = declaration.maintenance.overdue_after
    return dg.AssetSpec(
        dg.AssetKey(maintenance_key(declaration)),
        description=f"The maintenance of {declaration.name}: each run of a maintenance job materializes this asset, "
        "and shows what the run did and what it cost. If this asset is not fresh, no maintenance job has run for "
        "longer than the policy allows.",
        group_name=_GROUP,
        owners=declaration.owners,
        kinds={STORAGE_KIND},
        freshness_policy=None if overdue_after is None else dg.FreshnessPolicy.time_window(fail_window=overdue_after),
    )
