"""fleet: the asset that shows the state of all datasets of a project, the worst first."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import dagster as dg

from lance_pipelines.events.asset_metadata import STORAGE_KIND, SUMMARY_KEY
from lance_pipelines.fleet import Fleet
from lance_pipelines.ingest.declaration import DatasetDeclaration, maintenance_key

__all__ = ["build_fleet_definitions"]

_CRON_SCHEDULE: Final = "15 * * * *"


def build_fleet_definitions(declarations: Sequence[DatasetDeclaration], *, namespace: str) -> dg.Definitions:
    """Return the asset ``<namespace>/fleet``, and the job and the hourly schedule that materialize it.

    Args:
        declarations: all datasets.
        namespace: the prefix of the names.
    """
    keys = {dg.AssetKey(maintenance_key(declaration)): declaration.name for declaration in declarations}

    @dg.asset(
        key=[namespace, "fleet"],
        description="The state of all declared datasets: one row per dataset with its grade, the worst first. Each "
        "materialization reads the latest manifest of every dataset. If a dataset cannot be read, its row shows the "
        "error.",
        group_name="maintenance",
        kinds={STORAGE_KIND},
    )
    def fleet(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        records = context.instance.get_asset_records(list(keys))
        latest = {record.asset_entry.asset_key: record.asset_entry.last_materialization for record in records}
        maintained_at = {
            keys[key]: datetime.fromtimestamp(event.timestamp, UTC)
            for key, event in latest.items()
            if event is not None
        }
        found = Fleet.of(declarations, maintained_at, datetime.now(UTC))
        return dg.MaterializeResult(
            metadata={
                SUMMARY_KEY: dg.MetadataValue.text(found.headline()),
                "lance/fleet": dg.MetadataValue.md(found.markdown()),
                **{f"lance/{name}": dg.MetadataValue.int(number) for name, number in found.figures().items()},
            }
        )

    job = dg.define_asset_job(
        f"{namespace}_fleet", selection=[fleet], description="Grade all declared datasets, and show them in one table."
    )
    schedule = dg.ScheduleDefinition(
        name=f"{namespace}_fleet_schedule",
        job=job,
        cron_schedule=_CRON_SCHEDULE,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
    )
    return dg.Definitions(assets=[fleet], jobs=[job], schedules=[schedule])
