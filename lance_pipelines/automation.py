"""The condition for assets downstream of a dataset.

``AutomationCondition.eager()`` fires on every materialization. :func:`on_new_data` fires when the data version of an
upstream asset has changed: once for new rows, and never for a repeated report of old rows. Maintenance is recorded as
an observation, which fires neither condition.

The two conditions differ in a second way. If the asset has run since the previous tick, ``eager()`` considers all
changes since that tick handled. A change that was made after the run had read its input is then lost. ``on_new_data``
considers a change handled only if it was known when a run was requested::

    tick 1   version 7 is new        request
    tick 2   version 8 is new        not handled by the request of tick 1: remembered
    tick 3   the run has ended       request

Conditions are evaluated by Dagster's ``default_automation_condition_sensor``, or by a sensor of the project. This
package adds none: Dagster refuses two such sensors for one asset.
"""

from typing import Any, Final

import dagster as dg
from dagster._core.definitions.declarative_automation.operators import AndAutomationCondition

__all__ = ["on_new_data"]

_LABEL: Final = "on_new_data"


def on_new_data() -> AndAutomationCondition[Any]:
    """Return a condition that materializes an asset whenever the data of an upstream asset has changed.

    ::

        @dg.asset(deps=["events"], automation_condition=on_new_data())
        def daily_report() -> None: ...

    An asset that becomes missing is materialized too. No run is started while an upstream asset is missing or being
    materialized, or while the asset itself is being materialized; the run starts afterward.
    """
    condition = dg.AutomationCondition
    changed = condition.newly_missing() | condition.any_deps_updated().replace(
        "newly_updated", condition.data_version_changed()
    )
    answered = condition.initial_evaluation() | (condition.newly_requested() & ~changed)
    return (
        condition.in_latest_time_window()
        & changed.since(answered)
        & ~condition.any_deps_missing()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label(_LABEL)
