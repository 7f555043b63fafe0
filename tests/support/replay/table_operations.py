"""Operations on the table and its versions: their rows stay, except where an older version is made the latest."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

import lance_core
from lance_core import LanceOperation
from tests.support.replay.columns import KEY
from tests.support.replay.turn import Skipped, Turn, by_key

__all__ = ["TABLE_OPERATIONS"]


def _restore(turn: Turn) -> pa.Table:
    turn.refresh()
    history = turn.table.history[turn.table.line]
    version = turn.rng.choice(sorted(history)[-12:])
    turn.note(f"version {version}")
    turn.table.open(turn.side, version, turn.table.line).restore()
    snapshot = history[version]
    return by_key(snapshot.rows.select(snapshot.schema.names).cast(snapshot.schema))


def _compact(turn: Turn) -> pa.Table:
    targets = (4000, 20_000) if turn.table.kind.many_rows else (30, 60, 1000)
    options: dict[str, object] = {"target_rows_per_fragment": turn.rng.choice(targets)}
    if turn.rng.random() < 0.5:
        options["materialize_deletions_threshold"] = 0.0
    pending = _defers_remapping(turn)
    if pending if turn.ours else _inherits_index(turn):
        # We refuse to compact while indices are still to be remapped.
        raise Skipped
    if not turn.ours and not turn.legacy and not turn.table.kind.stable:
        # After the reference has deferred the remapping of an index, its compaction has to defer it again: one that
        # remaps at once loses the rows that were moved before from what the index answers.
        options["defer_index_remap"] = pending or turn.rng.random() < 0.25
    turn.note(str(options))
    turn.handle.optimize.compact_files(**options)
    return turn.rows


def _inherits_index(turn: Turn) -> bool:
    """Whether an index has its files below another root.

    The reference's compaction writes the files of a remapped index below the root of the branch, and still records the
    base path of its predecessor: no query that uses the index can be answered any more.
    """
    return any(each.base_id is not None for index in turn.our_handle().describe_indices() for each in index.segments)


def _defers_remapping(turn: Turn) -> bool:
    """Whether indices are still to be remapped."""
    theirs = turn.table.open("theirs", turn.version, turn.table.line)
    return any(each.name == "__lance_frag_reuse" for each in theirs.describe_indices())


def _clean_up(turn: Turn) -> pa.Table:
    turn.refresh()
    retained = turn.rng.randrange(1, 30)
    turn.note(f"{retained} stay")
    turn.handle.cleanup_old_versions(
        older_than=timedelta(0), retain_versions=retained, error_if_tagged_old_versions=False
    )
    if not turn.ours:
        # The reference keeps the version that a branch was made from, but not its deletion files.
        line, newest = turn.table.line, sorted(turn.table.history[turn.table.line])[-retained:]
        origins = {
            each["parent_version"] for each in turn.handle.branches.list().values() if each["parent_branch"] == line
        }
        turn.table.lost.setdefault(line, set()).update(origins - set(newest))
    return turn.rows


def _tag(turn: Turn) -> pa.Table:
    turn.refresh()
    tags = turn.handle.tags
    names = sorted(tags.list())
    version = turn.rng.choice(sorted(turn.table.history[turn.table.line]))
    if names and turn.rng.random() < 0.4:
        turn.note(f"{names[0]} goes")
        tags.delete(names[0])
    elif names and turn.rng.random() < 0.5:
        turn.note(f"{names[-1]} moves to {version}")
        tags.update(names[-1], (turn.table.line, version))
    else:
        name = turn.table.new_name("tag")
        turn.note(f"{name} of {version}")
        tags.create(name, (turn.table.line, version))
    return turn.rows


def _configure(turn: Turn) -> pa.Table:
    rng = turn.rng
    values = {f"key{rng.randrange(4)}": rng.choice(("a", "b", None))}
    target = rng.choice(("config", "metadata", "schema_metadata", "field_metadata"))
    turn.note(f"{target} {values}")
    if target == "field_metadata":
        turn.handle.update_field_metadata({KEY.name: values})
    else:
        getattr(turn.handle, f"update_{target}")(values)
    return turn.rows


def _reserve(turn: Turn) -> pa.Table:
    """Only ours: the reference reserves ids when it compacts."""
    if not turn.ours:
        raise Skipped
    lance_core.LanceDataset.commit(turn.handle, LanceOperation.ReserveFragments(2), read_version=turn.version)
    return turn.rows


def _create_index(turn: Turn) -> pa.Table:
    """Theirs: we carry indices."""
    if turn.ours or turn.legacy:
        raise Skipped
    turn.refresh()
    kinds = {each.name: "LABEL_LIST" for each in turn.rows.schema if each.type == pa.list_(pa.int64())}
    for each in [KEY, *turn.flat_columns()]:
        kinds[each.name] = turn.rng.choice(("BTREE", "BITMAP", "BTREE", "ZONEMAP", "BLOOMFILTER"))
    if len(turn.handle.list_indices()) > 3:
        raise Skipped
    name = turn.rng.choice(sorted(kinds))
    turn.note(f"{kinds[name]} on {name}")
    turn.handle.create_scalar_index(name, kinds[name], replace=True)
    return turn.rows


def _drop_index(turn: Turn) -> pa.Table:
    turn.refresh()
    names = sorted({each.name for each in turn.handle.describe_indices() if not each.name.startswith("__")})
    if not names:
        raise Skipped
    name = turn.rng.choice(names)
    turn.note(name)
    turn.handle.drop_index(name)
    return turn.rows


def _optimize_indices(turn: Turn) -> pa.Table:
    if turn.ours:
        raise Skipped
    turn.refresh()
    if not turn.handle.list_indices():
        raise Skipped
    turn.handle.optimize.optimize_indices()
    return turn.rows


def _add_base(turn: Turn) -> pa.Table:
    if not turn.table.kind.bases or turn.rng.random() < 0.6:
        raise Skipped
    name = turn.table.new_name("base")
    turn.note(name)
    turn.handle.add_bases([turn.module.DatasetBasePath(str(turn.table.root / name), name)])
    return turn.rows


def _branch(turn: Turn) -> pa.Table:
    """Make a branch and go on with it."""
    turn.refresh()
    table = turn.table
    if len(table.history) > 3:
        raise Skipped
    history = table.history[table.line]
    version = turn.rng.choice(sorted(history)[-5:])
    name = table.new_name(turn.rng.choice(("branch", "team/branch")))
    turn.note(f"{name} of version {version}")
    turn.handle.create_branch(name, (table.line, version))
    snapshot = history[version]
    table.line, table.history[name] = name, {}
    table.rows[name] = by_key(snapshot.rows.select(snapshot.schema.names).cast(snapshot.schema))
    return table.rows[name]


def _switch(turn: Turn) -> pa.Table:
    """Go on with another branch, or with main."""
    lines = [each for each in turn.table.history if each != turn.table.line]
    if not lines:
        raise Skipped
    turn.table.line = turn.rng.choice(lines)
    turn.note(f"to {turn.table.line}")
    return turn.rows


TABLE_OPERATIONS = {
    "restore": (_restore, 3),
    "compact": (_compact, 8),
    "clean up": (_clean_up, 2),
    "tag": (_tag, 2),
    "configure": (_configure, 3),
    "reserve fragments": (_reserve, 1),
    "create index": (_create_index, 4),
    "drop index": (_drop_index, 1),
    "optimize indices": (_optimize_indices, 2),
    "add base": (_add_base, 1),
    "branch": (_branch, 1),
    "switch": (_switch, 2),
}
