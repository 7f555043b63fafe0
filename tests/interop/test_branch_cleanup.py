"""Cleanup of branches, and of versions on which branches and clones are based."""

import json
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import lance_core
from lance_core.errors import InvalidCleanupError, NotFoundError, NotSupportedError
from tests.support.numbered_rows import numbered_rows

NOW = timedelta(0)
EACH = (lance, lance_core)


def _values(uri: str) -> list[int]:
    for reader in EACH:
        reader.dataset(uri).validate()
    ours, theirs = (sorted(reader.dataset(uri).to_table()["x"].to_pylist()) for reader in EACH)
    assert ours == theirs
    return ours


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A branch of four versions, each an overwrite, so that it no longer shares files with the main branch."""
    uri = str(tmp_path / "table")
    lance.write_dataset(numbered_rows(0, 10), uri)
    lance.dataset(uri).create_branch("a")
    for number in range(3):
        lance.write_dataset(numbered_rows(100 * number, 100 * number + 5), f"{uri}/tree/a", mode="overwrite")
    return uri


def _versions(uri: str) -> list[int]:
    return [each["version"] for each in lance_core.dataset(uri).versions()]


def _data_files(uri: str) -> int:
    return len(list((Path(uri) / "data").glob("*.lance")))


def test_a_branch_is_cleaned_up_through_its_handle(uri: str) -> None:
    branch = f"{uri}/tree/a"
    lance.dataset(branch).tags.create("kept", 2)
    with pytest.raises(InvalidCleanupError, match="kept"):
        lance_core.dataset(branch).cleanup_old_versions(NOW)
    stats = lance_core.dataset(branch).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert (stats.old_versions, stats.data_files_removed) == (2, 1)
    assert _versions(branch) == [2, 4]
    assert _data_files(branch) == 2
    assert _values(branch) == list(range(200, 205))
    assert _values(uri) == list(range(10))
    assert _data_files(uri) == 1


def test_a_tag_of_another_branch_protects_no_version(uri: str) -> None:
    lance.dataset(uri).tags.create("main", 1)
    assert lance_core.dataset(f"{uri}/tree/a").cleanup_old_versions(NOW).old_versions == 3


def test_a_branch_cleanup_keeps_versions_used_by_branches_created_from_the_branch(uri: str) -> None:
    branch = f"{uri}/tree/a"
    lance.dataset(branch).create_branch("b", 2)
    lance.dataset(uri).create_branch("sibling", 1)
    explained = lance_core.dataset(branch).explain_cleanup_old_versions(NOW)
    assert [(each.name, each.referenced_version) for each in explained.referenced_branches] == [("b", 2)]
    lance_core.dataset(branch).cleanup_old_versions(NOW, delete_unverified=True)
    assert _versions(branch) == [2, 4]
    assert _values(f"{uri}/tree/b") == list(range(5))
    assert _values(f"{uri}/tree/sibling") == list(range(10))
    # They are removed when the other branch no longer needs them.
    lance_core.dataset(f"{uri}/tree/b").delete("true")
    lance_core.dataset(f"{uri}/tree/b").cleanup_old_versions(NOW)
    lance_core.dataset(branch).cleanup_old_versions(NOW)
    assert _versions(branch) == [4]
    assert _data_files(branch) == 1


def test_a_branch_cleanup_keeps_branches_whose_names_begin_with_the_name_of_the_branch(uri: str) -> None:
    """The reference mistakes ``tree/a/data/data/….lance`` for a file of branch ``a``."""
    for name in ("a/data", "a/b/_indices"):
        lance.dataset(uri).create_branch(name)
        lance.write_dataset(numbered_rows(50, 55), f"{uri}/tree/{name}", mode="append")
    lance_core.dataset(f"{uri}/tree/a").cleanup_old_versions(NOW, delete_unverified=True)
    for name in ("a/data", "a/b/_indices"):
        assert _values(f"{uri}/tree/{name}") == [*range(10), *range(50, 55)]


def test_a_cleanup_of_the_main_branch_keeps_files_used_by_branches_of_branches(uri: str) -> None:
    lance.dataset(uri).create_branch("one", 1).create_branch("two").create_branch("three")
    lance_core.write_dataset(numbered_rows(0, 1), uri, mode="overwrite")
    lance_core.dataset(uri).branches.delete("three")
    lance_core.dataset(uri).cleanup_old_versions(NOW, delete_unverified=True)
    assert _values(f"{uri}/tree/two") == list(range(10))
    for name in ("two", "one", "a"):
        lance_core.dataset(uri).branches.delete(name)
    lance_core.dataset(uri).cleanup_old_versions(NOW, delete_unverified=True)
    assert _versions(uri) == [2]
    assert _data_files(uri) == 1


def test_a_cleanup_removes_files_that_only_shallow_clones_use(uri: str, tmp_path: Path) -> None:
    shallow, deep = str(tmp_path / "shallow"), str(tmp_path / "deep")
    lance_core.dataset(uri).shallow_clone(shallow, 1)
    lance_core.dataset(uri).deep_clone(deep, 1)
    lance_core.dataset(uri).branches.delete("a")
    lance_core.write_dataset(numbered_rows(0, 1), uri, mode="overwrite")
    lance_core.dataset(uri).cleanup_old_versions(NOW)
    with pytest.raises(NotFoundError):
        lance_core.dataset(shallow).to_table()
    assert _values(deep) == list(range(10))


def test_a_cleanup_of_a_clone_does_not_change_the_source(uri: str, tmp_path: Path) -> None:
    clone = str(tmp_path / "clone")
    lance_core.dataset(uri).shallow_clone(clone, 1)
    lance_core.write_dataset(numbered_rows(0, 1), clone, mode="overwrite")
    stats = lance_core.dataset(clone).cleanup_old_versions(NOW, delete_unverified=True)
    assert (stats.old_versions, stats.data_files_removed) == (1, 0)
    assert _values(uri) == list(range(10))


def test_a_branch_cleanup_keeps_files_in_other_base_paths(tmp_path: Path) -> None:
    uri, hot = str(tmp_path / "table"), tmp_path / "hot"
    base = lance_core.DatasetBasePath(str(hot), "hot")
    lance_core.write_dataset(numbered_rows(0, 3), uri, initial_bases=[base], target_bases=["hot"])
    lance_core.write_dataset(numbered_rows(0, 1), uri, mode="overwrite")
    lance_core.dataset(uri).cleanup_old_versions(NOW, delete_unverified=True)
    assert _versions(uri) == [2]
    assert len(list(hot.iterdir())) == 1


def test_a_branch_without_a_record_is_not_cleaned_up(uri: str) -> None:
    lance.dataset(uri).create_branch("other")
    (Path(uri) / "_refs/branches/a.json").unlink()
    with pytest.raises(NotSupportedError, match="is missing or does not contain"):
        lance_core.dataset(f"{uri}/tree/a").cleanup_old_versions(NOW)
    assert len(_versions(f"{uri}/tree/a")) == 4


@pytest.mark.parametrize(
    "document", [None, {"parentBranch": None, "parentVersion": 1, "createAt": 0, "manifestSize": 1}]
)
def test_the_main_branch_keeps_files_of_a_branch_whose_parent_is_not_recorded(
    tmp_path: Path, document: dict[str, object] | None
) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(numbered_rows(0, 10), uri)
    lance_core.dataset(uri).create_branch("b")
    for number in (1, 2):
        lance.write_dataset(numbered_rows(100 * number, 100 * number + 5), uri, mode="overwrite")
    record = Path(uri, "_refs", "branches", "b.json")
    record.unlink() if document is None else record.write_text(json.dumps(document))
    lance_core.dataset(uri).cleanup_old_versions(NOW, delete_unverified=True)
    assert _data_files(uri) == 2
    assert _values(f"{uri}/tree/b") == list(range(10))


@pytest.mark.parametrize("line", ["", "/tree/a"])
def test_files_of_uncommitted_writes_are_kept_by_a_branch_cleanup(uri: str, line: str) -> None:
    fragments = lance_core.write_fragments(numbered_rows(70, 75), uri + line)
    lance_core.dataset(uri + line).cleanup_old_versions(NOW)
    version = lance_core.dataset(uri + line).version
    lance_core.LanceDataset.commit(uri + line, lance_core.LanceOperation.Append(fragments), read_version=version)
    assert set(range(70, 75)) <= set(_values(uri + line))


def test_a_cleanup_through_an_old_handle_removes_no_newer_version(uri: str) -> None:
    lance_core.dataset(f"{uri}/tree/a", version=3).cleanup_old_versions(NOW)
    assert _versions(f"{uri}/tree/a") == [3, 4]


def test_files_of_versions_between_kept_versions_are_removed(uri: str) -> None:
    branch = f"{uri}/tree/a"
    lance.dataset(branch).tags.create("first", 2)
    assert _data_files(branch) == 3
    stats = lance_core.dataset(branch).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert stats.data_files_removed == 1
    assert _versions(branch) == [2, 4]
    assert lance.dataset(branch, version=2).to_table().num_rows == 5
