"""Commits a restore exactly once, and only if no rows have changed since it was planned.

A restore discards all later changes. Changes that were committed after the plan was made must not be discarded
without review, so they make the restore fail. A compaction in the meantime does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance_core
from lance_core.errors import RetryableCommitConflictError, VersionNotFoundError
from lance_core.metadata import MAY_CHANGE_ROWS, commit_transaction
from lance_pipelines.maintenance.effect import Contents, Effect
from lance_pipelines.maintenance.plan_table import amount

if TYPE_CHECKING:
    from lance_pipelines.maintenance.restore_plan import PlannedRestore

__all__ = ["RestoreReport", "commit_restore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The result of a restore.

    Attributes:
        planned: the plan.
        version: the version that has the restored content.
        rows_before: number of rows of the version before the restore.
        rows: number of rows of the restored content.
        repeated: True if an earlier attempt had already committed the restore.
    """

    planned: PlannedRestore
    version: int
    rows_before: int
    rows: int
    repeated: bool

    @property
    def op(self) -> str:
        """The operation."""
        return "restore"

    @property
    def uri(self) -> str:
        """The dataset's location."""
        return self.planned.uri

    @property
    def effect(self) -> Effect:
        """What the run did."""
        return Effect(
            op=self.op,
            version_before=self.planned.read_version,
            version_after=self.version,
            before=Contents(rows=self.rows_before),
            after=Contents(rows=self.rows),
        )

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics of the restore for an event, without the version's statistics."""
        return {
            "lance/summary": f"restore: content of v{self.planned.version}, v{self.version}",
            "lance/read_version": self.planned.read_version,
            "lance/restored_version": self.planned.version,
            "lance/rows_before": self.rows_before,
            "lance/committed_earlier": self.repeated,
        }

    def summary(self) -> str:
        """Return one line for logs and terminals."""
        return (
            f"{self.planned.uri} version {self.version}: restored the content of version {self.planned.version}; "
            f"{amount(self.rows, 'row')} instead of {self.rows_before}"
        )


def commit_restore(planned: PlannedRestore, *, storage_options: dict[str, str] | None = None) -> RestoreReport:
    """Restore the version, or find the version in which an earlier attempt restored it.

    Raises:
        DatasetNotFoundError: the dataset no longer exists.
        VersionNotFoundError: the version to restore, or one committed after the plan was made, no longer exists, or the
            dataset was replaced.
        RetryableCommitConflictError: rows were changed since the plan was made; nothing was restored.
        CommitOutcomeUnknownError: it is unknown whether the version was created.
        StorageError: a storage operation failed.
    """
    dataset = lance_core.dataset(planned.uri, storage_options=storage_options)
    version = _find_commit(planned, dataset)
    repeated = version is not None
    if version is None:
        transaction = lance_core.Transaction(
            read_version=dataset.version,
            operation=lance_core.LanceOperation.Restore(planned.version),
            uuid=planned.restore_id,
            transaction_properties={
                "dagster.run_id": planned.run_id,
                "dagster.step_key": planned.step_key,
                "lance_pipelines.dataset": planned.dataset,
                "lance_pipelines.op": "restore",
            },
        )
        version = commit_transaction(dataset, transaction)
    return RestoreReport(
        planned=planned,
        version=version,
        rows_before=dataset.checkout_version(planned.read_version).count_rows(),
        rows=dataset.checkout_version(version).count_rows(),
        repeated=repeated,
    )


def _find_commit(planned: PlannedRestore, dataset: lance_core.LanceDataset) -> int | None:
    """Return the version of an earlier attempt; None if there is none. Fail if rows may have changed since the plan."""
    if dataset.version < planned.read_version:
        raise VersionNotFoundError(
            f"{planned.uri}: the latest version is {dataset.version}, but the restore of version {planned.version} was "
            f"planned on version {planned.read_version}, so the dataset was replaced; nothing was restored",
            uri=planned.uri,
            version=planned.read_version,
        )
    for version in range(planned.read_version + 1, dataset.version + 1):
        transaction = dataset.read_transaction(version)
        if transaction is not None and transaction.uuid == planned.restore_id:
            return version
        if transaction is None or MAY_CHANGE_ROWS.get(transaction.operation.arm, True):
            raise RetryableCommitConflictError(
                f"{planned.uri}: version {version}, which may have changed rows, was committed after the restore of "
                f"version {planned.version} was planned on version {planned.read_version}; nothing was restored; start "
                "a new run to discard this change as well",
                uri=planned.uri,
                version=version,
            )
    return None
