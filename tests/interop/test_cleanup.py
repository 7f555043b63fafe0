"""Cleanups by pylance and lance_core leave the same files and report the same metrics."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.cleanup import CleanupPolicy, plan_cleanup
from lance_core.cleanup.ownership import owners_of
from lance_core.cleanup.reachability import KeepReason
from tests.support.aged_table import (
    AgedTable,
    append,
    branch,
    compact,
    create,
    delete,
    directories_below,
    index,
    on_branch,
    overwrite,
    restore,
    tag,
)

FIGURES = [
    "bytes_removed",
    "old_versions",
    "data_files_removed",
    "transaction_files_removed",
    "index_files_removed",
    "deletion_files_removed",
    "failed_deletes",
]

RESIDUE = re.compile(
    r"_versions/[0-9]+\.manifest#[0-9]+|(_transactions|_deletions|_refs/tags|_refs/branches)/\.tmp[^/]*"
)

Step = tuple[float, Callable[[AgedTable], object]]

UNKNOWN_FILES = [
    "_versions/.tmpabc",
    "_versions/.tmpd/x",
    "_versions/foo",
    "_versions/foo.manifest",
    "_versions/18446744073709551500.manifest#1",
    "_versions/18446744073709551501.manifest-0b9aa9c3-1f2b-4a2f-9c53-6b7a6c9a2d11",
    "_versions/d9223372036854775809.manifest",
    "_transactions/.tmpx",
    "_transactions/foo.bin",
    "_transactions/x.txn",
    "_transactions/sub/a.txn",
    "data/.tmpx",
    "data/x.lance",
    "data/x.LANCE",
    "data/q.lance.tmp",
    "data/x.parquet",
    "data/sub/.tmpq",
    "data/sub/b.blob",
    "data/sub/a/b.blob",
    "data/sub/k.lance",
    "_blobs/a.blob",
    "_blobs/a/b.blob",
    "_blobs/.tmpk",
    "_fri/m/x",
    "_fri/q",
    "_indices/loose",
    "_indices/u/x/y",
    "_indices/.tmpz",
    "_deletions/a.arrow",
    "_deletions/.tmpx",
    "_deletions/s/b.bin",
    "_deletions/readme.md",
    "_refs/tags/.tmp1",
    "_refs/readme.md",
    "datax/y.lance",
    "root.lance",
    "notes.txt",
]


@dataclass
class Story:
    """A table to be cleaned up: its history, unrecognized files with their ages, and the arguments of the cleanup."""

    steps: list[Step]
    files: list[tuple[str, float]] = field(default_factory=list)
    version: int | None = None
    policies: list[dict[str, Any]] = field(default_factory=list)


EVERYTHING: list[dict[str, Any]] = [
    {"older_than": timedelta(0)},
    {"older_than": timedelta(0), "delete_unverified": True},
    {"retain_versions": 2},
    {"retain_versions": 100},
    {"older_than": timedelta(days=15)},
    {"older_than": timedelta(days=3), "retain_versions": 4},
    {},
    {"versions": [2, 4, 99]},
    {"versions": [1, 2, 3], "retain_versions": 6},
]
LIFE: list[Step] = [
    (40, create),
    (30, append),
    (20, delete),
    (16, index),
    (10, append),
    (5, compact),
    (4, overwrite),
    (2, append),
    (1, delete),
]
TAGGED = [*LIFE, (0, tag("one", 1)), (0, tag("six", 6)), (0, tag("last", 10))]

STORIES = {
    "life": Story(LIFE, policies=EVERYTHING),
    "old handle": Story(LIFE, version=5, policies=EVERYTHING),
    "tagged": Story(TAGGED, policies=[{**each, "error_if_tagged_old_versions": False} for each in EVERYTHING]),
    "restored": Story(
        [(40, create), (30, overwrite), (20, append), (10, restore(1)), (5, append), (1, delete)], policies=EVERYTHING
    ),
    "unknown files, old": Story(LIFE, files=[(path, 41) for path in UNKNOWN_FILES], policies=EVERYTHING),
    "unknown files, older than a week": Story(LIFE, files=[(path, 8) for path in UNKNOWN_FILES], policies=EVERYTHING),
    "unknown files, new": Story(LIFE, files=[(path, 0.01) for path in UNKNOWN_FILES], policies=EVERYTHING),
    "unknown files, tagged": Story(
        TAGGED,
        files=[(path, 8) for path in UNKNOWN_FILES],
        policies=[{**each, "error_if_tagged_old_versions": False} for each in EVERYTHING],
    ),
    "one version": Story([(40, create)], files=[("data/x.lance", 8)], policies=EVERYTHING),
}
CASES = [
    pytest.param(name, policy, id=f"{name}-{number}")
    for name, story in STORIES.items()
    for number, policy in enumerate(story.policies)
]


def _build(root: Path, story: Story) -> AgedTable:
    table = AgedTable(root)
    for days_ago, action in story.steps:
        table.step(days_ago, action)
    for path, days_ago in story.files:
        table.put(path, days_ago)
    table.save()
    return table


def _figures(stats: object) -> dict[str, int]:
    return {name: getattr(stats, name) for name in FIGURES}


def _residue_that_goes(table: AgedTable, policy: dict[str, Any]) -> set[str]:
    """Return leftovers of killed writers, which the reference never removes, and this library removes after a week."""
    found = {path for path in table.files() if RESIDUE.fullmatch(path)}
    limit = table.now - 7 * 86_400
    old = {path for path in found if (table.root / path).stat().st_mtime < limit}
    return found if policy.get("delete_unverified") else old


def _both(table: AgedTable, version: int | None, policy: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Clean up the same table with both libraries, and return the remaining files of each.

    Leftovers that only this library removes are omitted from the remaining files of the reference; a check here covers
    their exact number.
    """
    residue = _residue_that_goes(table, policy)
    residue_bytes = sum((table.root / path).stat().st_size for path in residue)
    ours = lance_core.dataset(table.uri, version=version)
    explained = ours.explain_cleanup_old_versions(**policy, include_files=True, max_files=10_000)
    before = table.files()
    removed = ours.cleanup_old_versions(**policy)
    left = table.files()
    directories = directories_below(table.root)
    # The explained files are exactly the removed files.
    assert explained.stats == removed
    assert {Path(file.path).relative_to(table.root).as_posix() for file in explained.candidate_files} == before - left
    table.go_back()
    theirs = lance.dataset(table.uri, version=version)
    their_explained = theirs.explain_cleanup_old_versions(**policy, include_files=True, max_files=10_000)
    their_removed = theirs.cleanup_old_versions(**policy)
    assert table.files() >= residue
    their_left = table.files() - residue
    assert removed.residue_files_removed == len(residue)
    if left == their_left:
        figures = _figures(removed)
        figures["bytes_removed"] -= residue_bytes
        assert figures == _figures(their_removed)
        assert directories == directories_below(table.root)
        listed = [
            {(Path("/" + file.path.lstrip("/")), file.kind, file.size_bytes) for file in each.candidate_files}
            for each in (explained, their_explained)
        ]
        listed[1] |= {(table.root / path, "residue", (table.root / path).stat().st_size) for path in residue}
        assert listed[0] == listed[1]
    assert [(each.name, each.referenced_version) for each in explained.referenced_branches] == sorted(
        (each.name, each.referenced_version) for each in their_explained.referenced_branches
    )
    assert explained.read_version == their_explained.read_version
    return left, their_left


