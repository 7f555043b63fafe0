"""Checks after each operation of a replay."""

from __future__ import annotations

import os
import random
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import lance_core
from lance_core.metadata import open_version_log
from lance_core.repair import find_faults
from tests.support.replay.columns import sql
from tests.support.replay.table import ReplayedTable, Snapshot
from tests.support.replay.turn import by_key, keys_of

__all__ = ["Files", "check_every_version", "check_latest", "check_lineage", "list_files", "observe"]

Files = dict[str, tuple[int, int, int]]
"""Inode, size and time of change by path."""

_LINEAGE: Final = ("_row_created_at_version", "_row_last_updated_at_version")
_MUTABLE: Final = ("latest_version_hint.json", "/_refs/")


def observe(table: ReplayedTable, before: pa.Table, *, cleaned: bool) -> None:
    """Read the versions that are new: the last has the rows that it must have, those before it have those before.

    Only a cleanup makes versions disappear, and never the latest.
    """
    theirs, ours = table.open("theirs", None, table.line), table.open("ours", None, table.line)
    listed = [each["version"] for each in theirs.versions()]
    assert listed == [each["version"] for each in ours.version_refs()], "versions listed"
    assert theirs.version == ours.version == listed[-1], "latest versions"
    lost = table.lost.get(table.line, set())
    listed = [version for version in listed if version not in lost]
    history = table.history[table.line]
    gone = sorted(set(history) - set(listed))
    assert cleaned or not gone, f"versions {gone} are gone"
    new = sorted(set(listed) - set(history))
    assert not history or new == list(range(max(history) + 1, listed[-1] + 1)), f"versions {new} are new"
    for version in gone:
        del history[version]
    for version in new:
        last = version == listed[-1]
        rows = table.rows[table.line] if last else before
        history[version] = _read(table, table.line, version, rows.schema)
        difference = _difference(history[version], rows)
        assert difference is None, f"version {version}: {difference}"
    if not new:
        difference = _difference(history[listed[-1]], table.rows[table.line])
        assert difference is None, f"version {listed[-1]}, which is not new: {difference}"


def check_latest(table: ReplayedTable) -> None:
    """Check that both libraries validate the latest version, and that indices, stable row ids, and tags are correct."""
    theirs, ours = table.open("theirs", None, table.line), table.open("ours", None, table.line)
    theirs.validate()
    ours.validate()
    tags = [
        {name: (each["branch"], each["version"]) for name, each in dataset.tags.list().items()}
        for dataset in (theirs, ours)
    ]
    assert tags[0] == tags[1], "tags"
    assert sorted(theirs.branches.list()) == sorted(ours.branches.list()), "branches"
    if table.kind.stable:
        rows = table.history[table.line][theirs.version].rows
        for key, row_id in zip(keys_of(rows).tolist(), rows["_rowid"].to_pylist(), strict=True):
            assert table.row_ids.setdefault(key, row_id) == row_id, f"row id of the row with key {key}"
    _check_indices(table, theirs, ours)


def check_lineage(table: ReplayedTable, before: pa.Table | None, *, changes_rows: bool, again: bool) -> None:
    """Every row says which version made it, and which was the last to change it.

    Args:
        table: whose rows have stable ids.
        before: the rows of the version before; None when it is of another line.
        changes_rows: whether the operation may have changed values of rows.
        again: whether an older version's content is the latest again.
    """
    latest = max(table.history[table.line])
    found = table.history[table.line][latest].rows.select(["k", *_LINEAGE])
    columns = (each.to_pylist() for each in found)
    lineage = {key: (created, changed) for key, created, changed in zip(*columns, strict=True)}
    known = table.lineage.get(table.line, {})
    table.lineage[table.line] = lineage
    if before is None or again:
        return
    common = lineage.keys() & known.keys()
    assert all(known[key][0] == lineage[key][0] for key in common), "made by another version"
    moved = {key for key in common if known[key][1] != lineage[key][1]}
    if not changes_rows:
        assert not moved, f"rows {sorted(moved)[:9]} have not been changed"
        return
    assert all(lineage[key][1] == latest for key in moved), "changed by another version"
    after = table.rows[table.line]
    if before.schema != after.schema:
        return
    one, other = (dict(zip(keys_of(rows).tolist(), rows.to_pylist(), strict=True)) for rows in (before, after))
    changed = {key for key in other if key in one and one[key] != other[key]}
    assert changed <= moved, f"rows {sorted(changed - moved)[:9]} have been changed"


def check_every_version(table: ReplayedTable) -> None:
    """Every version of every line still holds for both what it held when it was made, and no file has a fault."""
    assert list(find_faults(open_version_log(table.uri), reads_pages=True)) == []
    for line, history in table.history.items():
        for version, snapshot in history.items():
            found = _read(table, line, version, snapshot.schema)
            assert found == snapshot, f"version {version} of {line or 'main'} has changed"


