"""The plan of a rewrite, and its statistics, which are known before any data is read.

===========================  ==========================================================================
Operation                    Fragments to rewrite
===========================  ==========================================================================
``compact``                  small neighbors, and large fragments above the deletion threshold
``materialize_deletions``    fragments above the deletion threshold; the plan excludes all others
===========================  ==========================================================================

A budget in bytes trims a plan, but never empties it: if not even the smallest useful task is within the budget, the
plan contains only this task, and its summary says so. Otherwise, a dataset with a low budget would never be maintained.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from lance_core.optimize import Compaction
from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.maintenance.plan_table import PlanLine, amount, format_bytes, render_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import lance_core
    from lance_core.optimize import CompactionPlan, CompactionTask, PlanFigures
    from lance_pipelines.maintenance.health import TableHealth

__all__ = [
    "RewriteForecast",
    "RewriteOperation",
    "beyond_budget",
    "plan_rewrite",
    "task_documents",
    "without_budget",
]

_EXCLUDED: Final = "excluded_fragment_ids"
_BUDGET: Final = "max_source_bytes"
_UNLIMITED: Final = 2**63 - 1


class RewriteOperation(StrEnum):
    """An operation that rewrites fragments."""

    COMPACT = "compact"
    MATERIALIZE_DELETIONS = "materialize_deletions"


def plan_rewrite(
    dataset: lance_core.LanceDataset, operation: RewriteOperation, options: Mapping[str, Any]
) -> CompactionPlan:
    """Return the groups of fragments to rewrite, based on the handle's version.

    If there is work, but none of it is within the budget, the plan contains the task with the fewest fragments.

    Args:
        dataset: an open handle.
        operation: the operation that rewrites fragments.
        options: options of ``Compaction.plan``, including ``materialize_deletions_threshold``.
    """
    chosen = dict(options)
    if operation is RewriteOperation.MATERIALIZE_DELETIONS:
        chosen[_EXCLUDED] = _fragments_within(dataset, options["materialize_deletions_threshold"])
    plan = Compaction.plan(dataset, chosen)
    if plan.tasks or plan.options.max_source_bytes is None:
        return plan
    return _smallest_plan(dataset, without_budget(chosen)) or plan


def without_budget(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with an unlimited budget, which also overrides a budget in the table config."""
    return {**options, _BUDGET: _UNLIMITED}


def beyond_budget(figures: PlanFigures, max_source_bytes: int | None) -> str:
    """Return a note that a plan reads more than its budget; empty if it does not."""
    if max_source_bytes is None or figures.rewritten_bytes <= max_source_bytes:
        return ""
    return (
        f"the smallest task reads {figures.rewritten_bytes} bytes, which is more than max_source_bytes = "
        f"{max_source_bytes}"
    )


def _smallest_plan(dataset: lance_core.LanceDataset, options: Mapping[str, Any]) -> CompactionPlan | None:
    """Return the plan with one task of few fragments; None if there is no work."""
    num_fragments = Compaction.plan(dataset, dict(options)).figures.rewritten_fragments
    if not num_fragments:
        return None
    # One fragment with many deleted rows, or two small neighbors, are usually enough. At the latest, all of them are.
    limits = (min(2**exponent, num_fragments) for exponent in range(num_fragments.bit_length() + 1))
    plans = (Compaction.plan(dataset, {**options, "max_source_fragments": limit}) for limit in limits)
    return next((plan for plan in plans if plan.tasks), None)