def _check_versions(uri: str) -> None:
    """Check that every remaining version is complete in both libraries."""
    for each in lance_core.dataset(uri).version_refs():
        lance.dataset(uri, version=each["version"]).validate()
        lance_core.dataset(uri, version=each["version"]).validate()


@pytest.fixture(scope="module")
def table_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], AgedTable]:
    """Return the table of a story, which is built only once."""
    built: dict[str, AgedTable] = {}

    def get(name: str) -> AgedTable:
        if name not in built:
            built[name] = _build(tmp_path_factory.mktemp("cleanup") / "table", STORIES[name])
        built[name].go_back()
        return built[name]

    return get


@pytest.mark.parametrize(("name", "policy"), CASES)
@pytest.mark.sampled(5)
def test_cleanups_of_lance_core_and_pylance_leave_the_same_files(
    table_of: Callable[[str], AgedTable], name: str, policy: dict[str, Any]
) -> None:
    table, story = table_of(name), STORIES[name]
    left, their_left = _both(table, story.version, policy)
    assert left == their_left
    table.go_back()
    lance_core.dataset(table.uri, version=story.version).cleanup_old_versions(**policy)
    _check_versions(table.uri)
    # A second cleanup finds nothing.
    again = lance_core.dataset(table.uri, version=story.version).cleanup_old_versions(**policy)
    assert _figures(again) == dict.fromkeys(FIGURES, 0)


