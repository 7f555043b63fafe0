"""Cutting a stretch of rows into pieces: pure arithmetic.

A batch that lies in one piece is a slice of it; one that lies in two is copied. So pieces end where batches end.
"""

from __future__ import annotations

__all__ = ["piece_edges"]


def piece_edges(
    start: int, stop: int, num_pieces: int, *, batch_rows: int | None = None, first_row: int = 0
) -> list[int]:
    """Return where the pieces of rows ``[start, stop)`` begin and end.

    Args:
        start: first row.
        stop: end of the rows, behind ``start``.
        num_pieces: approximate number of pieces of about the same size.
        batch_rows: rows of a batch; None, and pieces that are smaller than a batch, end anywhere.
        first_row: the row at which the first batch begins.

    Returns:
        Ascending rows from ``start`` to ``stop``.
    """
    step = -(-(stop - start) // max(1, num_pieces))
    first = start + step
    if batch_rows is not None and step >= batch_rows:
        step = (step + batch_rows // 2) // batch_rows * batch_rows
        first = first_row + (first - first_row + batch_rows // 2) // batch_rows * batch_rows
    return [start, *range(first, stop, step), stop]
