"""A column change that fails at any store call leaves the old or the new columns, and no orphaned file.

A dry run counts the calls. Then every call fails in turn, before or after it takes effect: once without other writers,
and once with a concurrent writer, so that the change is planned again and rewrites the files of some fragments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.errors import CommitOutcomeUnknownError, LanceError
from lance_core.io.local_store import LocalStore
from tests.support.faulty_store import Call, Fault, FaultyStore, When, fault_at, no_fault
from tests.support.faulty_tables import fresh, through

NUMBERS = [number for number in range(9) if number not in (2, 4)]
OLD = pa.schema({"a": pa.int64(), "b": pa.int64()})


@dataclass(frozen=True)
class Change:
    """A column change, the resulting columns, and a function from the row number to the value of the last column."""

    act: Callable[[LanceDataset], None]
    columns: pa.Schema
    value: Callable[[int], int | str]


CHANGES = {
    "add": Change(
        lambda dataset: dataset.add_columns({"c": "a * 2"}), OLD.append(pa.field("c", pa.int64())), lambda a: 2 * a
    ),
    "join": Change(
        lambda dataset: dataset.merge(pa.table({"a": range(10), "c": range(0, 20, 2)}), "a"),
        OLD.append(pa.field("c", pa.int64())),
        lambda a: 2 * a,
    ),
    "cast": Change(
        lambda dataset: dataset.alter_columns({"path": "b", "data_type": pa.int16()}),
        OLD.set(1, pa.field("b", pa.int16())),
        lambda a: 10 * a,
    ),
    "rename": Change(
        lambda dataset: dataset.alter_columns({"path": "b", "name": "c"}),
        pa.schema({"a": pa.int64(), "c": pa.int64()}),
        lambda a: 10 * a,
    ),
    "drop": Change(lambda dataset: dataset.drop_columns(["b"]), OLD.remove(1), lambda a: a),
}


@pytest.fixture(params=[False, True], ids=["row addresses", "stable row ids"])
def source(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A table of three fragments, of which two have a deleted row."""
    uri = tmp_path / "source"
    for start in range(0, 9, 3):
        numbers = range(start, start + 3)
        rows = pa.table({"a": numbers, "b": [10 * number for number in numbers]}, schema=OLD)
        lance_core.write_dataset(rows, uri, mode="append", enable_stable_row_ids=request.param)
    lance_core.dataset(uri).delete("a in (2, 4)")
    return uri


@dataclass
class Rival:
    """Another writer, who commits just before the change creates its first manifest."""

    root: Path
    fault: Fault
    act: Callable[[lance.LanceDataset], object] | None = None
    after: Sequence[int] = ()
    has_acted: bool = False

    def __call__(self, call: Call) -> When | None:
        if call.method == "put_if_absent" and self.act and not self.has_acted:
            self.has_acted = True
            self.act(lance.dataset(str(self.root)))
        return self.fault(call)

    @property
    def numbers(self) -> Sequence[int]:
        """Return the rows that the table must contain."""
        return self.after if self.has_acted else NUMBERS


RIVALS = {
    "append": (lambda dataset: dataset.insert(pa.table({"a": [9], "b": [90]})), [*NUMBERS, 9]),
    "delete": (lambda dataset: dataset.delete("a = 7"), [number for number in NUMBERS if number != 7]),
    "compaction": (lambda dataset: dataset.optimize.compact_files(), NUMBERS),
}


def referenced(root: Path) -> set[str]:
    """Return the data files of all versions."""
    log = lance_core.dataset(root).log
    return {
        file.path
        for name in log.newer_than(0)
        for fragment in log.read(name).message.fragments
        for file in fragment.files
    }


def data_files(root: Path) -> set[str]:
    return {path.name for path in (root / "data").iterdir()}


