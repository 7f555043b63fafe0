"""The methods of a dataset that change its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.delete.delete import DEFAULT_CONFLICT_RETRIES, DEFAULT_RETRY_TIMEOUT, RetryPolicy, delete_rows
from lance_core.scan.dataset_handle import DatasetHandle
from lance_core.transactions.transaction import checked_properties

if TYPE_CHECKING:
    from datetime import timedelta


__all__ = ["DatasetChanges"]


class DatasetChanges(DatasetHandle):
    """The methods that change the rows of a dataset."""

    def delete(
        self,
        predicate: Any,
        *,
        conflict_retries: int = DEFAULT_CONFLICT_RETRIES,
        retry_timeout: timedelta = DEFAULT_RETRY_TIMEOUT,
        transaction_properties: dict[str, str] | None = None,
    ) -> dict[str, int]:
        """Delete the rows that match a predicate. Creates a new version, which this handle then shows.

        The rows are hidden, not erased: data files are not changed. Rows are searched in the version that this
        handle shows. Deletes of other rows that were committed since are merged; after any other conflict the rows are
        searched again in the latest version. A version is created even when no row matches.

        Args:
            predicate: which rows, as SQL text or an Arrow expression; a row for which it is unknown is kept.
            conflict_retries: how often to search for the rows again.
            retry_timeout: after this time the rows are not searched again.
            transaction_properties: recorded with the version.

        Returns:
            ``{"num_deleted_rows": n}``.

        Raises:
            InvalidInputError: the predicate is invalid, or cannot be evaluated for a row.
            NotSupportedError: a part of the predicate, or the table, is not supported.
            IncompatibleTransactionError: the table was replaced in the meantime.
            TooMuchWriteContentionError: every attempt had a conflict.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed.
        """
        deleted = delete_rows(
            self.log,
            self.manifest,
            predicate,
            RetryPolicy(conflict_retries, retry_timeout),
            storage_options=self.storage_options,
            properties=checked_properties(transaction_properties),
            line=self.line,
        )
        self.show(deleted.manifest)
        return {"num_deleted_rows": deleted.plan.rows_deleted}

    def truncate_table(self) -> None:
        """Delete all rows in a new version. No data file is read."""
        self.delete("true")
