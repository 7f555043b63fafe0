"""What a dataset tells about its versions and about the changes that made them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lance_core.api.operation_conversion import transaction_from_core
from lance_core.api.version_info import Version, version_info
from lance_core.transactions.history import read_transaction

if TYPE_CHECKING:
    from lance_core.api.operations import Transaction
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["DatasetHistory"]


class DatasetHistory(ABC):
    """The versions of a dataset."""

    @property
    @abstractmethod
    def log(self) -> VersionLog:
        """The dataset's versions."""

    @property
    @abstractmethod
    def manifest(self) -> Manifest:
        """The manifest of the version shown."""

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
        """The transaction that made a version; None when it is not recorded any more."""
        transaction = read_transaction(self.log, self.log.read_version(version))
        return None if transaction is None else transaction_from_core(transaction)

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """The transactions of this version and those before it, newest first."""
        stop = max(self.manifest.version - recent_transactions, 0)
        names = [name for name in self.log.newer_than(stop) if name.version <= self.manifest.version]
        return [self.read_transaction(name.version) for name in reversed(names)]
