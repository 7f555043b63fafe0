"""Decides whether a rewrite that is due by its policy can be requested: only if the job would have something to do.

The decision is made with the plan that the job would make. A table that cannot be rewritten is not due, so that no run
is requested that must fail.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import lance_core
from lance_core.errors import NotSupportedError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.evaluate import NotDue, Verdict
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.policy import MaintenancePolicy
from lance_pipelines.maintenance.rewrite_plan import RewriteOperation, beyond_budget, plan_rewrite
from lance_pipelines.sensors.latest import Latest

__all__ = ["examine_rewrite"]


def examine_rewrite(
    declaration: DatasetDeclaration,
    latest: Latest,
    operation: RewriteOperation,
    options: Callable[[DatasetDeclaration], Mapping[str, Any]],
    evaluate: Callable[[MaintenancePolicy, TableHealth], Verdict],
) -> Verdict:
    """Return whether a rewrite is due.

    Args:
        declaration: the dataset.
        latest: its latest version.
        operation: the operation that rewrites fragments.
        options: returns the options of the operation for a run without a configuration.
        evaluate: compares the policy with the statistics of the table.
    """
    storage_options = declaration.resolved_storage_options()
    dataset = lance_core.dataset(declaration.uri, version=latest.version, storage_options=storage_options)
    health = TableHealth.of(dataset, declaration.maintenance, versions=len(latest.names))
    verdict = evaluate(declaration.maintenance, health)
    if isinstance(verdict, NotDue):
        return verdict
    chosen = options(declaration)
    try:
        plan = plan_rewrite(dataset, operation, chosen)
    except NotSupportedError as error:
        return NotDue(f"{verdict.reason}, but {error}")
    if not plan.tasks:
        return NotDue(f"{verdict.reason}, but there is nothing to rewrite")
    beyond = beyond_budget(plan.figures, chosen.get("max_source_bytes"))
    return replace(verdict, reason=f"{verdict.reason}; {beyond}") if beyond else verdict