# ── Branches ──────────────────────────────────────────────────────────────────────────────────────────────────────

BRANCHES = {
    "untouched": [(9, branch("x", 2))],
    "continued": [(9, branch("x", 2)), (8, on_branch("x", lambda handle: handle.delete("a = 1")))],
    "of a branch": [(9, branch("x/y", 3)), (8, branch("z", 3, of="x/y"))],
    "two": [(9, branch("x", 2)), (8, branch("y", 4)), (7, tag("t", 1))],
    "emptied": [
        (9, branch("x", 2)),
        (8, on_branch("x", lambda handle: handle.delete("true"))),
        (7, on_branch("x", lambda handle: handle.cleanup_old_versions(timedelta(0)))),
    ],
    "of the last version": [(9, branch("x", 6))],
}


@pytest.mark.parametrize(
    "policy",
    [
        {"older_than": timedelta(0)},
        {"older_than": timedelta(days=15)},
        {"retain_versions": 2, "delete_unverified": True},
    ],
)
@pytest.mark.parametrize("name", BRANCHES)
@pytest.mark.sampled(6)
def test_a_cleanup_keeps_files_that_branches_use(tmp_path: Path, name: str, policy: dict[str, Any]) -> None:
    policy = {**policy, "error_if_tagged_old_versions": False}
    steps = [(40, create), (30, append), (20, delete), (16, index), (14, overwrite), (12, append), *BRANCHES[name]]
    table = _build(tmp_path / "table", Story(steps))
    left, their_left = _both(table, None, policy)
    table.go_back()
    dataset = lance_core.dataset(table.uri)
    plan = plan_cleanup(dataset, CleanupPolicy.of(**policy))
    # The reference keeps the manifest of a version from which a branch was created, but only those files that the
    # branch uses; in this library, such a version remains complete.
    whole = [version for version, reason in plan.kept_versions.items() if reason is KeepReason.BRANCH]
    owners = {owner for version in whole for owner in owners_of(dataset.log.read_version(version), dataset.log.root)}
    assert their_left <= left
    assert left - their_left <= owners
    plan.execute()
    _check_versions(table.uri)
    for each in lance.dataset(table.uri).branches.list():
        handle = lance.dataset(table.uri).checkout_version((each, None))
        handle.validate()
        assert handle.to_table().num_rows == handle.count_rows()


def test_a_cleanup_keeps_files_of_a_branch_without_a_record(tmp_path: Path) -> None:
    table = _build(tmp_path / "table", Story([(40, create), (30, overwrite), (9, branch("x", 1))]))
    (table.root / "_refs/branches/x.json").unlink()
    plan = plan_cleanup(lance_core.dataset(table.uri), CleanupPolicy.of(timedelta(0)))
    assert plan.kept_versions[1] is KeepReason.BRANCH
    assert plan.removable == []
    assert {path.path.split("/")[1] for path in plan.possibly_needed} == {"x"}
    plan.execute()
    assert lance.dataset(str(table.root / "tree/x")).count_rows() == 20


def test_a_cleanup_keeps_files_of_a_branch_created_after_the_cleanup_was_planned(tmp_path: Path) -> None:
    table = _build(tmp_path / "table", Story(LIFE))
    plan = plan_cleanup(lance_core.dataset(table.uri), CleanupPolicy.of(timedelta(0)))
    lance.dataset(table.uri).create_branch("late", 4)
    rows = lance.dataset(table.uri, version=4).to_table()
    stats = plan.execute()
    assert (stats.old_versions, stats.spared_versions) == (8, 1)
    assert [each["version"] for each in lance_core.dataset(table.uri).version_refs()] == [4, 10]
    assert lance.dataset(table.uri).checkout_version(("late", None)).to_table().equals(rows)
    _check_versions(table.uri)


def test_a_version_restored_after_a_cleanup_was_planned_has_all_its_rows(tmp_path: Path) -> None:
    table = _build(tmp_path / "table", Story(LIFE))
    plan = plan_cleanup(lance_core.dataset(table.uri), CleanupPolicy.of(timedelta(0)))
    rows = lance.dataset(table.uri, version=4).to_table()
    lance.dataset(table.uri, version=4).restore()
    assert plan.execute().old_versions == 9
    assert lance.dataset(table.uri).to_table().equals(rows)
    assert lance_core.dataset(table.uri).to_table().equals(rows)
    _check_versions(table.uri)


