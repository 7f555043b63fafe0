"""Moves a tag to a version that passed its checks, no matter how often the step runs.

The tag is only ever set to the version that was checked: a number that now belongs to another version, because the
dataset was deleted and created again, is rejected. Without a configured version, the tag never moves back: if several
promotions overlap, it ends at the newest version. Tag files are not replaced conditionally, so this holds only for
moves that wait for each other, as those of one Dagster instance do in the pool of the dataset.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance_core
from lance_core.errors import (
    InvalidRefError,
    RefAlreadyExistsError,
    RefConflictError,
    RefNotFoundError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from lance_pipelines.publish.promotion_plan import PlannedPromotion

__all__ = ["PromotionReport", "move_tag", "tagged_version", "transaction_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionReport:
    """The result of a promotion.

    Attributes:
        planned: the plan.
        found: the version that had the tag before this call; None if the tag did not exist.
        has_changed: whether the tag was moved, by this call or an earlier attempt.
    """

    planned: PlannedPromotion
    found: int | None
    has_changed: bool

    @property
    def before(self) -> int | None:
        """The version that had the tag before it was moved; None if the tag did not exist.

        If an earlier attempt moved the tag, this is the version that had it when the plan was made.
        """
        return self.planned.published if self.found == self.planned.version else self.found

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics of the promotion for an event, without the version's statistics."""
        planned = self.planned
        before = {} if self.before is None else {"lance/published_before": self.before}
        return {
            "lance/summary": self.headline(),
            "lance/tag": planned.tag,
            **before,
            "lance/checks_passed": ", ".join(planned.passed),
        }

    def headline(self) -> str:
        """Return the summary of the event: the tag and its versions."""
        planned = self.planned
        moved = "" if self.before is None else f"v{self.before} → "
        return f"promote: {planned.tag} {moved}v{planned.version}"

    def summary(self) -> str:
        """Return one line for logs and terminals."""
        planned = self.planned
        place = f"{planned.uri} version {planned.version}"
        if not self.has_changed:
            return f"{place}: nothing to do (tag {planned.tag} refers to version {self.found})"
        change = "created" if self.before is None else f"moved from version {self.before}"
        return f"{place}: tag {planned.tag} was {change}; checks passed: {', '.join(planned.passed)}"


def move_tag(planned: PlannedPromotion, *, storage_options: dict[str, str] | None = None) -> PromotionReport:
    """Move the tag, or find that it need not be moved.

    Raises:
        DatasetNotFoundError: the dataset no longer exists.
        VersionNotFoundError: the checked version no longer exists.
        RefConflictError: the version was configured, and the tag was moved or deleted since the plan was made.
        InvalidRefError: the tag refers to a version that does not exist, or to one of another branch.
        StorageError: a storage operation failed.
    """
    dataset = lance_core.dataset(planned.uri, version=planned.version, storage_options=storage_options)
    if transaction_of(dataset) != planned.transaction:
        raise VersionNotFoundError(
            f"{planned.uri}: version {planned.version} is not the version that was checked: the dataset was replaced "
            f"in the meantime; tag {planned.tag} was not moved",
            uri=planned.uri,
            version=planned.version,
        )
    found = tagged_version(dataset, planned.tag)
    if found is None and not (planned.is_explicit and planned.published):
        # If another promotion creates the tag at this moment, it is moved from there.
        with suppress(RefAlreadyExistsError):
            dataset.tags.create(planned.tag)
            return PromotionReport(planned=planned, found=None, has_changed=True)
        found = tagged_version(dataset, planned.tag)
    if found == planned.version:
        return PromotionReport(planned=planned, found=found, has_changed=found != planned.published)
    if planned.is_explicit and found != planned.published:
        change = "created at" if planned.published is None else "moved to"
        now = "deleted" if found is None else f"{change} version {found}"
        raise RefConflictError(
            f"{planned.uri}: tag {planned.tag} was {now} after the promotion of version {planned.version} was planned; "
            "start a new run",
            tag=planned.tag,
            version=found,
        )
    if found is not None and found > planned.version and not planned.is_explicit:
        return PromotionReport(planned=planned, found=found, has_changed=False)
    dataset.tags.update(planned.tag)
    return PromotionReport(planned=planned, found=found, has_changed=True)


def tagged_version(dataset: lance_core.LanceDataset, tag: str) -> int | None:
    """Return the version to which a tag refers; None if the tag does not exist.

    Raises:
        InvalidRefError: the tag refers to a version that does not exist, or to one of another branch, whose number
            cannot be compared with the version to publish.
    """
    try:
        tagged = dataset.checkout_version(tag)
    except RefNotFoundError:
        return None
    except VersionNotFoundError as error:
        raise _misplaced(dataset, tag, "a version that does not exist") from error
    if tagged.uri.rstrip("/") != dataset.uri.rstrip("/"):
        raise _misplaced(dataset, tag, f"version {tagged.version} of another branch ({tagged.uri})")
    return tagged.version


def _misplaced(dataset: lance_core.LanceDataset, tag: str, place: str) -> InvalidRefError:
    return InvalidRefError(
        f"{dataset.uri}: tag {tag} refers to {place}; delete the tag, and publish a version again", tag=tag
    )


def transaction_of(dataset: lance_core.LanceDataset) -> str | None:
    """Return the UUID of the transaction that created the handle's version; None if it is not recorded."""
    transaction = dataset.read_transaction(dataset.version)
    return None if transaction is None else transaction.uuid
