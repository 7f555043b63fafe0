"""Changing the columns of a wide table takes time proportional to the number of columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lance_core
from lance_core.table.manifest import Manifest


def test_a_change_of_many_columns_does_not_parse_the_schema_once_per_column(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"c{number}" for number in range(200)]
    dataset = lance_core.write_dataset(pa.table({name: [1] for name in names}), uri)
    num_parsed = 0
    parse = Manifest.schema.fget

    def counted(manifest: Manifest) -> object:
        nonlocal num_parsed
        num_parsed += 1
        return parse(manifest)

    monkeypatch.setattr(Manifest, "schema", property(counted))
    dataset.alter_columns(*[{"path": name, "name": name.upper()} for name in names])
    assert dataset.schema.names == [name.upper() for name in names]
    assert num_parsed < 20
