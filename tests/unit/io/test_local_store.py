"""Files of the local file system: names that cannot be, links, and what the operating system refuses."""

import errno
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, NotFoundError, StorageError
from lance_core.io.local_store import LocalStore

STORE = LocalStore()

CALLS = {
    "head": STORE.head,
    "get": STORE.get,
    "get_ranges": lambda path: STORE.get_ranges(path, []),
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
def test_names_that_no_file_can_have(tmp_path: Path, call: Callable[[str], object], name: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot"):
        call(f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("uri", ["/a\0b", "~a\0b", "file:///a%00b", "memory://a\0b"])
def test_locations_with_a_nul(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="has a NUL"):
        lance_core.dataset(uri)


@pytest.mark.parametrize("call", ["put", "put_if_absent", "create"])
def test_a_place_where_nothing_can_be_made_is_a_storage_error(call: str) -> None:
    # /proc answers "no such file" to every creation.
    with pytest.raises(StorageError, match=r"cannot create /proc/table/x: No such file") as caught:
        CALLS[call]("/proc/table/x")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, "/proc/table/x")


def test_a_directory_in_the_way_keeps_its_number(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as caught:
        STORE.put(f"{tmp_path}/file/x", b"")
    assert caught.value.errno in (errno.ENOTDIR, errno.EEXIST)


@pytest.mark.parametrize("call", ["head", "get", "get_ranges"])
def test_missing_files_are_named(tmp_path: Path, call: str) -> None:
    with pytest.raises(NotFoundError, match="does not exist") as caught:
        CALLS[call](f"{tmp_path}/x")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, f"{tmp_path}/x")


def test_links_to_files_are_listed_as_the_files(tmp_path: Path) -> None:
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


def test_a_farm_of_links_to_a_table_is_a_table(tmp_path: Path) -> None:
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


def test_only_empty_directories_are_removed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"x")
    for path in ("a", "absent", "file", "file/x"):
        STORE.remove_empty_directory(f"{tmp_path}/{path}")
    assert (tmp_path / "a" / "b").is_dir()
    assert (tmp_path / "file").is_file()
    STORE.remove_empty_directory(f"{tmp_path}/a/b")
    STORE.remove_empty_directory(f"{tmp_path}/a")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_temporary_files_of_json_files_do_not_end_like_them(tmp_path: Path) -> None:
    with STORE.create(f"{tmp_path}/x.json"):
        [temporary] = tmp_path.iterdir()
        assert temporary.name.startswith(".tmp")
        assert not temporary.name.endswith(".json")
