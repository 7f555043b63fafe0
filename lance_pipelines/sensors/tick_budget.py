"""Examines the datasets of a sensor within the time of one tick.

A tick that takes longer than a minute fails as a whole, and no dataset is maintained. The first look at a dataset with
thousands of versions takes a quarter of a second, and a store that does not answer takes as long as its timeouts
allow. Therefore, a tick begins no further examination once its budget is used up; the other datasets are left for the
next tick. The order is random, so that no dataset is left out forever because those before it are slow.
"""

import random
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

__all__ = ["LEFT_FOR_NEXT_TICK", "TICK_SECONDS", "examine_in_budget"]

TICK_SECONDS: Final = 5.0
"""Time in which a tick may begin to examine datasets, in seconds."""

LEFT_FOR_NEXT_TICK: Final = "left for the next tick"
"""The reason that a tick shows for a dataset that it did not examine."""

_Dataset = TypeVar("_Dataset")
_Result = TypeVar("_Result")


def examine_in_budget(
    datasets: Iterable[_Dataset], examine: Callable[[_Dataset], _Result], leave: Callable[[_Dataset], _Result]
) -> list[_Result]:
    """Return the results for all datasets, in the given order.

    Args:
        datasets: the datasets.
        examine: examines a dataset.
        leave: returns the result for a dataset that is not examined in this tick.
    """
    given = list(datasets)
    results: dict[int, _Result] = {}
    deadline = time.monotonic() + TICK_SECONDS
    for place in random.sample(range(len(given)), len(given)):
        has_time = time.monotonic() < deadline
        results[place] = (examine if has_time else leave)(given[place])
    return [results[place] for place in range(len(given))]
