"""Rows are divided into pieces that end at batch boundaries."""

from __future__ import annotations

import itertools

import pytest

from lance_core.file.structural.page_plan import piece_edges


@pytest.mark.parametrize(
    ("rows", "num_pieces", "batch_rows", "first_row", "expected"),
    [
        ((0, 10), 3, None, 0, [0, 4, 8, 10]),
        ((5, 15), 1, None, 0, [5, 15]),
        ((5, 15), 0, None, 0, [5, 15]),
        ((0, 100), 4, 10, 0, [0, 30, 60, 90, 100]),
        # Batches begin at row 3.
        ((0, 100), 4, 10, 3, [0, 23, 53, 83, 100]),
        ((3, 100), 9, 10, 3, [3, 13, 23, 33, 43, 53, 63, 73, 83, 93, 100]),
        # Pieces that are smaller than a batch.
        ((0, 10), 5, 4, 0, [0, 2, 4, 6, 8, 10]),
        ((0, 10), 2, 10, 0, [0, 5, 10]),
        ((7, 8), 5, 1, 0, [7, 8]),
    ],
)
def test_piece_edges_align_with_batches(
    rows: tuple[int, int], num_pieces: int, batch_rows: int | None, first_row: int, expected: list[int]
) -> None:
    assert piece_edges(*rows, num_pieces, batch_rows=batch_rows, first_row=first_row) == expected


@pytest.mark.parametrize("batch_rows", [1, 3, 7, 50, 99, 1000])
@pytest.mark.parametrize("num_pieces", [1, 2, 5, 33, 100, 10_000])
@pytest.mark.parametrize("start", [100, 101, 149])
def test_row_pieces_cover_all_rows_and_are_not_much_larger_than_requested(
    start: int, num_pieces: int, batch_rows: int
) -> None:
    edges = piece_edges(start, 400, num_pieces, batch_rows=batch_rows, first_row=100)
    sizes = [stop - first for first, stop in itertools.pairwise(edges)]
    assert (edges[0], edges[-1], sum(sizes)) == (start, 400, 400 - start)
    assert min(sizes) > 0
    assert max(sizes) <= 1.5 * -(-(400 - start) // num_pieces) + batch_rows / 2
    step = -(-(400 - start) // num_pieces)
    if step >= batch_rows:
        assert all((edge - 100) % batch_rows == 0 for edge in edges[1:-1])
