"""The crash table: a writer is killed right after each of its steps, with one test per row of the table.

Each test checks what the next reader of either implementation sees, that the next writers succeed, and which operation
removes the leftovers. Rows about other writers, or that need a database or an S3 server, have their tests in
``test_crash_table_external.py``, ``test_s3_faults.py`` and ``test_every_operation.py``.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.cleanup import CleanupPlan, CleanupPolicy, plan_cleanup
from lance_core.table.paths import manifest_name
from tests.support.kill_points import Step, kill_in

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
DAY_NS = 86_400 * 10**9


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(ROWS, uri)
    return uri


def _append(uri: str) -> object:
    return lance_core.write_dataset(ROWS, uri, mode="append")


def _killed(uri: str, act: Callable[[str], object], call: str, part: str, *, after: bool = False) -> None:
    """Run an operation in a child that is killed at the first such call on such a file."""

    def here(step: Step) -> bool:
        return step.call == call and part in step.path

    assert kill_in(Path(uri), lambda: act(uri), here, after=after)


def _left(uri: str, directory: str, part: str = "") -> list[str]:
    place = Path(uri) / directory
    return sorted(each.name for each in place.iterdir() if part in each.name) if place.exists() else []


def _plan(uri: str, days: float, retain_versions: int = 1) -> CleanupPlan:
    """Return the plan of a cleanup that runs in so many days."""
    policy = CleanupPolicy.of(retain_versions=retain_versions)
    return plan_cleanup(lance_core.dataset(uri), policy, now_ns=time.time_ns() + int(days * DAY_NS))


def _goes_on(uri: str, version: int, num_rows: int) -> None:
    """Check that both libraries read the version and can commit another one."""
    for library in (lance_core, lance):
        dataset = library.dataset(uri)
        dataset.validate()
        assert (dataset.version, dataset.count_rows()) == (version, num_rows)
    for number, library in enumerate((lance, lance_core), start=1):
        assert library.write_dataset(ROWS, uri, mode="append").version == version + number
    assert lance.dataset(uri).count_rows() == num_rows + 2 * ROWS.num_rows


def _removed_after_a_week(uri: str, directory: str, part: str) -> None:
    left = _left(uri, directory, part)
    assert left
    _plan(uri, 6.9).execute()
    assert _left(uri, directory, part) == left
    _plan(uri, 7.1).execute()
    assert _left(uri, directory, part) == []
    lance.dataset(uri).validate()
    lance_core.dataset(uri).validate()


def test_an_append_killed_while_writing_a_data_file_leaves_an_orphaned_file(uri: str) -> None:
    _killed(uri, _append, "write", "data/.tmp")
    _goes_on(uri, 1, 3)
    _removed_after_a_week(uri, "data", ".tmp")


def test_an_append_killed_after_writing_its_data_files_leaves_orphaned_files(uri: str) -> None:
    before = set(_left(uri, "data"))
    _killed(uri, _append, "open", "_transactions/")
    (orphan,) = set(_left(uri, "data")) - before
    _goes_on(uri, 1, 3)
    _removed_after_a_week(uri, "data", orphan)


@pytest.mark.parametrize("directory", ["_transactions", "_deletions"])
def test_a_delete_killed_before_a_rename_leaves_a_temporary_file(uri: str, directory: str) -> None:
    _killed(uri, lambda uri: lance_core.dataset(uri).delete("a = 2"), "rename", f"{directory}/", after=False)
    _goes_on(uri, 1, 3)
    _removed_after_a_week(uri, directory, ".tmp")


def test_an_append_killed_after_writing_its_transaction_leaves_an_orphaned_file(uri: str) -> None:
    before = set(_left(uri, "_transactions"))
    _killed(uri, _append, "open", "#1")
    (orphan,) = set(_left(uri, "_transactions")) - before
    _goes_on(uri, 1, 3)
    _removed_after_a_week(uri, "_transactions", orphan)


def test_an_append_killed_after_staging_its_manifest_creates_no_version(uri: str) -> None:
    _killed(uri, _append, "link", manifest_name(2))
    assert _left(uri, "_versions", "#") == [f"{manifest_name(2)}#1"]
    _goes_on(uri, 1, 3)
    _removed_after_a_week(uri, "_versions", "#")


def test_an_append_killed_after_linking_its_manifest_is_committed(uri: str) -> None:
    _killed(uri, _append, "link", manifest_name(2), after=True)
    versions = Path(uri) / "_versions"
    assert (versions / manifest_name(2)).samefile(versions / f"{manifest_name(2)}#1")
    _goes_on(uri, 2, 6)
    _removed_after_a_week(uri, "_versions", "#")


def test_a_cleanup_removes_the_staging_link_of_a_committed_manifest(uri: str) -> None:
    _killed(uri, _append, "link", manifest_name(2), after=True)
    _plan(uri, 7.1).execute()
    assert [name for name in _left(uri, "_versions") if "manifest" in name] == [manifest_name(2)]
    _goes_on(uri, 2, 6)


def test_an_append_killed_before_writing_its_version_hint_is_committed(uri: str) -> None:
    _killed(uri, _append, "open", "latest_version_hint")
    assert b'"version":1' in (Path(uri) / "_versions" / "latest_version_hint.json").read_bytes()
    _goes_on(uri, 2, 6)
    assert b'"version":4' in (Path(uri) / "_versions" / "latest_version_hint.json").read_bytes()


def test_an_append_killed_while_writing_its_version_hint_is_committed(uri: str) -> None:
    _killed(uri, _append, "write", "latest_version_hint")
    _goes_on(uri, 2, 6)
    _removed_after_a_week(uri, "_versions", ".tmp")


@pytest.mark.parametrize("part", ["data/", "_versions/", "_transactions/"])
def test_an_append_killed_during_its_automatic_cleanup_is_committed(uri: str, part: str) -> None:
    lance_core.write_dataset(ROWS, uri, mode="overwrite")
    lance_core.dataset(uri).update_config({"lance.auto_cleanup.interval": "4", "lance.auto_cleanup.min_age": "0s"})

    def removes(step: Step) -> bool:
        # The manifest of version 1, not that of a staged manifest or a temporary file.
        return step.call == "unlink" and step.path.startswith(part) and "#" not in step.path and ".tmp" not in step.path

    assert kill_in(Path(uri), lambda: _append(uri), removes, after=True)
    for library in (lance_core, lance):
        dataset = library.dataset(uri)
        dataset.validate()
        assert (dataset.version, dataset.count_rows()) == (4, 6)
    # The next cleanup removes the rest; the version before the commit is still complete.
    lance_core.dataset(uri, version=3).validate()
    _plan(uri, 0).execute()
    assert [each["version"] for each in lance_core.dataset(uri).version_refs()] == [4]
    _goes_on(uri, 4, 6)


def test_a_compaction_killed_after_its_reservation_leaves_orphaned_files(uri: str) -> None:
    _append(uri)
    before = set(_left(uri, "data"))
    _killed(uri, lambda uri: lance_core.dataset(uri).optimize.compact_files(), "link", manifest_name(4))
    (orphan,) = set(_left(uri, "data")) - before
    assert lance_core.dataset(uri).manifest.message.max_fragment_id >= 2
    _goes_on(uri, 3, 6)
    _removed_after_a_week(uri, "data", orphan)


def test_a_delete_killed_after_merging_leaves_orphaned_deletion_files(uri: str) -> None:
    stale = lance_core.dataset(uri)
    lance.dataset(uri).delete("a = 1")

    _killed(uri, lambda uri: stale.delete("a = 3"), "link", manifest_name(3))
    # That of the other writer, our first one, and the merged one.
    assert len(_left(uri, "_deletions")) == 3
    _goes_on(uri, 2, 2)
    _plan(uri, 6.9).execute()
    assert len(_left(uri, "_deletions")) == 3
    _plan(uri, 7.1).execute()
    assert len(_left(uri, "_deletions")) == 1
    lance.dataset(uri).validate()


def _half_created_branch(uri: str) -> None:
    _killed(uri, lambda uri: lance_core.dataset(uri).create_branch("b"), "open", "_refs/branches/b.json")


@pytest.mark.parametrize("repair", ["create", "delete"])
def test_a_branch_without_a_record_can_be_created_or_deleted_again(uri: str, repair: str) -> None:
    _half_created_branch(uri)
    assert lance_core.dataset(uri).branches.list() == {}
    assert lance.dataset(uri).branches.list() == {}
    if repair == "create":
        lance_core.dataset(uri).create_branch("b")
        assert lance.dataset(uri).checkout_version(("b", None)).count_rows() == 3
        assert list(lance.dataset(uri).branches.list()) == ["b"]
    else:
        lance_core.dataset(uri).branches.delete("b")
        assert not (Path(uri) / "tree").exists() or not any((Path(uri) / "tree").iterdir())
        lance.dataset(uri).create_branch("b")
    _goes_on(uri, 1, 3)


@pytest.mark.parametrize("repair", ["create", "delete"])
def test_a_branch_whose_record_was_removed_can_be_recreated(uri: str, repair: str) -> None:
    lance.dataset(uri).create_branch("b")
    _killed(
        uri, lambda uri: lance_core.dataset(uri).branches.delete("b"), "unlink", "_refs/branches/b.json", after=True
    )
    assert lance.dataset(uri).branches.list() == lance_core.dataset(uri).branches.list() == {}
    lance_core.dataset(uri).branches.delete("b")
    if repair == "create":
        lance_core.dataset(uri).create_branch("b")
        assert lance.dataset(uri).checkout_version(("b", None)).count_rows() == 3
    _goes_on(uri, 1, 3)


def test_a_branch_whose_removal_was_killed_can_be_created_again(uri: str) -> None:
    """The remaining files are not a branch, and deleting the branch again removes them."""
    lance.dataset(uri).create_branch("b").delete("a = 1")
    _killed(uri, lambda uri: lance_core.dataset(uri).branches.delete("b"), "unlink", "tree/b/_transactions", after=True)
    assert _left(uri, "tree/b/_versions") == [".tmp_removal"]
    with pytest.raises(lance_core.RefNotFoundError):
        lance_core.dataset(uri).checkout_version(("b", None))
    lance.dataset(uri).create_branch("b")
    assert lance_core.dataset(uri).checkout_version(("b", None)).count_rows() == 3
    _goes_on(uri, 1, 3)


def test_a_tag_update_killed_before_its_rename_keeps_the_old_tag(uri: str) -> None:
    lance_core.dataset(uri).tags.create("t", 1)
    _append(uri)
    _killed(uri, lambda uri: lance_core.dataset(uri).tags.update("t", 2), "rename", "_refs/tags/t.json")
    for library in (lance_core, lance):
        assert library.dataset(uri).tags.list()["t"]["version"] == 1
    _goes_on(uri, 2, 6)
    lance.dataset(uri).tags.update("t", 4)
    _removed_after_a_week(uri, "_refs/tags", ".tmp")
    assert lance.dataset(uri).tags.list()["t"]["version"] == 4


@pytest.mark.parametrize("call", ["link", "unlink"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_interrupted_migration_is_finished_when_repeated(tmp_path: Path, version: int, call: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, enable_v2_manifest_paths=False)
    for _ in range(2):
        _append(uri)
    name = manifest_name(version) if call == "link" else f"_versions/{version}.manifest"
    _killed(uri, lambda uri: lance_core.dataset(uri).migrate_manifest_paths_v2(), call, name, after=True)
    mixed = any(len(each.split(".")[0]) < 20 for each in _left(uri, "_versions", ".manifest") if "#" not in each)
    if mixed:
        with pytest.raises(lance_core.CorruptDataError, match="migrate_manifest_paths_v2"):
            lance_core.dataset(uri)
    lance_core.migrate_manifest_paths_v2(uri)
    _goes_on(uri, 3, 9)
    for each in (1, 2, 3):
        lance.dataset(uri, version=each).validate()


def test_an_empty_latest_manifest_raises_corrupt_data_and_is_named_in_the_error(uri: str) -> None:
    """Other writers may leave such a file, if they create it under its final name before writing its content."""
    _append(uri)
    (Path(uri) / "_versions" / manifest_name(3)).touch()
    for attempt in (lance_core.dataset, _append):
        with pytest.raises(lance_core.CorruptDataError, match="remove this file") as raised:
            attempt(uri)
        assert raised.value.context["path"] == os.path.join(uri, "_versions", manifest_name(3))
    assert lance_core.dataset(uri, version=2).count_rows() == 6
    (Path(uri) / "_versions" / manifest_name(3)).unlink()
    _goes_on(uri, 2, 6)
