"""The doctor command finds and repairs leftovers of killed writers, even in a table that cannot be opened."""

import os
import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core import cli
from lance_core.errors import InvalidInputError
from lance_core.places.location import open_log
from lance_core.repair import Problem, ProblemKind, diagnose, repair
from lance_core.table.manifest_stores.sql import SqlManifests
from lance_core.table.paths import manifest_name
from tests.fault.test_crash_table_external import Table, _killed
from tests.support.kill_points import kill_in

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
DAY = 86_400


def _dies(call: str, part: str, act: Callable[[str], object], *, after: bool = False) -> Callable[[str], None]:
    def make(uri: str) -> None:
        assert kill_in(Path(uri), lambda: act(uri), lambda step: step.call == call and part in step.path, after=after)

    return make


def _append(uri: str) -> object:
    return lance_core.write_dataset(ROWS, uri, mode="append")


def _empty_manifest(uri: str) -> None:
    (Path(uri) / "_versions" / manifest_name(3)).touch()


ILL: dict[str, tuple[ProblemKind, str, Callable[[str], None]]] = {
    "transaction file": (
        ProblemKind.TEMPORARY_FILE,
        "_transactions/.tmp",
        _dies("write", "_transactions/.tmp", _append),
    ),
    "deletion file": (
        ProblemKind.TEMPORARY_FILE,
        "_deletions/.tmp",
        _dies("write", "_deletions/.tmp", lambda uri: lance_core.dataset(uri).delete("a = 1")),
    ),
    "staged manifest": (
        ProblemKind.STAGED_MANIFEST,
        f"_versions/{manifest_name(3)}#1",
        _dies("link", "_versions", _append),
    ),
    "staged name of a committed manifest": (
        ProblemKind.STAGED_MANIFEST,
        f"_versions/{manifest_name(3)}#1",
        _dies("link", "_versions", _append, after=True),
    ),
    "version hint": (ProblemKind.TEMPORARY_FILE, "_versions/.tmp", _dies("write", "latest_version_hint", _append)),
    "branch without a record": (
        ProblemKind.UNRECORDED_BRANCH,
        "x/b",
        _dies("open", "_refs/branches/", lambda uri: lance_core.dataset(uri).create_branch("x/b")),
    ),
    "tag file": (
        ProblemKind.TEMPORARY_FILE,
        "_refs/tags/.tmp",
        _dies("rename", "_refs/tags/", lambda uri: lance_core.dataset(uri).tags.update("t", 2)),
    ),
    "empty manifest": (ProblemKind.EMPTY_MANIFEST, f"_versions/{manifest_name(3)}", _empty_manifest),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(ROWS, uri)
    _append(uri)
    lance_core.dataset(uri).tags.create("t", 1)
    lance_core.dataset(uri).create_branch("kept")
    return uri


def _found(uri: str, days: float = 8) -> list[Problem]:
    """Return the problems that the doctor finds in so many days."""
    return diagnose(open_log(uri, None), now=time.time() + days * DAY)


def _mended(uri: str) -> None:
    for finding in _found(uri):
        repair(open_log(uri, None), finding)
    assert _found(uri) == []


def _goes_on(uri: str, version: int) -> None:
    for library in (lance, lance_core):
        dataset = library.dataset(uri)
        dataset.validate()
        assert dataset.count_rows() == version * 3
        assert dataset.checkout_version(("kept", None)).count_rows() == 6
    assert lance.write_dataset(ROWS, uri, mode="append").version == version + 1
    assert lance_core.write_dataset(ROWS, uri, mode="append").version == version + 2


def test_the_doctor_finds_nothing_in_a_healthy_table(uri: str) -> None:
    lance.dataset(uri).delete("a = 1")
    lance_core.dataset(uri).optimize.compact_files()
    lance_core.dataset(uri).create_branch("a/b").delete("a = 2")
    assert _found(uri, days=1000) == []


@pytest.mark.parametrize("leftover", ILL)
def test_leftovers_of_a_killed_writer_are_found_and_repaired(uri: str, leftover: str) -> None:
    kind, place, make = ILL[leftover]
    make(uri)
    (young,) = _found(uri, days=6.9)
    assert (young.kind, young.is_repairable) == (kind, False)
    with pytest.raises(InvalidInputError, match="not old enough"):
        repair(open_log(uri, None), young)
    (found,) = _found(uri)
    assert (found.kind, found.is_repairable) == (kind, True)
    assert found.place.startswith(place)
    assert found.advice
    _mended(uri)
    _goes_on(uri, 3 if leftover in ("staged name of a committed manifest", "version hint") else 2)


@pytest.mark.parametrize("part", ["_refs/branches/", "tree/x/b/_versions", "tree/x/b/_transactions"])
def test_leftovers_of_a_branch_are_found_and_repaired(uri: str, part: str) -> None:
    branch = lance_core.dataset(uri).create_branch("x/b")
    lance_core.write_dataset(ROWS, branch, mode="append")
    _dies("unlink", part, lambda uri: lance_core.dataset(uri).branches.delete("x/b"), after=True)(uri)
    (found,) = _found(uri)
    assert (found.kind, found.place, found.is_repairable) == (ProblemKind.UNRECORDED_BRANCH, "x/b", True)
    _mended(uri)
    assert lance.dataset(uri).create_branch("x/b").count_rows() == 6
    _goes_on(uri, 2)


def test_an_interrupted_migration_is_found_and_finished(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, enable_v2_manifest_paths=False)
    _append(uri)
    _dies("unlink", "_versions/1.manifest", lance_core.migrate_manifest_paths_v2, after=True)(uri)
    (found,) = _found(uri)
    assert (found.kind, found.place) == (ProblemKind.MIXED_NAMES, "(manifests with V1 names: 1 of 2)")
    _mended(uri)
    assert lance.dataset(uri).count_rows() == lance_core.dataset(uri).count_rows() == 6


def test_an_empty_manifest_of_an_older_version_is_not_removed(uri: str) -> None:
    """Version numbers must have no gaps."""
    shutil.copy(Path(uri) / "_versions" / manifest_name(1), Path(uri) / "_versions" / manifest_name(4))
    (Path(uri) / "_versions" / manifest_name(3)).touch()
    (found,) = _found(uri, days=1000)
    assert (found.kind, found.is_repairable) == (ProblemKind.EMPTY_MANIFEST, False)


@pytest.mark.parametrize(
    ("method", "after"), [("reserve", False), ("finish", True)], ids=["before the commit", "after the commit"]
)
def test_abandoned_manifests_are_found_and_removed(tmp_path: Path, method: str, after: bool) -> None:
    table = Table(tmp_path / "t", tmp_path / "manifests.db")
    table.append()
    _killed(table, SqlManifests, method, after=after)
    (found,) = diagnose(table.open().log, now=time.time() + 8 * DAY)
    assert (found.kind, found.is_repairable) == (ProblemKind.ABANDONED_MANIFEST, True)
    repair(table.open().log, found)
    assert table.staged() == []
    table.open().validate()


def test_a_lost_version_is_found_and_its_row_in_the_manifest_store_is_removed(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", tmp_path / "manifests.db")
    table.append()
    log = table.open().log
    _killed(table, SqlManifests, "reserve", after=True)
    # As long as the staged manifest exists, readers finish the commit, and nothing needs repair.
    assert [each.kind for each in diagnose(log)] == []
    (table.root / "_versions" / table.staged()[0]).unlink()
    with pytest.raises(lance_core.CorruptDataError):
        table.open()
    (found,) = diagnose(log)
    assert (found.kind, found.place, found.is_repairable) == (ProblemKind.LOST_VERSION, "2", True)
    repair(log, found)
    repair(log, found)
    assert table.row(2) is None
    assert table.append() == 2


def test_the_doctor_command_repairs_only_with_the_apply_option(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*arguments: str) -> str:
        code = cli.main(["doctor", uri, *arguments])
        output = capsys.readouterr().out
        assert code == int(not output.endswith((": repaired\n", "no problems found\n")))
        return output

    _empty_manifest(uri)
    path = Path(uri) / "_versions" / manifest_name(3)
    place = f"empty manifest _versions/{path.name}, 0.0 days old:"
    assert shown("--apply") == f"{place} not old enough to repair (remove the manifest; nothing was committed)\n"
    os.utime(path, (0, 0))
    assert shown().endswith("days old: remove the manifest; nothing was committed\n")
    assert path.exists()
    assert shown("--apply").endswith("days old: repaired\n")
    assert not path.exists()
    assert shown() == "no problems found\n"


def test_the_doctor_command_refuses_an_age_without_a_time_unit(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", uri, "--min-age", "7"]) == 2
    assert "needs a unit" in capsys.readouterr().err
    assert diagnose(open_log(uri, None), min_age=timedelta(0)) == []
