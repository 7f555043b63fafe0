"""Branches of pylance and lance_core: each library reads, continues, tags, and deletes branches of the other."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import lance
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

import lance_core
from lance_core.errors import (
    InvalidRefError,
    InvalidTypeError,
    RefAlreadyExistsError,
    RefConflictError,
    RefNotFoundError,
    VersionNotFoundError,
)
from lance_core.io.local_store import LocalStore
from tests.support.numbered_rows import numbered_rows

BOTH = pytest.mark.parametrize("maker", [lance, lance_core], ids=["pylance", "lance_core"])
EACH = (lance, lance_core)


def _values(dataset: object) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())  # type: ignore[attr-defined]  # either implementation's


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of three versions and two fragments, the first with a deleted row, and an index."""
    uri = str(tmp_path / "table")
    lance.write_dataset(numbered_rows(0, 10), uri)
    dataset = lance.write_dataset(numbered_rows(10, 20), uri, mode="append")
    dataset.create_scalar_index("x", "BTREE")
    dataset.delete("x = 3")
    return uri


def _record(uri: str, name: str) -> dict:
    return json.loads((Path(uri) / "_refs" / "branches" / name).read_text())


@BOTH
def test_first_base_path_of_a_branch_has_id_0_and_the_uri_of_the_source(uri: str, maker: ModuleType) -> None:
    maker.dataset(uri).create_branch("b")
    branch = lance_core.dataset(f"{uri}/tree/b")
    message = branch.manifest.message
    assert [(base.id, base.path, base.is_dataset_root) for base in message.base_paths] == [(0, uri, True)]
    assert {file.base_id for fragment in message.fragments for file in fragment.files if file.HasField("base_id")} == {
        0
    }
    assert message.fragments[0].deletion_file.HasField("base_id")
    for reader in EACH:
        assert _values(reader.dataset(f"{uri}/tree/b")) == [x for x in range(20) if x != 3]
        assert reader.dataset(f"{uri}/tree/b").to_table(filter="x = 15").num_rows == 1


def test_branches_made_by_lance_core_and_pylance_have_equal_manifests_and_records(uri: str) -> None:
    lance.dataset(uri).create_branch("theirs", 2)
    lance_core.dataset(uri).create_branch("ours", 2)
    theirs, ours = (lance_core.dataset(f"{uri}/tree/{name}").manifest for name in ("theirs", "ours"))
    for manifest in (theirs, ours):
        for part in ("timestamp", "writer_version", "transaction_file", "branch", "transaction_section"):
            manifest.message.ClearField(part)
    assert ours.message == theirs.message
    assert ours.index_section == theirs.index_section
    records = [_record(uri, f"{name}.json") for name in ("theirs", "ours")]
    for record in records:
        assert len(record["identifier"]["version_mapping"][0].pop()) == 32
        assert record.pop("createAt") > 1_700_000_000
        assert record.pop("manifestSize") > 100
    assert records[0] == records[1]


@BOTH
def test_the_first_version_of_a_branch_has_the_version_number_of_its_source(uri: str, maker: ModuleType) -> None:
    maker.dataset(uri).create_branch("b", 2)
    for reader in EACH:
        branch = reader.dataset(f"{uri}/tree/b")
        assert (branch.version, [each["version"] for each in branch.versions()]) == (2, [2])
        assert reader.dataset(uri).checkout_version(("b", None)).version == 2
        assert reader.dataset(uri).checkout_version(("b", 2)).count_rows() == 20
    assert lance_core.dataset(uri).version == 4


@BOTH
def test_slashes_in_branch_names_become_directories_and_percent_escapes(uri: str, maker: ModuleType) -> None:
    maker.dataset(uri).create_branch("team/a")
    assert (Path(uri) / "_refs/branches/team%2Fa.json").exists()
    assert (Path(uri) / "tree/team/a/_versions").is_dir()
    for reader in EACH:
        assert list(reader.dataset(uri).branches.list()) == ["team/a"]


