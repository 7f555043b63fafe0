"""Commits a delete exactly once, no matter how often the step runs.

A repeated step would also delete matching rows that were added in the meantime. Therefore, each attempt first checks
whether a version created since the delete was planned records the id of this delete.

Other writers may commit between the plan and the delete.

=====================================  =================================  =============================================
In the meantime                        without a reviewed plan            with a reviewed plan (``plan_digest``)
=====================================  =================================  =============================================
matching rows were appended            they are deleted, too              they are kept
other rows were deleted or changed     the rest is deleted                all reviewed rows are deleted
all matching rows were deleted         no version, nothing is reported    refused
matching rows were deleted, changed,   those that match now are deleted   refused
or moved by a compaction
=====================================  =================================  =============================================

A delete of a reviewed plan is safe, although the digest is not compared again with the latest version. The delete is
based on the version that was reviewed, whose content is compared, and marks rows by their positions in the fragments of
that version. A commit merges the delete with later versions only if none of these rows was deleted, and if none of
these fragments was rewritten; rows that were appended are in other fragments. After any other conflict, the delete is
not planned again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lance_core
from lance_core.errors import (
    CommitOutcomeUnknownError,
    RetryableCommitConflictError,
    TooMuchWriteContentionError,
    VersionNotFoundError,
)
from lance_core.metadata import delete_rows
from lance_pipelines.maintenance.content import content_digest
from lance_pipelines.maintenance.delete_plan import predicate_metadata
from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.maintenance.fixed_time import fixed_predicate
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.plan_table import amount

if TYPE_CHECKING:
    from lance_pipelines.maintenance.delete_plan import PlannedDelete
    from lance_pipelines.maintenance.policy import MaintenancePolicy

__all__ = ["DeleteReport", "commit_delete"]

_ID_PROPERTY: Final = "lance_pipelines.delete_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReport:
    """Statistics of one delete.

    Attributes:
        planned: the planned delete.
        after: statistics of the version that the delete created, or of the latest version if no matching row remained.
        rows_deleted: number of deleted rows. None if it cannot be determined: an earlier attempt deleted the rows, and
            the version before that delete no longer exists.
        repeated: True if an earlier call had already deleted the rows.
        attempts: number of commit attempts in this call.
    """

    planned: PlannedDelete
    after: TableHealth
    rows_deleted: int | None
    repeated: bool
    attempts: int

    @property
    def uri(self) -> str:
        """The dataset's location."""
        return self.planned.uri

    @property
    def op(self) -> str:
        """The operation, ``delete_rows`` or ``retention``."""
        return self.planned.op

    @property
    def version(self) -> int:
        """The version after the delete."""
        return self.after.version

    @property
    def has_changed(self) -> bool:
        """Whether rows were deleted."""
        return self.rows_deleted != 0

    @property
    def effect(self) -> Effect:
        """What the run did."""
        return Effect(
            op=self.op,
            version_before=self.planned.before.version,
            version_after=self.after.version,
            before=self.planned.before.contents,
            after=self.after.contents,
            has_changed=self.has_changed,
        )

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics of the delete for an event, without the version's statistics, which every event has."""
        counted = {} if self.rows_deleted is None else {"lance/rows_deleted": self.rows_deleted}
        return {
            "lance/summary": self.headline(),
            "lance/read_version": self.planned.before.version,
            **predicate_metadata(self.planned.predicate, self.planned.as_of),
            **counted,
            "lance/fragments_before": self.planned.before.fragments,
            "lance/bytes_rewritten": 0,
            "lance/bytes_reclaimed": 0,
            "lance/commit_attempts": self.attempts,
            "lance/conflicts": max(self.attempts - 1, 0),
            "lance/committed_earlier": self.repeated,
        }

    def headline(self) -> str:
        """Return the summary of the event: what was deleted, and the version."""
        deleted = "unknown number of rows" if self.rows_deleted is None else f"-{amount(self.rows_deleted, 'row')}"
        return f"{self.op}: {deleted} where {self.planned.predicate}, v{self.after.version}"

    def summary(self) -> str:
        """Return one line for logs and terminals."""
        if not self.has_changed:
            found = f"no rows match {self.planned.predicate}; the table has {amount(self.after.rows, 'row')}"
            return f"{self.uri} version {self.after.version}: nothing to do ({found})"
        deleted = "an unknown number of rows" if self.rows_deleted is None else amount(self.rows_deleted, "row")
        return (
            f"{self.uri} version {self.after.version}: {deleted} deleted where {self.planned.predicate}; "
            f"{amount(self.after.rows, 'row')} remaining in {amount(self.after.fragments, 'fragment')}"
        )


