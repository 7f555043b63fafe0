"""Kinds of tables that a replay starts from."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa

from tests.support.replay.columns import BLOB, KEY, TYPES, draw_field

__all__ = ["Kind", "draw_kind"]


@dataclass(frozen=True)
class Kind:
    """How a table is created.

    Attributes:
        data_version: of its data files.
        stable: whether rows have stable ids.
        spilled: whether row ids and versions of rows go to hidden columns.
        v2_names: whether manifests are named by the newer scheme.
        bases: whether it may keep files in places outside the root.
        many_rows: whether one fragment has so many rows that deletion files become bitmaps.
        blob: whether it has a blob column.
        schema: the columns at first.
    """

    data_version: str
    stable: bool
    spilled: bool
    v2_names: bool
    bases: bool
    many_rows: bool
    blob: bool
    schema: pa.Schema


def draw_kind(rng: random.Random, seed: int) -> Kind:
    """The kinds take turns by seed in what matters most; the rest is drawn."""
    data_version = ("2.2", "2.1", "2.0", "2.2", "2.1", "2.2", "2.0", "0.1")[seed % 8]
    legacy = data_version == "0.1"
    blob = not legacy and seed % 5 == 2
    fields = [KEY, pa.field("n", TYPES["whole"]), pa.field("t", TYPES["text"])]
    fields += [draw_field(rng, f"c{number}", data_version) for number in range(rng.randrange(3))]
    if blob:
        fields.append(pa.field("b", pa.large_binary(), metadata=BLOB))
    return Kind(
        data_version=data_version,
        stable=not legacy and (seed // 2) % 2 == 1,
        spilled=not legacy and seed % 4 == 3,
        v2_names=seed % 3 != 0,
        bases=not blob and seed % 4 == 1,
        many_rows=seed % 10 == 6,
        blob=blob,
        schema=pa.schema(fields),
    )