@BOTH
def test_branch_lists_of_lance_core_and_pylance_are_equal(uri: str, maker: ModuleType) -> None:
    first = maker.dataset(uri).create_branch("one", 2)
    first.create_branch("two")
    maker.dataset(uri).branches.replace_metadata("one", {"why": "ä"})
    maker.dataset(uri).create_branch("three", ("main", None))
    theirs, ours = lance.dataset(uri).branches, lance_core.dataset(uri).branches
    assert ours.list() == theirs.list()
    assert ours.list()["two"]["parent_branch"] == "one"
    assert len(ours.list()["two"]["branch_identifier"]) == 2
    for order in (None, "asc", "desc"):
        assert [each[1]["parent_version"] for each in ours.list_ordered(order)] == [
            each[1]["parent_version"] for each in theirs.list_ordered(order)
        ]
    assert first.branches.list() == ours.list()


@pytest.mark.parametrize(("maker", "writer"), [(lance, lance_core), (lance_core, lance), (lance_core, lance_core)])
def test_changes_to_a_branch_and_to_its_source_do_not_affect_each_other(
    uri: str, maker: ModuleType, writer: ModuleType
) -> None:
    maker.dataset(uri).create_branch("b")
    place = f"{uri}/tree/b"
    writer.write_dataset(numbered_rows(50, 53), place, mode="append")
    writer.dataset(place).delete("x = 1")
    writer.dataset(place).update_config({"k": "v"})
    writer.dataset(place).optimize.compact_files()
    maker.write_dataset(numbered_rows(60, 61), uri, mode="append")
    expected = sorted({*range(20), 50, 51, 52} - {1, 3})
    for reader in EACH:
        branch = reader.dataset(uri).checkout_version(("b", None))
        assert _values(branch) == expected
        branch.validate()
        assert _values(reader.dataset(uri)) == sorted({*range(20), 60} - {3})
        # A number refers to a version of the branch, and a pair can refer to another branch.
        assert branch.checkout_version(5).count_rows() == 22
        assert branch.checkout_version((None, 1)).count_rows() == 10
        assert branch.checkout_version(("main", None)).count_rows() == 20
        with pytest.raises((OSError, ValueError)):
            branch.checkout_version(1)


def test_a_dataset_opened_on_a_branch_writes_to_and_refreshes_from_that_branch(uri: str) -> None:
    branch = lance_core.dataset(uri).create_branch("b")
    assert branch.uri == f"{uri}/tree/b"
    made = lance_core.write_dataset(numbered_rows(50, 53), branch, mode="append")
    assert (made.uri, made.version) == (branch.uri, 5)
    branch.checkout_latest()
    assert (branch.version, branch.latest_version) == (5, 5)
    assert branch.checkout_version((None, None)).uri == uri
    assert lance_core.dataset(uri).checkout_version(("b", 4)).uri == branch.uri


@BOTH
def test_branches_of_branches_list_every_root_as_a_base_path(uri: str, maker: ModuleType) -> None:
    first = maker.dataset(uri).create_branch("one")
    first = maker.write_dataset(numbered_rows(50, 53), f"{uri}/tree/one", mode="append")
    second = maker.dataset(f"{uri}/tree/one").create_branch("two", 5)
    bases = lance_core.dataset(f"{uri}/tree/two").manifest.base_paths
    assert {(base.id, base.name, base.path) for base in bases} == {(0, None, uri), (1, "one", f"{uri}/tree/one")}
    assert first.version == second.version == 5
    for reader in EACH:
        assert len(_values(reader.dataset(f"{uri}/tree/two"))) == 22


