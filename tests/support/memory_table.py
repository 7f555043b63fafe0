"""MemoryTable: a table in memory whose commits and storage calls a test can interrupt."""

import random
from collections.abc import Callable

from lance_core.io.memory_store import MemoryStore
from lance_core.table.manifest import Manifest
from lance_core.table.paths import ManifestNaming
from lance_core.table.version_log import VersionLog
from lance_core.transactions.outcomes import CommitOutcome
from lance_core.transactions.settings import CommitSettings
from lance_core.transactions.transaction import Transaction
from tests.support.commit_steps import commit_transaction
from tests.support.faulty_store import FaultyStore, When
from tests.support.records import fragment, overwrite


class MemoryTable:
    """A table of two fragments in memory, at version 1."""

    def __init__(self, naming: ManifestNaming = ManifestNaming.V2) -> None:
        self.store = FaultyStore(MemoryStore())
        self.log = VersionLog(self.store, "table")
        self.commit(overwrite(fragment(), fragment()), template=Manifest.empty(naming=naming))

    def commit(self, transaction: Transaction, *, known: Manifest | None = None, **settings: object) -> CommitOutcome:
        """Commit without waiting; files of new fragments are there."""
        for each in getattr(transaction.operation, "fragments", ()):
            for file in each.files:
                self.store.inner.put(f"table/data/{file.path}", b"rows")
        settings = {"wait": lambda seconds: None, "rng": random.Random(1), "is_first_try": True, **settings}
        return commit_transaction(self.log, transaction, CommitSettings(**settings), known=known)

    def latest(self) -> Manifest:
        """The latest version."""
        return self.log.read(self.log.latest())

    def versions(self) -> list[int]:
        """The versions that exist."""
        return [name.version for name in self.log.newer_than(0)]

    def paths(self) -> set[str]:
        """The data files of the latest version."""
        return {file.path for each in self.latest().fragments for file in each.files}

    def clean_up(self, keep: int = 1) -> None:
        """Remove the manifests of all versions but the newest."""
        for name in self.log.newer_than(0)[:-keep]:
            self.store.inner.delete(self.log.path(name))

    def transaction_files(self) -> list[str]:
        """The names of the transaction files."""
        return sorted(info.path.rpartition("/")[2] for info in self.store.inner.list("table/_transactions"))

    def act_at_create(
        self, action: Callable[[], object], when: When = When.BEFORE, *, then: Callable[[], object] = lambda: None
    ) -> None:
        """Run an action when the store is asked to create the next manifest, or right after it did; ``then`` last."""
        inner = self.store.inner.put_if_absent

        def put_if_absent(path: str, data: object, **durability: object) -> object:
            self.store.inner.put_if_absent = inner
            if when is When.BEFORE:
                action()
                outcome = inner(path, data, **durability)
            else:
                outcome = inner(path, data, **durability)
                action()
            then()
            return outcome

        self.store.inner.put_if_absent = put_if_absent
