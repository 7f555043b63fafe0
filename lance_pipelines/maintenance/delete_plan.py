"""The plan of a delete: its statistics, and the message from the step that plans to the step that deletes rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

from lance_core.metadata import plan_delete
from lance_pipelines.maintenance.content import content_digest
from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.maintenance.fixed_time import fixed_predicate, format_time
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.plan_digest import plan_digest
from lance_pipelines.maintenance.plan_table import PlanLine, amount, render_plan
from lance_pipelines.step_messages import StepMessage

if TYPE_CHECKING:
    import lance_core
    from lance_core.metadata import DeletePlan
    from lance_pipelines.maintenance.policy import MaintenancePolicy

__all__ = ["DeleteForecast", "PlannedDelete", "predicate_metadata"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteForecast:
    """A planned delete.

    Attributes:
        uri: the dataset's location.
        op: the operation, ``delete_rows`` or ``retention``.
        predicate: SQL expression that selects the rows to delete.
        as_of: the value of ``now()`` in the predicate.
        before: statistics of the version that the plan is based on.
        plan: the plan, with the number of matching rows and of affected fragments.
        content: digest of the content of the version that the plan is based on.
        digest: digest of the plan. It depends on the matching rows, but not on ``as_of``.
    """

    uri: str
    op: str
    predicate: str
    as_of: datetime
    before: TableHealth
    plan: DeletePlan
    content: str
    digest: str

    @classmethod
    def of(
        cls, dataset: lance_core.LanceDataset, predicate: str, policy: MaintenancePolicy, *, op: str, as_of: datetime
    ) -> Self:
        """Plan a delete from a handle's version.

        Args:
            dataset: an open handle.
            predicate: SQL expression that selects the rows to delete.
            policy: determines which fragments count as small.
            op: the operation, ``delete_rows`` or ``retention``.
            as_of: the value of ``now()`` in the predicate.

        Raises:
            InvalidInputError: the predicate is not valid for the dataset.
            NotSupportedError: a part of the predicate is not supported.
        """
        plan = plan_delete(dataset, fixed_predicate(predicate, as_of))
        content = content_digest(dataset.manifest)
        found = [[delete.fragment.id, delete.rows_deleted] for delete in plan.deletes]
        return cls(
            uri=dataset.uri,
            op=op,
            predicate=predicate,
            as_of=as_of,
            before=TableHealth.of(dataset, policy),
            plan=plan,
            content=content,
            digest=plan_digest(dataset.version, content, predicate, found),
        )

    @property
    def has_work(self) -> bool:
        """Whether any row matches."""
        return self.plan.rows_deleted > 0

    @property
    def no_effect(self) -> Effect:
        """The effect of a run with nothing to do."""
        return Effect.none(self.op, self.plan.read_version, self.before.contents)

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""
        return {
            "lance/read_version": self.plan.read_version,
            **predicate_metadata(self.predicate, self.as_of),
            "lance/rows": self.plan.rows_before,
            "lance/rows_to_delete": self.plan.rows_deleted,
            "lance/fragments": self.before.fragments,
            "lance/fragments_changed": self.plan.fragments_changed,
            "lance/fragments_dropped": self.plan.fragments_dropped,
            "lance/fragments_after": self.before.fragments - self.plan.fragments_dropped,
            "lance/bytes_dropped": self._bytes_dropped(),
            "lance/plan_digest": self.digest,
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
        evaluated = fixed_predicate(self.predicate, self.as_of)
        notes = [] if evaluated == self.predicate else [f"Evaluated: {evaluated}"]
        notes += [f"Plan digest: {self.digest}", "Dry run: nothing was changed."]
        return render_plan(f"{self.op} {self.headline()}", lines, notes)

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
        op: the operation, ``delete_rows`` or ``retention``.
        predicate: SQL expression that selects the rows to delete.
        as_of: the value of ``now()`` in the predicate.
        before: statistics of the version that the plan is based on.
        reviewed: digest of the content of that version, if the plan is one that was reviewed; None if it was not.
        run_id: id of the run that made the plan.
        step_key: the key of the planning step in that run.
    """

    delete_id: str
    dataset: str
    uri: str
    op: str
    predicate: str
    as_of: datetime
    before: TableHealth
    reviewed: str | None
    run_id: str
    step_key: str


def predicate_metadata(predicate: str, as_of: datetime) -> dict[str, str]:
    """Return the metadata entries of a predicate: its text and, if it depends on the time, the value of ``now()``."""
    depends = fixed_predicate(predicate, as_of) != predicate
    return {"lance/predicate": predicate, **({"lance/as_of": format_time(as_of)} if depends else {})}
