"""Records what a maintenance run did and cost: as a materialization of the asset ``maintenance/<dataset>``."""

from collections.abc import Mapping
from typing import Final

import dagster as dg
from dagster._core.events import DagsterEventType

from lance_pipelines.events.maintenance_events import maintenance_materialization
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.ops.output import duration
from lance_pipelines.runs.cpu_time import take_cpu_seconds

__all__ = ["cpu_metadata", "record_effect"]

_CPU_KEY: Final = "lance/cpu_seconds"


def record_effect(
    context: dg.OpExecutionContext,
    declaration: DatasetDeclaration,
    effect: Effect,
    summary: str,
    details: Mapping[str, int | float | str],
) -> None:
    """Record what a maintenance run did and cost.

    Args:
        context: the last step of the run.
        declaration: the dataset.
        effect: what the run did.
        summary: the same, in one line.
        details: the metadata of its report or of its plan.
    """
    cpu_seconds = take_cpu_seconds() + _cpu_seconds_of_earlier_steps(context)
    context.log_event(
        maintenance_materialization(
            declaration,
            summary=summary,
            effect=effect,
            cost={**duration(context), _CPU_KEY: round(cpu_seconds, 2)},
            details=details,
        )
    )


def cpu_metadata() -> dict[str, dg.MetadataValue]:
    """Return the metadata entry of a step's output with the CPU time of the step; the last step adds them up."""
    return {_CPU_KEY: dg.MetadataValue.float(round(take_cpu_seconds(), 2))}


def _cpu_seconds_of_earlier_steps(context: dg.OpExecutionContext) -> float:
    total = 0.0
    for entry in context.instance.all_logs(context.run_id, of_type=DagsterEventType.STEP_OUTPUT):
        value = entry.get_dagster_event().step_output_data.metadata.get(_CPU_KEY)
        if value is not None and isinstance(value.value, float):
            total += value.value
    return total
