"""A writer commits late, after other writers changed the same rows, fragments, and settings.

The versions of the other writers then resemble versions that build on the late commit: a deletion file was replaced,
a fragment with the same id was dropped, or a compaction rewrote a fragment with deletions.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    IncompatibleTransactionError,
    SchemaMismatchError,
)
from lance_core.table.version_log import VersionLog
from tests.support.numbered_rows import numbers_twice

REFUSALS = (CommitConflictError, CommitOutcomeUnknownError, IncompatibleTransactionError, SchemaMismatchError)
NO_AGE = timedelta(0)


def _numbers(uri: str) -> list[int]:
    return sorted(lance_core.dataset(uri).to_table(columns=["a"])["a"].to_pylist())


def _append(module: ModuleType, uri: str, number: int) -> None:
    names = module.dataset(uri).schema.names
    module.write_dataset(pa.table({name: pa.array([number], pa.int64()) for name in names}), uri, mode="append")


def _append_new(module: ModuleType, uri: str) -> None:
    _append(module, uri, max(100, *_numbers(uri)) + 1)


def _drop_b(module: ModuleType, uri: str) -> None:
    dataset = module.dataset(uri)
    if module is lance:
        dataset.drop_columns(["b"])
    else:
        operation = lance_core.LanceOperation.Project(dataset.lance_schema.project(["a"]))
        lance_core.LanceDataset.commit(uri, operation, read_version=dataset.version)


Change = Callable[[ModuleType, str], object]

OURS: dict[str, Change] = {
    "append": lambda module, uri: _append(module, uri, 50),
    "delete": lambda module, uri: module.dataset(uri).delete("a = 0"),
    "delete in two fragments": lambda module, uri: module.dataset(uri).delete("a in (0, 10)"),
    "delete a fragment": lambda module, uri: module.dataset(uri).delete("a >= 10 AND a < 20"),
    "delete a fragment and rows": lambda module, uri: module.dataset(uri).delete("a = 0 OR (a >= 10 AND a < 20)"),
    "config": lambda module, uri: module.dataset(uri).update_config({"ours": "value"}),
    "project": _drop_b,
}
SHOWS: dict[str, Callable[[str], bool]] = {
    "append": lambda uri: 50 in _numbers(uri),
    "delete": lambda uri: 0 not in _numbers(uri),
    "delete in two fragments": lambda uri: not {0, 10} & set(_numbers(uri)),
    "delete a fragment": lambda uri: not set(range(10, 20)) & set(_numbers(uri)),
    "delete a fragment and rows": lambda uri: not {0, *range(10, 20)} & set(_numbers(uri)),
    "config": lambda uri: lance_core.dataset(uri).config().get("ours") == "value",
    "project": lambda uri: "b" not in lance_core.dataset(uri).schema.names,
}
CHANGES: dict[str, Change] = {
    "append": _append_new,
    "delete the appended": lambda module, uri: module.dataset(uri).delete("a >= 100"),
    "delete another row": lambda module, uri: module.dataset(uri).delete("a = 1"),
    "delete the same row": lambda module, uri: module.dataset(uri).delete("a in (0, 2)"),
    "delete the rest": lambda module, uri: module.dataset(uri).delete("a > 0 AND a < 10"),
    "compact": lambda module, uri: module.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000),
    "config": lambda module, uri: module.dataset(uri).update_config({"theirs": "value"}),
    "overwrite": lambda module, uri: module.write_dataset(numbers_twice(*range(20)), uri, mode="overwrite"),
    "restore": lambda module, uri: module.dataset(uri).restore(),
    "project": lambda module, uri: (
        _drop_b(module, uri) if "b" in module.dataset(uri).schema.names else _append_new(module, uri)
    ),
}
SUPERSEDING = {"overwrite", "restore"}
"""Changes after which nothing of one before them needs to be left."""


class Schedule:
    """The commits of other writers right before the late commit."""

    def __init__(self, uri: str, changes: tuple[str, ...], module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.uri, self.changes, self.module = uri, changes, module
        self.is_armed = True
        self.after: list[int] = []
        create = VersionLog.create

        def create_late(log: VersionLog, *arguments: object) -> object:
            if self.is_armed:
                self.is_armed = False
                self.run()
            return create(log, *arguments)

        monkeypatch.setattr(VersionLog, "create", create_late)

    def run(self) -> None:
        for change in self.changes:
            CHANGES[change](self.module, self.uri)
        self.module.dataset(self.uri).cleanup_old_versions(older_than=NO_AGE)
        self.after = _numbers(self.uri)


def _check_late_commit(
    ours: str, changes: tuple[str, ...], module: ModuleType, uri: str, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    lance_core.write_dataset(numbers_twice(*range(20)), uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    with monkeypatch.context() as patch:
        schedule = Schedule(uri, changes, module, patch)
        raised: Exception | None = None
        try:
            OURS[ours](lance_core, uri)
        except REFUSALS as error:
            raised = error
    assert not schedule.is_armed, "ours made no version"
    latest = lance_core.dataset(uri)
    latest.validate()
    numbers = _numbers(uri)
    assert len(numbers) == len(set(numbers)), f"rows are there twice: {numbers}"
    if raised is None:
        assert SHOWS[ours](uri) or SUPERSEDING & set(changes), f"acknowledged, and not in the table: {numbers}"
        gone = set(schedule.after) - set(numbers)
        assert all(number < 20 for number in gone), f"rows of others are lost: {gone}"
    else:
        assert numbers == schedule.after, f"refused, and the table is another: {raised}"


def _make(length: int) -> list[tuple[str, ...]]:
    return list(itertools.product(CHANGES, repeat=length))


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@pytest.mark.parametrize("ours", OURS)
def test_a_late_commit_takes_effect_or_is_refused(
    ours: str, stable: bool, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(f"{ours}{stable}")
    chosen = [*_make(1), *_make(2)] if ours in ("append", "delete") and not stable else drawn.sample(_make(2), 12)
    for number, changes in enumerate(chosen):
        _check_late_commit(ours, changes, lance_core, f"{tmp_path}/{number}", monkeypatch, stable)


@pytest.mark.parametrize(
    "stable",
    [pytest.param(False, marks=pytest.mark.slow, id="plain"), pytest.param(True, marks=pytest.mark.soak, id="stable")],
)
@pytest.mark.parametrize("module", [lance_core, lance], ids=["lance_core", "pylance"])
@pytest.mark.parametrize("ours", OURS)
def test_a_late_commit_takes_effect_or_is_refused_regardless_of_other_writers(
    ours: str, module: ModuleType, stable: bool, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(f"{ours}{stable}{module.__name__}")
    chosen = [*_make(1), *_make(2), *drawn.sample(_make(3), 150)]
    for number, changes in enumerate(chosen):
        _check_late_commit(ours, changes, module, f"{tmp_path}/{number}", monkeypatch, stable)
