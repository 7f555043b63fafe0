"""Random operations of both implementations on one table, checked after each."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lance_core.errors import CommitConflictError
from tests.support.replay.checks import (
    Files,
    check_every_version,
    check_latest,
    check_lineage,
    list_files,
    observe,
)
from tests.support.replay.column_operations import COLUMN_OPERATIONS
from tests.support.replay.kinds import draw_kind
from tests.support.replay.row_operations import ROW_OPERATIONS
from tests.support.replay.table import SIDES, ReplayedTable
from tests.support.replay.table_operations import TABLE_OPERATIONS
from tests.support.replay.turn import Skipped, Turn

__all__ = ["replay"]

_OPERATIONS: Final = {**ROW_OPERATIONS, **COLUMN_OPERATIONS, **TABLE_OPERATIONS}
_NAMES: Final = list(_OPERATIONS)
_WEIGHTS: Final = [weight for _, weight in _OPERATIONS.values()]
_CHANGE_ROWS: Final = (
    "update",
    "merge_insert",
    "update columns",
    "replace file",
    # A new file of a fragment changes all of its rows.
    "add computed column",
    "add column by function",
    "add column to fragments",
    "add column of values",
    "join",
    "cast column",
)
_STALE: Final = 0.25
_RACED: Final = 0.6
"""How often a change of rows is followed by one that was planned before it and is aimed at the same fragment."""
_HIDE_ROWS: Final = ("delete", "update", "merge_insert")
_CONFLICT: Final = ("conflict", "concurrent", "preempted")


def replay(root: Path, seed: int, length: int, *, every: int) -> list[str]:
    """Replay so many operations.

    Args:
        root: an empty directory.
        seed: of everything that is random.
        length: how many operations.
        every: how many operations lie between two comparisons of every version there is.

    Returns:
        What was done.

    Raises:
        AssertionError: names the seed and lists the operations up to the one that failed.
    """
    rng = random.Random(seed)
    table = ReplayedTable(root, draw_kind(rng, seed), rng)
    done = [f"create {table.kind}"]
    try:
        table.create(rng.choice(sorted(SIDES)))
        observe(table, table.rows[None], cleaned=False)
        if table.kind.stable:
            check_lineage(table, None, changes_rows=False, again=False)
        for number in range(1, length + 1):
            _step(table, done)
            if number % every == 0 or number == length:
                check_every_version(table)
    except Exception as error:
        listed = "\n".join(f"{number:4} {text}" for number, text in enumerate(done))
        raise AssertionError(f"seed {seed}:\n{listed}\n{type(error).__name__}: {error}") from error
    return done


def _step(table: ReplayedTable, done: list[str]) -> None:
    """One operation that has something to work on."""
    files = list_files(table)
    while True:
        turn, name = _draw(table)
        line, before = table.line, turn.rows
        done.append(f"{name} by {turn.side}")
        try:
            rows = _OPERATIONS[name][0](turn)
        except Skipped:
            done.pop()
            continue
        except Exception as error:
            done[-1] = _described(name, turn)
            if not turn.stale or not _is_conflict(error):
                raise
            done[-1] += f" -> {type(error).__name__}"
            rows = turn.rows
        else:
            done[-1] = _described(name, turn)
        break
    table.hid_rows = (line, turn.version) if name in _HIDE_ROWS and turn.aimed is None else None
    if table.line == line or table.history[table.line]:
        table.rows[table.line] = rows
    observe(table, before, cleaned=name == "clean up")
    check_latest(table)
    if table.kind.stable:
        known = before if table.line == line else None
        check_lineage(table, known, changes_rows=name in _CHANGE_ROWS, again=name == "restore")
    if name == "clean up":
        check_every_version(table)
    _check_files(files, list_files(table), cleaned=name == "clean up")


def _draw(table: ReplayedTable) -> tuple[Turn, str]:
    raced, table.hid_rows = table.hid_rows, None
    if raced is not None and raced[0] == table.line and table.rng.random() < _RACED:
        is_late = raced[1] != max(table.history[table.line])
        turn = Turn(table, table.rng.choice(("ours", "ours", "theirs")), raced[1], is_late)
        if is_late and turn.aim():
            return turn, table.rng.choice(("delete", "delete", "update"))
    versions = sorted(table.history[table.line])
    version = versions[-1]
    if len(versions) > 1 and table.rng.random() < _STALE:
        version = table.rng.choice(versions[-4:-1])
    turn = Turn(table, table.rng.choice(sorted(SIDES)), version, version != versions[-1])
    if not turn.ours and versions[-1] - version != len(versions) - versions.index(version) - 1:
        # The reference overlooks conflicts with versions that a cleanup has removed, and loses its change.
        turn.refresh()
    if turn.stale and not all(field.nullable for field in turn.our_handle().lance_schema.fields):
        # A column was required in between only; rows with nulls are refused then.
        turn.refresh()
    return turn, table.rng.choices(_NAMES, _WEIGHTS)[0]


def _described(name: str, turn: Turn) -> str:
    place = f"{turn.table.line or 'main'} {turn.version}{' (stale)' if turn.stale else ''}"
    return f"{name} by {turn.side} on {place}: {'; '.join(turn.notes)}"


def _is_conflict(error: Exception) -> bool:
    """Ours say it by their type, those of the reference in words."""
    return isinstance(error, CommitConflictError) or (
        isinstance(error, (OSError, RuntimeError, ValueError)) and any(word in str(error).lower() for word in _CONFLICT)
    )


def _check_files(before: Files, after: Mapping[str, tuple[int, int, int]], *, cleaned: bool) -> None:
    """What is committed is never changed, and only a cleanup removes it."""
    for path, status in before.items():
        assert after.get(path, status) == status, f"{path} was changed"
        assert cleaned or path in after, f"{path} was removed"
