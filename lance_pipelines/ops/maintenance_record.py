"""Records what a maintenance run did and cost: on the asset ``maintenance/<dataset>``, and in the history.

The work is already done when it is recorded. Therefore, a failure to write to the history causes only a warning.
"""

import logging
from collections.abc import Mapping
from typing import Final

import dagster as dg
from dagster._core.events import DagsterEventType

from lance_core.errors import LanceError
from lance_pipelines.events.maintenance_events import maintenance_materialization
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.maintenance.history import HistoryEntry, append_history
from lance_pipelines.ops.output import SECONDS_KEY, duration
from lance_pipelines.runs.cpu_time import take_cpu_seconds

__all__ = ["build_failure_hook", "cpu_metadata", "record_effect"]

_CPU_KEY: Final = "lance/cpu_seconds"


def record_effect(
    context: dg.OpExecutionContext,
    declaration: DatasetDeclaration,
    effect: Effect,
    *,
    uri: str,
    summary: str,
    details: Mapping[str, int | float | str],
) -> None:
    """Record what a maintenance run did and cost.

    Args:
        context: the last step of the run.
        declaration: the dataset.
        effect: what the run did.
        uri: the location of the dataset in this run.
        summary: what the run did, in one line.
        details: the metadata of the run's report or plan.
    """
    cpu_seconds = round(take_cpu_seconds() + _cpu_seconds_of_earlier_steps(context), 2)
    cost = {**duration(context), _CPU_KEY: cpu_seconds}
    context.log_event(
        maintenance_materialization(declaration, uri=uri, summary=summary, effect=effect, cost=cost, details=details)
    )
    entry = HistoryEntry.of(
        effect,
        run_id=context.run_id,
        dataset=declaration.name,
        uri=uri,
        message=summary,
        cpu_seconds=cpu_seconds,
        seconds=cost.get(SECONDS_KEY),
        details=details,
    )
    _write_history(declaration, entry, context.log)


def build_failure_hook(declaration: DatasetDeclaration, operation: str) -> dg.HookDefinition:
    """Return the hook of a maintenance job that records a failed run in the history."""

    @dg.failure_hook(name=f"{declaration.name}__record_failed_{operation}")
    def record_failure(context: dg.HookContext) -> None:
        error = context.op_exception
        message = str(getattr(error, "description", None) or error).partition("\n")[0]
        entry = HistoryEntry.of_failure(run_id=context.run_id, dataset=declaration.name, job=operation, message=message)
        _write_history(declaration, entry, context.log)

    return record_failure


def _write_history(declaration: DatasetDeclaration, entry: HistoryEntry, log: logging.Logger) -> None:
    if declaration.history is None:
        return
    try:
        append_history(declaration.history, entry, declaration.resolved_storage_options())
    except LanceError as error:
        log.warning("%s: could not update the history %s: %s", declaration.name, declaration.history, error)


def cpu_metadata() -> dict[str, dg.MetadataValue]:
    """Return the metadata entry of a step's output with the CPU time of the step; the last step adds up these times."""
    return {_CPU_KEY: dg.MetadataValue.float(round(take_cpu_seconds(), 2))}


def _cpu_seconds_of_earlier_steps(context: dg.OpExecutionContext) -> float:
    total = 0.0
    for entry in context.instance.all_logs(context.run_id, of_type=DagsterEventType.STEP_OUTPUT):
        value = entry.get_dagster_event().step_output_data.metadata.get(_CPU_KEY)
        if value is not None and isinstance(value.value, float):
            total += value.value
    return total
