"""Which columns of a batch are copied."""

from __future__ import annotations

import pyarrow as pa

from lance_pipelines.spark.batch_memory import detach_small_columns


def streamed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as a worker gets it: all columns in one block of memory."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def address(column: pa.Array) -> int:
    return column.buffers()[-1].address


def test_small_columns_are_copied_and_large_ones_are_not() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(3200), pa.float32()), 32)
    batch = streamed(pa.RecordBatch.from_arrays([pa.array(range(100)), vectors], names=["id", "v"]))
    detached = detach_small_columns(batch)
    assert detached.equals(batch)
    assert detached.schema == batch.schema
    assert address(detached["id"]) != address(batch["id"])
    assert address(detached["v"]) == address(batch["v"])


def test_columns_of_like_size_all_stay() -> None:
    batch = streamed(pa.RecordBatch.from_pydict({name: list(range(100)) for name in "abc"}))
    assert [address(column) for column in detach_small_columns(batch)] == [address(column) for column in batch]


def test_every_kind_of_column_can_be_copied() -> None:
    columns = {
        "text": ["a", None],
        "flag": [True, None],
        "nothing": pa.nulls(2),
        "list": [[1], None],
        "struct": [{"x": 1}, None],
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "large": ["x" * 10_000, "y"],
    }
    batch = pa.RecordBatch.from_pydict(columns)
    assert detach_small_columns(batch).equals(batch)
    assert detach_small_columns(batch.slice(1)).equals(batch.slice(1))
    assert detach_small_columns(batch.slice(0, 0)).num_rows == 0
