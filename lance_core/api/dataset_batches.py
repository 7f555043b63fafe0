"""Committing several appends as one version.

The version is made by one transaction that adds the fragments of all. Its uuid follows from theirs, so that committing
the same batch again finds the version that it made.

Source: names, arguments and results of pylance 14.0.2.
"""

from __future__ import annotations

import uuid as uuid_module
from typing import TYPE_CHECKING, Any, Final, TypedDict

from lance_core.api.commit import DEFAULT_COMMIT_TIMEOUT
from lance_core.api.operation_values import checked_properties
from lance_core.api.operations import LanceOperation, Transaction
from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.transactions.settings import DEFAULT_MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from pathlib import Path

    from lance_core.api.dataset import LanceDataset
    from lance_core.api.fragment_metadata import FragmentMetadata

__all__ = ["BulkCommitResult", "DatasetBatches", "merge_appends"]

_BATCH: Final = uuid_module.UUID("6e0a41d5-7a35-4b57-9d0c-1f2f6c2f9d3b")
"""Namespace of the uuids of batches."""


class BulkCommitResult(TypedDict):
    """What a batch became.

    Attributes:
        dataset: the new version.
        merged: the transaction that made it.
    """

    dataset: LanceDataset
    merged: Transaction


def merge_appends(transactions: Sequence[Transaction]) -> Transaction:
    """One transaction that does what several appends would.

    Args:
        transactions: in the order in which their rows are to stand. The result counts as planned on the earliest of
            their versions and has the properties of all; of two values of one key the later stands.

    Raises:
        InvalidInputError: there are none.
        InvalidTypeError: one is no transaction.
        NotSupportedError: one is no append.
    """
    if not transactions:
        raise InvalidInputError("there are no transactions to commit")
    fragments: list[FragmentMetadata] = []
    properties: dict[str, str] = {}
    for transaction in transactions:
        if not isinstance(transaction, Transaction):
            raise InvalidTypeError(f"transactions must be Transactions, found {type(transaction).__name__}")
        if not isinstance(transaction.operation, LanceOperation.Append):
            name = type(transaction.operation).__name__
            raise NotSupportedError(f"only appends can be committed as a batch, found {name}", operation=name)
        fragments.extend(transaction.operation.fragments)
        properties.update(checked_properties(transaction.transaction_properties))
    return Transaction(
        min(transaction.read_version for transaction in transactions),
        LanceOperation.Append(fragments),
        uuid=str(uuid_module.uuid5(_BATCH, " ".join(transaction.uuid for transaction in transactions))),
        transaction_properties=properties,
    )


class DatasetBatches:
    """What can be committed to a dataset at once."""

    @staticmethod
    def commit_batch(
        dest: str | Path | LanceDataset,
        transactions: Sequence[Transaction],
        commit_lock: Any = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = DEFAULT_MAX_RETRIES,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = DEFAULT_COMMIT_TIMEOUT,
    ) -> BulkCommitResult:
        """Commit several appends as one version.

        Committing the same batch again returns the version that it made.

        Args:
            dest: the dataset.
            transactions: the appends; see :func:`merge_appends`.
            commit_lock: as for :func:`dataset`.
            storage_options: credentials and settings of the store.
            enable_v2_manifest_paths: has no effect: the dataset exists.
            detached: as for ``commit``.
            max_retries: attempts after the first.
            base_store_params: as for ``commit``.
            commit_timeout: no attempt starts later than this; None for no limit.

        Raises:
            NotSupportedError: a transaction is no append.
            InvalidInputError: there are none, or the fragments do not fit.

        Returns:
            The new version and the transaction that made it; raises besides what ``commit`` raises.
        """
        # dataset.py builds on this module.
        from lance_core.api.dataset import LanceDataset

        merged = merge_appends(list(transactions))
        dataset = LanceDataset.commit(
            dest,
            merged,
            commit_lock=commit_lock,
            storage_options=storage_options,
            enable_v2_manifest_paths=enable_v2_manifest_paths,
            detached=detached,
            max_retries=max_retries,
            base_store_params=base_store_params,
            commit_timeout=commit_timeout,
        )
        return {"dataset": dataset, "merged": merged}
