"""Operations on columns: each changes the table and returns the rows that it must have then."""

from __future__ import annotations

import dataclasses
import json

import lance
import pyarrow as pa

import lance_core
from lance_core import LanceOperation
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Field, Schema
from tests.support.replay.columns import KEY, draw_field, is_blob, random_column
from tests.support.replay.files import column_file, live_rows, physical_values, with_file
from tests.support.replay.turn import Skipped, Turn, keys_of

__all__ = ["COLUMN_OPERATIONS"]

_CASTS = {
    pa.int32(): pa.int64(),
    pa.int64(): pa.int32(),
    pa.float64(): pa.float32(),
    pa.float32(): pa.float64(),
    pa.string(): pa.large_string(),
    pa.large_string(): pa.string(),
}
_MOST_COLUMNS = 9


def _uses_verb(turn: Turn) -> bool:
    """Return whether a verb makes the change; otherwise, this library commits an operation."""
    return not turn.ours or turn.rng.random() < 0.6


def _computed_field(turn: Turn, name: str) -> pa.Field:
    """A column that an expression computes from the key: required if the restored version requires the key."""
    return pa.field(name, pa.int64(), nullable=turn.our_handle().schema.field("k").nullable)


def _add_computed(turn: Turn) -> pa.Table:
    """Add a column with a value for every row, computed from the key."""
    turn.refresh()
    if turn.rows.num_columns > _MOST_COLUMNS or (turn.ours and turn.legacy):
        raise Skipped
    uses_verb = _uses_verb(turn)
    name, factor = turn.table.new_name("a"), turn.rng.randrange(1, 9)
    # The files that are made by hand have nulls in deleted rows.
    column = _computed_field(turn, name) if uses_verb else pa.field(name, pa.int64())
    turn.note(f"{name} = k * {factor} + 1")
    after = turn.rows.append_column(column, pa.array(keys_of(turn.rows) * factor + 1, pa.int64()))
    if uses_verb:
        turn.handle.add_columns({name: f"k * {factor} + 1"})
        return after
    values = {key: key * factor + 1 for key in keys_of(turn.seen).tolist()}
    _add(turn, column, values)
    return after


def _add_by_function(turn: Turn) -> pa.Table:
    """Add a column that a Python function computes."""
    turn.refresh()
    if turn.rows.num_columns > _MOST_COLUMNS or turn.legacy:
        raise Skipped
    column = pa.field(turn.table.new_name("u"), pa.int64())
    turn.note(column.name)

    @turn.module.batch_udf(pa.schema([column]))
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({column.name: pa.array([2 * key for key in batch["k"].to_pylist()], pa.int64())})

    after = turn.rows.append_column(column, pa.array(keys_of(turn.rows) * 2, pa.int64()))
    turn.handle.add_columns(doubled, read_columns=["k"])
    return after


def _add_to_fragments(turn: Turn) -> pa.Table:
    """Add a column that is computed for each fragment and committed for all fragments."""
    turn.refresh()
    fragments = turn.handle.get_fragments()
    if turn.rows.num_columns > _MOST_COLUMNS or turn.legacy or not fragments:
        raise Skipped
    column = _computed_field(turn, turn.table.new_name("f"))
    turn.note(column.name)
    after = turn.rows.append_column(column, pa.array(keys_of(turn.rows) - 3, pa.int64()))
    results = [fragment.merge_columns({column.name: "k - 3"}) for fragment in fragments]
    operation = turn.module.LanceOperation.Merge([fragment for fragment, _ in results], results[0][1])
    turn.module.LanceDataset.commit(turn.handle, operation, read_version=turn.version)
    return after


def _require_values(turn: Turn) -> pa.Table:
    """A column without nulls must not contain any, until it may again."""
    turn.refresh()
    names = [name for name in turn.rows.column_names if turn.rows[name].null_count == 0]
    names = [name for name in names if not is_blob(turn.rows.schema.field(name))]
    if turn.legacy or not names:
        raise Skipped
    name = turn.rng.choice(names)
    turn.note(name)
    for nullable in (False, True):
        turn.handle.alter_columns({"path": name, "nullable": nullable})
    return turn.rows


def _add_values(turn: Turn) -> pa.Table:
    """Add a column of any type from a table of values."""
    turn.refresh()
    if turn.rows.num_columns > _MOST_COLUMNS or turn.legacy or not len(turn.rows):
        raise Skipped
    column = draw_field(turn.rng, turn.table.new_name("v"), turn.table.kind.data_version)
    seen = turn.seen
    drawn = random_column(turn.rng, column, len(seen), turn.table.kind.data_version)
    turn.note(f"{column.name}: {column.type}")
    values = dict(zip(keys_of(seen).tolist(), drawn.to_pylist(), strict=True))
    after = turn.rows.append_column(column, pa.array([values[key] for key in keys_of(turn.rows).tolist()], column.type))
    if not _uses_verb(turn):
        _add(turn, column, values)
    else:
        rows = pa.Table.from_arrays([drawn], schema=pa.schema([column]))
        turn.handle.add_columns(rows.to_reader())
    return after


