"""Sessions of datasets, and the open data files that they keep."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceDataset, Session
from lance_core.errors import InvalidInputError, InvalidTypeError, NotFoundError
from lance_core.file.file_bytes import FileBytes
from lance_core.io.memory_store import MemoryStore
from lance_core.io.s3_store import open_s3_store
from lance_core.io.uri import register_store, unregister_store
from lance_core.table.row_id_index import RowIdIndex
from tests.support.counting_store import CountingStore

ROWS = pa.table({"a": range(60_000), "text": [f"row {row}" for row in range(60_000)]})
URI = "memory://sessions/t.lance"


@pytest.fixture
def store() -> Iterator[CountingStore]:
    counting = CountingStore(MemoryStore())
    register_store("sessions", counting)
    lance_core.write_dataset(ROWS, URI, max_rows_per_file=20_000)
    yield counting
    unregister_store("sessions")


def _footer_reads(store: CountingStore, dataset: LanceDataset) -> int:
    """Scan the dataset, and return the number of reads that reached the end of a data file."""
    sizes = {file.file_size_bytes for fragment in dataset.get_fragments() for file in fragment.metadata.files}
    store.reset()
    assert dataset.to_table().equals(ROWS)
    return sum(any(extent.stop in sizes for extent in ranges) for ranges in store.reads)


def test_second_scan_with_the_same_handle_reads_no_footer(store: CountingStore) -> None:
    dataset = lance_core.dataset(URI)
    assert [_footer_reads(store, dataset) for _ in range(2)] == [3, 0]


def test_reopened_dataset_with_the_same_session_reads_no_footer(store: CountingStore) -> None:
    session = Session()
    assert _footer_reads(store, lance_core.dataset(URI, session=session)) == 3
    assert _footer_reads(store, lance_core.dataset(URI, session=session)) == 0
    assert _footer_reads(store, lance_core.dataset(URI)) == 3


def test_versions_and_branches_of_a_handle_share_its_session(store: CountingStore) -> None:
    dataset = lance_core.dataset(URI)
    session = dataset.session()
    dataset.tags.create("first", 1)
    assert all(
        other.session().is_same_as(session)
        for other in (dataset.checkout_version(1), dataset.checkout_version("first"), dataset.create_branch("b"))
    )
    dataset.delete("a < 10")
    assert dataset.session() is session
    assert lance_core.write_dataset(ROWS, dataset, mode="append").session() is session


def test_session_stays_within_its_budget_and_caches_nothing_if_the_budget_is_zero(store: CountingStore) -> None:
    small = Session(metadata_cache_size_bytes=20_000)
    for _ in range(2):
        lance_core.dataset(URI, session=small).to_table()
        lance_core.dataset(URI, session=small).take([1, 30_000, 59_999])
    assert 0 < small.size_bytes() <= 20_000
    nothing = lance_core.dataset(URI, metadata_cache_size_bytes=0)
    assert [_footer_reads(store, nothing) for _ in range(2)] == [3, 3]
    assert nothing.session().size_bytes() == 0


def test_a_second_take_with_the_same_session_sends_fewer_requests(store: CountingStore) -> None:
    session = Session()
    lance_core.dataset(URI, session=session).take([5, 50_000])
    store.reset()
    assert lance_core.dataset(URI, session=session).take([5, 50_000])["a"].to_pylist() == [5, 50_000]
    after = sum(len(ranges) for ranges in store.reads)
    store.reset()
    lance_core.dataset(URI).take([5, 50_000])
    assert after < sum(len(ranges) for ranges in store.reads)


def test_deletion_file_is_read_once_per_session(store: CountingStore) -> None:
    session = Session()
    lance_core.dataset(URI).delete("a % 10 = 3")
    for expected in (1, 0):
        dataset = lance_core.dataset(URI, session=session)
        store.reset()
        assert dataset.take([3])["a"].to_pylist() == [4]
        assert sum(call.path.endswith((".arrow", ".bin")) for call in store.calls) == expected


def _create_again(store: CountingStore, first: int = 0) -> None:
    """Replace the table with a table with stable row ids and deleted rows."""
    for info in list(store.list_recursive("t.lance")):
        store.delete(info.path)
    rows = pa.table({"a": range(first, first + 3_000)})
    lance_core.write_dataset(rows, URI, enable_stable_row_ids=True, max_rows_per_file=1_000).delete("a % 10 = 3")


def test_row_id_index_and_deletion_files_are_read_once_for_all_handles(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    original = RowIdIndex.__init__

    def note(index: RowIdIndex, *arguments: Any) -> None:
        built.append(index)
        original(index, *arguments)

    monkeypatch.setattr(RowIdIndex, "__init__", note)
    _create_again(store)
    session = Session()
    for _ in range(3):
        dataset = lance_core.dataset(URI, session=session)
        store.reset()
        first = dataset.to_table(columns=["a"], with_row_id=True)["_rowid"][0].as_py()
        assert dataset._take_rows([first])["a"].to_pylist() == [0]
    [index] = built
    assert not any(call.path.endswith((".arrow", ".bin")) for call in store.calls)
    assert index.num_bytes < session.size_bytes()


def test_recreated_table_has_a_new_row_id_index(store: CountingStore) -> None:
    session = Session()
    for first in (0, 50_000):
        _create_again(store, first)
        dataset = lance_core.dataset(URI, session=session)
        assert dataset.version == 2
        ids = dataset.to_table(columns=["a"], with_row_id=True).slice(1_500, 1)
        assert dataset._take_rows(ids["_rowid"].to_pylist())["a"].to_pylist() == ids["a"].to_pylist()


def test_row_ids_are_found_without_a_cache(store: CountingStore) -> None:
    _create_again(store)
    dataset = lance_core.dataset(URI, metadata_cache_size_bytes=0)
    ids = dataset.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
    assert dataset._take_rows(ids[:5])["a"].to_pylist() == [0, 1, 2, 4, 5]
    assert dataset._take_rows(ids[-1:])["a"].to_pylist() == [2_999]
    assert dataset.session().size_bytes() == 0


def test_session_caches_of_two_stores_with_the_same_paths_are_separate(store: CountingStore) -> None:
    """Another table has files with the same names and sizes."""
    session = Session()
    assert lance_core.dataset(URI, session=session).to_table().equals(ROWS)
    other = MemoryStore()
    for info in list(store.list_recursive("t.lance")):
        other.put(info.path, store.get(info.path))
    [first, *_] = other.list_recursive("t.lance/data")
    other.delete(first.path)
    register_store("sessions", other)
    with pytest.raises(NotFoundError):
        lance_core.dataset(URI, session=session).to_table()


def test_cached_local_files_are_shared_by_handles_and_keep_no_descriptor_or_mapping_open(tmp_path: Path) -> None:
    uri, session = tmp_path / "t.lance", Session()
    lance_core.write_dataset(ROWS, uri, max_rows_per_file=5_000)
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        dataset = lance_core.dataset(uri, session=session)
        assert dataset.to_table().equals(ROWS)
        assert dataset.take([3, 59_999])["a"].to_pylist() == [3, 59_999]
    assert session.size_bytes() > 0
    del dataset
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert str(uri) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_scan_after_data_files_were_removed_fails_with_and_without_cached_files(version: str, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lance_core.write_dataset(ROWS.slice(0, 10), uri, data_storage_version=version)
    dataset = lance_core.dataset(uri)
    dataset.to_table()
    for file in (uri / "data").iterdir():
        file.unlink()
    for handle in (dataset, lance_core.dataset(uri)):
        with pytest.raises(NotFoundError):
            handle.to_table()


def test_dropped_and_recreated_dataset_is_read_with_the_old_session(tmp_path: Path) -> None:
    uri, session = tmp_path / "t.lance", Session()
    lance_core.write_dataset(ROWS, uri)
    lance_core.dataset(uri, session=session).to_table()
    LanceDataset.drop(uri)
    lance_core.write_dataset(ROWS.slice(7), uri)
    assert lance_core.dataset(uri, session=session).to_table().equals(ROWS.slice(7))


def test_validation_opens_files_again_although_they_are_cached(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lance_core.write_dataset(ROWS, uri)
    dataset = lance_core.dataset(uri)
    dataset.to_table()
    [file] = (uri / "data").iterdir()
    file.unlink()
    with pytest.raises(NotFoundError):
        dataset.validate()


def test_unpickled_session_and_dataset_have_empty_sessions(store: CountingStore) -> None:
    dataset = lance_core.dataset(URI, metadata_cache_size_bytes=1 << 20)
    dataset.to_table()
    copy = pickle.loads(pickle.dumps(dataset.session()))
    assert (copy.size_bytes(), copy.max_bytes) == (0, 1 << 20)
    assert not copy.is_same_as(dataset.session())
    assert pickle.loads(pickle.dumps(dataset)).session().size_bytes() == 0


@pytest.mark.parametrize("branch", ["main", "side"])
def test_unpickled_dataset_keeps_the_size_limit_of_its_session(store: CountingStore, branch: str) -> None:
    dataset = lance_core.dataset(URI, session=Session(metadata_cache_size_bytes=0))
    dataset.create_branch("side")
    shown = dataset.checkout_version((branch, None))
    assert (shown.view.line is None) == (branch == "main")
    assert pickle.loads(pickle.dumps(shown)).session().max_bytes == 0


def test_forked_process_can_read_with_the_session_of_its_parent(tmp_path: Path) -> None:
    uri, session = tmp_path / "t.lance", Session()
    lance_core.write_dataset(ROWS.slice(0, 100), uri)
    lance_core.dataset(uri, session=session).to_table()
    child = os.fork()
    if not child:
        os._exit(0 if lance_core.dataset(uri, session=session).to_table().num_rows == 100 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_identity_of_a_store_depends_on_its_credentials_and_does_not_show_them() -> None:
    options = {"access_key_id": "me", "secret_access_key": "hidden", "region": "r"}
    one, same = open_s3_store("b", options), open_s3_store("b", dict(options))
    other = open_s3_store("b", {**options, "secret_access_key": "hidden too"})
    assert one.identity == same.identity
    assert len({one.identity, other.identity, open_s3_store("c", options).identity}) == 3
    assert "hidden" not in repr(one.identity)


def test_scattered_reads_of_a_cached_file_map_the_file_only_temporarily(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lance_core.write_dataset(ROWS, uri)
    [file] = (uri / "data").iterdir()
    store = lance_core.dataset(uri).log.store
    assert FileBytes(store, str(file), keeps_mapping=False).scattered() is not None
    assert str(file) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("argument", ["index_cache_size_bytes", "metadata_cache_size_bytes"])
def test_session_with_a_negative_size_is_rejected(argument: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{argument} must be at least 0, found -1"):
        Session(**{argument: -1})


@pytest.mark.parametrize("size", [1.5, float("nan"), "1"])
@pytest.mark.parametrize("argument", ["index_cache_size_bytes", "metadata_cache_size_bytes"])
def test_session_with_a_size_that_is_not_a_whole_number_is_rejected(argument: str, size: object) -> None:
    with pytest.raises(InvalidTypeError, match=f"{argument} must be a whole number"):
        Session(**{argument: size})  # type: ignore[arg-type]  # the mistake is what is tested


def test_dataset_checks_the_size_limit_of_the_session_even_if_the_limit_has_no_effect(store: CountingStore) -> None:
    with pytest.raises(InvalidInputError, match="metadata_cache_size_bytes must be at least 0, found -5"):
        lance_core.dataset(URI, session=Session(), metadata_cache_size_bytes=-5)


def test_dataset_rejects_a_session_of_the_wrong_type(store: CountingStore) -> None:
    with pytest.raises(InvalidTypeError, match="session must be a Session, found int"):
        lance_core.dataset(URI, session=3)  # type: ignore[arg-type]  # the mistake is what is tested