# ── Errors ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cleanup_that_would_remove_tagged_versions_fails_in_lance_core_and_pylance(tmp_path: Path) -> None:
    table = _build(tmp_path / "table", Story(TAGGED))
    for dataset in (lance.dataset(table.uri), lance_core.dataset(table.uri)):
        for verb in (dataset.cleanup_old_versions, dataset.explain_cleanup_old_versions):
            before = table.files()
            with pytest.raises(OSError, match=r"2 tagged version\(s\)"):
                verb(older_than=timedelta(0))
            # The tagged version does not meet the conditions for removal.
            assert table.files() == before
    assert lance_core.dataset(table.uri).cleanup_old_versions(versions=[2]).old_versions == 1


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"retain_versions": 0}, OSError),
        ({"versions": []}, OSError),
        ({"delete_concurrency": 0}, OSError),
        ({"delete_rate_limit": 0}, OSError),
        ({"older_than": 5}, TypeError),
        ({"retain_versions": 1.5}, TypeError),
        ({"retain_versions": "3"}, TypeError),
        ({"versions": 5}, TypeError),
        ({"versions": "12"}, TypeError),
        ({"versions": [1.0]}, TypeError),
        ({"delete_unverified": "no"}, TypeError),
        ({"error_if_tagged_old_versions": 1}, TypeError),
        ({"delete_rate_limit": 8.0}, TypeError),
        ({"delete_concurrency": "8"}, TypeError),
    ],
)
def test_invalid_cleanup_arguments_raise_the_same_errors_as_in_pylance(
    tmp_path: Path, arguments: dict[str, Any], kind: type[Exception]
) -> None:
    table = _build(tmp_path / "table", Story([(40, create), (30, append)]))
    before = table.files()
    for dataset in (lance.dataset(table.uri), lance_core.dataset(table.uri)):
        with pytest.raises(kind):
            dataset.cleanup_old_versions(**arguments)
    assert table.files() == before


def test_negative_cleanup_arguments_are_refused(tmp_path: Path) -> None:
    table = _build(tmp_path / "table", Story([(40, create), (30, append)]))
    dataset = lance_core.dataset(table.uri)
    for arguments in ({"retain_versions": -1}, {"versions": [-1]}, {"older_than": timedelta(-1)}):
        with pytest.raises(lance_core.InvalidCleanupError):
            dataset.cleanup_old_versions(**arguments)


def test_listed_candidates_are_limited_to_max_files(tmp_path: Path) -> None:
    table = _build(tmp_path / "table", Story(LIFE))
    for dataset in (lance.dataset(table.uri), lance_core.dataset(table.uri)):
        with pytest.raises(ValueError, match="max_files must be positive"):
            dataset.explain_cleanup_old_versions(max_files=0)
        few = dataset.explain_cleanup_old_versions(timedelta(0), include_files=True, max_files=2)
        assert (len(few.candidate_files), few.candidate_files_truncated, few.candidate_file_limit) == (2, True, 2)
        assert few.warnings == ["candidate_files truncated to 2 entries"]
        none = dataset.explain_cleanup_old_versions(timedelta(0), max_files=2)
        assert (none.candidate_files, none.candidate_files_truncated, none.warnings) == ([], False, [])
        assert none.stats.old_versions == 9


@pytest.mark.parametrize("damage", ["manifest", "tag", "branch"])
def test_an_unreadable_manifest_or_ref_stops_the_cleanup(tmp_path: Path, damage: str) -> None:
    table = _build(tmp_path / "table", Story([*LIFE, (0, tag("one", 1)), (0, branch("x", 3))]))
    path = {
        "manifest": next((table.root / "_versions").glob("*612.manifest")),
        "tag": table.root / "_refs/tags/one.json",
        "branch": table.root / "_refs/branches/x.json",
    }[damage]
    path.write_bytes(b"{")
    before = table.files()
    for dataset in (lance_core.dataset(table.uri), lance.dataset(table.uri)):
        with pytest.raises((lance_core.CorruptDataError, OSError, ValueError, RuntimeError)):
            dataset.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
        assert table.files() == before


