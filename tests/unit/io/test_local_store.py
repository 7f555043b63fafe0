"""Files in the local file system: invalid names, links, and errors of the operating system."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptDataError, InvalidInputError, NotFoundError, StorageError
from lance_core.io import local_store
from lance_core.io.byte_range import ByteRange
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import ObjectStore, PutOutcome
from tests.support.descriptors import descriptors_left_by

STORE = LocalStore()

CALLS = {
    "head": STORE.head,
    "get": STORE.get,
    "get_ranges": lambda path: STORE.get_ranges(path, []),
    "get_tail": lambda path: STORE.get_tail(path, 1),
    "put": lambda path: STORE.put(path, b"x"),
    "put_if_absent": lambda path: STORE.put_if_absent(path, b"x"),
    "create": STORE.create,
    "delete": STORE.delete,
    "remove_empty_directory": STORE.remove_empty_directory,
    "remove_directory": STORE.remove_directory,
    "list": lambda path: list(STORE.list(path)),
    "list_names": lambda path: list(STORE.list_names(path)),
    "list_recursive": lambda path: list(STORE.list_recursive(path)),
}


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_impossible_file_names_raise_invalid_input(tmp_path: Path, call: Callable[[str], object], name: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot"):
        call(f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("uri", ["/a\0b", "~a\0b", "file:///a%00b", "memory://a\0b"])
def test_location_with_a_nul_character_raises_invalid_input(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="must not contain a NUL"):
        lance_core.dataset(uri)


@pytest.mark.parametrize("call", ["put", "put_if_absent", "create"])
def test_writing_in_a_directory_where_no_file_can_be_created_raises_storage_error(call: str) -> None:
    # In /proc, the creation of any file fails with "no such file".
    with pytest.raises(StorageError, match=r"cannot create /proc/table/x: No such file") as caught:
        CALLS[call]("/proc/table/x")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, "/proc/table/x")


def test_storage_error_keeps_the_errno_if_a_file_exists_where_a_directory_is_expected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as caught:
        STORE.put(f"{tmp_path}/file/x", b"")
    assert caught.value.errno in (errno.ENOTDIR, errno.EEXIST)


@pytest.mark.parametrize("call", ["head", "get", "get_ranges", "get_tail"])
def test_missing_files_are_named_in_not_found_errors(tmp_path: Path, call: str) -> None:
    with pytest.raises(NotFoundError, match="does not exist") as caught:
        CALLS[call](f"{tmp_path}/x")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, f"{tmp_path}/x")


@pytest.mark.parametrize("store", [STORE, MemoryStore()], ids=["local", "memory"])
def test_get_tail_also_returns_the_size_of_the_object(tmp_path: Path, store: ObjectStore) -> None:
    path = f"{tmp_path}/x"
    for content in (b"", b"0123456789", bytes(300_000)):
        store.put(path, content)
        for max_bytes in (1, 10, 11, 200_000):
            tail, num_bytes = store.get_tail(path, max_bytes)
            assert (tail.to_pybytes(), num_bytes) == (content[-max_bytes:], len(content))


def test_links_to_files_are_listed_as_files(tmp_path: Path) -> None:
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir()
    (here / "below").mkdir(parents=True)
    (elsewhere / "x").write_bytes(b"12345")
    (here / "linked").symlink_to(elsewhere / "x")
    (here / "below" / "linked").symlink_to(elsewhere / "x")
    (here / "dangling").symlink_to(elsewhere / "gone")
    (here / "circle").symlink_to(here / "circle")
    (here / "up").symlink_to(here)
    assert list(STORE.list_names(str(here))) == ["linked"]
    assert [(info.path, info.num_bytes) for info in STORE.list(str(here))] == [(f"{here}/linked", 5)]
    assert {info.path for info in STORE.list_recursive(str(here))} == {f"{here}/linked", f"{here}/below/linked"}


def test_table_of_links_to_another_table_can_be_read_and_appended_to(tmp_path: Path) -> None:
    table, farm = tmp_path / "table", tmp_path / "farm"
    rows = pa.table({"a": [1, 2, 3]})
    lance_core.write_dataset(rows, table)
    for file in [path for path in table.rglob("*") if path.is_file()]:
        link = farm / file.relative_to(table)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    assert lance_core.dataset(farm).to_table().equals(rows)
    assert lance_core.write_dataset(rows, farm, mode="append").count_rows() == 6
    assert lance_core.dataset(table).version == 1


def test_remove_empty_directory_removes_only_empty_directories(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"x")
    for path in ("a", "absent", "file", "file/x"):
        STORE.remove_empty_directory(f"{tmp_path}/{path}")
    assert (tmp_path / "a" / "b").is_dir()
    assert (tmp_path / "file").is_file()
    STORE.remove_empty_directory(f"{tmp_path}/a/b")
    STORE.remove_empty_directory(f"{tmp_path}/a")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("store", [STORE, MemoryStore()], ids=["local", "memory"])
def test_stream_position_is_the_number_of_bytes_written(tmp_path: Path, store: ObjectStore) -> None:
    with store.create(f"{tmp_path}/x") as stream:
        assert stream.position == 0
        stream.write(b"123")
        stream.write(memoryview(b"45"))
        assert stream.position == 5
        stream.commit()
    assert bytes(store.get(f"{tmp_path}/x")) == b"12345"


def test_temporary_file_names_do_not_end_in_json(tmp_path: Path) -> None:
    with STORE.create(f"{tmp_path}/x.json"):
        [temporary] = tmp_path.iterdir()
        assert temporary.name.startswith(".tmp")
        assert not temporary.name.endswith(".json")


def _refused(store_call: Callable[[str], object], path: str) -> None:
    with pytest.raises((StorageError, NotFoundError)):
        store_call(path)


@pytest.mark.slow
def test_local_store_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "in the way" / "x").mkdir(parents=True)
    (tmp_path / "short").write_bytes(b"1")
    numbers = iter(range(1000))

    def use_every_verb() -> None:
        path = f"{tmp_path}/new {next(numbers)}/x"
        assert STORE.put_if_absent(path, b"1") is PutOutcome.CREATED
        assert STORE.put_if_absent(path, b"2") is PutOutcome.EXISTS
        STORE.put(path, b"3" * 300_000)
        assert STORE.get(path).size == STORE.head(path).num_bytes == 300_000
        assert STORE.get_ranges(path, [ByteRange(1, 300_000)])[0].size == 299_999
        with STORE.create(path) as stream:
            stream.write(b"never committed")
        for listing in (STORE.list, STORE.list_names, STORE.list_recursive):
            assert list(listing(str(Path(path).parent)))
        STORE.delete(path)
        STORE.remove_empty_directory(str(Path(path).parent))

    def fail_with_every_verb() -> None:
        for name in ("get", "get_ranges", "head"):
            _refused(CALLS[name], f"{tmp_path}/absent")
        for name in ("put", "delete"):
            _refused(CALLS[name], f"{tmp_path}/in the way")
        with pytest.raises(CorruptDataError):
            STORE.get_ranges(f"{tmp_path}/short", [ByteRange(0, 2)])

    for act in (use_every_verb, fail_with_every_verb):
        assert descriptors_left_by(act) == set()


@pytest.mark.slow
def test_write_to_a_full_disk_leaves_no_file_and_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: object = b"") -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def write() -> None:
        for call in ("put", "put_if_absent"):
            _refused(CALLS[call], f"{tmp_path}/x")

    for name in ("write", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            assert descriptors_left_by(write) == set()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [10, 300])
def test_listing_finds_a_file_created_during_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    for number in range(size):
        (tmp_path / f"{number}").touch()
    os.utime(tmp_path, (1_600_000_000, 1_600_000_000))
    in_steps = _scandir_in_steps(lambda: ((tmp_path / "new").touch(), (tmp_path / "0").unlink()))
    monkeypatch.setattr(local_store.os, "scandir", in_steps)
    # A signal may end a step early, so that small steps are permitted.
    assert "new" in STORE.list_names(str(tmp_path))
    assert sorted(STORE.list_names(str(tmp_path))) == sorted(os.listdir(tmp_path))


def test_unchanged_directory_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        (tmp_path / f"{number}").touch()
    listings: list[str] = []
    real = os.scandir
    monkeypatch.setattr(local_store.os, "scandir", lambda path: (listings.append(path), real(path))[1])
    long_ago = 1_600_000_000
    os.utime(tmp_path, (long_ago, long_ago))
    assert len(set(STORE.list_names(str(tmp_path)))) == len(list(STORE.list_names(str(tmp_path)))) == 300
    assert len(listings) == 2


def _scandir_in_steps(act: Callable[[], object]) -> Callable[[str], object]:
    """Replace ``os.scandir`` so that its first call misses files created and files removed while it runs."""
    real = os.scandir
    is_first = True

    @contextmanager
    def scandir(path: str) -> Iterator[list[os.DirEntry[str]]]:
        nonlocal is_first
        before = {entry.name for entry in real(path)}
        if is_first:
            is_first = False
            act()
        yield [entry for entry in real(path) if entry.name in before]

    return scandir
