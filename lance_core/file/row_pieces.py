"""Splitting a range of rows into pieces: pure arithmetic.

A batch within one piece is a slice of the piece; a batch that spans two is copied. Pieces thus end at batch boundaries.
"""

from __future__ import annotations

__all__ = ["piece_edges"]


def piece_edges(
    start: int, stop: int, num_pieces: int, *, batch_rows: int | None = None, first_row: int = 0
) -> list[int]:
    """Return the boundaries of the pieces into which rows ``[start, stop)`` are split.

    Args:
        start: first row.
        stop: end of the rows, greater than ``start``.
        num_pieces: approximate number of pieces of about the same size.
        batch_rows: number of rows per batch; if None, or if pieces are smaller than a batch, pieces may end anywhere.
        first_row: the row at which the first batch starts.

    Returns:
        Ascending rows from ``start`` to ``stop``.
    """
    step = -(-(stop - start) // max(1, num_pieces))
    first = start + step
    if batch_rows is not None and step >= batch_rows:
        step = (step + batch_rows // 2) // batch_rows * batch_rows
        first = first_row + (first - first_row + batch_rows // 2) // batch_rows * batch_rows
    return [start, *range(first, stop, step), stop]
