"""Files whose descriptors of the first generation name bytes that are not there."""

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptDataError
from lance_core.file import blob_placement

BAD = [(2**60, 3), (0, 2**60), (2**64 - 1, 1), (2**63, 2**63), (100_000, 1)]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(("position", "size"), BAD)
def test_values_outside_the_file(tmp_path, monkeypatch, version: str, position: int, size: int) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([b"one", b"two"], pa.large_binary())], schema=pa.schema([field]))
    bad = (np.array([0, position], np.uint64), np.array([1, size], np.uint64))
    monkeypatch.setattr(blob_placement, "place_values", lambda *_: bad)
    path = str(tmp_path / "f.lance")
    with lance_core.LanceFileWriter(path, rows.schema, version=version) as writer:
        writer.write_batch(rows)
    reader = lance_core.LanceFileReader(path)
    with pytest.raises(CorruptDataError):
        reader.read_all().to_table()
    with pytest.raises(CorruptDataError):
        reader.take_rows([1]).to_table()
    assert reader.take_rows([0]).to_table()["b"].to_pylist()[0] is not None
