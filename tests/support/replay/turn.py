"""Turn: one operation of one side, planned on the latest version of a line or on an older one."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import lance_core
from lance_core.schema.field import Schema
from tests.support.replay.columns import KEY, NUMBERS, sql
from tests.support.replay.table import SIDES, ReplayedTable

__all__ = ["Condition", "Skipped", "Turn", "by_key", "keys_of"]


class Skipped(Exception):  # noqa: N818  # an outcome, not an error
    """The operation has nothing to work on; another one is drawn."""


@dataclass(frozen=True)
class Condition:
    """Which rows, as SQL text and as their keys."""

    text: str
    keys: npt.NDArray[np.int64]

    def mask(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        return np.isin(keys_of(rows), self.keys)


@dataclass
class Turn:
    """What an operation is given.

    Attributes:
        table: what is changed.
        side: who changes it: "theirs" or "ours".
        version: the version that the change is planned on.
        stale: whether there are later versions.
        aimed: the rows that are to be changed; None to draw some.
        notes: what is done, for the list of operations.
    """

    table: ReplayedTable
    side: str
    version: int
    stale: bool
    aimed: Condition | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.handle: Any = self.table.open(self.side, self.version, self.table.line)

    @property
    def rng(self) -> random.Random:
        return self.table.rng

    @property
    def module(self) -> Any:
        return SIDES[self.side]

    @property
    def ours(self) -> bool:
        return self.side == "ours"

    @property
    def legacy(self) -> bool:
        return self.table.kind.data_version == "0.1"

    @property
    def rows(self) -> pa.Table:
        """The rows of the latest version, by key."""
        return self.table.rows[self.table.line]

    @property
    def seen(self) -> pa.Table:
        """The rows of the version that the change is planned on."""
        return self.table.history[self.table.line][self.version].rows

    def note(self, text: str) -> None:
        self.notes.append(text)

    def refresh(self) -> None:
        """Plan on the latest version."""
        if self.stale:
            self.version, self.stale = max(self.table.history[self.table.line]), False
            self.handle = self.table.open(self.side, self.version, self.table.line)

    def our_handle(self, version: int | None = None) -> lance_core.LanceDataset:
        return self.table.open("ours", self.version if version is None else version, self.table.line)

    def schemas(self) -> tuple[Schema, Schema]:
        """With ids: of the version that the change is planned on, and of the latest."""
        latest = max(self.table.history[self.table.line])
        return self.our_handle().lance_schema, self.our_handle(latest).lance_schema

    def same_columns(self) -> bool:
        """Whether the columns have not changed since."""
        planned, latest = self.schemas()
        return [(each.id, each.name) for each in planned.fields] == [(each.id, each.name) for each in latest.fields]

    def shown(self) -> pa.Schema:
        """The columns to write: those of the planned version, blobs as the bytes that they are written from."""
        return self.table.history[self.table.line][self.version].schema

    def carried(self, rows: pa.Table) -> pa.Table:
        """Rows of the planned version's columns as they show in the latest: columns are known by their ids."""
        planned, latest = self.schemas()
        names = {each.id: each.name for each in planned.fields}
        target = self.rows.schema
        arrays = []
        for each in latest.fields:
            name = names.get(each.id)
            wanted = target.field(each.name)
            if name is not None and name in rows.column_names:
                arrays.append(rows[name].cast(wanted.type) if rows[name].type != wanted.type else rows[name])
            else:
                arrays.append(pa.chunked_array([pa.nulls(len(rows), wanted.type)]))
        return pa.Table.from_arrays(arrays, schema=pa.schema([target.field(each.name) for each in latest.fields]))

    def flat_columns(self) -> list[pa.Field]:
        """Columns that SQL can set: numbers and texts."""
        return [each for each in self.rows.schema if each.name != KEY.name and _is_flat(each.type)]

    def condition(self) -> Condition:
        """Some rows that the planned version and the latest have, by their keys."""
        if self.aimed is not None:
            return self.aimed
        known = np.intersect1d(keys_of(self.seen), keys_of(self.rows))
        if not len(known):
            raise Skipped
        low = int(self.rng.choice(known))
        style = self.rng.randrange(4)
        if style == 0:
            chosen = sorted({int(self.rng.choice(known)) for _ in range(self.rng.randrange(1, 7))})
            return Condition(f"k IN ({', '.join(map(str, chosen))})", np.array(chosen))
        if style == 1:
            modulus = self.rng.randrange(2, 9)
            rest, high = self.rng.randrange(modulus), int(keys_of(self.seen).max())
            text = f"k % {modulus} = {rest} AND k <= {high}"
            return Condition(text, known[(known % modulus == rest) & (known <= high)])
        if style == 2 and not self.stale:
            return self._by_value() or Condition(f"k = {low}", np.array([low]))
        share = 0.6 if self.table.kind.many_rows else 0.2
        position = int(np.searchsorted(known, low))
        high = int(known[min(position + max(1, int(len(known) * self.rng.random() * share)), len(known) - 1)])
        return Condition(f"k >= {low} AND k < {high}", known[(known >= low) & (known < high)])

    def aim(self) -> bool:
        """Aim at a fragment of which later versions hid rows: at some of those too, or at others only.

        Returns:
            False when there is no such fragment.
        """
        before, after = (
            dict(zip(keys_of(rows).tolist(), rows["_rowaddr"].to_pylist(), strict=True))
            for rows in (self.seen, self.table.history[self.table.line][max(self.table.history[self.table.line])].rows)
        )
        hidden = [key for key, address in before.items() if after.get(key) != address]
        if not hidden:
            return False
        fragment = before[self.rng.choice(hidden)] >> 32
        here = [key for key, address in before.items() if address >> 32 == fragment]
        gone = [key for key in here if after.get(key) != before[key]]
        left = [key for key in here if after.get(key) == before[key]]
        chosen = self.rng.sample(left, min(len(left), 2))
        if not chosen or self.rng.random() < 0.5:
            chosen += self.rng.sample(gone, min(len(gone), 2))
        self.aimed = Condition(f"k IN ({', '.join(map(str, sorted(chosen)))})", np.array(sorted(chosen)))
        return True

    def _by_value(self) -> Condition | None:
        """By the values of another column of the latest version."""
        columns = self.flat_columns()
        if not columns or not len(self.rows):
            return None
        column = self.rng.choice(columns)
        values = self.rows[column.name].combine_chunks()
        if self.rng.random() < 0.2 and not self.legacy:
            mask, text = pc.is_null(values), f"{column.name} IS NULL"
        else:
            found = values.drop_null()
            if not len(found):
                return None
            value = found[self.rng.randrange(len(found))].as_py()
            compare, sign = self.rng.choice([(pc.equal, "="), (pc.less, "<")])
            mask = compare(values, pa.scalar(value, values.type)).fill_null(False)
            text = f"{column.name} {sign} {sql(value)}"
        return Condition(text, keys_of(self.rows)[mask.to_numpy(zero_copy_only=False)])


def keys_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The keys."""
    return rows[KEY.name].to_numpy()


def by_key(rows: pa.Table) -> pa.Table:
    """The rows ascending by key."""
    return rows.take(pa.array(np.argsort(keys_of(rows), kind="stable"))).combine_chunks()


def _is_flat(dtype: pa.DataType) -> bool:
    return dtype in NUMBERS or pa.types.is_string(dtype)
