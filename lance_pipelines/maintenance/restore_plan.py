"""The plan of a restore: its statistics, and the message from the step that plans to the step that restores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.maintenance.plan_table import PlanLine, amount, render_plan
from lance_pipelines.step_messages import StepMessage

if TYPE_CHECKING:
    from lance_pipelines.maintenance.health import TableHealth

__all__ = ["PlannedRestore", "RestoreForecast"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreForecast:
    """A planned restore.

    Attributes:
        uri: the dataset's location.
        before: statistics of the latest version.
        restored: statistics of the version to restore.
        has_work: whether the two versions differ in their columns, data files, deleted rows, or overlays.
    """

    uri: str
    before: TableHealth
    restored: TableHealth
    has_work: bool

    @property
    def no_effect(self) -> Effect:
        """The effect of a run with nothing to do."""
        return Effect.none("restore", self.before.version, self.before.contents)

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""
        return {
            "lance/read_version": self.before.version,
            "lance/restored_version": self.restored.version,
            "lance/rows": self.before.rows,
            "lance/rows_after": self.restored.rows,
            "lance/fragments": self.before.fragments,
            "lance/fragments_after": self.restored.fragments,
        }

    def headline(self) -> str:
        """Return one line that describes the plan."""
        place = f"{self.uri} version {self.before.version}"
        if not self.has_work:
            return f"{place}: nothing to do (version {self.restored.version} has the same rows and columns)"
        return (
            f"{place}: the content of version {self.restored.version} will be restored as a new version "
            f"({amount(self.restored.rows, 'row')} instead of {self.before.rows})"
        )

    def table(self) -> str:
        """Return the output of a dry run."""
        before, after = self.before, self.restored
        lines = [
            PlanLine("rows", before.rows, after.rows),
            PlanLine("deleted rows still stored", before.deleted_rows, after.deleted_rows),
            PlanLine("fragments", before.fragments, after.fragments),
            PlanLine("data files", before.data_files, after.data_files),
            PlanLine("bytes of data files", before.bytes_total, after.bytes_total, is_bytes=True),
        ]
        return render_plan(f"restore {self.headline()}", lines, ["Dry run: nothing was changed."])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRestore(StepMessage):
    """The message from the plan step to the step that restores.

    Attributes:
        restore_id: UUID of the transaction, the same for every attempt to commit this restore.
        dataset: the declaration's name.
        uri: the dataset's location.
        version: the version to restore.
        read_version: the latest version when the plan was made.
        run_id: id of the run that made the plan.
        step_key: the key of the planning step in that run.
    """

    restore_id: str
    dataset: str
    uri: str
    version: int
    read_version: int
    run_id: str
    step_key: str
