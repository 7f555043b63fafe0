"""A store that ignores conditional writes, used by both implementations under one commit lock."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from tests.support.fault_proxy import fault_proxy
from tests.support.s3_servers import S3Server, moto_server, rclone_server

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
MUTEX = threading.Lock()


@pytest.fixture(scope="module")
def careless() -> Iterator[S3Server]:
    """A server that ignores the condition of every request."""
    with moto_server() as server, fault_proxy(server.endpoint) as proxy:
        proxy.drops_conditions = True
        yield S3Server(proxy.endpoint, server.bucket)


@contextlib.contextmanager
def lock(version: int) -> Iterator[None]:
    with MUTEX:
        yield


def _refused(server: S3Server) -> None:
    uri, options = server.uri(), server.options()
    with pytest.raises(lance_core.UnsafeStoreError, match="commit_lock"):
        lance_core.write_dataset(ROWS, uri, storage_options=options)
    assert server.keys(uri) == []
    lance_core.write_dataset(ROWS, uri, storage_options=options, commit_lock=lock)
    with pytest.raises(lance_core.UnsafeStoreError):
        lance_core.dataset(uri, storage_options=options).delete("a = 1")
    before = server.keys(uri)
    unlocked = lance_core.dataset(uri, storage_options=options)
    for refused in (
        lambda: unlocked.create_branch("b"),
        lambda: unlocked.tags.create("t"),
        lambda: unlocked.shallow_clone(server.uri("clone"), None),
        lambda: unlocked.deep_clone(server.uri("clone"), None),
    ):
        with pytest.raises(lance_core.UnsafeStoreError):
            refused()
    assert (server.keys(uri), server.keys(server.uri("clone"))) == (before, [])
    locked = lance_core.dataset(uri, storage_options=options, commit_lock=lock)
    locked.delete("a = 1")
    _tags_and_branches_work(locked, uri, options)
    assert lance_core.dataset(uri, storage_options=options).to_table()["a"].to_pylist() == [2, 3]


@pytest.mark.slow
def test_a_store_without_atomic_create_requires_a_commit_lock(careless: S3Server) -> None:
    _refused(careless)


def _tags_and_branches_work(dataset: lance_core.LanceDataset, uri: str, options: dict[str, str]) -> None:
    dataset.tags.create("t", 1)
    with pytest.raises(lance_core.RefAlreadyExistsError):
        dataset.tags.create("t", 1)
    branch = dataset.create_branch("b/c", 1)
    with pytest.raises(lance_core.RefAlreadyExistsError):
        dataset.create_branch("b/c", 1)
    assert branch.count_rows() == lance_core.dataset(uri, "t", storage_options=options).count_rows() == 3
    plain = "s3://" + uri.partition("://")[2]
    theirs = lance.dataset(plain, storage_options=options)
    assert theirs.checkout_version(("b/c", None)).to_table().num_rows == 3
    dataset.branches.delete("b/c")


def _works_with_an_external_store(server: S3Server, directory: Path) -> None:
    uri = server.uri(scheme="s3+sql")
    options = server.options(sql_url=f"sqlite:///{directory}/m.db")
    lance_core.write_dataset(ROWS, uri, storage_options=options)
    assert lance_core.write_dataset(ROWS, uri, mode="append", storage_options=options).version == 2
    assert lance_core.dataset(uri, storage_options=options).delete("a = 1") is not None
    dataset = lance_core.dataset(uri, storage_options=options)
    assert dataset.count_rows() == 4
    _tags_and_branches_work(dataset, uri, options)


@pytest.mark.slow
def test_store_without_atomic_create_works_with_an_external_manifest_store(careless: S3Server, tmp_path: Path) -> None:
    _works_with_an_external_store(careless, tmp_path)


@pytest.mark.slow
def test_appends_of_lance_core_and_pylance_under_one_commit_lock_keep_every_row(careless: S3Server) -> None:
    uri, options = careless.uri(), careless.options()
    lance_core.write_dataset(ROWS, uri, storage_options=options, commit_lock=lock)
    made: list[int] = []

    def append(library: object) -> None:
        for _ in range(4):
            dataset = library.write_dataset(ROWS, uri, mode="append", storage_options=options, commit_lock=lock)
            made.append(dataset.version)

    threads = [threading.Thread(target=append, args=[library]) for library in (lance_core, lance, lance_core)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(made) == list(range(2, 14))
    assert lance_core.dataset(uri, storage_options=options).count_rows() == 39


@pytest.mark.slow
def test_an_rclone_server_is_refused_without_an_external_manifest_store(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with rclone_server(tmp_path_factory.mktemp("rclone")) as server:
        _refused(server)
        _works_with_an_external_store(server, tmp_path_factory.mktemp("sql"))
