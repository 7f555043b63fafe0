"""The plan of a promotion: its statistics, and the message from the step that checks to the step that moves the tag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_pipelines.maintenance.plan_table import PlanLine, render_plan
from lance_pipelines.step_messages import StepMessage

if TYPE_CHECKING:
    from lance_pipelines.maintenance.health import TableHealth

__all__ = ["PlannedPromotion", "PromotionForecast"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionForecast:
    """A planned promotion.

    Attributes:
        uri: the dataset's location.
        tag: name of the tag.
        published: statistics of the version that has the tag; None if the tag does not exist.
        candidate: statistics of the version that is to get the tag.
        is_explicit: whether the run configuration names the version; the tag may then be moved back.
        passed: names of the checks that the candidate has passed.
    """

    uri: str
    tag: str
    published: TableHealth | None
    candidate: TableHealth
    is_explicit: bool
    passed: tuple[str, ...] = ()

    @property
    def has_work(self) -> bool:
        """Whether the tag is to be moved."""
        if self.published is None:
            return True
        if self.is_explicit:
            return self.candidate.version != self.published.version
        return self.candidate.version > self.published.version

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""
        before = {} if self.published is None else {"lance/published_version": self.published.version}
        checks = {"lance/checks_passed": ", ".join(self.passed)} if self.passed else {}
        return {
            "lance/tag": self.tag,
            **before,
            "lance/read_version": self.candidate.version,
            "lance/rows": self.candidate.rows,
            "lance/fragments": self.candidate.fragments,
            **checks,
        }

    def headline(self) -> str:
        """Return one line that describes the plan."""
        place = f"{self.uri} version {self.candidate.version}"
        if self.published is not None and not self.has_work:
            return f"{place}: nothing to do (tag {self.tag} refers to version {self.published.version})"
        if self.published is None:
            return f"{place}: tag {self.tag} will be created for this version"
        return f"{place}: tag {self.tag} will be moved from version {self.published.version} to this version"

    def table(self) -> str:
        """Return the output of a dry run."""
        before, after = self.published, self.candidate
        if not self.has_work:
            return f"promote {self.headline()}\nDry run: nothing was changed.\n"
        lines = [
            PlanLine("version", None if before is None else before.version, after.version),
            PlanLine("rows", None if before is None else before.rows, after.rows),
            PlanLine("fragments", None if before is None else before.fragments, after.fragments),
            PlanLine(
                "bytes of data files",
                None if before is None else before.bytes_total,
                after.bytes_total,
                is_bytes=True,
            ),
        ]
        notes = [f"Checks passed: {', '.join(self.passed)}.", "Dry run: nothing was changed."]
        return render_plan(f"promote {self.headline()}", lines, notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPromotion(StepMessage):
    """The message from the step that checks a version to the step that moves the tag to it.

    Attributes:
        uri: the dataset's location.
        tag: name of the tag.
        version: the version that passed the checks.
        transaction: UUID of the transaction that created the version; None if it is not recorded.
        published: the version that had the tag when the promotion was planned; None if the tag did not exist.
        is_explicit: whether the run configuration names the version; the tag may then be moved back.
        passed: names of the checks that the version passed.
    """

    uri: str
    tag: str
    version: int
    transaction: str | None
    published: int | None
    is_explicit: bool
    passed: tuple[str, ...]
