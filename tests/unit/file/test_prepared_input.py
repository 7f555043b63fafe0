"""Input that needs no conversion is passed on unchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.file.prepared_input import PreparedInput

PLAIN = pa.table(
    {
        "x": [1, None],
        "s": [{"a": [1]}, None],
        "t": ["a", "b"],
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
    }
)
JSON = PLAIN.append_column("j", pa.array(['{"a": 1}', None], pa.json_()))


def test_prepared_input_returns_plain_columns_unchanged() -> None:
    prepared = PreparedInput(PLAIN.schema)
    stream, [batch] = PLAIN.to_reader(), PLAIN.to_batches()
    assert prepared.reader(stream) is stream
    assert prepared.batch(batch) is batch


@pytest.mark.parametrize("name", PLAIN.column_names)
def test_plain_columns_next_to_a_converted_column_are_not_copied(name: str) -> None:
    [batch] = JSON.to_batches()
    prepared = PreparedInput(JSON.schema).batch(batch)
    assert prepared.schema.field("j").type != batch.schema.field("j").type
    pairs = zip(prepared.column(name).buffers(), batch.column(name).buffers(), strict=True)
    assert all((before and before.address) == (after and after.address) for before, after in pairs)
