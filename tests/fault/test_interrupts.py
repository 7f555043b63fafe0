"""An interrupt (Ctrl-C) at any store call of any write leaves no unreferenced file.

A dry run lists the calls. Then, for each of them, the write runs on a fresh table and ``KeyboardInterrupt`` is raised
there, before or after the call takes effect. The table opens at the old or the new version. Files that no version
refers to are removed, except when the interrupt occurs during the request that creates the version: then the outcome is
unknown to the writer, and no file may be removed that the version might refer to.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.api.dataset import LanceDataset
from lance_core.io.local_store import LocalStore
from lance_core.io.uri import register_store, unregister_store
from lance_core.table.deletion_file import deletion_file_path
from lance_core.table.paths import HOLD_PREFIX
from lance_core.table.version_log import VersionLog
from tests.support.faulty_store import Call, Fault, FaultyStore, When, fault_at, no_fault

URI = "memory://faulty/table"
ROOT = "table"
TARGET = {"target_rows_per_fragment": 20}
NEW = pa.table({"a": range(100, 130)})


class InterruptedStore(FaultyStore):
    """A store that raises ``KeyboardInterrupt`` at one call, as if the user pressed Ctrl-C."""

    was_interrupted = False

    def _failure(self, call: Call) -> BaseException:
        self.was_interrupted = True
        return KeyboardInterrupt(f"at call {call.index}: {call.method} {call.path}")


def _nothing() -> None:
    """Prepare no table."""


def _five_fragments(**more: object) -> None:
    for start in range(0, 50, 10):
        lance_core.write_dataset(pa.table({"a": range(start, start + 10)}), URI, mode="append", **more)
    lance_core.dataset(URI).delete("a in (3, 12)")


def _two_columns() -> None:
    lance_core.write_dataset(pa.table({"a": range(10), "b": range(10)}), URI)


def _append(rows: pa.Table = NEW, mode: str = "append", **more: object) -> Callable[[], object]:
    return lambda: lance_core.write_dataset(rows, URI, mode=mode, **more)


def _on(verb: Callable[[LanceDataset], object]) -> Callable[[], object]:
    return lambda: verb(lance_core.dataset(URI))


@dataclass(frozen=True)
class Write:
    """A write.

    Attributes:
        act: runs the write.
        prepare: creates the table that exists before the write.
        rival: the commit of another writer when the first file of the write is complete.
    """

    act: Callable[[], object]
    prepare: Callable[[], object] = _five_fragments
    rival: Callable[[], object] | None = None


CAST = {"path": "a", "data_type": pa.int32()}
SEVENS = pa.table({"a": [700, 7000]})


def _upsert(dataset: LanceDataset) -> None:
    rows = pa.table({"a": [3, 13, 23, 777]})
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _update_in_place(dataset: LanceDataset) -> None:
    merge = dataset.merge_insert("a").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(pa.table({"a": [3, 4], "b": [30, 40]}))


def _replace_by_source(dataset: LanceDataset) -> None:
    merge = dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    merge.when_not_matched_by_source_delete("a % 2 = 0").execute(pa.table({"a": [3, 13, 777]}))


def _add_by_function(dataset: LanceDataset) -> None:
    column = pa.field("z", pa.int64())
    add = lance_core.batch_udf(pa.schema([column]))(lambda batch: pa.record_batch({"z": batch["a"]}))
    dataset.add_columns(add)


def _three_columns() -> None:
    for start in (0, 5):
        numbers = range(start, start + 5)
        rows = pa.table({"a": numbers, "b": numbers, "c": numbers})
        lance_core.write_dataset(rows, URI, mode="append" if start else "create")


WRITES = {
    "create": Write(_append(mode="create", max_rows_per_file=10), _nothing),
    "append": Write(_append(max_rows_per_file=10)),
    "append, first": Write(_append(), _nothing),
    "append, first, of two": Write(_append(), _nothing, _append(pa.table({"a": [7]}))),
    "append beside another": Write(_append(), rival=_append(pa.table({"a": [7]}))),
    "append of other columns than a rival's": Write(_append(), _nothing, _append(pa.table({"a": ["x"]}))),
    "append after an overwrite": Write(_append(), rival=_append(pa.table({"b": [7]}), mode="overwrite")),
    "append in format 0.1": Write(
        _append(max_rows_per_file=10), lambda: _five_fragments(data_storage_version="legacy")
    ),
    "overwrite": Write(_append(mode="overwrite")),
    "delete": Write(_on(lambda dataset: dataset.delete("a % 7 = 0"))),
    "delete beside another": Write(
        _on(lambda dataset: dataset.delete("a % 7 = 0")), rival=_on(lambda dataset: dataset.delete("a % 10 = 1"))
    ),
    "delete of the same rows": Write(
        _on(lambda dataset: dataset.delete("a % 7 = 0")), rival=_on(lambda dataset: dataset.delete("a < 10"))
    ),
    "replacement": Write(_on(lambda dataset: dataset.replace_rows("a % 7 = 0", SEVENS, max_rows_per_file=1))),
    "replacement beside a delete": Write(
        _on(lambda dataset: dataset.replace_rows("a % 7 = 0", SEVENS)),
        rival=_on(lambda dataset: dataset.delete("a % 10 = 1")),
    ),
    "replacement beside an append": Write(
        _on(lambda dataset: dataset.replace_rows("a % 7 = 0", SEVENS)), rival=_append(pa.table({"a": [77]}))
    ),
    "update": Write(_on(lambda dataset: dataset.update({"a": "a + 500"}, "a % 7 = 0"))),
    "update of all rows": Write(_on(lambda dataset: dataset.update({"a": "a + 500"}))),
    "update beside a delete": Write(
        _on(lambda dataset: dataset.update({"a": "a + 500"}, "a % 7 = 0")),
        rival=_on(lambda dataset: dataset.delete("a % 10 = 1")),
    ),
    "update of the same rows": Write(
        _on(lambda dataset: dataset.update({"a": "a + 500"}, "a % 7 = 0")),
        rival=_on(lambda dataset: dataset.update({"a": "a + 50"}, "a % 7 = 0")),
    ),
    "upsert": Write(_on(lambda dataset: _upsert(dataset))),
    "upsert beside a delete": Write(
        _on(lambda dataset: _upsert(dataset)), rival=_on(lambda dataset: dataset.delete("a % 10 = 1"))
    ),
    "upsert beside an append": Write(_on(lambda dataset: _upsert(dataset)), rival=_append(pa.table({"a": [77]}))),
    "upsert of the same rows": Write(
        _on(lambda dataset: _upsert(dataset)), rival=_on(lambda dataset: _upsert(dataset))
    ),
    "columns in place": Write(_on(_update_in_place), _three_columns),
    "columns in place beside an append": Write(
        _on(_update_in_place),
        _three_columns,
        _append(pa.table({"a": [4], "b": [4], "c": [4]})),
    ),
    "columns in place beside others": Write(_on(_update_in_place), _three_columns, _on(_update_in_place)),
    "replacement by source": Write(_on(_replace_by_source)),
    "replacement by source beside a delete": Write(
        _on(_replace_by_source), rival=_on(lambda dataset: dataset.delete("a % 10 = 1"))
    ),
    "added by a function": Write(_on(_add_by_function)),
    "required": Write(_on(lambda dataset: dataset.alter_columns({"path": "a", "nullable": False}))),
    "compaction": Write(_on(lambda dataset: dataset.optimize.compact_files(**TARGET))),
    "compaction with threads": Write(_on(lambda dataset: dataset.optimize.compact_files(num_threads=2, **TARGET))),
    "compaction that loses a group": Write(
        _on(lambda dataset: dataset.optimize.compact_files(**TARGET)),
        rival=_on(lambda dataset: dataset.delete("a = 5")),
    ),
    "compaction that loses every group": Write(
        _on(lambda dataset: dataset.optimize.compact_files(**TARGET)), rival=_append(mode="overwrite")
    ),
    "added values": Write(_on(lambda dataset: dataset.add_columns({"z": "a + 1"}))),
    "added values beside an append": Write(
        _on(lambda dataset: dataset.add_columns({"z": "a + 1"})), rival=_append(pa.table({"a": [7]}))
    ),
    "joined values": Write(_on(lambda dataset: dataset.merge(pa.table({"a": [1, 7], "z": [2, 8]}), "a"))),
    "cast": Write(_on(lambda dataset: dataset.alter_columns(CAST))),
    "cast beside a delete": Write(
        _on(lambda dataset: dataset.alter_columns(CAST)), rival=_on(lambda dataset: dataset.delete("a = 5"))
    ),
    "cast that finds another": Write(
        _on(lambda dataset: dataset.alter_columns(CAST)), rival=_on(lambda dataset: dataset.alter_columns(CAST))
    ),
    "rename": Write(_on(lambda dataset: dataset.alter_columns({"path": "a", "name": "b"}))),
    "drop": Write(_on(lambda dataset: dataset.drop_columns(["b"])), _two_columns),
    "restore": Write(_on(lambda dataset: dataset.checkout_version(2).restore())),
    "config": Write(_on(lambda dataset: dataset.update_config({"key": "value"}))),
    "project": Write(
        _on(lambda dataset: LanceDataset.commit(URI, LanceOperation.Project(dataset.lance_schema), dataset.version))
    ),
    "detached": Write(
        _on(
            lambda dataset: LanceDataset.commit(
                dataset, LanceOperation.Append([]), read_version=dataset.version, detached=True
            )
        )
    ),
}


@dataclass
class Bench:
    """Creates a new copy of a table in a local directory for each run."""

    directory: Path
    prepared: set[str] = field(default_factory=set)

    def run(self, name: str, fault: Fault = no_fault) -> tuple[InterruptedStore, BaseException | None]:
        """Run a write on a new table with this fault; return the store and the exception."""
        write, store = WRITES[name], self._fresh(name)
        rivals = [] if write.rival is None else [write.rival]

        def both(call: Call) -> When | None:
            if rivals and call.method in ("commit", "put"):
                act, calls = rivals.pop(), store.calls
                store.calls, store.fault = [], no_fault
                act()
                store.calls, store.fault = calls, both
            return fault(call)

        store.fault = both
        try:
            write.act()
        except (KeyboardInterrupt, lance_core.LanceError) as error:
            raised: BaseException | None = error.with_traceback(None)
        else:
            raised = None
        store.fault = no_fault
        # Objects that the interrupted frames hold are released with the traceback.
        gc.collect()
        return store, raised

    def _fresh(self, name: str) -> InterruptedStore:
        table, source = self.directory / ROOT, self.directory / f"before {name}"
        shutil.rmtree(table, ignore_errors=True)
        store = InterruptedStore(LocalStore())
        register_store("faulty", store)
        if not source.exists():
            WRITES[name].prepare()
            table.mkdir(exist_ok=True)
            shutil.copytree(table, source)
        else:
            shutil.copytree(source, table)
        store.calls.clear()
        return store

    def files(self) -> set[str]:
        """Return all files of the table."""
        root = self.directory / ROOT
        return {str(path.relative_to(self.directory)) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    # Paths of the memory scheme are relative, so that a local store below it works in this directory.
    monkeypatch.chdir(tmp_path)
    # Each run collects garbage; freeze the objects of earlier tests to save time.
    gc.collect()
    gc.freeze()
    yield Bench(tmp_path)
    unregister_store("faulty")


def named(store: InterruptedStore) -> set[str]:
    """Return all files to which a version refers, the manifests, and the version hint."""
    log = VersionLog(store.inner, ROOT)
    versions = [log.read(name) for name in log.newer_than(0)]
    files = {log.path(name) for name in log.newer_than(0)} | {f"{ROOT}/_versions/latest_version_hint.json"}
    for manifest in versions:
        files.add(f"{ROOT}/_transactions/{manifest.message.transaction_file}")
        for fragment in manifest.fragments:
            files |= {f"{ROOT}/data/{file.path}" for file in fragment.files}
            if fragment.deletion_file is not None:
                files.add(deletion_file_path(store.inner, ROOT, fragment.id, fragment.deletion_file))
    return files


def removed(calls: Sequence[Call]) -> set[str]:
    """Return the removed files, except the mark of a version that is being restored."""
    return {call.path for call in calls if call.method == "delete" and HOLD_PREFIX not in call.path}


def made(calls: Sequence[Call]) -> list[str]:
    """Return the written data files and deletion files in order."""
    return [
        call.path for call in calls if call.method == "create" or (call.method == "put" and "_deletions" in call.path)
    ]


def makes_a_version(call: Call) -> bool:
    return call.method == "put_if_absent" and "_versions" in call.path


OFTEN = {"append", "append, first, of two", "delete beside another", "compaction that loses a group"}
"""Those of the default run."""


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in WRITES]
)
@pytest.mark.sampled(2)
def test_an_interrupt_at_any_call_leaves_no_unreferenced_file(bench: Bench, name: str, when: When) -> None:
    store, _ = bench.run(name)
    # What the complete run removes as well, by the order of making: files of groups that were lost, and deletion
    # files that were merged with those of another writer.
    lost = {index for index, path in enumerate(made(store.calls)) if path in removed(store.calls)}
    making = [call.index for call in store.calls if makes_a_version(call)]
    # Each round of a compaction makes a version that reserves ids and names no file, and one that names the new files.
    reserving, deciding = (making[::2], making[1::2]) if name.startswith("compaction") else ([], making)
    for index in range(len(store.calls)):
        store, raised = bench.run(name, fault_at(index, when))
        call = store.calls[index]
        if not store.was_interrupted:
            # No call follows a request that fails without an interrupt.
            assert (call.method, when) == ("head", When.AFTER), call
            continue
        assert isinstance(raised, KeyboardInterrupt), call
        left = bench.files() - named(store)
        if name == "detached":
            left = {path for path in left if not path.startswith(f"{ROOT}/_versions/d")}
        if index in deciding:
            files = enumerate(made(store.calls))
            assert removed(store.calls[index:]) <= {path for number, path in files if number in lost}, call
        elif index in reserving:
            assert {path.split("/")[1] for path in left} <= {"_transactions"}, call
        else:
            assert not left, call
        if any("/_versions/" in path for path in bench.files()):
            dataset = lance_core.dataset(URI)
            dataset.validate()
            dataset.to_table()
