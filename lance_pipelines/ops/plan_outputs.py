"""The outputs of the planning steps of the maintenance jobs.

A dry run, and a plan without work, have no output ``plan``: Dagster then skips the steps that wait for it, no Spark
session is started, nothing is committed, and the run succeeds.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import dagster as dg

__all__ = ["PLAN_OUTPUTS"]

PLAN_OUTPUTS: Final[Mapping[str, dg.Out]] = MappingProxyType(
    {
        "figures": dg.Out(dg.Nothing, description="The statistics of the plan."),
        "plan": dg.Out(str, description="The plan, as JSON; absent when there is nothing to do.", is_required=False),
    }
)
"""Outputs of every planning step."""
