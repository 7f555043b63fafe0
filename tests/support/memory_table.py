"""MemoryTable: a table in memory whose commits and storage calls a test can interrupt."""

import random
from collections.abc import Callable

from lance_core.io.memory_store import MemoryStore
from lance_core.table.branches import BranchRecord, branch_path, branch_root
from lance_core.table.manifest import Manifest
from lance_core.table.paths import ManifestNaming
from lance_core.table.version_log import VersionLog
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.outcomes import CommitOutcome
from lance_core.transactions.transaction import Transaction
from tests.support.commits import commit_transaction
from tests.support.faulty_store import FaultyStore, When
from tests.support.records import fragment, overwrite


class MemoryTable:
    """A table of two fragments in memory, at version 1."""

    def __init__(self, naming: ManifestNaming = ManifestNaming.V2, *, branch: str = "") -> None:
        self.store = FaultyStore(MemoryStore())
        template = Manifest.empty(naming=naming)
        template.message.branch = branch
        self.branch = branch
        self.root = branch_root(self.store, "table", branch) if branch else "table"
        self.log = VersionLog(self.store, self.root)
        if branch:
            self.make_branch(created_at=1)
        self.commit(overwrite(fragment(), fragment()), template=template)

    def make_branch(self, *, created_at: int) -> None:
        """Write the record of the branch, which distinguishes it from a branch created at another time."""
        record = BranchRecord(name=self.branch, parent_version=1, created_at=created_at)
        self.store.inner.put(branch_path(self.store, "table", self.branch), record.to_json())

    def delete_branch(self) -> None:
        """Remove the record of the branch, but keep its files."""
        self.store.inner.delete(branch_path(self.store, "table", self.branch))

    def commit(
        self,
        transaction: Transaction,
        *,
        template: Manifest | None = None,
        known: Manifest | None = None,
        **options: object,
    ) -> CommitOutcome:
        """Commit without waiting between attempts, after creating the files of new fragments."""
        for each in getattr(transaction.operation, "fragments", ()):
            for file in each.files:
                self.store.inner.put(f"{self.root}/data/{file.path}", b"rows")
        options = {"wait": lambda seconds: None, "rng": random.Random(1), "is_first_try": True, **options}
        return commit_transaction(self.log, transaction, CommitOptions(**options), template=template, known=known)

    def latest(self) -> Manifest:
        """Return the latest version."""
        return self.log.read(self.log.latest())

    def versions(self) -> list[int]:
        """Return the existing versions."""
        return [name.version for name in self.log.newer_than(0)]

    def paths(self) -> set[str]:
        """Return the data files of the latest version."""
        return {file.path for each in self.latest().fragments for file in each.files}

    def clean_up(self, keep: int = 1) -> None:
        """Remove the manifests of all versions but the newest."""
        for name in self.log.newer_than(0)[:-keep]:
            self.store.inner.delete(self.log.path(name))

    def transaction_files(self) -> list[str]:
        """Return the names of the transaction files."""
        return sorted(info.path.rpartition("/")[2] for info in self.store.inner.list(f"{self.root}/_transactions"))

    def act_at_create(
        self, action: Callable[[], object], when: When = When.BEFORE, *, then: Callable[[], object] = lambda: None
    ) -> None:
        """Run actions right before and right after the store creates the next manifest."""
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