def list_files(table: ReplayedTable) -> Files:
    """Return the files that must never change."""
    found: Files = {}
    pending = [str(table.root)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append(entry.path)
                elif not any(part in entry.path for part in _MUTABLE):
                    status = entry.stat()
                    found[entry.path] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def _read(table: ReplayedTable, line: str | None, version: int, schema: pa.Schema) -> Snapshot:
    """Return the content of a version, which must be equal in both libraries."""
    theirs, ours = table.open("theirs", version, line), table.open("ours", version, line)
    where = f"version {version} of {line or 'main'}"
    assert ours.schema.equals(theirs.schema, check_metadata=True), f"{where}: {ours.schema}, expected {theirs.schema}"
    assert ours.config() == theirs.config(), f"{where}: config"
    assert ours.metadata == theirs.metadata, f"{where}: metadata"
    options: dict[str, Any] = {"blob_handling": "all_binary"} if table.kind.blob else {}
    if table.kind.stable:
        options["columns"] = [*theirs.schema.names, *_LINEAGE]
    expected = theirs.to_table(with_row_id=True, with_row_address=True, **options)
    found = ours.to_table(with_row_id=True, with_row_address=True, **options)
    assert found.equals(expected), f"{where}: rows"
    return Snapshot(expected, schema, theirs.config(), theirs.metadata)


def _difference(snapshot: Snapshot, expected: pa.Table) -> str | None:
    """Return where the rows of a version differ from the expected rows, which may be in any order."""
    names = [each for each in snapshot.rows.column_names if not each.startswith("_row")]
    if names != expected.column_names:
        return f"columns {names}, expected {expected.column_names}"
    found, expected = by_key(snapshot.rows.select(names)), by_key(expected)
    if keys_of(found).tolist() != keys_of(expected).tolist():
        lost = sorted(set(keys_of(expected).tolist()) - set(keys_of(found).tolist()))
        more = sorted(set(keys_of(found).tolist()) - set(keys_of(expected).tolist()))
        return f"keys {lost[:9]} are lost, keys {more[:9]} are too many, {len(found)} rows, expected {len(expected)}"
    for name in names:
        one, other = found[name].combine_chunks(), expected[name].combine_chunks()
        if one.type != other.type:
            return f"column {name} is {one.type}, expected {other.type}"
        if not one.equals(other):
            pairs = zip(keys_of(found).tolist(), one.to_pylist(), other.to_pylist(), strict=True)
            wrong = [pair for pair in pairs if pair[1] != pair[2]]
            return f"column {name}: (key, found, expected) {wrong[:4]} and others, {len(wrong)} in all"
    return None


def _check_indices(table: ReplayedTable, theirs: Any, ours: lance_core.LanceDataset) -> None:
    """A query that an index answers finds what a scan finds: a value that is there, and one that a version had.

    We scan in any case: asking once is enough.
    """
    described = {each.name: each for each in theirs.describe_indices() if not each.name.startswith("__")}
    assert sorted(described) == sorted({each.name for each in ours.describe_indices()}), "indices"
    rows = table.rows[table.line]
    asked = table.rng.choice(sorted(described)) if described else None
    for name, index in described.items():
        column = index.field_names[0]
        if column not in rows.column_names:
            continue
        older = table.history[table.line][table.rng.choice(sorted(table.history[table.line])[-6:])].rows
        for values in (rows, older):
            if column not in values.column_names or values.schema.field(column).type != rows.schema.field(column).type:
                continue
            query = _query(table.rng, column, values[column], rows[column])
            if query is None:
                continue
            text, mask = query
            expected = sorted(keys_of(rows.filter(mask)).tolist())
            for who, dataset in (("theirs", theirs), ("ours", ours)):
                if who == "ours" and (text.startswith("array_has") or name != asked or values is older):
                    continue
                found = sorted(dataset.to_table(columns=["k"], filter=text)["k"].to_pylist())
                assert found == expected, f"{who}: {text} by index {name} finds {found}, expected {expected}"


def _query(
    rng: random.Random, name: str, values: pa.ChunkedArray, present: pa.ChunkedArray
) -> tuple[str, pa.Array] | None:
    """Return a query for one of the values, and the rows that match it."""
    known = values.drop_null()
    value = known[rng.randrange(len(known))].as_py() if len(known) else []
    if isinstance(value, list):
        if not value:
            return None
        mask = pa.array([each is not None and value[0] in each for each in present.to_pylist()], pa.bool_())
        return f"array_has({name}, {value[0]})", mask
    return f"{name} = {sql(value)}", pc.equal(present, pa.scalar(value, present.type)).combine_chunks()