@BOTH
def test_tags_of_branches_are_stored_in_the_main_root(uri: str, maker: ModuleType) -> None:
    maker.dataset(uri).create_branch("b", 2)
    maker.write_dataset(numbered_rows(50, 53), f"{uri}/tree/b", mode="append")
    branch = maker.dataset(f"{uri}/tree/b")
    branch.tags.create("number", 2)
    branch.tags.create("here")
    branch.tags.create("main", (None, 1))
    maker.dataset(uri).tags.create("pair", ("b", 3))
    maker.dataset(uri).tags.create("moved", 1)
    branch.tags.update("moved", 3)
    assert sorted(path.name for path in (Path(uri) / "_refs/tags").iterdir()) == [
        f"{name}.json" for name in ("here", "main", "moved", "number", "pair")
    ]
    for reader in EACH:
        tags = reader.dataset(uri).tags.list()
        assert {name: (tag["branch"], tag["version"]) for name, tag in tags.items()} == {
            "number": ("b", 2),
            "here": ("b", 3),
            "main": (None, 1),
            "pair": ("b", 3),
            "moved": ("b", 3),
        }
        assert reader.dataset(uri, version="here").count_rows() == 23
        assert reader.dataset(uri).checkout_version("number").count_rows() == 20
        assert reader.dataset(f"{uri}/tree/b").checkout_version("main").count_rows() == 10
        assert reader.dataset(f"{uri}/tree/b").tags.list() == tags
    assert lance_core.dataset(uri, version="here").uri == f"{uri}/tree/b"
    assert lance_core.dataset(f"{uri}/tree/b", version="main").uri == uri


@BOTH
def test_deleting_a_branch_in_use_raises_ref_conflict(uri: str, maker: ModuleType) -> None:
    maker.dataset(uri).create_branch("one").create_branch("two")
    maker.dataset(uri).tags.create("t", ("two", None))
    ours = lance_core.dataset(uri).branches
    for name in ("one", "two"):
        with pytest.raises(RefConflictError):
            ours.delete(name)
    lance_core.dataset(uri).tags.delete("t")
    ours.delete("two")
    ours.delete("one")
    assert lance.dataset(uri).branches.list() == {}
    assert not list((Path(uri) / "tree").rglob("*.manifest"))


def test_deleting_a_branch_keeps_branches_in_directories_below_it(uri: str) -> None:
    for name in ("a", "a/data", "a/b/c"):
        # Our library creates no branch in the directory of another branch.
        lance.dataset(uri).create_branch(name)
        lance_core.write_dataset(numbered_rows(0, 1), f"{uri}/tree/{name}", mode="append")
    lance_core.dataset(uri).branches.delete("a")
    assert sorted(path.name for path in (Path(uri) / "tree/a").iterdir()) == ["b", "data"]
    assert sorted(path.name for path in (Path(uri) / "tree/a/data").iterdir()) == ["_transactions", "_versions", "data"]
    for reader in EACH:
        assert sorted(reader.dataset(uri).branches.list()) == ["a/b/c", "a/data"]
        assert reader.dataset(f"{uri}/tree/a/data").count_rows() == 20
    lance_core.dataset(uri).branches.delete("a/data")
    lance_core.dataset(uri).branches.delete("a/b/c")
    assert not (Path(uri) / "tree/a").exists()


def _half_created(uri: str) -> None:
    """Leave the files of a branch whose creator was killed between writing the manifest and the record."""
    lance.dataset(uri).create_branch("b", 2)
    (Path(uri) / "_refs/branches/b.json").unlink()


def test_creating_a_partially_created_branch_again_completes_it(uri: str) -> None:
    _half_created(uri)
    assert lance_core.dataset(uri).branches.list() == {}
    lance_core.dataset(uri).create_branch("b", 2)
    for reader in EACH:
        assert list(reader.dataset(uri).branches.list()) == ["b"]
        assert reader.dataset(uri).checkout_version(("b", None)).version == 2


def _half_deleted(uri: str) -> None:
    """Leave the files of a branch whose deletion was killed between removing the record and the files."""
    _half_created(uri)
    lance.write_dataset(numbered_rows(50, 53), f"{uri}/tree/b", mode="append")


