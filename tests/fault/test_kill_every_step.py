"""Every operation on a local disk is killed (``kill -9``) before each of its system calls.

A dry run lists the calls that change the file system. For each of them, a child process runs the operation on a fresh
table and is killed there. The table then has its old or its new content; the next reader and writer of either
implementation succeed, and a cleanup removes the leftovers.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

import lance_core
from lance_core.cleanup import CleanupPolicy, plan_cleanup
from lance_core.errors import CorruptDataError
from tests.support.kill_points import Step, kill_at, steps_of
from tests.support.store_operations import NEW, OPERATIONS, StoreOperation, beside, files_below, state, without_numbers

pytestmark = pytest.mark.usefixtures("overlays")

DAY_NS = 86_400 * 10**9
RESIDUE = re.compile(r"(^|/)\.tmp|#[0-9]*$")
NOT_FOR_THE_REFERENCE = ("create index", "data overlay", "mem wal", "project", "merge")
"""Tables whose index or overlay is a stub, and tables of which a column is gone that the next writer would need."""


class Table:
    """A table below a directory, with a copy for resetting it, and a location next to it for a clone."""

    def __init__(self, directory: Path, operation: StoreOperation) -> None:
        self.directory, self.operation = directory / "work", operation
        self.directory.mkdir()
        self.uri = str(self.directory / "t")
        operation.prepare(self.uri, {})
        shutil.copytree(self.directory, directory / "copy")
        self._copy = directory / "copy"

    def go_back(self) -> None:
        shutil.rmtree(self.directory)
        shutil.copytree(self._copy, self.directory)

    def act(self) -> object:
        return self.operation.act(self.uri, {})

    def state(self) -> tuple[object, object]:
        first = state(self.uri, {}, files_below, listing=self.operation.needs_listing)
        return first, state(beside(self.uri, "-clone"), {}, files_below) if self.operation.makes_clone else {}

    def files(self) -> set[str]:
        return set(files_below(str(self.directory)))


def _kill_everywhere(name: str, directory: Path, stride: int) -> Iterator[tuple[Table, Step]]:
    operation = OPERATIONS[name]
    table = Table(directory, operation)
    before = table.state()
    steps = steps_of(table.directory, table.act)
    after = table.state()
    assert steps
    for step in steps[::stride]:
        table.go_back()
        assert kill_at(table.directory, table.act, step.number), step
        _check_state_after_kill(table, before, after, step)
        yield table, step


def _check_state_after_kill(table: Table, before: object, after: object, step: Step) -> None:
    if table.operation.is_atomic:
        assert table.state() in (before, after), step
        return
    try:
        found = table.state()
    except CorruptDataError:
        found = None
    if found != after:
        table.act()
        assert without_numbers(table.state()) == without_numbers(after), step


def _next_writers(table: Table, *, with_reference: bool) -> None:
    for library in (lance_core, lance) if with_reference else (lance_core,):
        try:
            dataset = lance_core.dataset(table.uri)
            columns, version = [name for name in dataset.schema.names if name in NEW.column_names], dataset.version
        except lance_core.DatasetNotFoundError:
            columns, version = NEW.column_names, 0
        made = library.write_dataset(NEW.select(columns), table.uri, mode="append")
        assert made.version == version + 1
        assert made.to_table(columns=["a"])["a"].to_pylist()[-2:] == [4, 5]


def _cleanup(table: Table) -> None:
    """Clean up as if thirty days had passed, so that only the latest version remains."""
    for uri in (table.uri, beside(table.uri, "-clone")):
        if not (Path(uri) / "_versions").exists():
            continue
        handle = lance_core.dataset(uri)
        if uri != table.uri:
            # Temporary files among the manifests are removed when they are older than every remaining version.
            handle.update_config({"later": "yes"})
        for tag in handle.tags.list():
            handle.tags.delete(tag)
        if any(path.is_file() for path in (Path(uri) / "tree").rglob("*")):
            handle.branches.delete("b")
        policy, later = CleanupPolicy.of(retain_versions=1), time.time_ns() + 30 * DAY_NS
        plan_cleanup(handle, policy, now_ns=later).execute()
        plan = plan_cleanup(handle, policy, now_ns=later)
        assert [*plan.removable, *plan.protected, *plan.possibly_needed] == []
    assert [path for path in table.files() if RESIDUE.search(path)] == []


def _run(name: str, directory: Path, stride: int) -> None:
    for table, _ in _kill_everywhere(name, directory, stride):
        if table.operation.makes_clone and not table.state()[1]:
            # The remaining files disturb nobody, and a new table at this location removes them.
            table.act()
        _next_writers(table, with_reference=name not in NOT_FOR_THE_REFERENCE)
        _cleanup(table)


@pytest.mark.parametrize("operation", ["append", "tag update"])
def test_an_operation_killed_at_sampled_steps_leaves_the_old_or_new_state(operation: str, tmp_path: Path) -> None:
    _run(operation, tmp_path, stride=5)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_killed_at_every_fifth_step_leaves_the_old_or_new_state(operation: str, tmp_path: Path) -> None:
    _run(operation, tmp_path, stride=5)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_killed_at_every_step_leaves_the_old_or_new_state(operation: str, tmp_path: Path) -> None:
    _run(operation, tmp_path, stride=1)


def test_the_automatic_cleanup_that_is_killed_has_versions_to_remove(tmp_path: Path) -> None:
    """Otherwise, killing it would prove nothing."""
    table = Table(tmp_path, OPERATIONS["auto cleanup"])
    assert [each["version"] for each in lance_core.dataset(table.uri).versions()] == [1, 2, 3, 4]
    unlinked = [step.path for step in steps_of(table.directory, table.act) if step.call == "unlink"]
    assert sum(path.endswith(".manifest") for path in unlinked) == 3
    assert [each["version"] for each in lance_core.dataset(table.uri).versions()] == [4, 5]


def test_recording_steps_leaves_the_test_process_unpatched() -> None:
    """Functions are patched only in child processes and during dry runs."""
    assert os.open.__module__ in ("posix", "nt")
