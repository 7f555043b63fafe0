"""Ranges are expanded to the integers in them."""

import numpy as np

from lance_core.encodings.kernels.ranges import expand_ranges


def test_ranges_are_expanded_in_the_given_order():
    assert expand_ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]


def test_expanding_no_ranges_returns_no_integers():
    assert expand_ranges(np.array([], np.int64), np.array([], np.int64)).tolist() == []
