"""Commits that retry without waiting, and stores in memory and on disk with injected failures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lance_core.io.uri import unregister_store
from lance_core.transactions.options import CommitOptions


@pytest.fixture
def retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of this process retry immediately; other tests cover the waiting times."""
    monkeypatch.setitem(CommitOptions.__init__.__kwdefaults__, "wait", lambda seconds: None)


@pytest.fixture(params=["memory", "local"])
def faulty_kind(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries_at_once: None
) -> Iterator[str]:
    """The kind of store that a test registers below ``memory://faulty``."""
    # Paths of the memory scheme are relative, so that a local store below it works in this directory.
    monkeypatch.chdir(tmp_path)
    yield request.param
    unregister_store("faulty")
