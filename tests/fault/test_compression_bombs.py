"""Files in format 2.0 whose compressed strings hold far more data than their rows: memory use depends on the rows."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from lance_core import LanceFileReader, LanceFileWriter
from lance_core.errors import CorruptDataError
from lance_core.proto import pb_file2
from tests.support.hostile import bounded_memory

BOMB_BYTES = 400 << 20
FOOTER = "<QQQIIHH4s"


def file_with(packed: bytes, path: Path) -> bytes:
    """Write a column of 200 strings, and replace the compressed bytes."""
    metadata = {"lance-encoding:compression": "zstd"}
    table = pa.table({"z": [f"abc{i}" * 5 for i in range(200)]})
    table = table.cast(pa.schema([pa.field("z", pa.string(), metadata=metadata)]))
    with LanceFileWriter(str(path), table.schema, version="2.0") as writer:
        writer.write_batch(table)
    old = path.read_bytes()
    first, table_start, buffers_start, num_buffers, num_columns, *versions = struct.unpack(FOOTER, old[-40:])
    start, size = struct.unpack_from("<QQ", old, table_start)
    assert (start, num_buffers, num_columns) == (first, 1, 1)
    column = pb_file2.ColumnMetadata.FromString(old[start : start + size])
    page = column.pages[0]
    page.buffer_offsets[len(page.buffer_offsets) - 1] = len(old)
    page.buffer_sizes[len(page.buffer_sizes) - 1] = len(packed)
    message = column.SerializeToString()
    first = len(old) + len(packed)
    table_start = first + len(message)
    tables = struct.pack("<QQ", first, len(message)) + old[buffers_start : buffers_start + 16]
    footer = struct.pack(FOOTER, first, table_start, table_start + 16, 1, 1, *versions)
    return old + packed + message + tables + footer


@pytest.fixture(scope="module")
def frame() -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(BOMB_BYTES >> 20)), packer.flush()])


@pytest.mark.parametrize("prefix", [struct.pack("<Q", BOMB_BYTES), b""], ids=["stated", "bare"])
def test_compressed_data_that_no_row_needs_is_not_decompressed(tmp_path: Path, frame: bytes, prefix: bytes) -> None:
    path = tmp_path / "bomb.lance"
    path.write_bytes(file_with(prefix + frame, path))
    num_bytes = sum(len(f"abc{i}" * 5) for i in range(200))
    with bounded_memory(path.stat().st_size):
        reader = LanceFileReader(str(path))
        assert "".join(reader.read_all().to_table()["z"].to_pylist()) == "\0" * num_bytes
        assert reader.take_rows([3, 199]).to_table().num_rows == 2
        assert reader.read_range(50, 10).to_table().num_rows == 10


@pytest.mark.parametrize("stated", [100, 1 << 40, (1 << 64) - 1])
def test_a_recorded_size_that_differs_from_the_size_of_the_compressed_frame_raises_corrupt_data(
    tmp_path: Path, stated: int
) -> None:
    path = tmp_path / "bomb.lance"
    path.write_bytes(file_with(struct.pack("<Q", stated) + zstandard.compress(bytes(10_000)), path))
    with bounded_memory(path.stat().st_size), pytest.raises(CorruptDataError, match="does not contain valid zstd data"):
        LanceFileReader(str(path)).read_all().to_table()
