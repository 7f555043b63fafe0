"""A dataset location in memory that starts empty, and its store."""

import itertools
from collections.abc import Iterator

import pytest

from lance_core.io import uri as uri_module
from lance_core.io.memory_store import MemoryStore
from tests.support.counting_store import CountingStore

_numbers = itertools.count()


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def uri(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"test-{next(_numbers)}"
    monkeypatch.setitem(uri_module._memory_stores, name, store)
    return f"memory://{name}/table"
