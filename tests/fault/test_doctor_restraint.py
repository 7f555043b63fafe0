"""What the doctor must not change: files that are, or may be, in use."""

import os
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core import cli
from lance_core.errors import DatasetNotFoundError, InvalidInputError, RefConflictError
from lance_core.places.location import open_log
from lance_core.repair import Problem, ProblemKind, diagnose, repair
from lance_core.table.paths import manifest_name

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
DAY = 86_400


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(ROWS, uri)
    return uri


def _put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def _found(uri: str) -> list[Problem]:
    return diagnose(open_log(uri, None), now=time.time() + 8 * DAY)


def _grown_branch(uri: str, name: str, library: object = lance_core) -> lance_core.LanceDataset:
    branch = library.dataset(uri).create_branch(name)  # type: ignore[attr-defined]  # a module of either library
    library.write_dataset(ROWS, branch, mode="append")  # type: ignore[attr-defined]  # the same
    return lance_core.dataset(uri).checkout_version((name, None))


def _forget(uri: str, branch: str) -> None:
    (Path(uri) / "_refs/branches" / f"{branch}.json").unlink()


@pytest.mark.parametrize("is_there", [True, False], ids=["no table", "nothing"])
def test_the_doctor_refuses_a_directory_without_a_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_there: bool
) -> None:
    files = [tmp_path / "p/tree" / name for name in ("oak/data/measurements.csv", "birch/data/x/y.lance", "readme.txt")]
    for path in files if is_there else ():
        os.utime(_put(path), (0, 0))
    with pytest.raises(DatasetNotFoundError):
        diagnose(open_log(str(tmp_path / "p"), None))
    assert cli.main(["doctor", str(tmp_path / "p"), "--apply"]) == 2
    assert "no dataset exists at" in capsys.readouterr().err
    assert all(path.exists() for path in files) == is_there


@pytest.mark.parametrize(
    "name",
    [
        "oak/data/measurements.csv",
        "oak/_versions/readme.txt",
        "oak/_indices/notes/x.txt",
        "oak/x.lance",
        "a b/data/x.lance",
    ],
)
def test_the_doctor_keeps_directories_that_are_not_branches(uri: str, name: str) -> None:
    _put(Path(uri) / "tree" / name)
    assert _found(uri) == []


def test_the_doctor_keeps_unrecognized_files(uri: str) -> None:
    _grown_branch(uri, "x")
    _forget(uri, "x")
    notes = [_put(Path(uri) / "tree/x" / name) for name in ("notes.txt", "data/notes.txt")]
    (found,) = _found(uri)
    assert repair(open_log(uri, None), found)
    assert sorted(path for path in (Path(uri) / "tree").rglob("*") if path.is_file()) == sorted(
        notes, key=lambda path: str(path)
    )
    assert _found(uri) == []


def test_write_ahead_log_generations_are_deleted_only_with_their_branch(uri: str) -> None:
    _grown_branch(uri, "x")
    generation = Path(uri) / "tree/x/_mem_wal/06a00289-8e6d-40c8-942a-40329955d132/219f2cbd_gen_4"
    for name in (f"_versions/{manifest_name(1)}", "data/01.lance", "_pk_index/page_data.lance"):
        _put(generation / name)
    assert _found(uri) == []
    lance_core.dataset(uri).cleanup_old_versions()
    assert (generation / "data/01.lance").exists()
    lance_core.dataset(uri).branches.delete("x")
    assert not (Path(uri) / "tree/x").exists()


@pytest.mark.parametrize("library", [lance, lance_core], ids=["pylance", "lance_core"])
def test_a_branch_named_like_a_temporary_file_is_kept(uri: str, library: object) -> None:
    branch = _grown_branch(uri, ".tmp-experiment", library)
    unfinished = _put(Path(uri) / "_refs/branches/.tmp0123456789abcdef-.tmp-experiment.json#")
    (found,) = _found(uri)
    assert (found.kind, found.place) == (ProblemKind.TEMPORARY_FILE, f"_refs/branches/{unfinished.name}")
    for path in (Path(uri) / "_refs/branches").iterdir():
        os.utime(path, (0, 0))
    lance_core.dataset(uri).cleanup_old_versions()
    assert not unfinished.exists()
    assert lance_core.dataset(uri).checkout_version((".tmp-experiment", None)).version == branch.version


