"""Which files are made durable, and when, as recorded from the system calls of a local store."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import StorageError
from lance_core.io.local_store import LocalStore
from lance_core.write import fragment_writer


class Calls:
    """Records syncs with their paths, and the creation and removal of names, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, str]] = []
        fsync, link, rename, unlink = os.fsync, os.link, os.rename, os.unlink

        def record_fsync(descriptor: int) -> None:
            fsync(descriptor)
            self.seen.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))

        def record_link(source: str, target: str) -> None:
            link(source, target)
            self.seen.append(("name", target))

        def record_rename(source: str, target: str) -> None:
            rename(source, target)
            self.seen.append(("name", target))

        def record_unlink(path: str) -> None:
            unlink(path)
            self.seen.append(("unlink", os.fspath(path)))

        monkeypatch.setattr(os, "fsync", record_fsync)
        monkeypatch.setattr(os, "link", record_link)
        monkeypatch.setattr(os, "rename", record_rename)
        monkeypatch.setattr(os, "unlink", record_unlink)

    def synced_before(self, call: tuple[str, str]) -> set[str]:
        return {path for verb, path in self.seen[: self.seen.index(call)] if verb == "fsync"}

    def synced(self) -> set[str]:
        return {path for verb, path in self.seen if verb == "fsync"}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def test_put_syncs_the_content_before_it_names_the_file_and_the_directory_afterward(
    calls: Calls, tmp_path: Path
) -> None:
    LocalStore().put(f"{tmp_path}/a", b"x")
    here = [(verb, path.removeprefix(str(tmp_path))[:5]) for verb, path in calls.seen if path.startswith(str(tmp_path))]
    assert here == [("fsync", "/.tmp"), ("name", "/a"), ("fsync", "")]


def test_put_without_durability_syncs_nothing(calls: Calls, tmp_path: Path) -> None:
    LocalStore().put(f"{tmp_path}/a", b"x", durable=False)
    assert calls.synced() == set()
    assert (tmp_path / "a").read_bytes() == b"x"


def test_delete_is_durable_unless_disabled(calls: Calls, tmp_path: Path) -> None:
    for name, durable in (("a", False), ("b", True)):
        (tmp_path / name).write_bytes(b"x")
        LocalStore().delete(f"{tmp_path}/{name}", durable=durable)
        assert calls.synced() == ({str(tmp_path)} if durable else set())


@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_dependencies_of_an_object_are_durable_before_it_appears(calls: Calls, tmp_path: Path, verb: str) -> None:
    store = LocalStore()
    others = [f"{tmp_path}/one/a", f"{tmp_path}/one/b", f"{tmp_path}/two/c"]
    for directory in ("one", "two"):
        (tmp_path / directory).mkdir()
    for other in others:
        store.put(other, b"x", durable=False)
    assert calls.synced() == set()
    getattr(store, verb)(f"{tmp_path}/final", b"x", depends_on=others)
    before = calls.synced_before(("name", f"{tmp_path}/final"))
    assert {*others, f"{tmp_path}/one", f"{tmp_path}/two"} < before
    assert len(before) == 6
    assert str(tmp_path) in calls.synced()


@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_object_that_depends_on_a_missing_object_is_not_created(tmp_path: Path, verb: str) -> None:
    with pytest.raises(StorageError) as raised:
        getattr(LocalStore(), verb)(f"{tmp_path}/final", b"x", depends_on=[f"{tmp_path}/absent"])
    assert raised.value.context["errno"] == errno.ENOENT
    assert list(tmp_path.iterdir()) == []


def test_version_appears_after_all_files_it_references_are_durable(calls: Calls, tmp_path: Path) -> None:
    """This includes the deletion file of a delete that was merged with another delete."""
    uri = str(tmp_path / "t")
    lance_core.write_dataset(pa.table({"id": range(10)}), uri)
    stale = lance_core.dataset(uri)
    lance_core.dataset(uri).delete("id = 3")
    calls.seen.clear()
    stale.delete("id = 5")
    lance_core.write_dataset(pa.table({"id": range(10)}), uri, mode="append")
    for version in (3, 4):
        log = lance_core.dataset(uri).log
        [name] = [each for each in log.newer_than(0) if each.version == version]
        named = {f"{uri}/{file}" for file in _named(log.read(name))}
        before = calls.synced_before(("name", log.path(name)))
        assert named - before - {f"{uri}/data/{file.path}" for file in _old_files(log, version)} == set()
        assert f"{uri}/{'_deletions' if version == 3 else 'data'}" in before
        assert f"{log.path(name)}#1" in before
    assert f"{uri}/_versions" in calls.synced()
    assert not [path for path in calls.synced() if path.endswith((".txn", ".json", "_transactions"))]


@pytest.mark.parametrize("change", ["append", "add columns"])
def test_files_of_a_change_are_synced_once_and_together_with_its_manifest(
    calls: Calls, tmp_path: Path, change: str
) -> None:
    uri = str(tmp_path / "t")
    dataset = lance_core.write_dataset(pa.table({"id": range(12)}), uri, max_rows_per_file=4)
    calls.seen.clear()
    if change == "append":
        dataset.insert(pa.table({"id": range(12)}), max_rows_per_file=4)
    else:
        dataset.add_columns({"twice": "id * 2"})
    synced = [path for verb, path in calls.seen if verb == "fsync"]
    assert len(synced) == len(set(synced)) == 3 + 1 + 1 + 1
    assert len([path for path in synced if path.endswith(".lance")]) == 3
    renamed = [("name", path) for path in synced if path.endswith(".lance")]
    # Each file had its name before the first sync.
    assert all(call in calls.seen[: calls.seen.index(("fsync", synced[0]))] for call in renamed)


def test_files_of_write_fragments_are_durable_without_a_commit(calls: Calls, tmp_path: Path) -> None:
    [fragment] = lance_core.write_fragments(pa.table({"id": [1]}), str(tmp_path / "t"))
    [written] = [path for path in calls.synced() if path.endswith(".lance")]
    assert written.rpartition("-")[2] == fragment.files[0].path
    assert f"{tmp_path}/t/data" in calls.synced()


def test_files_in_another_base_are_durable_before_the_commit(calls: Calls, tmp_path: Path) -> None:
    base = lance_core.DatasetBasePath(str(tmp_path / "b"), name="b")
    rows = pa.table({"id": [1]})
    lance_core.write_dataset(rows, str(tmp_path / "t"), initial_bases=[base], target_bases=["b"])
    [written] = [path for path in calls.synced() if path.endswith(".lance")]
    assert written.startswith(f"{tmp_path}/b/")
    assert "/.tmp" in written


def test_a_large_file_is_durable_before_the_commit(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragment_writer, "_LARGE_BYTES", 10)
    lance_core.write_dataset(pa.table({"id": range(100)}), str(tmp_path / "t"))
    assert [path for path in calls.synced() if "/.tmp" in path and path.endswith(".lance")]


def _named(manifest: object) -> list[str]:
    named = []
    for fragment in manifest.fragments:
        named += [f"data/{file.path}" for file in fragment.message.files]
        if fragment.deletion_file is not None:
            named.append(f"_deletions/{fragment.deletion_file.name(fragment.id)}")
    return named


def _old_files(log: object, version: int) -> list[object]:
    names = [each for each in log.newer_than(0) if each.version < version]
    return [file for name in names for fragment in log.read(name).fragments for file in fragment.message.files]