def commit_delete(
    planned: PlannedDelete, policy: MaintenancePolicy, *, storage_options: dict[str, str] | None = None
) -> DeleteReport:
    """Delete the rows, or find the version in which an earlier attempt deleted them.

    Raises:
        DatasetNotFoundError: the dataset no longer exists.
        InvalidInputError: the predicate is not valid for the dataset.
        TooMuchWriteContentionError: other writers kept changing the same rows; nothing was deleted.
        RetryableCommitConflictError: rows of a reviewed plan were changed or moved; nothing was deleted.
        VersionNotFoundError: the version of a reviewed plan has been removed; nothing was deleted.
        CommitOutcomeUnknownError: it is unknown whether the rows were deleted.
        StorageError: a storage operation failed.
    """
    dataset = lance_core.dataset(planned.uri, storage_options=storage_options)
    earlier = _find_commit(planned, dataset)
    if earlier is not None:
        return _report(planned, dataset, policy, earlier, _rows_deleted_by(dataset, earlier), attempts=0)
    is_reviewed = planned.reviewed is not None
    try:
        deleted = delete_rows(
            _reviewed_version(planned, dataset) if is_reviewed else dataset,
            fixed_predicate(planned.predicate, planned.as_of),
            properties={
                "dagster.run_id": planned.run_id,
                "dagster.step_key": planned.step_key,
                "lance_pipelines.dataset": planned.dataset,
                "lance_pipelines.op": planned.op,
                _ID_PROPERTY: planned.delete_id,
            },
            only_if_found=True,
            only_as_planned=is_reviewed,
        )
    except TooMuchWriteContentionError as error:
        if not is_reviewed:
            raise
        raise _changed_since_review(planned) from error
    version = deleted.version
    if deleted.attempts > 1:
        # A repetition that found no rows created no version: an earlier attempt had deleted them.
        dataset.checkout_latest()
        version = _find_commit(planned, dataset) or version
    return _report(planned, dataset, policy, version, deleted.plan.rows_deleted, attempts=deleted.attempts)


def _reviewed_version(planned: PlannedDelete, dataset: lance_core.LanceDataset) -> lance_core.LanceDataset:
    reviewed = dataset.checkout_version(planned.before.version)
    if content_digest(reviewed.manifest) != planned.reviewed:
        # The dataset was recreated.
        raise _changed_since_review(planned)
    return reviewed


def _changed_since_review(planned: PlannedDelete) -> RetryableCommitConflictError:
    return RetryableCommitConflictError(
        f"{planned.uri}: other writers have changed or moved rows selected by the reviewed plan, which is based on "
        f"version {planned.before.version}; nothing was deleted. Start another dry run and review its plan.",
        uri=planned.uri,
        version=planned.before.version,
    )


def _find_commit(planned: PlannedDelete, dataset: lance_core.LanceDataset) -> int | None:
    for version in range(dataset.version, planned.before.version, -1):
        try:
            transaction = dataset.read_transaction(version)
        except VersionNotFoundError as error:
            raise CommitOutcomeUnknownError(
                f"{planned.uri}: the delete is based on version {planned.before.version}, and version {version} was "
                "cleaned up in the meantime; it can no longer be determined whether this delete created that version",
                uri=planned.uri,
                version=version,
                delete_id=planned.delete_id,
            ) from error
        properties = None if transaction is None else transaction.transaction_properties
        if properties and properties.get(_ID_PROPERTY) == planned.delete_id:
            return version
    return None


def _rows_deleted_by(dataset: lance_core.LanceDataset, version: int) -> int | None:
    try:
        before = dataset.checkout_version(version - 1).count_rows()
    except VersionNotFoundError:
        return None
    return before - dataset.checkout_version(version).count_rows()


def _report(
    planned: PlannedDelete,
    dataset: lance_core.LanceDataset,
    policy: MaintenancePolicy,
    version: int,
    rows_deleted: int | None,
    *,
    attempts: int,
) -> DeleteReport:
    return DeleteReport(
        planned=planned,
        after=TableHealth.of(dataset.checkout_version(version), policy),
        rows_deleted=rows_deleted,
        repeated=attempts == 0,
        attempts=attempts,
    )
