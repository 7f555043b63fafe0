"""The plan of an index job: which indices are built or updated, from the manifest and the declaration alone.

======================  =====================================================  =====================================
Index                   In the plan of ``build_index``                         In the plan of ``optimize_indices``
======================  =====================================================  =====================================
declared, not built     yes, if the dataset has enough rows                    the same
built differently       yes: the declared type and column replace the others   the same
built                   only with ``replace``                                  if it does not cover every fragment;
                                                                               vector indices also with ``retrain``
======================  =====================================================  =====================================

Indices that are not declared, because other programs built them, are updated like the others. The digest of a plan
covers the version, its indices, and the work. A run that is given the digest of a dry run fails if the digest of its
own plan is different, because the dataset, the declaration, or the run's options have changed since.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import InvalidInputError
from lance_core.metadata import index_coverage
from lance_pipelines.maintenance.content import content_digest
from lance_pipelines.maintenance.effect import Contents, Effect
from lance_pipelines.maintenance.index_declaration import VECTOR_DETAILS
from lance_pipelines.maintenance.plan_digest import plan_digest, require_digest
from lance_pipelines.maintenance.plan_table import PlanLine, amount, render_plan
from lance_pipelines.step_messages import StepMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import lance_core
    from lance_core.metadata import IndexCoverage
    from lance_pipelines.maintenance.index_declaration import IndexDeclaration

__all__ = ["IndexAction", "IndexForecast", "IndexOperation", "IndexWork", "PlannedIndices", "StagedIndices"]

_MIN_VECTORS: Final = 256


class IndexOperation(StrEnum):
    """A job that changes indices."""

    BUILD = "build_index"
    OPTIMIZE = "optimize_indices"


class IndexAction(StrEnum):
    """What a job does with one index."""

    BUILD = "build"
    """Build the index on all rows."""

    REPLACE = "replace"
    """Build the index on all rows, and replace the existing index of the same name."""

    UPDATE = "update"
    """Add the fragments that the index does not cover."""

    RETRAIN = "retrain"
    """Retrain the index on all rows, with its recorded parameters; only for vector indices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWork:
    """The work on one index.

    Attributes:
        name: name of the index.
        action: what is done.
        reason: why it is done, with numbers.
        indexed_rows: number of rows that the index covers now.
        unindexed_rows: number of rows that it does not cover.
        unindexed_fragments: number of fragments that it does not cover.
        size_bytes: total size of its files in bytes; None if unknown.
    """

    name: str
    action: IndexAction
    reason: str
    indexed_rows: int
    unindexed_rows: int
    unindexed_fragments: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexForecast:
    """A planned change of indices.

    Attributes:
        uri: the dataset's location.
        operation: the job.
        version: the version that the plan is based on.
        rows: number of rows of the version.
        coverage: the indices of the version.
        works: the work, one entry for each index to change.
        waiting: why declared indices are not built yet, one sentence for each.
        digest: digest of the plan.
        problem: why this process cannot execute the plan; empty if it can.
    """

    uri: str
    operation: IndexOperation
    version: int
    rows: int
    coverage: tuple[IndexCoverage, ...]
    works: tuple[IndexWork, ...]
    waiting: tuple[str, ...]
    digest: str
    problem: str = ""

    @classmethod
    def of(
        cls,
        dataset: lance_core.LanceDataset,
        declared: Sequence[IndexDeclaration],
        operation: IndexOperation,
        *,
        names: Iterable[str] = (),
        anew: bool = False,
        problem: str = "",
    ) -> Self:
        """Plan the work on the indices of a handle's version.

        Args:
            dataset: an open handle.
            declared: the declared indices.
            operation: the job.
            names: names of the indices to consider; if empty, all of them.
            anew: whether ``build_index`` rebuilds existing indices, and ``optimize_indices`` retrains vector indices.
            problem: why this process cannot execute the plan; empty if it can.

        Raises:
            InvalidInputError: no index has one of the names.
            CorruptDataError: the index section of the manifest is damaged.
        """
        manifest = dataset.counted_manifest
        coverage = index_coverage(dataset)
        rows = sum(fragment.num_live_rows for fragment in manifest.fragments)
        planner = _Planner(coverage, declared, rows, operation)
        works, waiting = planner.plan(tuple(names), anew=anew)
        state = [dataset.version, content_digest(manifest), [index.uuids for index in coverage]]
        return cls(
            uri=dataset.uri,
            operation=operation,
            version=dataset.version,
            rows=rows,
            coverage=tuple(coverage),
            works=tuple(works),
            waiting=tuple(waiting),
            digest=plan_digest(*state, [dataclasses.astuple(work) for work in works]),
            problem=problem,
        )

    @property
    def has_work(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.works)

    @property
    def no_effect(self) -> Effect:
        """The effect of a run with nothing to do."""
        return Effect.none(self.operation.value, self.version, Contents(rows=self.rows))

    def require(self, digest: str | None) -> None:
        """Check that the plan is the one that was reviewed.

        Args:
            digest: the digest that a dry run printed; None if no plan was reviewed.

        Raises:
            InvalidInputError: the digest differs.
        """
        require_digest(self.digest, digest, uri=self.uri, version=self.version)

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""
        return {
            "lance/read_version": self.version,
            "lance/rows": self.rows,
            "lance/indices": len(self.coverage),
            "lance/indices_to_change": len(self.works),
            "lance/rows_indexed": sum(work.indexed_rows for work in self.works),
            "lance/unindexed_rows": sum(work.unindexed_rows for work in self.works),
            "lance/unindexed_fragments": sum(work.unindexed_fragments for work in self.works),
            "lance/plan_digest": self.digest,
        }

    def headline(self) -> str:
        """Return one line that describes the plan."""
        place = f"{self.uri} version {self.version}"
        if self.has_work:
            names = ", ".join(work.name for work in self.works)
            return f"{place}: {amount(len(self.works), 'index', 'indices')} will be changed ({names})"
        complete = f"{amount(len(self.coverage), 'index', 'indices')}, nothing to change"
        return f"{place}: nothing to do ({'; '.join([complete, *self.waiting])})"

    def table(self) -> str:
        """Return the output of a dry run."""
        works = {work.name: work for work in self.works}
        known = {index.name: index.indexed_rows for index in self.coverage}
        lines = [PlanLine("rows", self.rows, self.rows)]
        for name in dict.fromkeys([*known, *works]):
            before = known.get(name, 0)
            lines.append(PlanLine(f"rows in {name}", before, self.rows if name in works else before))
        notes = [f"{work.action} {work.name}: {work.reason}" for work in self.works]
        notes += self.waiting
        if self.problem:
            notes.append(f"This plan cannot be executed here: {self.problem}")
        notes += [f"Plan digest: {self.digest}", "Dry run: nothing was changed."]
        return render_plan(f"{self.operation} {self.headline()}", lines, notes)


