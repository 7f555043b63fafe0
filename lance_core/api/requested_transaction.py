"""From the arguments of a commit to its transaction."""

from __future__ import annotations

from lance_core.api.arguments import whole_number
from lance_core.api.operations import LanceOperation, Transaction
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.transactions.transaction import COMMIT_MESSAGE_KEY

__all__ = ["requested_transaction"]


def requested_transaction(
    operation: LanceOperation.BaseOperation | Transaction, read_version: int | None, commit_message: str | None
) -> Transaction:
    """The transaction itself, or one made around the operation.

    Raises:
        InvalidInputError: the operation needs a read version, or the message is given twice.
        InvalidTypeError: it is neither.
    """
    if isinstance(operation, Transaction):
        if commit_message is not None:
            raise InvalidInputError(
                f"commit_message cannot be given with a Transaction; set its property {COMMIT_MESSAGE_KEY!r}"
            )
        return operation
    if not isinstance(operation, LanceOperation.BaseOperation):
        raise InvalidTypeError(
            f"operation must be a LanceOperation.BaseOperation or Transaction, got {type(operation)}"
        )
    if read_version is None and not isinstance(operation, (LanceOperation.Overwrite, LanceOperation.Restore)):
        raise InvalidInputError("read_version is required for all operations except Overwrite and Restore")
    properties = {} if commit_message is None else {COMMIT_MESSAGE_KEY: commit_message}
    planned_on = 0 if read_version is None else whole_number("read_version", read_version)
    return Transaction(planned_on, operation, transaction_properties=properties)
