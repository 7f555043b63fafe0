"""Files that a cleanup must keep although they seem to be unreferenced."""

import os
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.cleanup.branches import Line
from lance_core.cleanup.guard import Guard
from lance_core.table.inner_bases import inner_directories

NOW = {"older_than": timedelta(0), "error_if_tagged_old_versions": False}


def _rows(num_rows: int) -> pa.Table:
    return pa.table({"a": pa.array(range(num_rows), pa.int64())})


def _age(root: Path) -> None:
    """Make every file eligible for removal if no version references it."""
    for directory, _, names in os.walk(root):
        for name in names:
            os.utime(os.path.join(directory, name), (1e9, 1e9))


@pytest.mark.parametrize("directory", ["data/hot", "_indices/hot", "_fri/hot", "_blobs", "data", "_deletions/x"])
@pytest.mark.parametrize("is_root", [False, True])
def test_a_cleanup_keeps_files_of_a_base_path_inside_the_table(tmp_path: Path, directory: str, is_root: bool) -> None:
    """The reference accepts such a base path, and its cleanup removes the files."""
    root = tmp_path / "t"
    base = lance.DatasetBasePath(str(root / directory), "h", is_dataset_root=is_root)
    lance.write_dataset(_rows(5), str(root), initial_bases=[base], target_bases=["h"])
    lance.write_dataset(_rows(3), str(root), mode="append", target_bases=["h"])
    lance_core.dataset(root).delete("a = 0")
    _age(root)
    assert lance_core.dataset(root).cleanup_old_versions(timedelta(0), 1).old_versions == 2
    for library in (lance_core, lance):
        assert library.dataset(str(root)).to_table().num_rows == 6


@pytest.mark.parametrize("directory", ["data/hot", "data", "_indices/x", "_fri", "_refs/x", "_versions"])
def test_a_base_path_inside_a_table_directory_is_refused_when_declared(tmp_path: Path, directory: str) -> None:
    root = tmp_path / "t"
    bases = [lance_core.DatasetBasePath(str(root / directory), "h")]
    with pytest.raises(lance_core.InvalidInputError, match="is inside a directory of the table at"):
        lance_core.write_dataset(_rows(5), root, initial_bases=bases, target_bases=["h"])
    assert not root.exists()
    dataset = lance_core.write_dataset(_rows(5), root)
    with pytest.raises(lance_core.InvalidInputError, match="is inside a directory of the table at"):
        dataset.add_bases(bases)
    dataset.add_bases([lance_core.DatasetBasePath(str(root / "of my own"), "h")])


def test_a_base_path_inside_a_directory_that_the_table_links_to_is_protected(tmp_path: Path) -> None:
    (tmp_path / "disk" / "hot").mkdir(parents=True)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "data").symlink_to(tmp_path / "disk")
    root = str(tmp_path / "t")
    assert inner_directories(root, [str(tmp_path / "disk" / "hot"), str(tmp_path / "else")]) == {"data/hot/"}
    assert inner_directories("bucket/t", ["s3a://bucket/t/data/x", "s3://other/t/data", "hdfs://x"]) == {"data/x/"}


@pytest.fixture
def detached(tmp_path: Path) -> tuple[Path, int]:
    """A table of two versions, and a detached version of 8 rows; all files are old."""
    root = str(tmp_path / "t")
    lance.write_dataset(_rows(3), root)
    lance.write_dataset(_rows(3), root, mode="append")
    append = lance.LanceOperation.Append(lance.fragment.write_fragments(_rows(2), root))
    made = lance.LanceDataset.commit(root, append, read_version=2, detached=True)
    return tmp_path / "t", made.version


def test_a_tag_protects_a_detached_version(detached: tuple[Path, int]) -> None:
    root, version = detached
    lance_core.dataset(root).tags.create("ours", version)
    assert lance.dataset(str(root)).tags.list()["ours"]["version"] == version
    _age(root)
    lance_core.dataset(root).cleanup_old_versions(**NOW)
    for library in (lance_core, lance):
        assert library.dataset(str(root), version="ours").to_table().num_rows == 8
    lance_core.dataset(root).tags.delete("ours")
    assert lance_core.dataset(root).cleanup_old_versions(**NOW).data_files_removed == 1


def test_a_branch_created_from_a_detached_version_protects_its_files(detached: tuple[Path, int]) -> None:
    root, version = detached
    lance.dataset(str(root), version=version).create_branch("db")
    _age(root)
    lance_core.dataset(root).cleanup_old_versions(**NOW)
    for library in (lance_core, lance):
        assert library.dataset(str(root)).checkout_version(("db", version)).to_table().num_rows == 8


def test_a_tag_on_a_detached_version_of_a_branch_protects_files_of_the_main_branch(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    lance.write_dataset(_rows(3), root).create_branch("b")
    branch = f"{root}/tree/b"
    append = lance.LanceOperation.Append(lance.fragment.write_fragments(_rows(2), branch))
    version = lance.LanceDataset.commit(branch, append, read_version=1, detached=True).version
    lance.dataset(root).tags.create("dt", ("b", version))
    # The branch stops using the file of the main branch, and its earlier versions are removed.
    lance.write_dataset(_rows(1), branch, mode="overwrite")
    lance.dataset(branch).cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    lance.write_dataset(_rows(4), root, mode="overwrite")
    _age(tmp_path / "t")
    lance_core.dataset(root).cleanup_old_versions(**NOW)
    assert lance_core.dataset(root, version="dt").to_table().num_rows == 5


def test_a_tag_created_during_a_cleanup_keeps_its_detached_version(detached: tuple[Path, int]) -> None:
    root, version = detached
    dataset = lance_core.dataset(root)
    guard = Guard(Line.of(dataset.log, ""), known={1, 2}, removed=(), branch_manifests=(), planned_at=0.0)
    guard.look()
    assert guard.spared_owners == set()
    dataset.tags.create("late", version)
    guard.look()
    files = dataset.checkout_version(version).manifest.message.fragments[-1].files
    assert f"data/{files[0].path}" in guard.spared_owners
    assert guard.damaged_versions == set()


def test_a_tag_created_after_the_removal_of_its_version_is_reported_as_damaged(detached: tuple[Path, int]) -> None:
    root, version = detached
    dataset = lance_core.dataset(root)
    files = dataset.checkout_version(version).manifest.message.fragments[-1].files
    guard = Guard(Line.of(dataset.log, ""), known={1, 2}, removed=(), branch_manifests=(), planned_at=0.0)
    guard.record_gone(f"data/{files[0].path}")
    dataset.tags.create("late", version)
    guard.look()
    assert guard.damaged_versions == {version}


def test_a_version_with_missing_files_is_not_restored(tmp_path: Path) -> None:
    root = tmp_path / "t"
    first = lance_core.write_dataset(_rows(3), root)
    lance_core.dataset(root).delete("a = 1")
    deleted = lance_core.dataset(root)
    lance_core.write_dataset(_rows(4), root, mode="overwrite")
    first.restore()
    next((root / "_deletions").iterdir()).unlink()
    with pytest.raises(lance_core.NotFoundError, match="version 2 cannot be restored"):
        deleted.restore()
    data = first.get_fragment(0).data_files()[0].path
    (root / "data" / data).unlink()
    with pytest.raises(lance_core.NotFoundError, match="version 1 cannot be restored"):
        lance_core.dataset(root, version=1).restore()
    assert lance_core.dataset(root).version == 4
