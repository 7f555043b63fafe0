"""Data files of single columns, written by us for fragments that are there."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

import lance_core
from lance_core.schema.field import Field
from tests.support.replay.turn import Turn, keys_of

__all__ = ["column_file", "live_rows", "stored_anew", "with_file"]

_TOMBSTONE = -2


def live_rows(turn: Turn, fragment_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and keys of the live rows of a fragment of the planned version."""
    addresses = turn.seen["_rowaddr"].to_numpy()
    inside = addresses >> np.uint64(32) == fragment_id
    return (addresses[inside] & np.uint64(0xFFFFFFFF)).astype(np.int64), keys_of(turn.seen)[inside]


def column_file(turn: Turn, field: Field, column: pa.Field, values: pa.Array) -> lance_core.DataFile:
    """A file of one column, for all physical rows of a fragment."""
    rows = pa.Table.from_arrays([values], schema=pa.schema([column]))
    [written] = lance_core.write_fragments(
        rows, turn.our_handle(), mode="overwrite", data_storage_version=turn.table.kind.data_version
    )
    file = copy.copy(written.files[0])
    ids = [each.id for each in field.walk()]
    file.fields = [ids[number] for number in file.fields]
    return file


def physical_values(turn: Turn, fragment_id: int, column: pa.Field, by_key: Mapping[int, object]) -> pa.Array:
    """Values for all physical rows: those of live rows by their key, null for the deleted."""
    metadata = turn.our_handle().get_fragment(fragment_id).metadata
    values: list[object] = [None] * metadata.physical_rows
    for position, key in zip(*(each.tolist() for each in live_rows(turn, fragment_id)), strict=True):
        values[position] = by_key[key]
    return pa.array(values, column.type)


def stored_anew(
    turn: Turn, fragment_id: int, column: pa.Field, values: Mapping[int, object]
) -> tuple[lance_core.FragmentMetadata, int]:
    """The fragment with one column in a new file, where some rows have other values; and the field's id."""
    dataset = turn.our_handle()
    field = dataset.lance_schema.field(column.name)
    seen = turn.seen
    by_key = dict(zip(keys_of(seen).tolist(), seen[column.name].to_pylist(), strict=True)) | dict(values)
    file = column_file(turn, field, column, physical_values(turn, fragment_id, column, by_key))
    fragment = dataset.get_fragment(fragment_id).metadata
    files = []
    for each in fragment.files:
        kept = copy.copy(each)
        kept.fields = [_TOMBSTONE if number == field.id else number for number in each.fields]
        if any(number != _TOMBSTONE for number in kept.fields):
            files.append(kept)
    fragment.files = [*files, file]
    return fragment, field.id


def with_file(
    turn: Turn,
    fragment_id: int,
    field: Field,
    column: pa.Field,
    by_key: Mapping[int, object],
    *,
    instead_of: int | None = None,
) -> lance_core.FragmentMetadata:
    """The fragment with one more column; files that held nothing but the field it replaces go."""
    fragment = turn.our_handle().get_fragment(fragment_id).metadata
    values = physical_values(turn, fragment_id, column, by_key)
    kept = [each for each in fragment.files if set(each.fields) - {_TOMBSTONE, instead_of}]
    fragment.files = [*kept, column_file(turn, field, column, values)]
    return fragment