def task_documents(tasks: Iterable[CompactionTask]) -> tuple[str, ...]:
    """Return each task as JSON, for the workers.

    The JSON omits the list of excluded fragments, which tasks do not need.
    """
    documents = [json.loads(task.json()) for task in tasks]
    for document in documents:
        document["options"][_EXCLUDED] = []
    return tuple(json.dumps(document) for document in documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteForecast:
    """A planned rewrite.

    Attributes:
        uri: the dataset's location.
        operation: the operation that rewrites fragments.
        before: statistics of the version that the plan is based on.
        figures: statistics of the plan.
        max_source_bytes: number of bytes that the plan may read, unless it has only one task; None for no limit.
    """

    uri: str
    operation: RewriteOperation
    before: TableHealth
    figures: PlanFigures
    max_source_bytes: int | None = None

    @classmethod
    def of(
        cls,
        dataset: lance_core.LanceDataset,
        operation: RewriteOperation,
        options: Mapping[str, Any],
        *,
        before: TableHealth,
        figures: PlanFigures,
    ) -> Self:
        """Return the forecast of a plan.

        Args:
            dataset: the dataset at the version that the plan is based on.
            operation: the operation that rewrites fragments.
            options: the options with which the plan was made.
            before: statistics of the version that the plan is based on.
            figures: statistics of the plan.
        """
        return cls(
            uri=dataset.uri,
            operation=operation,
            before=before,
            figures=figures,
            max_source_bytes=options.get(_BUDGET),
        )

    @property
    def has_work(self) -> bool:
        """Whether there is anything to rewrite."""
        return self.figures.tasks > 0

    @property
    def no_effect(self) -> Effect:
        """The effect of a run with nothing to do."""
        return Effect.none(self.operation.value, self.before.version, self.before.contents)

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""
        figures = self.figures
        return {
            "lance/read_version": self.before.version,
            "lance/tasks": figures.tasks,
            "lance/rows": figures.rows,
            "lance/fragments": figures.fragments_before,
            "lance/fragments_after": figures.fragments_after,
            "lance/small_fragments": self.before.small_fragments,
            "lance/deleted_rows": figures.deleted_rows,
            "lance/deleted_rows_after": figures.deleted_rows_after,
            "lance/files": figures.files_before,
            "lance/files_after": figures.files_after,
            "lance/bytes_total": figures.bytes_before,
            "lance/bytes_after_estimate": figures.bytes_after_estimate,
            "lance/bytes_to_read": figures.rewritten_bytes,
            "lance/bytes_to_write_estimate": figures.new_bytes_estimate,
        }

    def headline(self) -> str:
        """Return one line that describes the plan."""
        figures = self.figures
        place = f"{self.uri} version {self.before.version}"
        if not self.has_work:
            return f"{place}: nothing to do ({self._state()})"
        line = (
            f"{place}: {figures.rewritten_fragments} of {amount(figures.fragments_before, 'fragment')} "
            f"({format_bytes(figures.rewritten_bytes)}) will be rewritten in {amount(figures.tasks, 'task')}"
        )
        return "; ".join(filter(None, [line, beyond_budget(figures, self.max_source_bytes)]))

    def table(self) -> str:
        """Return the output of a dry run."""
        figures = self.figures
        lines = [
            PlanLine("rows", figures.rows, figures.rows),
            PlanLine("deleted rows still stored", figures.deleted_rows, figures.deleted_rows_after),
            PlanLine("fragments", figures.fragments_before, figures.fragments_after, is_estimate=self.has_work),
            PlanLine("files", figures.files_before, figures.files_after, is_estimate=self.has_work),
            PlanLine(
                "bytes of data files",
                figures.bytes_before,
                figures.bytes_after_estimate,
                is_bytes=True,
                is_estimate=self.has_work,
            ),
        ]
        notes = ["Dry run: nothing was changed."]
        if self.has_work:
            size = format_bytes(figures.new_bytes_estimate)
            notes.insert(0, f"Until old versions are removed, about {size} of additional storage is needed.")
        return render_plan(f"{self.operation} {self.headline()}", lines, notes)

    def _state(self) -> str:
        before = self.before
        fragments = amount(before.fragments, "fragment")
        if self.operation is RewriteOperation.COMPACT:
            return f"{fragments}, {before.small_fragments} small"
        return f"{amount(before.deleted_rows, 'deleted row')} in {before.deletion_files} of {fragments}"


def _fragments_within(dataset: lance_core.LanceDataset, threshold: float) -> list[int]:
    """Return the ids of the fragments whose fraction of deleted rows does not exceed the threshold."""
    fragments = dataset.counted_manifest.fragments
    ids = np.array([fragment.id for fragment in fragments], np.uint64)
    physical = np.array([fragment.physical_rows for fragment in fragments], np.float32)
    deleted = np.array([fragment.num_deleted_rows for fragment in fragments], np.float32)
    # The planner compares in single precision, as the reference does.
    fraction = np.divide(deleted, physical, out=np.zeros_like(deleted), where=physical > 0)
    within: list[int] = ids[fraction <= np.float32(threshold)].tolist()
    return within
