"""Offsets of pages in format 0.1: for any content of a file, the lengths add up to the range of bytes or items."""

from __future__ import annotations

import numpy as np
import pytest

from lance_core.encodings.v0_1.binary import split_offsets
from lance_core.encodings.v0_1.list_offsets import split_list_offsets
from lance_core.errors import CorruptDataError

LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    "words",
    [
        [0, HIGH, LOW, 10],  # The differences overflow, so that their signs do not reveal descending offsets.
        [0, -5, 3],
        [5, 3],
        [0, 101],
        [-1, 5],
    ],
)
def test_binary_offsets_outside_the_file_are_refused(words: list[int]) -> None:
    with pytest.raises(CorruptDataError, match="offsets of a binary page"):
        split_offsets(np.array(words, np.int64), np.array([len(words) - 1]), 100)


@pytest.mark.parametrize("words", [[0, HIGH, LOW, 10], [0, -5, 3], [5, 3], [-1, 5]])
def test_overflowing_descending_or_negative_list_offsets_are_refused(words: list[int]) -> None:
    with pytest.raises(CorruptDataError, match="offsets of a list page"):
        split_list_offsets(np.array(words, np.int64), np.array([len(words) - 1]))


def test_split_offsets_returns_lengths_and_bounds_of_several_runs() -> None:
    words = np.array([10, 12, 12, 90, 95], np.int64)
    lengths, firsts, lasts = split_offsets(words, np.array([2, 1]), 100)
    assert lengths.tolist() == [2, 0, 5]
    assert firsts.tolist() == [10, 90]
    assert lasts.tolist() == [12, 95]
