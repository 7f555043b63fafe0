"""Detached commits in memory: what is created, what is refused, and what remains after a failure of the store."""

import secrets

import pytest

from lance_core.errors import NotSupportedError, StorageError, VersionNotFoundError
from lance_core.io.memory_store import MemoryStore
from lance_core.table.manifest import Manifest
from lance_core.table.paths import FIRST_DETACHED_VERSION, ManifestName, ManifestNaming
from lance_core.table.version_log import VersionLog
from lance_core.transactions.detached import DetachedCommit
from lance_core.transactions.operations.project import Project
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.outcomes import CommitOutcome, Committed, NotCreated, Unknown
from lance_core.transactions.transaction import Transaction
from tests.support.commits import commit_transaction
from tests.support.faulty_store import Call, FaultyStore, When, no_fault
from tests.support.manifests import table
from tests.support.records import SCHEMA, append, fragment, overwrite

NUMBER = FIRST_DETACHED_VERSION | 7


class Table:
    """A table in memory at version 1, whose detached versions get the number ``NUMBER``."""

    def __init__(self, naming: ManifestNaming = ManifestNaming.V2) -> None:
        self.store = FaultyStore(MemoryStore())
        self.log = VersionLog(self.store, "table")
        commit_transaction(self.log, overwrite(fragment()), CommitOptions(), template=Manifest.empty(naming=naming))

    def detach(self, transaction: Transaction, *, known: Manifest | None = None) -> CommitOutcome:
        attempt = DetachedCommit(self.log, transaction, known)
        return attempt.create(attempt.build())

    def transaction_files(self) -> list[str]:
        return sorted(info.path.rpartition("/")[2] for info in self.store.inner.list("table/_transactions"))


@pytest.fixture(autouse=True)
def number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbits", lambda count: 7)


@pytest.fixture
def made() -> Table:
    return Table()


def failing(method: str, part: str, when: When) -> object:
    def fault(call: Call) -> When | None:
        return when if call.method == method and part in call.path else None

    return fault


def test_detached_version_is_outside_the_history_of_the_branch(made: Table) -> None:
    outcome = made.detach(append(fragment(), read_version=1))
    assert isinstance(outcome, Committed)
    assert outcome.manifest.version == NUMBER
    assert len(made.log.read_version(NUMBER).fragments) == 2
    assert [name.version for name in made.log.newer_than(0)] == [1]


def test_known_manifest_of_the_read_version_is_not_read_again(made: Table) -> None:
    known = made.log.read_version(1)
    made.store.calls.clear()
    assert isinstance(made.detach(append(fragment(), read_version=1), known=known), Committed)
    assert [call.path for call in made.store.calls if call.method == "get"] == []


def test_manifest_of_a_different_version_is_not_used_for_a_detached_commit(made: Table) -> None:
    known = made.log.read_version(1)
    with pytest.raises(VersionNotFoundError):
        made.detach(append(fragment(), read_version=5), known=known)


def test_table_with_v1_manifest_names_has_no_detached_versions() -> None:
    with pytest.raises(NotSupportedError, match="V1 names"):
        Table(ManifestNaming.V1).detach(append(fragment(), read_version=1))


def test_detached_commit_cannot_change_the_schema_of_a_table_that_counts_field_ids(made: Table) -> None:
    counted = table(max_allocated_field_id=5)
    change = Transaction(read_version=3, operation=Project(schema=SCHEMA.with_metadata({})))
    assert isinstance(made.detach(change, known=counted), Committed)
    one_column = Transaction(
        read_version=3, operation=Project(schema=type(SCHEMA)(fields=SCHEMA.fields[:1], metadata=SCHEMA.metadata))
    )
    with pytest.raises(NotSupportedError, match="never reuses field ids"):
        made.detach(one_column, known=counted)


def test_transaction_file_written_without_a_response_is_removed(made: Table) -> None:
    before = made.transaction_files()
    made.store.fault = failing("put", "_transactions", When.AFTER)
    with pytest.raises(StorageError, match="injected"):
        made.detach(append(fragment(), read_version=1))
    assert made.transaction_files() == before


def test_detached_commit_with_a_lost_response_succeeds(made: Table) -> None:
    made.store.fault = failing("put_if_absent", "", When.AFTER)
    outcome = made.detach(append(fragment(), read_version=1))
    assert isinstance(outcome, Committed)
    assert outcome.manifest.version == NUMBER


def test_lost_detached_commit_request_leaves_no_files(made: Table) -> None:
    before = made.transaction_files()
    made.store.fault = failing("put_if_absent", "", When.BEFORE)
    assert isinstance(made.detach(append(fragment(), read_version=1)), NotCreated)
    made.store.fault = no_fault
    assert made.transaction_files() == before


def test_detached_commit_request_that_may_still_take_effect_has_an_unknown_outcome(made: Table) -> None:
    def put_if_absent(*arguments: object, **durability: object) -> object:
        raise StorageError("no answer", in_flight=True)

    made.store.inner.put_if_absent = put_if_absent  # type: ignore[method-assign]
    transaction = append(fragment(), read_version=1)
    outcome = made.detach(transaction)
    assert isinstance(outcome, Unknown)
    assert "no answer" in str(outcome.cause)
    assert transaction.file_name in made.transaction_files()


def test_detached_commit_that_cannot_be_read_back_has_an_unknown_outcome(made: Table) -> None:
    known = made.log.read_version(1)

    def fault(call: Call) -> When | None:
        if call.method == "put_if_absent":
            return When.AFTER
        return When.BEFORE if call.method == "get" else None

    made.store.fault = fault
    outcome = made.detach(append(fragment(), read_version=1), known=known)
    assert isinstance(outcome, Unknown)
    assert outcome.version == NUMBER


def test_detached_commit_whose_version_number_was_taken_by_another_writer_has_an_unknown_outcome(made: Table) -> None:
    made.detach(append(fragment(), read_version=1))
    outcome = made.detach(append(fragment(), read_version=1))
    assert isinstance(outcome, Unknown)
    assert "already exists and belongs to another commit" in str(outcome.cause)
    assert made.log.path(ManifestName(NUMBER, ManifestNaming.V2)) in str(outcome.cause)
