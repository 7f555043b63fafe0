"""Branches, clones, and base paths do not depend on the spelling of a URI."""

import os
import pickle
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from tests.support.s3_servers import S3Server


def _rows(start: int, num_rows: int) -> pa.Table:
    return pa.table({"a": pa.array(range(start, start + num_rows), pa.int64())})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose main branch has 7 rows in version 2, and whose branch b has 5 rows in version 2."""
    root = tmp_path / "a table"
    lance_core.write_dataset(_rows(0, 3), root).create_branch("b")
    lance_core.write_dataset(_rows(100, 2), root / "tree" / "b", mode="append")
    lance_core.write_dataset(_rows(500, 4), root, mode="append")
    return root


@pytest.mark.parametrize(
    ("directory", "spelling"),
    [
        ("", "tree/b"),
        ("tree/b", "."),
        ("tree", "../tree/b"),
        ("", "./tree//b/"),
        ("", "{root}//tree//b"),
        ("", "{root}/data/../tree/b"),
        ("", "file://{root}/tree/./b"),
        ("", "file://{root}/tree%2Fb"),
        ("", "file:{root}/tree/b"),
    ],
)
def test_a_branch_is_opened_by_any_spelling_of_its_uri(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str, spelling: str
) -> None:
    monkeypatch.chdir(table / directory)
    branch = lance_core.dataset(spelling.format(root=table))
    made = branch.create_branch("n")
    monkeypatch.chdir(tmp_path)
    assert {base.path for base in made.base_paths().values()} == {str(table), str(table / "tree" / "b")}
    for library in (lance_core, lance):
        assert library.dataset(str(table)).checkout_version(("n", None)).to_table().num_rows == 5
    main = branch.checkout_version(("main", 2))
    assert main.count_rows() == pickle.loads(pickle.dumps(main)).count_rows() == 7
    assert lance_core.dataset(main.uri).count_rows() == 7
    main.shallow_clone(tmp_path / "clone", None)
    for library in (lance_core, lance):
        assert library.dataset(str(tmp_path / "clone")).to_table().num_rows == 7


def test_a_handle_keeps_its_location_when_the_working_directory_changes(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table)
    branch = lance_core.dataset("tree/b")
    monkeypatch.chdir(tmp_path)
    branch.create_branch("n")
    branch.shallow_clone(tmp_path / "clone", None)
    assert lance.dataset(str(tmp_path / "clone")).to_table().num_rows == 5
    assert lance.dataset(str(table)).checkout_version(("n", None)).to_table().num_rows == 5


@pytest.mark.parametrize("scheme", ["s3a", "S3"])
@pytest.mark.parametrize("name", ["./t", "x/../t", "t%20u", "%74"])
@pytest.mark.sampled(2)
def test_pylance_reads_base_paths_of_any_spelling(server: S3Server, scheme: str, name: str) -> None:
    options = server.options()
    place = f"{scheme}-{name.encode().hex()}"
    uri, theirs = (f"{each}://{server.bucket}/{place}/{name}" for each in (scheme, "s3"))
    lance_core.write_dataset(_rows(0, 3), uri, storage_options=options)
    branch = lance_core.dataset(uri, storage_options=options).create_branch("b")
    branch.create_branch("c/d")
    clone = f"s3://{server.bucket}/{place}/clone"
    lance_core.dataset(uri, storage_options=options).shallow_clone(clone, None)
    for line in ("b", "c/d"):
        opened = lance.dataset(theirs, storage_options=options).checkout_version((line, None))
        assert opened.to_table().num_rows == 3
    assert lance.dataset(clone, storage_options=options).to_table().num_rows == 3
    assert lance_core.dataset(branch.uri, storage_options=options).count_rows() == 3


def test_unusual_dataset_names_are_accepted_or_refused_as_in_pylance(server: S3Server) -> None:
    options = server.options()
    bucket = f"s3://{server.bucket}"
    for name in ("x ", "y\tz", "./u", "a/../w", "q%20r", "%2e/v"):
        lance_core.write_dataset(_rows(0, 3), f"{bucket}/k/{name}", storage_options=options)
        assert lance.dataset(f"{bucket}/k/{name}", storage_options=options).count_rows() == 3
    for name in ("%ff", "w//", "/v", "a//b", "%2F", "a%0Ab"):
        with pytest.raises(OSError, match="Invalid path"):
            lance.write_dataset(_rows(0, 3), f"{bucket}/{name}", storage_options=options)
        with pytest.raises(lance_core.InvalidInputError):
            lance_core.write_dataset(_rows(0, 3), f"{bucket}/{name}", storage_options=options)


def test_a_base_path_is_found_by_any_spelling_of_its_uri(server: S3Server, tmp_path: Path) -> None:
    options = server.options()
    given = f"s3a://{server.bucket}/./cold"
    lance_core.write_dataset(
        _rows(0, 3),
        tmp_path / "t",
        initial_bases=[lance_core.DatasetBasePath(given, "cold")],
        target_bases=[given],
        base_store_params={given: options},
    )
    recorded = f"s3://{server.bucket}/cold"
    for spelling in (given, recorded):
        opened = lance_core.dataset(tmp_path / "t", base_store_params={spelling: options})
        assert [base.path for base in opened.base_paths().values()] == [recorded]
        assert opened.to_table().num_rows == 3
    assert lance.dataset(str(tmp_path / "t"), base_store_params={recorded: options}).to_table().num_rows == 3


@pytest.mark.parametrize("name", ["", "spellings"])
def test_branches_of_datasets_in_memory_are_opened_by_their_uris(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    uri = f"memory://{name}"
    lance_core.write_dataset(_rows(0, 3), uri, mode="overwrite")
    branch = lance_core.dataset(uri).create_branch("b")
    assert lance_core.write_dataset(_rows(3, 2), branch.uri, mode="append").count_rows() == 5
    assert lance_core.dataset(uri).checkout_version(("b", None)).to_table().num_rows == 5
    assert branch.checkout_version(("main", None)).count_rows() == 3
    assert os.listdir(tmp_path) == []
    branch.branches.delete("b")


def test_a_tilde_in_a_base_path_is_not_expanded_to_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lance_core.io.local_store import LocalStore
    from lance_core.table.base_paths import BasePath, FileLocator

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    bases = [BasePath(id=1, path="~/x", is_table_root=False)]
    assert FileLocator(LocalStore(), "/t", bases).data_place(1).directory == str(tmp_path / "~" / "x")
