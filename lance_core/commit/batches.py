"""Committing several appends as one version.

The version is created by one transaction that adds all their fragments. Its uuid is derived from theirs, so committing
the same batch again finds the version that it created.

Source: names, arguments and results of pylance 14.0.2.
"""

from __future__ import annotations

import uuid as uuid_module
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.transactions.public_transaction import LanceOperation, Transaction
from lance_core.transactions.transaction import checked_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.public.fragment_metadata import FragmentMetadata

__all__ = ["merge_appends"]

_BATCH: Final = uuid_module.UUID("6e0a41d5-7a35-4b57-9d0c-1f2f6c2f9d3b")
"""Namespace of the uuids of batches."""


def merge_appends(transactions: Sequence[Transaction]) -> Transaction:
    """Merge several appends into one transaction.

    Args:
        transactions: in the order of their rows. The result has the earliest read version of all and the properties of
            all; if a key has several values, the last one counts.

    Raises:
        InvalidInputError: there are no transactions.
        InvalidTypeError: one is not a transaction.
        NotSupportedError: one is not an append.
    """
    if not transactions:
        raise InvalidInputError("transactions is empty; expected at least one")
    fragments: list[FragmentMetadata] = []
    properties: dict[str, str] = {}
    for transaction in transactions:
        if not isinstance(transaction, Transaction):
            raise InvalidTypeError(f"transactions must be Transactions, found {type(transaction).__name__}")
        appended = transaction.operation.appended_fragments()
        if appended is None:
            name = type(transaction.operation).__name__
            raise NotSupportedError(f"only appends can be committed as a batch, found {name}", operation=name)
        fragments.extend(appended)
        properties.update(checked_properties(transaction.transaction_properties))
    return Transaction(
        min(transaction.read_version for transaction in transactions),
        LanceOperation.Append(fragments),
        uuid=str(uuid_module.uuid5(_BATCH, " ".join(transaction.uuid for transaction in transactions))),
        transaction_properties=properties,
    )
