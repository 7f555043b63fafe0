"""Power losses at every step of every operation on a local disk.

A dry run records what the operation writes and syncs. For each step, and after the last step, a table is restored to
what the disk contains when the power returns: none, or only a part, of the changes that were not synced. Every
acknowledged version can then be read completely. No operation leaves a file descriptor open.
"""

from pathlib import Path

import pytest

import lance_core
from lance_core.errors import CorruptDataError, DatasetNotFoundError
from tests.support.descriptors import descriptors_left_by
from tests.support.power_loss import Disk, Loss, recorded_changes
from tests.support.store_operations import NEW, OPERATIONS, beside, files_below, state, without_numbers

pytestmark = pytest.mark.usefixtures("overlays")

Found = tuple[dict[str, object], dict[str, object]]


class RecordedTable:
    """A table below a directory, and the recorded disk changes of its preparation and of the operation."""

    def __init__(self, name: str, directory: Path) -> None:
        self.operation = OPERATIONS[name]
        self.directory = directory / "work"
        self.directory.mkdir()
        self.uri = str(self.directory / "t")
        with recorded_changes(self.directory) as changes:
            self.operation.prepare(self.uri, {})
            self.num_prepared = len(changes)
            self.before, versions = self.state(), self.versions()
            self.act()
        self.changes = list(changes)
        self.after = self.state()
        # Versions that a cleanup removes need not be readable.
        self.kept = {number: rows for number, rows in versions.items() if number in self.versions()}

    def act(self) -> None:
        self.operation.act(self.uri, {})

    def state(self) -> Found:
        table = state(self.uri, {}, files_below, listing=self.operation.needs_listing)
        return table, state(beside(self.uri, "-clone"), {}, files_below) if self.operation.makes_clone else {}

    def versions(self) -> dict[int, list[str]]:
        """Return the rows of every version."""
        try:
            refs = lance_core.dataset(self.uri).version_refs()
        except DatasetNotFoundError:
            return {}
        return {ref["version"]: self.rows(ref["version"]) for ref in refs}

    def rows(self, version: int) -> list[str]:
        dataset = lance_core.dataset(self.uri, version=version)
        # The overlay file is a stub in these tests.
        columns = ["a"] if any(each.message.overlays for each in dataset.manifest.fragments) else None
        return sorted(map(repr, dataset.to_table(columns=columns).to_pylist()))

    def check_step(self, what: object) -> None:
        """Check that the table has its old or its new content, or that repeating the operation finishes it."""
        if self.operation.is_atomic:
            assert self.state() in (self.before, self.after), what
        else:
            try:
                found = self.state()
            except CorruptDataError:
                found = None
            if found not in (self.before, self.after):
                self.act()
                assert without_numbers(self.state()) == without_numbers(self.after), what
        self.check_versions(what)

    def check_versions(self, what: object) -> None:
        assert {number: self.rows(number) for number in self.kept} == self.kept, what

    def check_next_writer(self) -> None:
        try:
            dataset = lance_core.dataset(self.uri)
            columns, version = [name for name in dataset.schema.names if name in NEW.column_names], dataset.version
        except DatasetNotFoundError:
            columns, version = NEW.column_names, 0
        assert lance_core.write_dataset(NEW.select(columns), self.uri, mode="append").version == version + 1


def _lose_power(name: str, directory: Path, *, every: int) -> None:
    """Lose power before each of these steps, and after the operation was acknowledged."""
    table = RecordedTable(name, directory)
    disk = Disk()
    for change in table.changes[: table.num_prepared]:
        disk.apply(change)
    acts = table.changes[table.num_prepared :]
    assert acts
    for number, change in enumerate(acts):
        if number % every == 0:
            for loss in Loss:
                disk.restart(table.directory, loss)
                if number == 0:
                    assert table.state() == table.before, loss
                table.check_step((number, change.call, change.path, loss))
                table.check_next_writer()
        disk.apply(change)
    for loss in Loss:
        disk.restart(table.directory, loss)
        assert table.state() == table.after, loss
        table.check_versions(loss)
        table.check_next_writer()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.sampled(8)
def test_acknowledged_operation_survives_a_power_loss(operation: str, tmp_path: Path) -> None:
    _lose_power(operation, tmp_path, every=1000)


def test_power_loss_at_any_step_of_an_append_leaves_the_table_intact(tmp_path: Path) -> None:
    _lose_power("append", tmp_path, every=1)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_power_loss_at_any_step_of_every_operation_leaves_the_table_intact(operation: str, tmp_path: Path) -> None:
    _lose_power(operation, tmp_path, every=1)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.sampled(3)
def test_operation_leaves_no_file_descriptor_open(operation: str, tmp_path: Path) -> None:
    numbers = iter(range(100))

    def act() -> None:
        uri = str(tmp_path / str(next(numbers)))
        OPERATIONS[operation].prepare(uri, {})
        OPERATIONS[operation].act(uri, {})

    assert descriptors_left_by(act) == set()


def test_recorded_disk_changes_reproduce_every_file(tmp_path: Path) -> None:
    """Otherwise, some file would be written by calls that are not recorded."""
    table = RecordedTable("compaction", tmp_path)
    disk = Disk()
    for change in table.changes:
        disk.apply(change)
    found = {str(path.relative_to(table.directory)): path for path in table.directory.rglob("*") if path.is_file()}
    assert disk.files() == {name: path.read_bytes() for name, path in found.items()}
