"""The creator of a tag or branch file recognizes its file, regardless of lost responses."""

import pytest

from lance_core.errors import CommitOutcomeUnknownError, StorageError
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import PutOutcome
from lance_core.table.ref_creation import create_ref, known_to_exist
from tests.support.faulty_store import Call, FaultyStore, When

PATH, OURS, THEIRS = "t/_refs/tags/x.json", b"ours", b"theirs"


def _store(*faults: When | None, method: str = "put_if_absent", retryable: bool = False) -> FaultyStore:
    """Return a store in which successive calls of one method have these faults."""
    left = list(faults)

    def fault(call: Call) -> When | None:
        return left.pop(0) if call.method == method and left else None

    return FaultyStore(MemoryStore(), fault, retryable)


def test_only_the_first_of_two_writers_creates_a_ref() -> None:
    store = MemoryStore()
    assert create_ref(store, PATH, OURS) is PutOutcome.CREATED
    assert create_ref(store, PATH, THEIRS) is PutOutcome.EXISTS
    assert bytes(store.get(PATH)) == OURS


def test_ref_created_without_a_response_is_recognized() -> None:
    store = _store(When.AFTER)
    assert create_ref(store, PATH, OURS) is PutOutcome.CREATED
    assert [call.method for call in store.calls] == ["put_if_absent", "get"]


def test_failed_ref_creation_is_repeated_when_retryable() -> None:
    assert create_ref(_store(When.BEFORE, When.BEFORE, retryable=True), PATH, OURS) is PutOutcome.CREATED
    store = _store(When.BEFORE)
    with pytest.raises(StorageError, match="injected"):
        create_ref(store, PATH, OURS)
    assert len(store.calls) == 2
    with pytest.raises(StorageError, match="injected"):
        create_ref(_store(*[When.BEFORE] * 3, retryable=True), PATH, OURS)


def test_refused_ref_creation_is_repeated_when_the_ref_does_not_exist() -> None:
    class Refusing(MemoryStore):
        refusals = 2

        def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
            self.refusals -= 1
            return PutOutcome.EXISTS if self.refusals >= 0 else super().put_if_absent(path, data)

    store = Refusing()
    assert create_ref(store, PATH, OURS) is PutOutcome.CREATED
    store.delete(PATH)
    store.refusals = 9
    with pytest.raises(StorageError, match="rejected the request 3 times"):
        create_ref(store, PATH, OURS)


def test_ref_creation_that_cannot_be_read_back_has_an_unknown_outcome() -> None:
    def fault(call: Call) -> When | None:
        return {"put_if_absent": When.AFTER, "get": When.BEFORE}.get(call.method)

    with pytest.raises(CommitOutcomeUnknownError, match="could not determine"):
        create_ref(FaultyStore(MemoryStore(), fault), PATH, OURS)


def test_ref_creation_still_in_flight_has_an_unknown_outcome() -> None:
    class Silent(MemoryStore):
        def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
            raise StorageError("no answer", retryable=True, in_flight=True)

    with pytest.raises(CommitOutcomeUnknownError, match="may still be in progress"):
        create_ref(Silent(), PATH, OURS)


def test_failure_after_a_ref_creation_reports_that_the_ref_was_created() -> None:
    with pytest.raises(CommitOutcomeUnknownError, match="tag 'x' was created"), known_to_exist("tag 'x'"):
        raise StorageError("the network is gone")
