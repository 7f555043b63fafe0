"""version_sensor: reports commits by other programs as events of the dataset's asset.

Without this sensor, Dagster would know only the commits of its own runs, and downstream assets would not be updated
when another program appends or deletes rows.
"""

from collections.abc import Sequence

import dagster as dg

from lance_core.errors import LanceError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.sensors.catch_up import CaughtUp, Mark, catch_up
from lance_pipelines.sensors.cursor import parse_cursor, serialize_cursor
from lance_pipelines.sensors.tick_budget import LEFT_FOR_NEXT_TICK, examine_in_budget

__all__ = ["build_version_sensor"]


def build_version_sensor(
    declarations: Sequence[DatasetDeclaration],
    *,
    namespace: str,
    interval_seconds: int,
    status: dg.DefaultSensorStatus,
) -> dg.SensorDefinition:
    """Return the sensor that reports commits by other programs.

    Args:
        declarations: the datasets.
        namespace: the prefix of the sensor's name.
        interval_seconds: seconds between two ticks.
        status: the default status of the sensor.
    """

    @dg.sensor(
        name=f"{namespace}_version_sensor",
        minimum_interval_seconds=interval_seconds,
        default_status=status,
        description="Reports versions committed by other programs: as materializations if rows changed, otherwise as "
        "observations.",
    )
    def version_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        marks = parse_cursor(context.cursor, Mark)
        results = examine_in_budget(
            declarations,
            lambda declaration: _catch_up(context.instance, declaration, marks.get(declaration.name)),
            lambda declaration: CaughtUp(reason=LEFT_FOR_NEXT_TICK, mark=marks.get(declaration.name)),
        )
        progress = {declaration.name: each for declaration, each in zip(declarations, results, strict=True)}
        reached = {name: each.mark for name, each in progress.items() if each.mark is not None}
        return dg.SensorResult(
            asset_events=[event for each in progress.values() for event in each.events],
            skip_reason="; ".join(f"{name}: {each.reason}" for name, each in progress.items())
            or "no dataset is declared",
            cursor=serialize_cursor(reached),
        )

    return version_sensor


def _catch_up(instance: dg.DagsterInstance, declaration: DatasetDeclaration, mark: Mark | None) -> CaughtUp:
    try:
        return catch_up(instance, declaration, mark)
    except LanceError as error:
        return CaughtUp(reason=f"cannot be examined: {error}", mark=mark)