@pytest.mark.parametrize("leave", [_half_created, _half_deleted], ids=["half-created", "half-deleted"])
def test_deleting_a_partially_created_branch_removes_its_files(uri: str, leave: Callable[[str], None]) -> None:
    leave(uri)
    with pytest.raises(RefAlreadyExistsError, match=r"branches\.delete"):
        lance_core.dataset(uri).create_branch("b", 3)
    lance_core.dataset(uri).branches.delete("b")
    with pytest.raises(RefNotFoundError):
        lance_core.dataset(uri).branches.delete("b")
    lance.dataset(uri).create_branch("b", 3)
    assert lance_core.dataset(uri).checkout_version(("b", None)).version == 3


@pytest.mark.parametrize("store_call", range(12))
def test_branches_left_by_a_killed_writer_can_be_recreated(
    tmp_path: Path, store_call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever store call was last, the main branch is complete, and the branch can be created or deleted again."""
    uri = str(tmp_path / "table")
    lance_core.write_dataset(numbered_rows(0, 3), uri)
    for verb in (
        lambda: lance_core.dataset(uri).create_branch("b"),
        lambda: lance_core.dataset(uri).branches.delete("b"),
    ):
        calls = iter(range(store_call + 1))
        with monkeypatch.context() as patch:
            for name in ("put", "put_if_absent", "delete"):
                patch.setattr(LocalStore, name, _dying(getattr(LocalStore, name), calls))
            with suppress(KeyboardInterrupt):
                verb()
        with suppress(RefAlreadyExistsError, RefNotFoundError):
            verb()
        for reader in EACH:
            assert _values(reader.dataset(uri)) == [0, 1, 2]
            for branch in reader.dataset(uri).branches.list():
                assert _values(reader.dataset(uri).checkout_version((branch, None))) == [0, 1, 2]
        is_there = "b" in lance_core.dataset(uri).branches.list()
    assert not is_there
    assert not list(Path(uri).glob("tree/**/*.manifest"))


def _dying(call: Callable[..., object], left: Iterator[int]) -> Callable[..., object]:
    def wrapped(*arguments: object, **named: object) -> object:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return call(*arguments, **named)

    return wrapped


def test_manifests_of_branches_contain_no_fields_that_a_pylance_commit_drops(uri: str) -> None:
    """A commit by the reference drops unknown fields and fragment metadata, of which our manifests have none."""
    lance_core.dataset(uri).create_branch("b")
    lance_core.write_dataset(numbered_rows(50, 53), f"{uri}/tree/b", mode="append")
    message = lance_core.dataset(f"{uri}/tree/b").manifest.message
    for each in (message, *message.fragments, *message.base_paths):
        assert len(UnknownFieldSet(each)) == 0
    assert not any(fragment.metadata for fragment in message.fragments)
    lance.write_dataset(numbered_rows(60, 61), f"{uri}/tree/b", mode="append")
    after = lance_core.dataset(f"{uri}/tree/b").manifest.message
    assert after.base_paths == message.base_paths
    assert after.branch == "b"
    assert list(after.fragments)[:3] == list(message.fragments)


def test_invalid_branch_names_and_missing_versions_are_refused(uri: str) -> None:
    ours = lance_core.dataset(uri)
    ours.create_branch("b")
    with pytest.raises(RefAlreadyExistsError):
        ours.create_branch("b")
    for name in ("main", "a/../b", "é", "a//b"):
        with pytest.raises(InvalidRefError):
            ours.create_branch(name)
    with pytest.raises(VersionNotFoundError):
        ours.create_branch("c", 9)
    with pytest.raises(RefNotFoundError):
        ours.create_branch("c", ("nope", None))
    with pytest.raises(RefNotFoundError):
        ours.create_branch("c", "nope")
    for reference in (("nope", None), ("nope", 2), ("a/../b", None)):
        with pytest.raises(RefNotFoundError):
            ours.checkout_version(reference)
    with pytest.raises(RefNotFoundError):
        ours.branches.replace_metadata("nope", {})
    for metadata in ({1: "x"}, {"x": 1}, ["x"]):
        with pytest.raises(InvalidTypeError, match="branch metadata"):
            ours.branches.replace_metadata("b", metadata)
    assert list(ours.branches.list()) == ["b"]
    assert sorted(path.name for path in (Path(uri) / "tree").iterdir()) == ["b"]
