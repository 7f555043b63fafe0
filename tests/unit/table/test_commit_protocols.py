"""Commit protocols: conditional creates, commit locks, and opening external manifest stores."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

import lance_core
from lance_core.errors import (
    AccessDeniedError,
    CommitConflictError,
    InvalidInputError,
    InvalidTypeError,
    NotSupportedError,
    StorageError,
    UnsafeStoreError,
    UnsupportedSchemeError,
)
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import PutOutcome, StoreCapabilities
from lance_core.io.uri import register_store, unregister_store
from lance_core.places.location import open_log
from lance_core.table.commit_protocols.locked import LockedCreate
from lance_core.table.manifest_stores.api import ManifestRow
from lance_core.table.manifest_stores.opening import open_manifest_store
from lance_core.table.manifest_stores.sql import SqlManifests
from lance_core.table.paths import ManifestName, ManifestNaming
from lance_core.table.version_log import VersionLog
from tests.support.faulty_store import FaultyStore, When
from tests.support.postgres_server import PASSWORD, postgres_server

NAME = ManifestName(1, ManifestNaming.V2)
ROWS = {"a": [1, 2]}


class Careless(MemoryStore):
    """A store without atomic creation."""

    @property
    def capabilities(self) -> StoreCapabilities:
        return StoreCapabilities(atomic_create=False, lexical_listing=True, version_hint=False)


class Lock:
    """A lock that records its use."""

    def __init__(self, refuses: BaseException | None = None) -> None:
        self.refuses = refuses
        self.calls: list[object] = []
        self._mutex = threading.Lock()

    def __call__(self, version: int) -> "Lock":
        self.calls.append(version)
        return self

    def __enter__(self) -> None:
        if self.refuses is not None:
            raise self.refuses
        self._mutex.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mutex.release()
        self.calls.append(kind)


def test_store_without_atomic_creates_is_refused() -> None:
    with pytest.raises(UnsafeStoreError, match="atomically"):
        VersionLog(Careless(), "t").create(NAME, b"x")


def test_commit_lock_makes_a_store_without_atomic_creates_usable() -> None:
    lock, store = Lock(), Careless()
    log = VersionLog(store, "t", LockedCreate(lock))
    assert log.create(NAME, b"one") is PutOutcome.CREATED
    assert log.create(NAME, b"two") is PutOutcome.EXISTS
    assert bytes(store.get(log.path(NAME))) == b"one"
    # The lock is informed that the race was lost.
    assert lock.calls == [1, None, 1, CommitConflictError]


def test_commit_lock_held_by_another_writer_counts_as_a_lost_race() -> None:
    log = VersionLog(MemoryStore(), "t", LockedCreate(Lock(CommitConflictError("held"))))
    assert log.create(NAME, b"x") is PutOutcome.EXISTS


def test_failing_commit_lock_raises_storage_error() -> None:
    log = VersionLog(MemoryStore(), "t", LockedCreate(Lock(RuntimeError("no lock server"))))
    with pytest.raises(StorageError, match="no lock server"):
        log.create(NAME, b"x")


def test_commit_lock_that_suppresses_errors_does_not_change_the_outcome() -> None:
    @contextlib.contextmanager
    def swallowing(version: int) -> Iterator[None]:
        with contextlib.suppress(Exception):
            yield

    log = VersionLog(MemoryStore(), "t", LockedCreate(swallowing))
    assert [log.create(NAME, b"x") for _ in range(2)] == [PutOutcome.CREATED, PutOutcome.EXISTS]


def test_failed_lock_release_after_the_commit_does_not_undo_the_commit(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def failing(version: int) -> Iterator[None]:
        yield
        raise RuntimeError("release")

    dataset = lance_core.write_dataset(ROWS, tmp_path / "t", commit_lock=failing)
    assert dataset.version == 1


def test_every_writing_method_takes_the_commit_lock(tmp_path: Path) -> None:
    lock, uri = Lock(), tmp_path / "t"
    lance_core.write_dataset(ROWS, uri, commit_lock=lock)
    lance_core.dataset(uri, commit_lock=lock).delete("a = 1")
    fragments = lance_core.write_fragments(ROWS, uri)
    append = lance_core.LanceOperation.Append(fragments)
    lance_core.LanceDataset.commit(uri, append, read_version=2, commit_lock=lock)
    lance_core.write_dataset(ROWS, lance_core.dataset(uri), mode="append", commit_lock=lock)
    assert lock.calls[::2] == [1, 2, 3, 4]
    assert set(lock.calls[1::2]) == {None}


def test_commit_lock_that_is_not_callable_raises_invalid_type(tmp_path: Path) -> None:
    for lock in ("a lock", 7):
        with pytest.raises(InvalidTypeError, match="commit_lock must be callable"):
            lance_core.write_dataset(ROWS, tmp_path / "t", commit_lock=lock)


def test_threads_with_one_commit_lock_lose_no_version() -> None:
    lock, store, barrier = Lock(), Careless(), threading.Barrier(4)
    log = VersionLog(store, "t", LockedCreate(lock))
    won: list[int] = []

    def race(writer: int) -> None:
        for version in range(1, 21):
            barrier.wait(30)
            if log.create(ManifestName(version, ManifestNaming.V2), b"%d" % writer) is PutOutcome.CREATED:
                won.append(version)

    threads = [threading.Thread(target=race, args=[writer]) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(won) == list(range(1, 21))


def test_commit_lock_with_an_external_manifest_store_is_refused(tmp_path: Path) -> None:
    options = {"sql_url": f"sqlite:///{tmp_path}/m.db"}
    with pytest.raises(InvalidInputError, match="commit_lock"):
        lance_core.dataset(f"file+sql://{tmp_path}/t", storage_options=options, commit_lock=Lock())


# ── Opening external manifest stores ────────────────────────────────────────────────────────────────────────────────


def test_uris_without_a_suffix_have_no_manifest_store() -> None:
    for uri in ("/data/t", "s3://bucket/t", "memory://m/t", "file:/x", "+sql://x"):
        assert open_manifest_store(uri, None) is None


def test_external_manifest_store_without_a_database_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LANCE_SQL_URL", raising=False)
    with pytest.raises(InvalidInputError, match="LANCE_SQL_URL"):
        open_log("file+sql:///t", None)
    monkeypatch.setenv("LANCE_SQL_URL", f"sqlite:///{tmp_path}/m.db")
    uri = f"file+sql://{tmp_path}/t"
    lance_core.write_dataset(ROWS, uri)
    assert lance_core.write_dataset(ROWS, uri, mode="append").version == 2
    assert lance_core.dataset(str(tmp_path / "t")).version == 2


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("sqlite://", InvalidInputError),
        ("sqlite:///:memory:", InvalidInputError),
        ("not a url with hidden", InvalidInputError),
        ("nothing://user:hidden@host/db", NotSupportedError),
        ("oracle+oracledb://user:hidden@host/db", NotSupportedError),
        ("postgresql+psycopg://user:hidden@127.0.0.1:1/db", StorageError),
    ],
)
def test_unusable_manifest_databases_are_refused_without_showing_secrets(url: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        lance_core.dataset("file+sql:///nowhere/t", storage_options={"sql_url": url})
    assert "hidden" not in f"{raised.value} {raised.value.__cause__} {raised.value.context}"


def test_sql_manifest_table_name_can_be_chosen(tmp_path: Path) -> None:
    options = {"sql_url": f"sqlite:///{tmp_path}/m.db"}
    uri = f"file+sql://{tmp_path}/t"
    lance_core.write_dataset(ROWS, f"{uri}?sqlTableName=mine", storage_options=options)
    mine, default = (SqlManifests(options["sql_url"], name, "file") for name in ("mine", "lance_manifests"))
    assert mine.latest(str(tmp_path / "t")) is not None
    assert default.latest(str(tmp_path / "t")) is None
    for query in ("?sqlTableName=a;drop", "?sqlTableName=", "?x=y"):
        with pytest.raises(InvalidInputError):
            lance_core.dataset(uri + query, storage_options=options)


def test_dynamodb_manifest_store_supports_only_s3() -> None:
    with pytest.raises(UnsupportedSchemeError):
        open_log("gs+ddb://bucket/t?ddbTableName=x", None)


def test_sql_manifest_rows_are_reserved_and_finished(tmp_path: Path) -> None:
    rows = SqlManifests(f"sqlite:///{tmp_path}/m.db", "t", "s3")
    assert rows.latest("b/x") is None
    assert rows.reserve("b/x", ManifestRow(1, "_versions/1.manifest-a", 7))
    assert not rows.reserve("b/x", ManifestRow(1, "_versions/1.manifest-b", 8))
    assert rows.reserve("b/y", ManifestRow(1, "_versions/1.manifest-c", 9))
    assert rows.reserve("b/x", ManifestRow(10, "_versions/10.manifest", 1))
    rows.finish("b/x", ManifestRow(1, "_versions/1.manifest", 7))
    assert rows.find("b/x", 1) == ManifestRow(1, "_versions/1.manifest", 7)
    assert rows.find("b/x", 2) is None
    assert rows.latest("b/x") == ManifestRow(10, "_versions/10.manifest", 1)
    assert "m.db" in repr(rows)


@pytest.mark.slow
def test_append_with_object_store_faults_creates_at_most_one_version(tmp_path: Path) -> None:
    """Every call of an append fails once, before or after it takes effect."""
    options = {"sql_url": f"sqlite:///{tmp_path}/m.db"}

    def fresh(number: int) -> tuple[str, FaultyStore]:
        store = FaultyStore(MemoryStore())
        register_store("external", store)
        uri = f"memory+sql://external/t{number}"
        lance_core.write_dataset(ROWS, uri, storage_options=options)
        store.calls.clear()
        return uri, store

    try:
        uri, store = fresh(0)
        lance_core.write_dataset(ROWS, uri, mode="append", storage_options=options)
        calls = list(store.calls)
        assert [call.method for call in calls].count("put_if_absent") == 0
        for number, (call, when) in enumerate(((call, when) for call in calls for when in When), start=1):
            uri, store = fresh(number)
            store.fault = lambda made, call=call, when=when: when if made.index == call.index else None
            try:
                lance_core.write_dataset(ROWS, uri, mode="append", storage_options=options)
                made = True
            except StorageError:
                made = False
            store.fault = lambda made: None
            dataset = lance_core.dataset(uri, storage_options=options)
            assert (dataset.version, dataset.count_rows()) == ((2, 4) if made else (1, 2))
            assert lance_core.write_dataset(ROWS, uri, mode="append", storage_options=options).version == 2 + made
    finally:
        unregister_store("external")


def _race_for_rows(url: str, num_threads: int) -> None:
    """Let threads insert rows into a database without the table; exactly one thread may insert each version."""
    won: list[int] = []
    barrier = threading.Barrier(num_threads)

    def race(writer: int) -> None:
        rows = SqlManifests(url, "raced", "s3")
        for version in range(1, 11):
            barrier.wait(60)
            if rows.reserve("b/x", ManifestRow(version, f"_versions/{version}.manifest-{writer}", 1)):
                won.append(version)

    threads = [threading.Thread(target=race, args=[writer]) for writer in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(won) == list(range(1, 11))


def test_only_one_of_many_writers_inserts_a_manifest_row(tmp_path: Path) -> None:
    _race_for_rows(f"sqlite:///{tmp_path}/m.db", 4)


@pytest.mark.slow
def test_only_one_of_many_writers_inserts_a_manifest_row_in_postgresql() -> None:
    with postgres_server() as url:
        _race_for_rows(url, 8)
        with pytest.raises(AccessDeniedError) as raised:
            SqlManifests(url.replace(PASSWORD, "wrong-password"), "raced", "s3").latest("b/x")
        assert "wrong-password" not in str(raised.value)