@dataclass(frozen=True, slots=True)
class _Planner:
    coverage: Sequence[IndexCoverage]
    declared: Sequence[IndexDeclaration]
    rows: int
    operation: IndexOperation

    def plan(self, names: tuple[str, ...], *, anew: bool) -> tuple[list[IndexWork], list[str]]:
        built = {index.name: index for index in self.coverage}
        wanted = {index.name: index for index in self.declared}
        known = dict.fromkeys([*wanted, *(built if self.operation is IndexOperation.OPTIMIZE else ())])
        unknown = [name for name in names if name not in known]
        if unknown:
            what = "declared indices" if self.operation is IndexOperation.BUILD else "indices"
            raise InvalidInputError(f"unknown index {unknown[0]!r}; the {what} are: {', '.join(known) or 'none'}")
        works, waiting = [], []
        for name in known:
            if names and name not in names:
                continue
            found = self._for_declared(wanted[name], built.get(name), anew=anew) if name in wanted else None
            if found is None and name in built and self.operation is IndexOperation.OPTIMIZE:
                found = self._for_built(built[name], anew=anew)
            if isinstance(found, str):
                waiting.append(found)
            elif found is not None:
                works.append(found)
        return works, waiting

    def _for_declared(
        self, wanted: IndexDeclaration, built: IndexCoverage | None, *, anew: bool
    ) -> IndexWork | str | None:
        """Return the work to build an index, or the reason to build it later; None if it already exists as declared."""
        if built is not None and wanted.describes(built.index_type, built.columns):
            replaced = anew and self.operation is IndexOperation.BUILD
            return self._work(built, IndexAction.REPLACE, "as requested") if replaced else None
        if self.rows < wanted.num_rows_needed:
            return f"{wanted.name} is not built yet: {amount(self.rows, 'row')} < {wanted.num_rows_needed}"
        if built is None:
            return IndexWork(
                name=wanted.name,
                action=IndexAction.BUILD,
                reason=f"{wanted.type} on {wanted.column} is declared, but not built",
                indexed_rows=0,
                unindexed_rows=self.rows,
                unindexed_fragments=0,
                size_bytes=None,
            )
        found = f"{built.index_type} on {', '.join(built.columns)}"
        reason = f"{wanted.type} on {wanted.column} is declared, but the existing index is {found}"
        return self._work(built, IndexAction.REPLACE, reason)

    def _for_built(self, built: IndexCoverage, *, anew: bool) -> IndexWork | str | None:
        """Return the work to update an index, or the reason to update it later; None if it covers all fragments."""
        if anew and built.index_type == VECTOR_DETAILS:
            return self._work(built, IndexAction.RETRAIN, "as requested")
        if not built.unindexed_fragments:
            return None
        if built.index_type == VECTOR_DETAILS and not built.indexed_rows and self.rows < _MIN_VECTORS:
            return f"{built.name} is not trained yet: {amount(self.rows, 'row')} < {_MIN_VECTORS}"
        fragments = amount(len(built.unindexed_fragments), "fragment")
        reason = f"{amount(built.unindexed_rows, 'unindexed row')} in {fragments}"
        return self._work(built, IndexAction.UPDATE, reason)

    def _work(self, built: IndexCoverage, action: IndexAction, reason: str) -> IndexWork:
        return IndexWork(
            name=built.name,
            action=action,
            reason=reason,
            indexed_rows=built.indexed_rows,
            unindexed_rows=built.unindexed_rows,
            unindexed_fragments=len(built.unindexed_fragments),
            size_bytes=built.size_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedIndices(StepMessage):
    """The message from the plan step to the build step.

    Attributes:
        update_id: a UUID, the same for every attempt to commit this change.
        dataset: the declaration's name.
        uri: the dataset's location.
        op: the operation, ``build_index`` or ``optimize_indices``.
        version: the version that the plan is based on.
        works: the work, one entry for each index to change.
        run_id: id of the run that made the plan.
        step_key: the key of the planning step in that run.
    """

    update_id: str
    dataset: str
    uri: str
    op: IndexOperation
    version: int
    works: tuple[IndexWork, ...]
    run_id: str
    step_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedIndices(StepMessage):
    """The output of the build step: a branch that has the new indices. No version of another branch refers to them yet.

    Attributes:
        plan: the plan.
        branch: name of the branch.
        seconds: number of seconds that the work on the indices took.
    """

    plan: PlannedIndices
    branch: str
    seconds: float
