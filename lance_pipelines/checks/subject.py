"""CheckedVersion: the version that checks examine, opened once, and what is known about it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lance_pipelines.maintenance.fragment_figures import FragmentFigures
from lance_pipelines.maintenance.health import TableHealth

if TYPE_CHECKING:
    from collections.abc import Mapping

    import lance_core
    from lance_pipelines.maintenance.check_settings import CheckSettings
    from lance_pipelines.maintenance.policy import MaintenancePolicy
    from lance_pipelines.progress import Report

__all__ = ["CheckedVersion"]


@dataclass(frozen=True, kw_only=True)
class CheckedVersion:
    """One version of a dataset, and what the event log records about it.

    Attributes:
        dataset: a handle of the version; every check of a run examines the same version.
        settings: the settings of the checks.
        policy: the maintenance policy, whose limits decide what is healthy.
        now: the current time, in seconds since the epoch.
        recorded_rows: number of rows that an event records for this version; None if there is no such event.
        changed_version: number of the last version that changed rows; None if it is unknown.
        earlier_columns: the columns that the previous evaluation of the schema check found, with their types; None if
            there was none.
        report: receives the progress of long checks.
    """

    dataset: lance_core.LanceDataset
    settings: CheckSettings
    policy: MaintenancePolicy
    now: float = field(default_factory=time.time)
    recorded_rows: int | None = None
    changed_version: int | None = None
    earlier_columns: Mapping[str, str] | None = None
    report: Report = field(default=lambda progress: None)

    @property
    def version(self) -> int:
        """The version's number."""
        return self.dataset.version

    @cached_property
    def figures(self) -> FragmentFigures:
        """Rows, bytes, and files of every fragment."""
        return FragmentFigures.of(self.dataset)

    @cached_property
    def health(self) -> TableHealth:
        """The statistics of the version."""
        return TableHealth.of(self.dataset, self.policy, figures=self.figures)
