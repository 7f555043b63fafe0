"""The probe for conditional writes runs once per bucket, detects stores without them, and leaves no object behind."""

import pytest

from lance_core.errors import NotSupportedError, StorageError, UnsafeStoreError
from lance_core.io.condition_probe import require_condition
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import PutOutcome


class Careful(MemoryStore):
    """A store that honors the condition, and counts requests."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[str] = []

    def put_if_none_match(self, path: str, data: bytes) -> PutOutcome:
        self.tried.append(path)
        return self.put_if_absent(path, data)


class Careless(Careful):
    """A store that ignores the condition."""

    def put_if_none_match(self, path: str, data: bytes) -> PutOutcome:
        self.tried.append(path)
        self.put(path, data)
        return PutOutcome.CREATED


class Failing(Careful):
    """A store that responds with an error status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    def put_if_none_match(self, path: str, data: bytes) -> PutOutcome:
        self.tried.append(path)
        raise StorageError("no", status=self.status)


def test_store_that_honors_conditional_puts_is_probed_once() -> None:
    store = Careful()
    for _ in range(3):
        require_condition(store, ("careful", "bucket"), "bucket/t/_versions/1.manifest")
    assert len(store.tried) == 1
    assert store.tried[0].startswith("bucket/t/_versions/1.manifest#")
    assert list(store.list_recursive("bucket")) == []


def test_store_that_ignores_conditional_puts_is_refused_each_time() -> None:
    store = Careless()
    for _ in range(2):
        with pytest.raises(UnsafeStoreError, match="commit_lock") as raised:
            require_condition(store, ("careless", "bucket"), "bucket/t/_versions/1.manifest")
    assert raised.value.context["bucket"] == "bucket"
    assert isinstance(raised.value, NotSupportedError)
    assert len(store.tried) == 1
    assert list(store.list_recursive("bucket")) == []


def test_store_that_does_not_implement_conditional_puts_is_refused() -> None:
    with pytest.raises(UnsafeStoreError):
        require_condition(Failing(501), ("unknowing", "bucket"), "bucket/x")


def test_failed_conditional_put_probe_is_repeated() -> None:
    store = Failing(500)
    for _ in range(2):
        with pytest.raises(StorageError):
            require_condition(store, ("failing", "bucket"), "bucket/x")
    assert len(store.tried) == 2
    assert list(store.list_recursive("bucket")) == []


def test_conditional_puts_are_probed_per_bucket() -> None:
    store = Careful()
    for place in (("here", "a"), ("here", "b"), ("there", "a")):
        require_condition(store, place, "a/x")
    assert len(store.tried) == 3
