"""The outputs of the planning steps of the maintenance jobs, and what these steps print.

A dry run and a plan without work do not produce the output ``plan``: Dagster then skips the steps that wait for it, no
Spark session is started, nothing is committed, and the run succeeds.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

import dagster as dg

from lance_pipelines.ops.output import print_text, say
from lance_pipelines.resources.messages import MESSAGES

__all__ = ["PLAN_OUTPUTS", "Forecast", "report_plan"]

PLAN_OUTPUTS: Final[Mapping[str, dg.Out]] = MappingProxyType(
    {
        "figures": dg.Out(dg.Nothing, description="The statistics of the plan."),
        "plan": dg.Out(
            str,
            description="The plan, as JSON; absent if there is nothing to do.",
            is_required=False,
            io_manager_key=MESSAGES,
        ),
    }
)
"""Outputs of every planning step."""


class Forecast(Protocol):
    """The expected effect of a plan, in numbers and in words."""

    @property
    def has_work(self) -> bool:
        """Whether there is anything to do."""

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""

    def headline(self) -> str:
        """Return one line that describes the plan."""

    def table(self) -> str:
        """Return the output of a dry run."""


def report_plan(context: dg.OpExecutionContext, dataset: str, forecast: Forecast, *, is_dry_run: bool) -> bool:
    """Return whether the next steps are to execute a plan; otherwise, print the plan.

    A plan is not executed if this is a dry run, which prints the plan as a table, or if there is nothing to do.
    """
    if is_dry_run:
        print_text(f"{dataset}: {forecast.table()}")
        return False
    if not forecast.has_work:
        say(context, dataset, forecast.headline())
    return forecast.has_work
