"""Random items of a stream of unknown length.

**Source:** ``lance.sampler`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from random import Random
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["PrioritizedItem", "reservoir_sampling", "roughly_shuffled"]

T = TypeVar("T")


@dataclass(order=True)
class PrioritizedItem(Generic[T]):
    """An item of a heap, which is ordered by priority.

    Attributes:
        priority: the item with the lowest priority leaves the heap first.
        item: any object.
    """

    priority: float
    item: T = field(compare=False)


def reservoir_sampling(stream: Iterable[T], k: int) -> list[T]:
    """Return ``k`` random items of a stream, or all items of a shorter stream, in no particular order.

    Every item of the stream is equally likely to be chosen. Only ``k`` items are in memory at a time.
    """
    if k <= 0:
        return []
    priorities = np.random.default_rng()
    heap: list[PrioritizedItem[T]] = []
    for item in stream:
        entry = PrioritizedItem(priorities.random(), item)
        if len(heap) < k:
            heappush(heap, entry)
        else:
            heappushpop(heap, entry)
    return [entry.item for entry in heap]


def roughly_shuffled(stream: Iterable[T], seed: int, capacity: int) -> Iterator[T]:
    """Yield the items of a stream in an order that is random within a window, and that depends on a seed.

    Args:
        stream: the items.
        seed: determines the order.
        capacity: number of items in memory. A larger number makes the order more random.
    """
    priorities = Random(seed)
    heap: list[PrioritizedItem[T]] = []
    for item in stream:
        entry = PrioritizedItem(priorities.randint(0, capacity * 2 - 1), item)
        if len(heap) < capacity:
            heappush(heap, entry)
        else:
            yield heappushpop(heap, entry).item
    for entry in heap:
        yield entry.item