@pytest.mark.parametrize("use", ["branch", "grandchild", "tag"])
def test_an_unrecorded_branch_in_use_is_kept(uri: str, use: str) -> None:
    x = _grown_branch(uri, "x")
    if use == "tag":
        x.tags.create("t", ("x", None))
    else:
        x.create_branch("y")
    if use == "grandchild":
        lance_core.dataset(uri).checkout_version(("y", None)).create_branch("z")
        # No record connects z with x any longer.
        (Path(uri) / "_refs/branches/x.json").rename(Path(uri) / "x.json")
        lance_core.dataset(uri).checkout_version(("z", None)).count_rows()
        _forget(uri, "y")
        for path in (Path(uri) / "tree/y/_versions").iterdir():
            path.unlink()
    else:
        _forget(uri, "x")
    (found,) = (each for each in _found(uri) if each.place == "x")
    assert (found.kind, found.is_repairable) == (ProblemKind.UNRECORDED_BRANCH, False)
    assert "is used by" in found.reason
    with pytest.raises(InvalidInputError, match="is used by"):
        repair(open_log(uri, None), found)
    with pytest.raises(RefConflictError):
        lance_core.dataset(uri).branches.delete("x")


def test_a_problem_that_has_changed_since_it_was_found_is_not_repaired(uri: str) -> None:
    lance_core.dataset(uri).create_branch("x")
    _forget(uri, "x")
    temporary = _put(Path(uri) / "_transactions/.tmpabcdef")
    empty = Path(uri) / "_versions" / manifest_name(2)
    empty.touch()
    findings = _found(uri)
    assert [each.kind for each in findings] == [
        ProblemKind.UNRECORDED_BRANCH,
        ProblemKind.EMPTY_MANIFEST,
        ProblemKind.TEMPORARY_FILE,
    ]
    empty.write_bytes((Path(uri) / "_versions" / manifest_name(1)).read_bytes())
    temporary.write_bytes(b"more")
    empty.unlink()
    grown = _grown_branch(uri, "x").count_rows()
    assert [repair(open_log(uri, None), each) for each in findings] == [False] * 3
    assert temporary.exists()
    assert lance.dataset(uri).checkout_version(("x", None)).count_rows() == grown


@pytest.mark.parametrize("part", ["_refs", "_refs/branches"])
def test_the_doctor_follows_symbolic_links_as_readers_do(uri: str, tmp_path: Path, part: str) -> None:
    _grown_branch(uri, "x")
    place = Path(uri) / part
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    assert _found(uri) == []
    _put(Path(uri) / "_refs/branches/.tmp0123456789abcdef-y.json#")
    assert [each.kind for each in _found(uri)] == [ProblemKind.TEMPORARY_FILE]


def test_a_migration_that_another_process_continues_is_not_finished_by_the_doctor(tmp_path: Path) -> None:
    """Another process renames a manifest, which does not change its age."""
    uri = str(tmp_path / "t")
    for mode in ("create", "append", "append"):
        lance.write_dataset(ROWS, uri, mode=mode, enable_v2_manifest_paths=False)
    versions = Path(uri) / "_versions"
    (versions / "1.manifest").rename(versions / manifest_name(1))
    (found,) = _found(uri)
    assert (found.kind, found.is_repairable) == (ProblemKind.MIXED_NAMES, True)
    (versions / "2.manifest").rename(versions / manifest_name(2))
    assert not repair(open_log(uri, None), found)
    assert (versions / "3.manifest").exists()


def test_the_doctor_finds_and_repairs_problems_of_branches(uri: str) -> None:
    _grown_branch(uri, "x")
    root = Path(uri) / "tree/x"
    (root / "_versions" / manifest_name(3)).touch()
    _put(root / "_transactions/.tmpabcdef")
    findings = _found(uri)
    assert [(each.branch, each.kind) for each in findings] == [
        ("x", ProblemKind.EMPTY_MANIFEST),
        ("x", ProblemKind.TEMPORARY_FILE),
    ]
    assert all(repair(open_log(uri, None), each) for each in findings)
    assert lance_core.dataset(uri).checkout_version(("x", None)).version == 2


@pytest.mark.parametrize("segment", ["data", "_versions"])
def test_deleting_a_branch_inside_another_keeps_the_other(uri: str, segment: str) -> None:
    _grown_branch(uri, "a", lance)
    _grown_branch(uri, f"a/{segment}", lance)
    expected = lance_core.dataset(uri).checkout_version(("a", None)).to_table()
    lance_core.dataset(uri).branches.delete(f"a/{segment}")
    assert lance_core.dataset(uri).checkout_version(("a", None)).to_table() == expected
    assert lance.dataset(uri).checkout_version(("a", None)).to_table() == expected


@pytest.mark.parametrize("name", ["ä", "名/前"])
def test_branches_with_non_ascii_names_are_opened_and_deleted(uri: str, name: str) -> None:
    _grown_branch(uri, name, lance)
    assert lance_core.dataset(uri).checkout_version((name, None)).count_rows() == 6
    assert _found(uri) == []
    lance_core.dataset(uri).branches.replace_metadata(name, {"k": "v"})
    assert lance.dataset(uri).branches.list()[name]["metadata"] == {"k": "v"}
    lance_core.dataset(uri).branches.delete(name)
    assert lance.dataset(uri).branches.list() == {}
