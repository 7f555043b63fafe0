"""The plan of a delete: its statistics, and the message from the step that plans to the step that deletes rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.plan_table import PlanLine, amount, render_plan
from lance_pipelines.step_messages import StepMessage

if TYPE_CHECKING:
    from lance_core.metadata import DeletePlan

__all__ = ["DeleteForecast", "PlannedDelete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteForecast:
    """A planned delete.

    Attributes:
        uri: the dataset's location.
        predicate: SQL expression that selects the rows to delete.
        before: statistics of the version that the plan is based on.
        plan: the plan, with the number of matching rows and of affected fragments.
    """

    uri: str
    predicate: str
    before: TableHealth
    plan: DeletePlan

    @property
    def has_work(self) -> bool:
        """Whether any row matches."""
        return self.plan.rows_deleted > 0

    @property
    def no_effect(self) -> Effect:
        """The effect of a run with nothing to do."""
        return Effect.none("delete_rows", self.plan.read_version, self.before.contents)

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""
        return {
            "lance/read_version": self.plan.read_version,
            "lance/predicate": self.predicate,
            "lance/rows": self.plan.rows_before,
            "lance/rows_to_delete": self.plan.rows_deleted,
            "lance/fragments": self.before.fragments,
            "lance/fragments_changed": self.plan.fragments_changed,
            "lance/fragments_dropped": self.plan.fragments_dropped,
            "lance/fragments_after": self.before.fragments - self.plan.fragments_dropped,
            "lance/bytes_dropped": self._bytes_dropped(),
        }

    def headline(self) -> str:
        """Return one line that describes the plan."""
        place = f"{self.uri} version {self.plan.read_version}"
        if not self.has_work:
            total = f"{amount(self.plan.rows_before, 'row')} in total"
            return f"{place}: nothing to do (no row matches {self.predicate}; {total})"
        touched = self.plan.fragments_changed + self.plan.fragments_dropped
        return (
            f"{place}: {self.plan.rows_deleted} of {amount(self.plan.rows_before, 'row')} will be deleted "
            f"from {touched} of {amount(self.before.fragments, 'fragment')} (where {self.predicate})"
        )

    def table(self) -> str:
        """Return the output of a dry run."""
        before, plan = self.before, self.plan
        dropped = [delete.fragment for delete in plan.deletes if delete.is_dropped]
        with_file = [delete.fragment for delete in plan.deletes if delete.fragment.has_deletion_file]
        deletion_files = before.deletion_files - len(with_file) + plan.fragments_changed
        dropped_files = sum(len(fragment.data_file_paths) for fragment in dropped)
        dropped_deletions = sum(fragment.num_deleted_rows for fragment in dropped)
        hidden = plan.rows_deleted - sum(delete.rows_deleted for delete in plan.deletes if delete.is_dropped)
        bytes_after = None if before.bytes_total is None else before.bytes_total - self._bytes_dropped()
        lines = [
            PlanLine("rows", plan.rows_before, plan.rows_before - plan.rows_deleted),
            PlanLine(
                "deleted rows still stored", before.deleted_rows, before.deleted_rows + hidden - dropped_deletions
            ),
            PlanLine("fragments", before.fragments, before.fragments - plan.fragments_dropped),
            PlanLine("data files", before.data_files, before.data_files - dropped_files),
            PlanLine("deletion files", before.deletion_files, deletion_files),
            PlanLine("bytes of data files", before.bytes_total, bytes_after, is_bytes=True),
        ]
        return render_plan(f"delete_rows {self.headline()}", lines, ["Dry run: nothing was changed."])

    def _bytes_dropped(self) -> int:
        return sum(
            size for delete in self.plan.deletes if delete.is_dropped for size in delete.fragment.data_file_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDelete(StepMessage):
    """The message from the plan step to the step that deletes rows.

    Attributes:
        delete_id: a UUID, the same for every attempt to commit this delete.
        dataset: the declaration's name.
        uri: the dataset's location.
        predicate: SQL expression that selects the rows to delete.
        before: statistics of the version that the plan is based on.
        run_id: id of the run that made the plan.
        step_key: the key of the planning step in that run.
    """

    delete_id: str
    dataset: str
    uri: str
    predicate: str
    before: TableHealth
    run_id: str
    step_key: str
