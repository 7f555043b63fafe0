"""Frames of Polars: eager ones, and lazy ones, whose queries read only the columns and the rows that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.errors import NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from lance_pipelines.frames.table_slice import TableSlice

__all__ = [
    "lazy_polars_of_table",
    "load_lazy_polars",
    "load_polars",
    "polars_of_table",
    "reader_of_lazy_polars",
    "reader_of_polars",
]

_BATCH_ROWS: Final = 64 * 1024
"""Number of rows in each frame when a lazy frame is read or written, unless Polars requests another number."""


def load_polars(rows: TableSlice) -> pl.DataFrame:
    """Read all rows."""
    return polars_of_table(rows.scanner().to_table())


def load_lazy_polars(rows: TableSlice) -> pl.LazyFrame:
    """Return a lazy frame, whose queries read the columns that they need, a batch at a time."""
    from polars.io.plugins import register_io_source

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, num_rows: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        # A limit counts the rows that the predicate keeps.
        limit = num_rows if predicate is None else None
        scanner = rows.scanner(columns, limit=limit, batch_size=batch_rows or _BATCH_ROWS)
        left = num_rows
        for batch in scanner.to_batches():
            frame = polars_of_table(pa.Table.from_batches([batch]))
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left == 0:
                return

    return register_io_source(read, schema=polars_of_table(rows.schema.empty_table()).schema, is_pure=True)


def polars_of_table(table: pa.Table) -> pl.DataFrame:
    """Return a frame of a table."""
    import polars as pl

    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101  # a table never becomes a series
    return frame


def lazy_polars_of_table(table: pa.Table) -> pl.LazyFrame:
    """Return a lazy frame of a table."""
    return polars_of_table(table).lazy()


def reader_of_polars(frame: pl.DataFrame) -> pa.RecordBatchReader:
    """Return a reader of the frame's rows."""
    return _arrow(frame).to_reader()


def reader_of_lazy_polars(frame: pl.LazyFrame) -> pa.RecordBatchReader:
    """Return a reader that runs the query, a batch at a time."""
    import polars as pl

    schema = _arrow(pl.DataFrame(schema=frame.collect_schema())).schema
    batches = (
        batch
        for part in frame.collect_batches(chunk_size=_BATCH_ROWS)
        for batch in _arrow(part).cast(schema).to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def _arrow(frame: pl.DataFrame) -> pa.Table:
    import polars as pl

    for name, kind in frame.schema.items():
        if kind == pl.Object:
            # Polars would give Arrow the addresses of the objects.
            raise NotSupportedError(f"column {name!r} has type Object, whose values cannot be stored", column=name)
    # Strings with 64-bit offsets; string views cannot be stored.
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
