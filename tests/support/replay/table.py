"""ReplayedTable: the table that both implementations change, and what every version of it holds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import lance
import pyarrow as pa

import lance_core
from tests.support.replay.columns import random_rows
from tests.support.replay.kinds import Kind
from tests.support.row_lineage import SPILL

__all__ = ["SIDES", "ReplayedTable", "Snapshot"]

SIDES: Final[Mapping[str, ModuleType]] = {"theirs": lance, "ours": lance_core}


@dataclass(frozen=True)
class Snapshot:
    """What a version held when it was made.

    Attributes:
        rows: as the reference returned them, in its order, with ids and addresses.
        schema: the columns, as they are written.
        config: the table config.
        metadata: the table metadata.
    """

    rows: pa.Table
    schema: pa.Schema
    config: dict[str, str]
    metadata: dict[str, str]


@dataclass
class ReplayedTable:
    """A table below a directory.

    Attributes:
        root: the directory.
        kind: how it was created.
        rng: draws everything random.
        line: the branch that is being changed; None for main.
        rows: by line, the rows that its latest version must have, ascending by key.
        history: by line, what its versions hold.
        lost: by line, the versions that the reference's cleanup made unreadable.
        next_key: of the next new row.
        row_ids: the stable id that each key got, where ids are stable.
        lineage: by line, which versions created and last changed the row of each key of its latest version, where ids
            are stable.
        hid_rows: the line and the version that the last operation was planned on, where it hid rows; else None.
        names: how many columns, tags, branches have been named.
    """

    root: Path
    kind: Kind
    rng: random.Random
    line: str | None = None
    rows: dict[str | None, pa.Table] = field(default_factory=dict)
    history: dict[str | None, dict[int, Snapshot]] = field(default_factory=dict)
    lost: dict[str | None, set[int]] = field(default_factory=dict)
    next_key: int = 0
    row_ids: dict[int, int] = field(default_factory=dict)
    lineage: dict[str | None, dict[int, tuple[int, int]]] = field(default_factory=dict)
    hid_rows: tuple[str | None, int] | None = None
    names: int = 0

    @property
    def uri(self) -> str:
        return str(self.root / "table")

    def open(self, side: str, version: int | None = None, line: str | None = None) -> Any:
        """A handle to a version of a line; None for the latest."""
        module = SIDES[side]
        if line is None:
            return module.dataset(self.uri, version=version)
        return module.dataset(self.uri).checkout_version((line, version))

    def new_rows(self, schema: pa.Schema, count: int) -> pa.Table:
        """Rows with keys that no row has had."""
        self.next_key += count
        return random_rows(self.rng, schema, range(self.next_key - count, self.next_key), self.kind.data_version)

    def new_name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def create(self, side: str) -> None:
        """Version 1 of main."""
        rows = self.new_rows(self.kind.schema, 13_000 if self.kind.many_rows else 30)
        options: dict[str, Any] = {"max_rows_per_file": 12_000 if self.kind.many_rows else 12}
        if self.kind.bases:
            bases = [("hot", False), ("cold", True)]
            options["initial_bases"] = [
                SIDES[side].DatasetBasePath(str(self.root / name), name, is_dataset_root=is_root)
                for name, is_root in bases
            ]
        SIDES[side].write_dataset(
            rows,
            self.uri,
            data_storage_version=self.kind.data_version,
            enable_stable_row_ids=self.kind.stable,
            enable_v2_manifest_paths=self.kind.v2_names,
            **options,
        )
        if self.kind.spilled:
            lance.dataset(self.uri).update_config(SPILL)
        self.rows[None] = rows
        self.history[None] = {}
