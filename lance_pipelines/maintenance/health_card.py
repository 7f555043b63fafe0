"""HealthCard: the state of one version on half a page of Markdown: a grade with reasons, and what is due next.

======  ==========================  ============================  ======================  ==========================
Grade   Small fragments to merge    Deleted rows                  Old versions to remove  Rows that an index lacks
======  ==========================  ============================  ======================  ==========================
A       compaction is not due       no fragment exceeds the       cleanup is not due      an update is not due
                                    limit
B       less than 4 times the       less than 1/4 of all rows     less than 100           less than 4 times the
        number at which it is due                                                         number at which it is due
C       less than 16 times          less than 1/2                 less than 1,000         less than 16 times
D       less than 64 times          less than 3/4                 less than 10,000        less than 64 times
F       more                        more                          more                    more
======  ==========================  ============================  ======================  ==========================

The grade of the version is the worst of the four. Indices are graded only if there are any; unindexed fragments count
like unindexed rows. A disabled part of the policy is graded by its default limits.

The card is made after every commit. It reads the names of the versions and at most nine old manifests; its length does
not depend on the number of fragments.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from lance_core.errors import LanceError
from lance_core.metadata import index_coverage
from lance_pipelines.maintenance.evaluate import (
    Due,
    Verdict,
    evaluate_cleanup,
    evaluate_compaction,
    evaluate_deletions,
)
from lance_pipelines.maintenance.fragment_figures import FragmentFigures
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.markdown import bar, markdown_table
from lance_pipelines.maintenance.old_versions import OldVersions
from lance_pipelines.maintenance.plan_table import amount, format_bytes
from lance_pipelines.maintenance.policy import CleanupPolicy, CompactionPolicy, DeletionPolicy, IndexPolicy
from lance_pipelines.maintenance.reclaimable import Reclaimable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    import lance_core
    from lance_core.metadata import IndexCoverage, ManifestName
    from lance_pipelines.maintenance.policy import MaintenancePolicy

__all__ = ["Assessment", "Grade", "HealthCard"]

_MIB: Final = 1024**2
_SIZE_LIMITS: Final = (_MIB, 8 * _MIB, 64 * _MIB, 512 * _MIB, 4096 * _MIB)
_SIZE_NAMES: Final = ("below 1 MiB", "1 to 8 MiB", "8 to 64 MiB", "64 to 512 MiB", "512 MiB to 4 GiB", "4 GiB or more")
_NO_SIZE: Final = "not recorded"

_DUE_FACTORS: Final = (1, 4, 16, 64)
_DELETED_FRACTIONS: Final = (0.0, 0.25, 0.5, 0.75)
_REMOVABLE_VERSIONS: Final = (1, 100, 1_000, 10_000)

_SHOWN_FRAGMENTS: Final = 5
_SHOWN_INDICES: Final = 2

_CHART_BARS: Final = 60
_CHART_WIDTH: Final = 420
"""Narrow enough for the column of values on the page of an event; a wider image makes the table wider than the page."""

_CHART_HEIGHT: Final = 80
_LARGE, _SMALL, _DELETED = "#4a7dd1", "#e0a526", "#d1495b"


class Grade(IntEnum):
    """A grade; a higher value is worse."""

    A = 0
    B = 1
    C = 2
    D = 3
    F = 4


@dataclass(frozen=True, slots=True)
class Assessment:
    """The grade of one part of a table's state.

    Attributes:
        part: what was graded.
        grade: the grade.
        found: the reason, with numbers.
        next_step: what maintenance would do next; empty if nothing is due.
    """

    part: str
    grade: Grade
    found: str
    next_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCard:
    """The state of one version.

    Attributes:
        health: the statistics of the version.
        figures: the statistics of the version's fragments.
        coverage: what its indices cover.
        parts: the grades of fragments, deleted rows, old versions, and indices.
        policy: the policy by which fragments count as small.
    """

    health: TableHealth
    figures: FragmentFigures
    coverage: tuple[IndexCoverage, ...]
    parts: tuple[Assessment, ...]
    policy: CompactionPolicy

    @classmethod
    def of(
        cls,
        dataset: lance_core.LanceDataset,
        policy: MaintenancePolicy,
        *,
        now: float | None = None,
        lists_versions: bool = True,
    ) -> Self:
        """Assess a handle's version.

        Args:
            dataset: an open handle.
            policy: the maintenance policy of the dataset.
            now: the current time, in seconds since the epoch; if None, the system clock is used.
            lists_versions: whether to list the versions, and to assess old ones. Otherwise, nothing is read, and the
                number of versions is 0.
        """
        figures = FragmentFigures.of(dataset)
        names = dataset.log.newer_than(0) if lists_versions else []
        health = TableHealth.of(dataset, policy, versions=len(names), figures=figures)
        now = time.time() if now is None else now
        coverage = tuple(index_coverage(dataset))
        versions = (_assess_versions(policy.cleanup, dataset, names, health, now),) if lists_versions else ()
        indices = (_assess_indices(policy.indices, coverage),) if coverage else ()
        return cls(
            health=health,
            figures=figures,
            coverage=coverage,
            parts=(
                _assess_fragments(policy.compaction, health, figures),
                _assess_deletions(policy.deletion, health, figures),
                *versions,
                *indices,
            ),
            policy=policy.compaction or CompactionPolicy(),
        )

    @property
    def grade(self) -> Grade:
        """The worst of the grades."""
        return max(part.grade for part in self.parts)

    def headline(self) -> str:
        """Return the grade and the reasons for it, in one line."""
        reasons = "; ".join(part.found for part in self.parts if part.grade is self.grade)
        return f"{self.grade.name}: {reasons if self.grade else 'no maintenance is due'}"

    def markdown(self) -> str:
        """Return the card as Markdown, short enough for the web interface to show it at once (1,000 characters)."""
        health = self.health
        size = "unknown size" if health.bytes_total is None else format_bytes(health.bytes_total)
        facts = (
            _counted(health.rows, "row"),
            _counted(health.fragments, "fragment"),
            size,
            f"{health.deletion_ratio:.1%} deleted",
            _counted(health.versions, "version"),
        )
        sections = [
            f"## {self.grade.name} · version {health.version}",
            " · ".join(facts),
            markdown_table(
                ("Part", "Grade", "Found", "Next"),
                [(part.part, part.grade.name, part.found, part.next_step or "nothing") for part in self.parts],
            ),
        ]
        return "\n\n".join(sections) + "\n"

    def fragments_markdown(self) -> str:
        """Return the distribution of the fragments as Markdown; empty if there are none."""
        if not self.health.fragments:
            return ""
        sections = [
            "**Fragments by size**",
            f"```text\n{_histogram(self.figures)}\n```",
            "**Fragments in order**: height = rows; blue = large, yellow = small, red = deleted",
            f"![rows per fragment](data:image/svg+xml;base64,{_encoded(_chart(self.figures, self.policy))})",
            "**Largest fragments**",
            markdown_table(("Fragment", "Rows", "Deleted", "Size", "Files"), _largest(self.figures)),
        ]
        return "\n\n".join(sections) + "\n"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _assess_fragments(policy: CompactionPolicy | None, health: TableHealth, figures: FragmentFigures) -> Assessment:
    limits = policy or CompactionPolicy()
    thresholds = [factor * limits.min_small_fragments for factor in _DUE_FACTORS]
    grade = _grade(health.mergeable_fragments, thresholds)
    verdict = evaluate_compaction(policy, health)
    num_bytes = int(figures.num_bytes[figures.mergeable(limits)].sum())
    step = f"compact: merge {amount(health.mergeable_fragments, 'fragment')} ({format_bytes(num_bytes)})"
    return Assessment("Fragments", grade, _found(verdict, evaluate_compaction(limits, health)), _step(verdict, step))


def _assess_deletions(policy: DeletionPolicy | None, health: TableHealth, figures: FragmentFigures) -> Assessment:
    limits = policy or DeletionPolicy()
    is_due = isinstance(evaluate_deletions(limits, health), Due)
    grade = _grade(health.deletion_ratio, _DELETED_FRACTIONS) if is_due else Grade.A
    verdict = evaluate_deletions(policy, health)
    num_bytes = int(figures.num_bytes[figures.worn(limits)].sum())
    step = f"materialize deletions: rewrite {amount(health.worn_fragments, 'fragment')} ({format_bytes(num_bytes)})"
    return Assessment("Deleted rows", grade, _found(verdict, evaluate_deletions(limits, health)), _step(verdict, step))


def _assess_versions(
    policy: CleanupPolicy | None,
    dataset: lance_core.LanceDataset,
    names: Sequence[ManifestName],
    health: TableHealth,
    now: float,
) -> Assessment:
    part, limits = "Old versions", policy or CleanupPolicy()
    if names and names[-1].version > health.version:
        # Catching up with many versions must not assess the same old versions again and again.
        return Assessment(part, Grade.A, f"assessed only for the latest version ({names[-1].version})")
    try:
        old = OldVersions.of(dataset.log, names, limits, now=now)
        verdict = evaluate_cleanup(limits, old)
        if not isinstance(verdict, Due):
            return Assessment(part, Grade.A, verdict.reason)
        free = Reclaimable.estimate(dataset.log, names, old.removable, fragments=health.fragments)
    except LanceError as error:
        # The card accompanies a commit that succeeded, and must not fail because of a damaged tag.
        return Assessment(part, Grade.A, f"cannot be examined: {error}")
    found = f"{verdict.reason}; {_size(free)} can be reclaimed"
    grade = _grade(len(old.removable), _REMOVABLE_VERSIONS)
    if policy is None:
        return Assessment(part, grade, f"{found}; cleanup is disabled")
    return Assessment(
        part, grade, found, f"clean up: remove {amount(len(old.removable), 'version')}, free {_size(free)}"
    )


def _assess_indices(policy: IndexPolicy | None, coverage: Sequence[IndexCoverage]) -> Assessment:
    part, limits = "Indices", policy or IndexPolicy()
    behind = sorted(coverage, key=lambda index: index.unindexed_rows, reverse=True)
    behind = [index for index in behind if index.unindexed_fragments]
    if not behind:
        return Assessment(part, Grade.A, f"{amount(len(coverage), 'index', 'indices')} up to date")
    fragments = max(len(index.unindexed_fragments) for index in behind)
    grade = max(
        _grade(behind[0].unindexed_rows, [factor * limits.min_unindexed_rows for factor in _DUE_FACTORS]),
        _grade(fragments, [factor * limits.min_unindexed_fragments for factor in _DUE_FACTORS]),
    )
    shown = [f"{index.name}: {_counted(index.unindexed_rows, 'unindexed row')}" for index in behind[:_SHOWN_INDICES]]
    more = [f"{len(behind) - _SHOWN_INDICES} more"] if len(behind) > _SHOWN_INDICES else []
    disabled = [] if policy else ["index maintenance is disabled"]
    step = f"optimize {amount(len(behind), 'index', 'indices')}" if grade and policy else ""
    return Assessment(part, grade, "; ".join([*shown, *more, *disabled]), step)


def _size(free: Reclaimable) -> str:
    size = format_bytes(free.num_bytes)
    return size if free.is_complete else f"at least {size}"


def _grade(value: float, thresholds: Sequence[float]) -> Grade:
    """Return A below the first threshold, and one grade worse for each threshold that is reached."""
    return Grade(sum(value >= threshold for threshold in thresholds))


def _found(verdict: Verdict, by_limits: Verdict) -> str:
    """Return what was found; for a disabled part of the policy, also what the default limits would say."""
    return verdict.reason if verdict == by_limits else f"{by_limits.reason}; {verdict.reason}"


def _step(verdict: Verdict, step: str) -> str:
    return step if isinstance(verdict, Due) else ""


def _histogram(figures: FragmentFigures) -> str:
    """Return one line per size class that occurs, with a bar and the number of fragments."""
    classes = np.searchsorted(_SIZE_LIMITS, figures.num_bytes, side="right")
    counts = np.bincount(classes[figures.has_all_sizes], minlength=len(_SIZE_NAMES)).tolist()
    rows = [*zip(_SIZE_NAMES, counts, strict=True), (_NO_SIZE, int((~figures.has_all_sizes).sum()))]
    shown = [(name, number) for name, number in rows if number]
    most = max(number for _, number in shown)
    width = max(len(name) for name, _ in shown)
    return "\n".join(f"{name:>{width}}  {bar(number / most)}  {number:,}" for name, number in shown)


def _largest(figures: FragmentFigures) -> list[tuple[str, ...]]:
    order = np.argsort(-figures.num_bytes, kind="stable")[:_SHOWN_FRAGMENTS]
    return [
        (
            str(figures.ids[place]),
            f"{figures.rows[place]:,}",
            f"{figures.deleted_rows[place]:,}",
            format_bytes(int(figures.num_bytes[place])) if figures.has_all_sizes[place] else _NO_SIZE,
            str(figures.num_files[place]),
        )
        for place in order
    ]


def _chart(figures: FragmentFigures, policy: CompactionPolicy) -> str:
    """Return an SVG with one bar per fragment, or per group of neighbors if there are many."""
    groups = np.array_split(np.arange(len(figures)), min(_CHART_BARS, len(figures)))
    starts = [group[0] for group in groups]
    rows, deleted = _mean(figures.rows, starts), _mean(figures.deleted_rows, starts)
    small = _mean(figures.small(policy), starts) > 0.5  # most of the group
    scale = _CHART_HEIGHT / max(float(rows.max()), 1.0)
    step = _CHART_WIDTH // len(groups)
    outlines = {_LARGE: "", _SMALL: "", _DELETED: ""}
    for place, (height, gone) in enumerate(zip(rows * scale, deleted * scale, strict=True)):
        outlines[_SMALL if small[place] else _LARGE] += _outline(place * step, step - 1, _CHART_HEIGHT, height)
        if gone:
            outlines[_DELETED] += _outline(place * step, step - 1, _CHART_HEIGHT - height + gone, gone)
    paths = "".join(f'<path fill="{color}" d="{outline}"/>' for color, outline in outlines.items() if outline)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{_CHART_WIDTH}" height="{_CHART_HEIGHT}">{paths}</svg>'


def _mean(values: npt.NDArray[np.int64] | npt.NDArray[np.bool_], starts: Sequence[int]) -> npt.NDArray[np.float64]:
    sums: npt.NDArray[np.float64] = np.add.reduceat(values.astype(np.float64), starts)
    means: npt.NDArray[np.float64] = sums / np.diff([*starts, len(values)])
    return means


def _outline(left: int, width: int, bottom: float, height: float) -> str:
    """Return a rectangle as part of an SVG path."""
    return f"M{left} {bottom:.0f}v-{height:.1f}h{width}v{height:.1f}z"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