def check_rows(root: Path, change: Change, numbers: Sequence[int]) -> bool:
    """Check that both libraries read the old or the new columns; return whether they are the new ones."""
    dataset = lance_core.dataset(root)
    dataset.validate()
    lance.dataset(str(root)).validate()
    is_new = dataset.schema == change.columns
    columns, value = (change.columns, change.value) if is_new else (OLD, lambda a: 10 * a)
    values = {"a": numbers, columns.names[-1]: [value(number) for number in numbers]}
    if len(columns) == 3:
        values["b"] = [10 * number for number in numbers]
    expected = pa.table(values).select(columns.names).cast(columns)
    assert dataset.to_table().equals(expected)
    assert lance.dataset(str(root)).to_table().equals(expected)
    return is_new


def check_outcome(root: Path, store: FaultyStore, change: Change, rival: Rival) -> str:
    """Make the change, check the table, and return the outcome."""
    dataset = through(store, root)
    store.fault = rival
    try:
        change.act(dataset)
        outcome = "done"
    except CommitOutcomeUnknownError:
        outcome = "unknown"
    except LanceError:
        outcome = "failed"
    is_new = check_rows(root, change, rival.numbers)
    assert outcome == "unknown" or is_new == (outcome == "done")
    assert referenced(root) <= data_files(root)
    return outcome


def check_every_call(source: Path, name: str, when: When, *rival: object) -> None:
    change, outcomes = CHANGES[name], set()
    root, dry = fresh(source), FaultyStore(LocalStore())
    assert check_outcome(root, dry, change, Rival(root, no_fault, *rival)) == "done"
    assert data_files(root) == referenced(root)
    for call in dry.calls:
        root, store = fresh(source), FaultyStore(LocalStore())
        outcome = check_outcome(root, store, change, Rival(root, fault_at(call.index, when), *rival))
        outcomes.add(outcome)
        # A file remains if its removal failed, or if a version may refer to it, as when its manifest may still arrive.
        # The temporary file of a stream whose opening failed afterward is unknown to the writer.
        if outcome == "unknown" or call.method in ("delete", "put_if_absent"):
            continue
        lost = {path for path in data_files(root) if path.startswith(".tmp") and call.method == "create"}
        assert data_files(root) - lost == referenced(root), (call, outcome)
    assert "failed" in outcomes


@pytest.mark.slow
@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("name", CHANGES)
def test_a_column_change_with_one_failed_call_leaves_the_old_or_new_columns(
    source: Path, name: str, when: When
) -> None:
    check_every_call(source, name, when)


@pytest.mark.slow
@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("name", ["add", "join", "cast"])
def test_new_columns_with_one_failed_call_and_a_concurrent_writer_leave_no_orphaned_file(
    source: Path, name: str, rival: str, when: When
) -> None:
    check_every_call(source, name, when, *RIVALS[rival])


@pytest.mark.parametrize("name", ["add", "join", "cast"])
@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.sampled(3)
def test_new_columns_are_planned_again_after_a_concurrent_write(source: Path, name: str, rival: str) -> None:
    store, change = FaultyStore(LocalStore()), CHANGES[name]
    assert check_outcome(source, store, change, Rival(source, no_fault, *RIVALS[rival])) == "done"
    assert data_files(source) == referenced(source)


@pytest.mark.parametrize("name", ["add", "join", "cast"])
def test_new_columns_with_an_unknown_outcome_keep_their_files(source: Path, name: str) -> None:
    """The version is created, but the response is lost, and the outcome cannot be determined."""
    store = FaultyStore(LocalStore())
    dataset = through(store, source)

    def fault(call: Call) -> When | None:
        is_lost = any(each.method == "put_if_absent" for each in store.calls[: call.index])
        if call.method == "put_if_absent":
            return When.AFTER
        return When.BEFORE if is_lost and call.method in ("get", "head") and "_versions" in call.path else None

    store.fault = fault
    with pytest.raises(CommitOutcomeUnknownError):
        CHANGES[name].act(dataset)
    assert not [call for call in store.calls if call.method == "delete"]
    assert check_rows(source, CHANGES[name], NUMBERS)
