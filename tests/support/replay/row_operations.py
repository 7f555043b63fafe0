"""Operations on rows: each changes the table and returns the rows that it must have then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

import lance_core
from lance_core import LanceOperation
from tests.support.replay.columns import KEY, draw_field, is_blob, random_column, sql
from tests.support.replay.files import stored_anew
from tests.support.replay.turn import Condition, Skipped, Turn, keys_of

__all__ = ["ROW_OPERATIONS"]


def _append(turn: Turn) -> pa.Table:
    """Several fragments, columns in another order, a nullable column missing, or no rows."""
    rng = turn.rng
    if turn.legacy and turn.stale and not turn.same_columns():
        # Files of version 0.1 cannot lack a column: we refuse such rows when they are committed.
        turn.refresh()
    if turn.stale and not turn.ours and _has_reused_id(turn):
        # The reference appends rows whose field id has been given to a column of another type; then nobody can read it.
        turn.refresh()
    fields = list(turn.shown())
    if not turn.legacy:
        if rng.random() < 0.3:
            rng.shuffle(fields)
        if rng.random() < 0.3 and len(fields) > 1:
            gone = rng.choice([each for each in fields if each.name != KEY.name])
            fields.remove(gone)
    count = 0 if rng.random() < 0.1 else rng.randrange(1, 25)
    rows = turn.table.new_rows(pa.schema(fields), count)
    options: dict[str, Any] = {"max_rows_per_file": rng.choice((9, 100, 100))}
    if turn.table.kind.bases and rng.random() < 0.6:
        options["target_bases"] = [rng.choice(("hot", "cold"))]
    form = rng.choice(("table", "reader", "batches"))
    turn.note(f"{count} rows of {[each.name for each in fields]} as {form}, {options}")
    given: Any = rows if form == "table" else rows.to_reader(max_chunksize=7)
    if form == "batches":
        given, options["schema"] = iter(given), rows.schema
    if rng.random() < 0.4:
        turn.note("insert")
        turn.handle.insert(given, **options)
    else:
        turn.module.write_dataset(given, turn.handle, mode="append", **options)
    return pa.concat_tables([turn.rows, turn.carried(rows)])


def _create_fragment(turn: Turn) -> pa.Table:
    """A fragment that is written on its own, and appended by a commit."""
    if turn.table.line is not None or turn.table.kind.blob or turn.legacy:
        raise Skipped
    if turn.stale and not turn.same_columns():
        turn.refresh()
    rows = turn.table.new_rows(turn.shown(), turn.rng.randrange(1, 9))
    turn.note(f"{len(rows)} rows")
    fragment = turn.module.LanceFragment.create(turn.table.uri, rows)
    _commit(turn, turn.module.LanceOperation.Append([fragment]))
    return pa.concat_tables([turn.rows, turn.carried(rows)])


def _has_reused_id(turn: Turn) -> bool:
    """Whether an id of the planned version belongs to a column of another type since."""
    planned, latest = ({each.id: each.logical_type for each in schema.fields} for schema in turn.schemas())
    return any(latest.get(field_id, kind) != kind for field_id, kind in planned.items())


def _overwrite(turn: Turn) -> pa.Table:
    """The same columns, or others."""
    if turn.rng.random() < 0.6:
        raise Skipped
    schema = turn.shown()
    if turn.rng.random() < 0.5:
        others = [draw_field(turn.rng, turn.table.new_name("o"), turn.table.kind.data_version) for _ in range(2)]
        kept = [each for each in schema if each.name == "n" or is_blob(each)]
        schema = pa.schema([KEY, *kept, *others])
    rows = turn.table.new_rows(schema, turn.rng.randrange(5, 40))
    turn.note(f"{len(rows)} rows of {schema.names}")
    turn.module.write_dataset(rows, turn.handle, mode="overwrite", max_rows_per_file=turn.rng.choice((10, 100)))
    return rows


def _delete(turn: Turn) -> pa.Table:
    condition = turn.condition()
    turn.note(condition.text)
    turn.handle.delete(condition.text)
    return turn.rows.filter(pa.array(~condition.mask(turn.rows)))


def _delete_from_fragment(turn: Turn) -> pa.Table:
    """By a condition, or by the positions of rows; what remains of the fragment is committed."""
    condition = turn.condition()
    addresses = turn.seen.filter(pa.array(condition.mask(turn.seen)))["_rowaddr"].to_numpy()
    if not len(addresses):
        raise Skipped
    number = int(turn.rng.choice(sorted({int(each) >> 32 for each in addresses})))
    inside = [int(each) & 0xFFFFFFFF for each in addresses if int(each) >> 32 == number]
    fragment = turn.handle.get_fragment(number)
    by_position = turn.ours and turn.rng.random() < 0.5
    turn.note(f"{condition.text} of fragment {number}{', by position' if by_position else ''}")
    left = fragment.delete_rows(inside) if by_position else fragment.delete(condition.text)
    operation = turn.module.LanceOperation.Delete(
        [] if left is None else [left], [number] if left is None else [], condition.text
    )
    _commit(turn, operation)
    all_keys = keys_of(turn.seen)[turn.seen["_rowaddr"].to_numpy() >> np.uint64(32) == number]
    gone = np.intersect1d(all_keys, condition.keys)
    return turn.rows.filter(pa.array(~np.isin(keys_of(turn.rows), gone)))


def _replace_rows(turn: Turn) -> pa.Table:
    """Only ours: rows with the same keys take the place of others. They are new rows, with new ids."""
    if not turn.ours or turn.legacy or turn.table.kind.stable:
        raise Skipped
    if turn.stale and not turn.same_columns():
        turn.refresh()
    condition = turn.condition()
    keys = np.intersect1d(condition.keys, keys_of(turn.rows))
    if not condition.text.startswith("k ") or not len(keys):
        raise Skipped
    turn.note(condition.text)
    rows = turn.table.new_rows(turn.shown(), len(keys))
    rows = rows.set_column(rows.schema.get_field_index("k"), KEY, pa.array(keys, pa.int64()))
    turn.handle.replace_rows(condition.text, rows)
    others = turn.rows.filter(pa.array(~condition.mask(turn.rows)))
    return pa.concat_tables([others, turn.carried(rows)])


def _commit(turn: Turn, operation: Any) -> None:
    turn.module.LanceDataset.commit(turn.handle, operation, read_version=turn.version)


def _delete_all(turn: Turn) -> pa.Table:
    turn.refresh()
    if turn.rng.random() < 0.8:
        raise Skipped
    if turn.rng.random() < 0.5:
        turn.note("truncate_table")
        turn.handle.truncate_table()
    else:
        turn.note("true")
        turn.handle.delete("true")
    return turn.rows.slice(0, 0)


def _update(turn: Turn) -> pa.Table:
    """One column of some rows, which move to a new fragment."""
    if turn.stale and not turn.same_columns():
        turn.refresh()
    columns = turn.flat_columns()
    if not columns:
        raise Skipped
    column = turn.rng.choice(columns)
    condition = turn.condition()
    value = random_column(turn.rng, column.with_nullable(False), 1, turn.table.kind.data_version)[0].as_py()
    turn.note(f"{column.name} = {value!r} where {condition.text}")
    after = _with_value(turn.rows, column, condition, value)
    turn.handle.update({column.name: sql(value)}, where=condition.text)
    return after


def _merge_insert(turn: Turn) -> pa.Table:
    if turn.legacy:
        raise Skipped
    if turn.stale and not turn.same_columns():
        turn.refresh()
    known = np.intersect1d(keys_of(turn.seen), keys_of(turn.rows))
    picked = sorted(turn.rng.sample(known.tolist(), min(len(known), turn.rng.randrange(1, 8))))
    schema = turn.shown()
    builder = turn.handle.merge_insert("k")
    ways = (
        "upsert",
        "insert",
        "delete",
        "replace",
        "columns",
        "some columns",
        "even keys",
        "fail",
        "delete and insert",
    )
    way = turn.rng.choice(ways)
    fresh = turn.table.new_rows(schema, turn.rng.randrange(0 if picked else 1, 6))
    changed = turn.table.new_rows(schema, len(picked))
    changed = changed.set_column(schema.get_field_index("k"), KEY, pa.array(picked, pa.int64()))
    others = turn.rows.filter(pa.array(~np.isin(keys_of(turn.rows), picked)))
    turn.note(f"{way}: {picked} and {keys_of(fresh).tolist()}")
    if way == "upsert":
        builder.when_matched_update_all().when_not_matched_insert_all().execute(pa.concat_tables([changed, fresh]))
        return pa.concat_tables([others, turn.carried(changed), turn.carried(fresh)])
    if way == "insert":
        builder.when_not_matched_insert_all().execute(pa.concat_tables([changed, fresh]))
        return pa.concat_tables([turn.rows, turn.carried(fresh)])
    if way == "delete":
        builder.when_matched_delete().execute(changed)
        return others
    if way == "delete and insert":
        builder.when_matched_delete().when_not_matched_insert_all().execute(pa.concat_tables([changed, fresh]))
        return pa.concat_tables([others, turn.carried(fresh)])
    if way == "fail":
        if not len(fresh):
            raise Skipped
        builder.when_matched_fail().when_not_matched_insert_all().execute(fresh)
        return pa.concat_tables([turn.rows, turn.carried(fresh)])
    if way == "even keys":
        builder.when_matched_update_all("source.k % 2 = 0").when_not_matched_insert_all().execute(
            pa.concat_tables([changed, fresh])
        )
        even = changed.filter(pa.array(keys_of(changed) % 2 == 0))
        others = turn.rows.filter(pa.array(~np.isin(keys_of(turn.rows), keys_of(even))))
        return pa.concat_tables([others, turn.carried(even), turn.carried(fresh)])
    if way == "some columns":
        return _merge_some_columns(turn, builder, changed, fresh)
    if way == "replace":
        turn.refresh()
        builder = turn.handle.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        builder.when_not_matched_by_source_delete("k % 3 = 0").execute(pa.concat_tables([changed, fresh]))
        others = others.filter(pa.array(keys_of(others) % 3 != 0))
        return pa.concat_tables([others, turn.carried(changed), turn.carried(fresh)])
    columns = [each for each in turn.flat_columns() if each.name in schema.names]
    if not columns or not picked:
        raise Skipped
    column = turn.rng.choice(columns)
    turn.note(f"{column.name} = {changed[column.name].to_pylist()}")
    builder.when_matched_update_all().write_mode("rewrite_columns").execute(changed.select(["k", column.name]))
    return _with_values(turn.rows, column, dict(zip(picked, changed[column.name].to_pylist(), strict=True)))


def _merge_some_columns(turn: Turn, builder: Any, changed: pa.Table, fresh: pa.Table) -> pa.Table:
    """The columns that the source lacks keep their values, and are null in new rows."""
    others = [name for name in changed.column_names if name != KEY.name]
    if len(others) < 2 or turn.table.kind.blob:
        raise Skipped
    names = turn.rng.sample(others, turn.rng.randrange(1, len(others)))
    turn.note(f"columns {names}")
    given = [KEY.name, *names]
    builder.when_matched_update_all().when_not_matched_insert_all().execute(
        pa.concat_tables([changed.select(given), fresh.select(given)])
    )
    rows = turn.rows
    keys = keys_of(changed).tolist()
    for name in names:
        column = rows.schema.field(name)
        rows = _with_values(rows, column, dict(zip(keys, changed[name].to_pylist(), strict=True)))
    return pa.concat_tables([rows, turn.carried(fresh.select(given))])


def _update_columns(turn: Turn) -> pa.Table:
    """One column of one fragment is stored anew."""
    if turn.legacy:
        raise Skipped
    if turn.stale and not turn.same_columns():
        turn.refresh()
    columns = [each for each in turn.flat_columns() if each.name in turn.shown().names]
    if not columns or not len(turn.seen):
        raise Skipped
    column = turn.rng.choice(columns)
    rows = turn.seen
    fragment_id = turn.rng.choice(sorted({address >> 32 for address in rows["_rowaddr"].to_pylist()}))
    addresses = rows["_rowaddr"].to_numpy()
    inside = keys_of(rows)[addresses >> np.uint64(32) == fragment_id]
    keys = sorted(turn.rng.sample(inside.tolist(), turn.rng.randrange(1, min(len(inside), 6) + 1)))
    values = dict(
        zip(keys, random_column(turn.rng, column, len(keys), turn.table.kind.data_version).to_pylist(), strict=True)
    )
    turn.note(f"{column.name} of fragment {fragment_id}: {values}")
    chosen = addresses[np.isin(keys_of(rows), keys)] & np.uint64(0xFFFFFFFF)
    offsets = {fragment_id: BitMap(chosen.tolist()).serialize()}
    after = _with_values(turn.rows, column, values)
    if turn.ours and turn.rng.random() < 0.5:
        fragment, field_id = stored_anew(turn, fragment_id, column, values)
        update = LanceOperation.Update(
            updated_fragments=[fragment],
            fields_modified=[field_id],
            update_mode="rewrite_columns",
            updated_fragment_offsets=offsets,
        )
        lance_core.LanceDataset.commit(turn.handle, update, read_version=turn.version)
        return after
    change = pa.table({"k": pa.array(keys, pa.int64()), column.name: pa.array(values.values(), column.type)})
    updated, modified = turn.handle.get_fragment(fragment_id).update_columns(change, left_on="k", right_on="k")
    operation = turn.module.LanceOperation.Update(
        updated_fragments=[updated],
        fields_modified=modified,
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets,
    )
    turn.module.LanceDataset.commit(turn.handle, operation, read_version=turn.version)
    return after


def _with_value(rows: pa.Table, column: pa.Field, condition: Condition, value: object) -> pa.Table:
    keys = keys_of(rows)[condition.mask(rows)].tolist()
    return _with_values(rows, column, dict.fromkeys(keys, value))


def _with_values(rows: pa.Table, column: pa.Field, values: dict[int, object]) -> pa.Table:
    """The rows with other values of one column, by key."""
    old = rows[column.name].to_pylist()
    new = [values.get(key, before) for key, before in zip(keys_of(rows).tolist(), old, strict=True)]
    return rows.set_column(rows.schema.get_field_index(column.name), column, pa.array(new, column.type))


ROW_OPERATIONS = {
    "append": (_append, 10),
    "create fragment": (_create_fragment, 2),
    "delete from fragment": (_delete_from_fragment, 3),
    "replace rows": (_replace_rows, 2),
    "overwrite": (_overwrite, 2),
    "delete": (_delete, 8),
    "delete all": (_delete_all, 1),
    "update": (_update, 8),
    "merge_insert": (_merge_insert, 10),
    "update columns": (_update_columns, 5),
}