def _add_nulls(turn: Turn) -> pa.Table:
    """Add a column that is in no data file."""
    if turn.legacy or turn.rows.num_columns > _MOST_COLUMNS:
        raise Skipped
    turn.refresh()
    column = draw_field(turn.rng, turn.table.new_name("z"), turn.table.kind.data_version)
    turn.note(f"{column.name}: {column.type}")
    after = turn.rows.append_column(column, pa.nulls(len(turn.rows), column.type))
    if not _uses_verb(turn):
        dataset = turn.our_handle()
        wide = _wider(dataset, column)
        fragments = [each.metadata for each in dataset.get_fragments()]
        _commit(turn, LanceOperation.Merge(fragments, wide, True))
    else:
        turn.handle.add_columns(column)
    return after


def _add(turn: Turn, column: pa.Field, values: dict[int, object]) -> None:
    dataset = turn.our_handle()
    wide = _wider(dataset, column)
    fragments = [with_file(turn, each.fragment_id, wide.fields[-1], column, values) for each in dataset.get_fragments()]
    _commit(turn, LanceOperation.Merge(fragments, wide, True))


def _wider(dataset: lance_core.LanceDataset, column: pa.Field) -> Schema:
    """Return the schema with one more column, which has the next ids."""
    schema = dataset.lance_schema
    return dataclasses.replace(schema, fields=(*schema.fields, _new_field(dataset, column)))


def _new_field(dataset: lance_core.LanceDataset, column: pa.Field) -> Field:
    return schema_from_arrow(pa.schema([column])).with_ids(dataset.max_field_id + 1).fields[0]


def _join(turn: Turn) -> pa.Table:
    """Join a column of values for some of the keys and for keys that no row has."""
    turn.refresh()
    if turn.rows.num_columns > _MOST_COLUMNS or turn.legacy or not len(turn.rows):
        raise Skipped
    column = pa.field(turn.table.new_name("j"), turn.rng.choice((pa.int64(), pa.float32(), pa.string())))
    known = keys_of(turn.rows).tolist()
    keys = [*turn.rng.sample(known, turn.rng.randrange(len(known) + 1)), max(known) + 1]
    drawn = random_column(turn.rng, column, len(keys), turn.table.kind.data_version)
    turn.note(f"{column.name}: {column.type} for {keys}")
    values = dict(zip(keys, drawn.to_pylist(), strict=True))
    after = turn.rows.append_column(column, pa.array([values.get(key) for key in known], column.type))
    right = pa.table([pa.array(keys, pa.int64()), drawn], schema=pa.schema([pa.field("right", pa.int64()), column]))
    turn.handle.merge(right, "k", "right")
    return after


def _drop(turn: Turn) -> pa.Table:
    if turn.stale and not turn.same_columns():
        turn.refresh()
    names = [each.name for each in turn.rows.schema if each.name not in (KEY.name,) and not is_blob(each)]
    if len(names) < 3:
        raise Skipped
    name = turn.rng.choice(names)
    turn.note(name)
    if not _uses_verb(turn):
        schema = turn.our_handle().lance_schema
        _project(turn, [each for each in schema.fields if each.name != name])
    else:
        turn.handle.drop_columns([name])
    return turn.rows.drop_columns([name])


def _rename(turn: Turn) -> pa.Table:
    if turn.stale and not turn.same_columns():
        turn.refresh()
    names = [each.name for each in turn.rows.schema if each.name != KEY.name and not is_blob(each)]
    if not names:
        raise Skipped
    name, other = turn.rng.choice(names), turn.table.new_name("r")
    turn.note(f"{name} to {other}")
    if not _uses_verb(turn):
        schema = turn.our_handle().lance_schema
        _project(turn, [dataclasses.replace(each, name=other) if each.name == name else each for each in schema.fields])
    else:
        turn.handle.alter_columns({"path": name, "name": other})
    return turn.rows.rename_columns([other if each == name else each for each in turn.rows.column_names])


def _reorder(turn: Turn) -> pa.Table:
    """Only ours: the reference has no call for it."""
    turn.refresh()
    if not turn.ours or turn.legacy:
        raise Skipped
    fields = list(turn.our_handle().lance_schema.fields)
    turn.rng.shuffle(fields)
    turn.note(str([each.name for each in fields]))
    _project(turn, fields)
    return turn.rows.select([each.name for each in fields])


