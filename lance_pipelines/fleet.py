"""Fleet: the state of all declared datasets in one table, the worst first.

Only the latest manifest of each dataset is read, so old versions, which would have to be listed, are not graded. A
dataset that cannot be read is listed first, with the error.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import lance_core
from lance_core.errors import LanceError
from lance_pipelines.maintenance.health_card import Grade, HealthCard
from lance_pipelines.maintenance.markdown import bar, markdown_table
from lance_pipelines.maintenance.plan_table import amount, format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lance_pipelines.ingest.declaration import DatasetDeclaration

__all__ = ["Fleet", "Member"]

_MAX_THREADS: Final = 8
_MAX_ROWS: Final = 100
_BAR_CELLS: Final = 10
_MAX_REASON_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """The state of one dataset.

    Attributes:
        dataset: the name of the dataset.
        card: the state of its latest version; None if it cannot be read.
        reason: the grade with its reasons, or the error.
        maintained_at: the time of the latest maintenance run; None if there was none.
        is_overdue: whether that run was longer ago than the policy allows; False if there was none.
    """

    dataset: str
    card: HealthCard | None
    reason: str
    maintained_at: datetime | None
    is_overdue: bool

    @classmethod
    def of(cls, declaration: DatasetDeclaration, maintained_at: datetime | None, now: datetime) -> Self:
        """Read the latest manifest of a dataset.

        Args:
            declaration: the dataset.
            maintained_at: the time of the latest maintenance run; None if there was none.
            now: the current time.
        """
        card = None
        try:
            dataset = lance_core.dataset(declaration.uri, storage_options=declaration.resolved_storage_options())
            card = HealthCard.of(dataset, declaration.maintenance, lists_versions=False)
            reason = card.headline()
        except LanceError as error:
            reason = str(error)
        allowed = declaration.maintenance.overdue_after
        return cls(
            dataset=declaration.name,
            card=card,
            reason=reason[:_MAX_REASON_CHARACTERS],
            maintained_at=maintained_at,
            is_overdue=maintained_at is not None and allowed is not None and now - maintained_at >= allowed,
        )

    @property
    def grade(self) -> str:
        """The letter of the grade; a question mark if the dataset cannot be read."""
        return "?" if self.card is None else self.card.grade.name

    @property
    def badness(self) -> tuple[int, bool, int, int]:
        """A sort key that is higher for worse datasets: by grade, overdue maintenance, and the work that is due."""
        if self.card is None:
            return (len(Grade), self.is_overdue, 0, 0)
        health = self.card.health
        return (self.card.grade, self.is_overdue, health.mergeable_fragments, health.deleted_rows)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The state of all datasets.

    Attributes:
        members: the datasets, the worst first.
    """

    members: tuple[Member, ...]

    @classmethod
    def of(
        cls, declarations: Sequence[DatasetDeclaration], maintained_at: Mapping[str, datetime], now: datetime
    ) -> Self:
        """Read the latest manifests of all datasets, several at the same time.

        Args:
            declarations: the datasets.
            maintained_at: maps the names of datasets to the times of their latest maintenance runs.
            now: the current time.
        """
        with ThreadPoolExecutor(_MAX_THREADS) as pool:
            members = pool.map(lambda each: Member.of(each, maintained_at.get(each.name), now), declarations)
            return cls(tuple(sorted(members, key=lambda member: (*(-each for each in member.badness), member.dataset))))

    def figures(self) -> dict[str, int]:
        """Return the sums over all datasets that can be read."""
        cards = [member.card for member in self.members if member.card is not None]
        healths = [card.health for card in cards]
        return {
            "datasets": len(self.members),
            "unreadable_datasets": len(self.members) - len(cards),
            "datasets_due": sum(card.grade > Grade.A for card in cards),
            "datasets_overdue": sum(member.is_overdue for member in self.members),
            "rows": sum(health.rows for health in healths),
            "deleted_rows": sum(health.deleted_rows for health in healths),
            "fragments": sum(health.fragments for health in healths),
            "small_fragments": sum(health.small_fragments for health in healths),
            "bytes_total": sum(health.bytes_total or 0 for health in healths),
            "unindexed_rows": sum(index.unindexed_rows for card in cards for index in card.coverage),
        }

    def headline(self) -> str:
        """Return the number of datasets with each grade, and their size, in one line."""
        figures = self.figures()
        grades = [member.grade for member in self.members]
        counts = [f"{grades.count(grade)} {grade}" for grade in dict.fromkeys(grades)]
        return (
            f"{amount(len(grades), 'dataset')}: {', '.join(counts)}; {format_bytes(figures['bytes_total'])} in "
            f"{amount(figures['fragments'], 'fragment')}"
        )

    def markdown(self) -> str:
        """Return the table as Markdown, with bars; datasets after the first hundred are only counted."""
        shown = self.members[:_MAX_ROWS]
        most = max((member.card.health.fragments for member in self.members if member.card is not None), default=0)
        table = markdown_table(
            ("Dataset", "Grade", "Found", "Rows", "Fragments", "", "Size", "Last maintained (UTC)"),
            [_cells(member, most) for member in shown],
        )
        hidden = len(self.members) - len(shown)
        more = f"\n\n{amount(hidden, 'more dataset')}" if hidden else ""
        return f"**{self.headline()}**\n\n{table}{more}\n"


def _cells(member: Member, most: int) -> tuple[str, ...]:
    maintained = "never" if member.maintained_at is None else f"{member.maintained_at:%Y-%m-%d %H:%M}"
    if member.is_overdue:
        maintained += " **overdue**"
    reason = " ".join(member.reason.split())
    if member.card is None:
        return (member.dataset, f"**{member.grade}**", reason, "", "", "", "", maintained)
    health = member.card.health
    return (
        member.dataset,
        f"**{member.grade}**",
        reason.partition(": ")[2],
        f"{health.rows:,}",
        f"{health.fragments:,}",
        bar(health.fragments / most, _BAR_CELLS) if health.fragments else "",
        "not recorded" if health.bytes_total is None else format_bytes(health.bytes_total),
        maintained,
    )
