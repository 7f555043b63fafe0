"""The part of the crash table about external manifest stores: a writer is killed after each of its steps.

The store is a SQLite database, so that only a local disk is needed. ``tests/interop/test_external_manifests.py`` makes
the same states by hand for DynamoDB, with pylance as reader and writer.
"""

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.cleanup import CleanupPolicy, plan_cleanup
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.manifest_stores.sql import SqlManifests
from lance_core.table.paths import manifest_name

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
DAY_NS = 86_400 * 10**9


@dataclass(frozen=True)
class Table:
    """A table on a local disk whose versions are recorded in SQLite."""

    root: Path
    database: Path

    @property
    def uri(self) -> str:
        return f"file+sql://{self.root}"

    @property
    def options(self) -> dict[str, str]:
        return {"sql_url": f"sqlite:///{self.database}"}

    def open(self) -> lance_core.LanceDataset:
        return lance_core.dataset(self.uri, storage_options=self.options)

    def append(self) -> int:
        return lance_core.write_dataset(ROWS, self.uri, mode="append", storage_options=self.options).version

    def staged(self) -> list[str]:
        return sorted(path.name for path in (self.root / "_versions").iterdir() if ".manifest-" in path.name)

    def row(self, version: int) -> str | None:
        with closing(sqlite3.connect(self.database)) as connection:
            found = connection.execute("select path from lance_manifests where version = ?", [version]).fetchone()
        return None if found is None else found[0]

    def forget(self, version: int) -> None:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("delete from lance_manifests where version = ?", [version])

    def clean_up(self, days: float) -> None:
        """Clean up as if so many days had passed."""
        policy = CleanupPolicy.of(retain_versions=1)
        plan_cleanup(self.open(), policy, now_ns=time.time_ns() + int(days * DAY_NS)).execute()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path / "t", tmp_path / "manifests.db")
    assert table.append() == 1
    return table


def _killed(table: Table, owner: type, method: str, *, after: bool = False) -> None:
    """Append in a child that is killed before or after a step of the commit."""
    child = os.fork()
    if child == 0:
        try:
            setattr(owner, method, _deadly(getattr(owner, method), after=after))
            table.append()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def _deadly(real: Callable[..., object], *, after: bool) -> Callable[..., object]:
    def step(*arguments: object) -> None:
        if after:
            real(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return step


def _goes_on(table: Table, version: int) -> None:
    dataset = table.open()
    dataset.validate()
    assert (dataset.version, dataset.count_rows()) == (version, version * ROWS.num_rows)
    assert table.append() == version + 1
    assert table.open().count_rows() == (version + 1) * ROWS.num_rows


def _removed_after_a_week(table: Table) -> None:
    left = table.staged()
    assert len(left) == 1
    table.clean_up(6.9)
    assert table.staged() == left
    table.clean_up(7.1)
    assert table.staged() == []
    table.open().validate()


def test_a_commit_killed_after_staging_its_manifest_creates_no_version(table: Table) -> None:
    _killed(table, SqlManifests, "reserve")
    assert table.row(2) is None
    _goes_on(table, 1)
    _removed_after_a_week(table)


def test_a_commit_killed_after_reserving_its_version_is_finished_by_the_next_reader(table: Table) -> None:
    _killed(table, SqlManifests, "reserve", after=True)
    assert table.row(2) == f"_versions/{table.staged()[0]}"
    _goes_on(table, 2)
    assert table.staged() == []


def test_a_cleanup_finishes_a_reserved_version(table: Table) -> None:
    """A handle opened before the commit cleans up years later; the files of the version are not orphans."""
    before = table.open()
    _killed(table, SqlManifests, "reserve", after=True)
    policy = CleanupPolicy.of(retain_versions=1, delete_unverified=True)
    plan_cleanup(before, policy, now_ns=time.time_ns() + 3000 * DAY_NS).execute()
    assert table.row(2) == f"_versions/{manifest_name(2)}"
    _goes_on(table, 2)


def test_a_commit_killed_after_placing_its_manifest_is_finished_by_the_next_reader(table: Table) -> None:
    _killed(table, SqlManifests, "finish")
    assert table.row(2) == f"_versions/{table.staged()[0]}"
    assert (table.root / "_versions" / manifest_name(2)).exists()
    _goes_on(table, 2)
    assert table.row(2) == f"_versions/{manifest_name(2)}"
    assert table.staged() == []


def test_a_commit_killed_after_finishing_its_manifest_row_leaves_a_staged_manifest(table: Table) -> None:
    _killed(table, SqlManifests, "finish", after=True)
    assert table.row(2) == f"_versions/{manifest_name(2)}"
    _goes_on(table, 2)
    _removed_after_a_week(table)


def test_a_cleanup_without_the_manifest_store_keeps_staged_manifests(table: Table) -> None:
    """A handle on the URI without the store cannot know whether a row refers to them."""
    _killed(table, SqlManifests, "finish", after=True)
    policy = CleanupPolicy.of(retain_versions=1, delete_unverified=True)
    plan_cleanup(lance_core.dataset(table.root), policy, now_ns=time.time_ns() + 3000 * DAY_NS).execute()
    assert len(table.staged()) == 1


def test_a_manifest_row_that_names_a_missing_manifest_raises_corrupt_data(table: Table) -> None:
    _killed(table, SqlManifests, "reserve", after=True)
    (table.root / "_versions" / table.staged()[0]).unlink()
    for attempt in (table.open, table.append):
        with pytest.raises(lance_core.CorruptDataError, match="delete the row") as raised:
            attempt()
        assert raised.value.context["version"] == 2
    table.forget(2)
    _goes_on(table, 1)


def test_every_step_of_an_external_commit_is_tested() -> None:
    assert {"create", "_publish"} <= set(vars(ExternalCommit))
