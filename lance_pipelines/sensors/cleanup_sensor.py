"""cleanup_sensor: requests the removal of versions that exceed the limits of a policy.

Versions grow older without any commit, so a dataset is examined at every tick. This is fast, because manifests are
listed and some of their modification times are checked, but no manifest is read.
"""

import time
from typing import Final

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.evaluate import NotDue, Verdict, evaluate_cleanup
from lance_pipelines.maintenance.old_versions import OldVersions
from lance_pipelines.runs.runs_in_flight import INGEST
from lance_pipelines.sensors.latest import Latest
from lance_pipelines.sensors.run_requests import MaintenanceKind

__all__ = ["CLEANUP"]


def _examine(declaration: DatasetDeclaration, latest: Latest) -> Verdict:
    policy = declaration.maintenance.cleanup
    if policy is None:
        return NotDue("cleanup is disabled")
    return evaluate_cleanup(policy, OldVersions.of(latest.log, latest.names, policy, now=time.time()))


CLEANUP: Final = MaintenanceKind(
    sensor="cleanup_sensor",
    description="Requests the removal of old versions according to the policies.",
    op="cleanup",
    excludes=(INGEST, "cleanup"),
    examine=_examine,
    becomes_due_with_age=True,
)
