"""IndexReport: what a change of indices did, as metadata of an event and in one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.metadata import index_coverage
from lance_pipelines.maintenance.effect import Contents, Effect
from lance_pipelines.maintenance.plan_table import amount, format_bytes

if TYPE_CHECKING:
    import lance_core
    from lance_pipelines.maintenance.index_plan import PlannedIndices

__all__ = ["IndexReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """Statistics of one change of indices. Rows are counted once for each index.

    Attributes:
        uri: the dataset's location.
        op: the operation, ``build_index`` or ``optimize_indices``.
        read_version: the version from which the indices were built.
        version: the version that the change created, or the latest one if there was nothing left to do.
        names: names of the changed indices.
        rows_before: number of rows that these indices covered when the work was planned.
        rows_after: number of rows that these indices cover now.
        unindexed_rows: number of rows that these indices do not cover, because others added them in the meantime.
        unindexed_fragments: number of fragments that these indices do not cover.
        bytes_written: total size of the new index files, in bytes.
        seconds: number of seconds that the work on the indices took.
        conflicts: number of times that the work was repeated because of other writers.
        repeated: whether an earlier attempt had already committed the change.
    """

    uri: str
    op: str
    read_version: int
    version: int
    names: tuple[str, ...] = ()
    rows_before: int = 0
    rows_after: int = 0
    unindexed_rows: int = 0
    unindexed_fragments: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    conflicts: int = 0
    repeated: bool = False

    @classmethod
    def of(
        cls,
        plan: PlannedIndices,
        dataset: lance_core.LanceDataset,
        *,
        bytes_written: int,
        seconds: float,
        conflicts: int,
        repeated: bool,
    ) -> IndexReport:
        """Return the report of a committed change.

        Args:
            plan: the plan that was committed.
            dataset: a handle to the version that the commit created.
            bytes_written: total size of the new index files, in bytes.
            seconds: number of seconds that the work on the indices took.
            conflicts: number of times that the work was repeated because of other writers.
            repeated: whether an earlier attempt had already committed the change.
        """
        names = tuple(work.name for work in plan.works)
        changed = [index for index in index_coverage(dataset) if index.name in names]
        return cls(
            uri=plan.uri,
            op=plan.op.value,
            read_version=plan.version,
            version=dataset.version,
            names=names,
            rows_before=sum(work.indexed_rows for work in plan.works),
            rows_after=sum(index.indexed_rows for index in changed),
            unindexed_rows=sum(index.unindexed_rows for index in changed),
            unindexed_fragments=sum(len(index.unindexed_fragments) for index in changed),
            bytes_written=bytes_written,
            seconds=round(seconds, 1),
            conflicts=conflicts,
            repeated=repeated,
        )

    @property
    def has_changed(self) -> bool:
        """Whether any index changed."""
        return bool(self.names)

    @property
    def effect(self) -> Effect:
        """What the run did."""
        return Effect(
            op=self.op,
            version_before=self.read_version,
            version_after=self.version,
            before=Contents(),
            after=Contents(),
            has_changed=self.has_changed,
            bytes_written=self.bytes_written,
        )

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics of the job for an event, without the version's statistics, which every event has."""
        return {
            "lance/summary": self.headline(),
            "lance/read_version": self.read_version,
            "lance/indices": ", ".join(self.names),
            "lance/rows_indexed_before": self.rows_before,
            "lance/rows_indexed": self.rows_after,
            "lance/unindexed_rows": self.unindexed_rows,
            "lance/unindexed_fragments": self.unindexed_fragments,
            "lance/index_bytes_written": self.bytes_written,
            "lance/index_seconds": self.seconds,
            "lance/conflicts": self.conflicts,
            "lance/committed_earlier": self.repeated,
        }

    def headline(self) -> str:
        """Return the summary of the event: what changed, and the version."""
        return (
            f"{self.op}: {', '.join(self.names)}: {self.rows_before} → {amount(self.rows_after, 'indexed row')}, "
            f"v{self.version}"
        )

    def summary(self) -> str:
        """Return one line for logs and terminals."""
        place = f"{self.uri} version {self.version}"
        if not self.has_changed:
            return f"{place}: nothing left to do; other writers changed the indices in the meantime"
        left = f", {self.unindexed_rows} not indexed yet" if self.unindexed_rows else ""
        return (
            f"{place}: {amount(len(self.names), 'index', 'indices')} ({', '.join(self.names)}) changed: "
            f"{self.rows_before} → {amount(self.rows_after, 'indexed row')}{left}; "
            f"{format_bytes(self.bytes_written)} written in {self.seconds} seconds"
        )