def test_an_unreadable_manifest_of_a_branch_stops_the_cleanup(tmp_path: Path) -> None:
    table = _build(tmp_path / "table", Story([*LIFE, (0, branch("x", 3))]))
    [manifest] = (table.root / "tree/x/_versions").glob("*.manifest")
    manifest.write_bytes(manifest.read_bytes()[:-5])
    before = table.files()
    with pytest.raises(lance_core.CorruptDataError, match=manifest.name):
        lance_core.dataset(table.uri).cleanup_old_versions(timedelta(0))
    assert table.files() == before


# ── Locations ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cleanup_keeps_files_outside_the_root_of_the_table(tmp_path: Path) -> None:
    source = _build(tmp_path / "source", Story([(40, create), (30, append)]))
    clone = tmp_path / "clone"
    lance.dataset(source.uri).shallow_clone(str(clone), 2)
    lance.dataset(str(clone)).delete("a < 5")
    lance.write_dataset(lance.dataset(source.uri).to_table(), str(clone), mode="overwrite")
    before = source.files()
    assert lance_core.dataset(clone).cleanup_old_versions(timedelta(0)).old_versions == 2
    assert source.files() == before
    lance.dataset(str(clone)).validate()


def test_a_cleanup_of_a_copied_table_does_not_depend_on_the_age_of_files(tmp_path: Path) -> None:
    """All files are newer than all versions; the reference would ignore the files and never remove them."""
    table = _build(tmp_path / "table", Story(LIFE))
    for path in table.files():
        (table.root / path).touch()
    plan = plan_cleanup(lance_core.dataset(table.uri), CleanupPolicy.of(timedelta(0)))
    table.go_back()
    assert plan_cleanup(lance_core.dataset(table.uri), CleanupPolicy.of(timedelta(0))).stats == plan.stats


def test_a_cleanup_of_a_table_with_old_manifest_names_leaves_the_same_files_as_in_pylance(tmp_path: Path) -> None:
    table = AgedTable(tmp_path / "table")
    table.step(40, lambda each: lance.write_dataset({"a": [1]}, each.uri, enable_v2_manifest_paths=False))
    for _ in range(3):
        table.step(30, lambda each: lance.write_dataset({"a": [1]}, each.uri, mode="overwrite"))
    table.save()
    left, their_left = _both(table, None, {"retain_versions": 2})
    assert left == their_left
    assert [each["version"] for each in lance_core.dataset(table.uri).version_refs()] == [3, 4]


def test_a_cleanup_removes_files_in_linked_directories_as_in_pylance(tmp_path: Path) -> None:
    table = _build(tmp_path / "table", Story(LIFE))
    for name in ("data", "_deletions", "_indices"):
        (table.root / name).rename(tmp_path / name)
        (table.root / name).symlink_to(tmp_path / name)
    theirs = lance.dataset(table.uri).explain_cleanup_old_versions(timedelta(0))
    ours = lance_core.dataset(table.uri).cleanup_old_versions(timedelta(0))
    assert _figures(ours) == _figures(theirs.stats)
    _check_versions(table.uri)


@pytest.mark.parametrize("library", [lance, lance_core])
def test_a_cleanup_removes_dropped_indices_from_a_linked_index_directory(tmp_path: Path, library: ModuleType) -> None:
    """A cleanup follows the link to the directory, but not links inside the directory."""
    table, elsewhere, outside = tmp_path / "table", tmp_path / "elsewhere", tmp_path / "outside"
    dataset = lance.write_dataset(pa.table({"a": range(100)}), table)
    dataset.create_scalar_index("a", "BTREE", name="i")
    (table / "_indices").rename(elsewhere)
    (table / "_indices").symlink_to(elsewhere, target_is_directory=True)
    outside.mkdir()
    (outside / "precious").write_text("x")
    if library is lance_core:
        # The reference follows such a link and removes what it finds.
        (elsewhere / "link").symlink_to(outside, target_is_directory=True)
    assert [path for path in elsewhere.rglob("*") if path.is_file()]
    lance.dataset(table).drop_index("i")
    library.dataset(table).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert not [path for path in elsewhere.rglob("*") if path.is_file() and path.parent != elsewhere / "link"]
    assert (outside / "precious").read_text() == "x"
    assert library.dataset(table).count_rows(filter="a < 10") == 10
