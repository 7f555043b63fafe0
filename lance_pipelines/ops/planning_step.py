"""Builds the steps that plan maintenance: they open the dataset, make a plan, and print it or pass it on.

A dry run prints the plan. Otherwise, the step waits for running ingests before it plans, and its message makes the next
steps execute the plan.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import dagster as dg

import lance_core
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_config import MaintenanceConfig, dataset_uri, is_dry_run
from lance_pipelines.ops.maintenance_record import cpu_metadata, record_effect
from lance_pipelines.ops.plan_outputs import PLAN_OUTPUTS, Forecast, report_plan
from lance_pipelines.ops.run_entry import await_ingests, begin_run, prepare_for_pool
from lance_pipelines.step_messages import StepMessage

__all__ = ["PlanRequest", "Planned", "build_planning_step"]

_Config = TypeVar("_Config", bound=MaintenanceConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest(Generic[_Config]):
    """The input of a planning step.

    Attributes:
        context: the context of the step.
        config: the configuration of the run.
        uri: the dataset's location.
        options: the options of the operation, from the configuration.
        dataset: a handle to the latest version.
        storage_options: credentials and settings of the dataset's store.
        origin: the values that every message has: the dataset, its location, the run, and the step.
    """

    context: dg.OpExecutionContext
    config: _Config
    uri: str
    options: Mapping[str, Any]
    dataset: lance_core.LanceDataset
    storage_options: dict[str, str] | None
    origin: Mapping[str, str]


class MaintenanceForecast(Forecast, Protocol):
    """The expected effect of a plan of maintenance."""

    @property
    def no_effect(self) -> Effect:
        """The effect of a run with nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan.

    Attributes:
        forecast: the expected effect of the plan.
        message: returns the message for the next step; called only if the plan is to be executed.
    """

    forecast: MaintenanceForecast
    message: Callable[[], StepMessage]


def build_planning_step(
    declaration: DatasetDeclaration,
    name: str,
    *,
    description: str,
    config: type[_Config],
    plan: Callable[[PlanRequest[_Config]], Planned],
    options: Callable[[_Config], Mapping[str, Any]] = lambda _: {},
    declared: Mapping[str, Any] | None = None,
    precedes_commit: bool = False,
) -> dg.OpDefinition:
    """Return an op that plans an operation on one dataset.

    Args:
        declaration: the dataset.
        name: the name of the step, without the dataset's name, which is added as a prefix.
        description: what the step does.
        config: the configuration class.
        plan: makes the plan.
        options: converts the configuration to the options of the operation; its errors are raised before anything is
            read.
        declared: the values for a run without a configuration; None if every run must have a configuration.
        precedes_commit: whether the next step commits; if so, the pool slots of dead runs are released first.
    """

    @dg.op(
        name=f"{declaration.name}__{name}",
        description=description,
        config_schema=config_field(config, declared),
        out=dict(PLAN_OUTPUTS),
    )
    def planning_step(context: dg.OpExecutionContext) -> Iterator[dg.Output[Any]]:
        begin_run(context)
        given = config(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            dry_run = is_dry_run(declaration, given)
            request = _request(context, declaration, given, options(given), waits=not dry_run)
            planned = plan(request)
            forecast = planned.forecast
            outputs: list[dg.Output[Any]] = []
            if report_plan(context, declaration.name, forecast, is_dry_run=dry_run):
                context.log.info(forecast.headline())
                if precedes_commit:
                    prepare_for_pool(context)
                outputs.append(dg.Output(planned.message().to_json(), "plan"))
            elif not dry_run:
                record_effect(
                    context,
                    declaration,
                    forecast.no_effect,
                    uri=request.uri,
                    summary=forecast.headline(),
                    details=forecast.metadata(),
                )
            outputs.insert(0, dg.Output(None, "figures", metadata={**forecast.metadata(), **cpu_metadata()}))
        yield from outputs

    return planning_step


def _request(
    context: dg.OpExecutionContext,
    declaration: DatasetDeclaration,
    config: _Config,
    options: Mapping[str, Any],
    *,
    waits: bool,
) -> PlanRequest[_Config]:
    uri = dataset_uri(declaration, config)
    if waits:
        await_ingests(context, declaration.key)
    storage_options = declaration.resolved_storage_options()
    return PlanRequest(
        context=context,
        config=config,
        uri=uri,
        options=options,
        dataset=lance_core.dataset(uri, storage_options=storage_options),
        storage_options=storage_options,
        origin={
            "dataset": declaration.name,
            "uri": uri,
            "run_id": context.run_id,
            "step_key": context.get_step_execution_context().step.key,
        },
    )