def _cast(turn: Turn) -> pa.Table:
    turn.refresh()
    columns = [each for each in turn.rows.schema if each.type in _CASTS and each.name != KEY.name]
    uses_verb = _uses_verb(turn)
    if uses_verb:
        # Both libraries refuse to cast an indexed column.
        indexed = {name for index in turn.handle.describe_indices() for name in index.field_names}
        columns = [each for each in columns if each.name not in indexed]
    if not columns or turn.legacy:
        raise Skipped
    column = turn.rng.choice(columns)
    position = turn.rows.schema.get_field_index(column.name)
    target = pa.field(column.name, _CASTS[column.type])
    try:
        values = turn.rows[column.name].cast(target.type)
    except pa.ArrowInvalid:
        raise Skipped from None
    turn.note(f"{column.name} to {target.type}")
    after = turn.rows.set_column(position, target, values)
    if uses_verb:
        turn.handle.alter_columns({"path": column.name, "data_type": target.type})
        return after
    dataset = turn.our_handle()
    field = _new_field(dataset, target)
    schema = dataset.lance_schema
    changed = dataclasses.replace(
        schema, fields=tuple(field if each.name == column.name else each for each in schema.fields)
    )
    by_key = dict(zip(keys_of(turn.rows).tolist(), values.to_pylist(), strict=True))
    old = schema.field(column.name).id
    fragments = [
        with_file(turn, each.fragment_id, field, target, by_key, instead_of=old) for each in dataset.get_fragments()
    ]
    _commit(turn, LanceOperation.Merge(fragments, changed, True))
    return after


def _replace_file(turn: Turn) -> pa.Table:
    """DataReplacement of a file that holds nothing but one flat column."""
    if turn.legacy:
        raise Skipped
    if turn.stale and not turn.same_columns():
        turn.refresh()
    dataset = turn.our_handle()
    flat = {dataset.lance_schema.field(each.name).id: each for each in turn.flat_columns()}
    places = [
        (fragment.fragment_id, flat[file.fields[0]])
        for fragment in dataset.get_fragments()
        for file in fragment.metadata.files
        if len(file.fields) == 1 and file.fields[0] in flat
    ]
    if not places:
        raise Skipped
    fragment_id, column = turn.rng.choice(places)
    _, keys = live_rows(turn, fragment_id)
    drawn = random_column(turn.rng, column, len(keys), turn.table.kind.data_version)
    values = dict(zip(keys.tolist(), drawn.to_pylist(), strict=True))
    turn.note(f"{column.name} of fragment {fragment_id}")
    field = dataset.lance_schema.field(column.name)
    file = column_file(turn, field, column, physical_values(turn, fragment_id, column, values))
    if turn.ours:
        _commit(turn, LanceOperation.DataReplacement([LanceOperation.DataReplacementGroup(fragment_id, file)]))
    else:
        theirs = lance.fragment.DataFile(**json.loads(json.dumps(dataclasses.asdict(file))))
        group = lance.LanceOperation.DataReplacementGroup(fragment_id, theirs)
        operation = lance.LanceOperation.DataReplacement([group])
        lance.LanceDataset.commit(turn.handle, operation, read_version=turn.version)
    old = dict(zip(keys_of(turn.rows).tolist(), turn.rows[column.name].to_pylist(), strict=True))
    old.update({key: value for key, value in values.items() if key in old})
    position = turn.rows.schema.get_field_index(column.name)
    return turn.rows.set_column(position, column, pa.array(old.values(), column.type))


def _project(turn: Turn, fields: list[Field]) -> None:
    schema = dataclasses.replace(turn.our_handle().lance_schema, fields=tuple(fields))
    _commit(turn, LanceOperation.Project(schema, True))


def _commit(turn: Turn, operation: LanceOperation.BaseOperation) -> None:
    lance_core.LanceDataset.commit(turn.handle, operation, read_version=turn.version)


COLUMN_OPERATIONS = {
    "add computed column": (_add_computed, 2),
    "add column of values": (_add_values, 3),
    "add column by function": (_add_by_function, 1),
    "add column to fragments": (_add_to_fragments, 2),
    "require values": (_require_values, 1),
    "add column of nulls": (_add_nulls, 2),
    "join": (_join, 2),
    "drop column": (_drop, 3),
    "rename column": (_rename, 2),
    "reorder columns": (_reorder, 1),
    "cast column": (_cast, 2),
    "replace file": (_replace_file, 4),
}
