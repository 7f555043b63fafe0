"""Branches: their JSON files, names, and locations."""

import pytest

from lance_core.errors import CorruptDataError, InvalidRefError, InvalidTypeError
from lance_core.io.memory_store import MemoryStore
from lance_core.table.branches import (
    BranchRecord,
    Fork,
    branch_of_file,
    branch_path,
    branch_root,
    check_branch_name,
    check_new_branch_name,
    list_branches,
    main_root,
)


@pytest.mark.parametrize(
    ("document", "forked_from"),
    [
        ('{"parentVersion": 3, "identifier": {"version_mapping": [[2, "x"], [3, "y"]]}, "parentBranch": "b"}', 2),
        ('{"parentVersion": 3}', 3),
        ('{"parentVersion": 3, "parentBranch": "b"}', None),
        ('{"parentVersion": 3, "identifier": {"version_mapping": [[0, "x"]]}}', 3),
        ('{"parentVersion": 3, "identifier": 7}', 3),
    ],
)
def test_branch_record_contains_the_version_from_which_it_was_created(document: str, forked_from: int | None) -> None:
    store = MemoryStore()
    store.put("t/_refs/branches/x%2Fy.json", document.encode())
    found = list_branches(store, "t")
    assert {name: record.forked_from for name, record in found.items()} == {"x/y": forked_from}


def test_damaged_branch_file_is_named_in_the_error() -> None:
    with pytest.raises(CorruptDataError, match=r"b\.json: parentVersion must be a whole number, found None"):
        BranchRecord.parse("b", b"{}", "b.json")


def test_name_of_a_branch_file_is_percent_encoded_and_branch_root_has_directories() -> None:
    store = MemoryStore()
    assert branch_path(store, "t", "a/b/c") == "t/_refs/branches/a%2Fb%2Fc.json"
    assert branch_root(store, "t", "a/b/c") == "t/tree/a/b/c"
    assert main_root("t/tree/a/b/c", "a/b/c") == "t"
    assert main_root("t", "") == "t"
    assert main_root("elsewhere/copy", "a/b/c") == "elsewhere/copy"


def test_branch_file_has_the_same_keys_as_in_pylance() -> None:
    record = BranchRecord(
        name="b", parent="a", parent_version=5, forks=(Fork(3, "x"), Fork(5, "y")), created_at=7, manifest_size=9
    )
    text = record.to_json().decode()
    assert BranchRecord.parse("b", text.encode(), "b.json") == record
    assert text == (
        '{\n  "parentBranch": "a",\n  "identifier": {\n    "version_mapping": [\n      [\n        3,\n        "x"\n'
        '      ],\n      [\n        5,\n        "y"\n      ]\n    ]\n  },\n  "parentVersion": 5,\n  "createAt": 7,\n'
        '  "manifestSize": 9,\n  "metadata": {}\n}'
    )
    assert [record.forked_at(depth) for depth in range(3)] == [3, 5, None]


@pytest.mark.parametrize("name", ["a", "a/b", ".a", "a.", "a/.b", "-x", "main/x", "x/main", "HEAD", "a.lock/b"])
def test_valid_branch_name_is_accepted(name: str) -> None:
    check_branch_name(name)
    check_new_branch_name(name)


@pytest.mark.parametrize("name", ["é", "名/前", "a/data", "a/b/_versions", "a/_mem_wal/b", "a/tree"])
def test_branch_name_that_only_pylance_accepts_cannot_be_created(name: str) -> None:
    check_branch_name(name)
    with pytest.raises(InvalidRefError):
        check_new_branch_name(name)


@pytest.mark.parametrize(
    ("path", "known", "branch"),
    [
        ("a/data/x.lance", (), "a"),
        ("a/data/data/x.lance", (), "a"),
        ("a/data/data/x.lance", ("a", "a/data"), "a/data"),
        ("a/data/x.lance", ("a", "a/data"), "a"),
        ("a/b/_versions/1.manifest", ("a",), "a/b"),
        ("x/_mem_wal/s/g_gen_1/_versions/1.manifest", ("x",), "x"),
        ("data/data/x.lance", (), "data"),
        ("data/x.lance", (), None),
        ("a/x.lance", ("a",), None),
    ],
)
def test_branch_of_a_file_is_derived_from_its_path(path: str, known: tuple[str, ...], branch: str | None) -> None:
    assert branch_of_file(path, known) == branch


@pytest.mark.parametrize(
    "name",
    ["", "main", "/a", "a/", "a//b", "a/../b", "..", "a..b", "a/./b", ".", "a b", "a\\b", "a.lock", "a\0", "a\n"],
)
def test_malformed_branch_name_raises_invalid_ref(name: str) -> None:
    with pytest.raises(InvalidRefError):
        check_branch_name(name)


def test_branch_name_that_is_not_text_raises_invalid_type() -> None:
    with pytest.raises(InvalidTypeError, match="a branch name must be a string"):
        check_branch_name(5)  # type: ignore[arg-type]  # that is the point
