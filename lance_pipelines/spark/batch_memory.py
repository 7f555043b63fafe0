"""Batches whose columns can be kept separately.

A batch from a stream is one block of memory, and every column is a view into it. A writer that collects a column until
a page is full keeps the whole block for it::

    block   [id 80 KB][score 80 KB][vector 5 MB]       a hundred blocks for 8 MiB of ids: 540 MB

So a column that is a small part of its batch is copied. A large one remains a view: its page is full soon.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = ["detach_small_columns"]

_SMALL_PART: Final = 8


def detach_small_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch, with copies of the columns that hold less than an eighth of its bytes."""
    limit = batch.nbytes / _SMALL_PART
    columns = [column if column.nbytes >= limit else pa.concat_arrays([column]) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
