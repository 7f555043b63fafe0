"""Fixtures: an empty dataset location in memory, its store, and a function that runs commands."""

import itertools
from collections.abc import Iterator

import pytest

from lance_core import cli
from lance_core.io.memory_store import MemoryStore
from lance_core.io.uri import register_store, unregister_store
from tests.support.commands import Run
from tests.support.counting_store import CountingStore

_numbers = itertools.count()


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def uri(store: CountingStore) -> Iterator[str]:
    name = f"test-{next(_numbers)}"
    register_store(name, store)
    yield f"memory://{name}/table"
    unregister_store(name)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a lance-core command in this process."""

    def run(*arguments: str) -> tuple[int, str, str]:
        return cli.main(arguments), *capsys.readouterr()

    return run
