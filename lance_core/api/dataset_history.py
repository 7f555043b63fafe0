"""The versions of a dataset and the transactions that created them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.api.version_info import Version, version_info
from lance_core.errors import InvalidInputError
from lance_core.public.arguments import whole_number
from lance_core.scan.dataset_handle import DatasetHandle
from lance_core.table.paths import is_detached_version
from lance_core.transactions.history import read_transaction
from lance_core.transactions.public_transaction import transaction_from_core

if TYPE_CHECKING:
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.public_transaction import Transaction

__all__ = ["DatasetHistory", "shown_transaction"]


def shown_transaction(log: VersionLog, version: int) -> Transaction | None:
    """The transaction that created a version; None when it is no longer recorded."""
    transaction = read_transaction(log, log.read_version(version))
    return None if transaction is None else transaction_from_core(transaction)


class DatasetHistory(DatasetHandle):
    """The versions of a dataset."""

    def versions(self) -> list[Version]:
        """All versions, oldest first; reads every manifest."""
        return [version_info(self.log.read(name)) for name in self.log.newer_than(0)]

    def version_refs(self) -> list[dict[str, int]]:
        """The numbers of all versions, oldest first; reads no manifest."""
        return [{"version": name.version} for name in self.log.newer_than(0)]

    def get_version(self) -> Version:
        """What :meth:`versions` tells about this version; nothing is read."""
        return version_info(self.manifest)

    def read_transaction(self, version: int) -> Transaction | None:
        """The transaction that created a version; None when it is no longer recorded."""
        return shown_transaction(self.log, whole_number("version", version))

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """The transactions of this version and those before it, newest first.

        Args:
            recent_transactions: the maximum number; this version's is always included. A detached version has no
                history, so only its own is returned.

        Raises:
            InvalidTypeError: it is not a whole number.
            InvalidInputError: it is negative.
        """
        wanted = whole_number("recent_transactions", recent_transactions)
        if wanted < 0:
            raise InvalidInputError(f"recent_transactions is {wanted}, expected 0 or more")
        if is_detached_version(self.manifest.version):
            return [self.read_transaction(self.manifest.version)]
        stop = max(self.manifest.version - max(wanted, 1), 0)
        names = [name for name in self.log.newer_than(stop) if name.version <= self.manifest.version]
        return [self.read_transaction(name.version) for name in reversed(names)]
