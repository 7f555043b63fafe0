"""Samples of the rows of a dataset, and the division of its rows among processes; the names follow ``lance.sampler``.

This is a public module::

    from lance_core.sampler import ShardedBatchSampler, maybe_sample

    for batch in maybe_sample("/data/points", 10_000, columns="vector"):
        train(batch)
    for batch in ShardedBatchSampler(rank=0, world_size=4, randomize=True)(dataset, batch_size=512):
        train(batch)

``from_torch`` of the samplers is the only function that requires torch.

================  ========================================================
``random_rows``   ``maybe_sample``: random rows of a dataset
``samplers``      iterate over a dataset, or over the part of one process
``reservoir``     random items of a stream of unknown length
================  ========================================================
"""

from lance_core.sampler.random_rows import maybe_sample
from lance_core.sampler.reservoir import PrioritizedItem, reservoir_sampling
from lance_core.sampler.samplers import (
    FragmentSampler,
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFixedBatchSampler,
    ShardedFragmentSampler,
)

__all__ = [
    "FragmentSampler",
    "FullScanSampler",
    "PrioritizedItem",
    "Sampler",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
    "maybe_sample",
    "reservoir_sampling",
]
