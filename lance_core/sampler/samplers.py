"""Samplers iterate over the rows of a dataset, or over the part that belongs to one process.

Call a sampler with a dataset to get record batches. With ``randomize``, the order depends on the seed and on the epoch,
so that all processes use the same order, and each pass over the dataset can use a different one.

**Source:** ``lance.sampler`` of pylance 14.0.2. In pylance, some samplers ignore the epoch and ``with_row_id``, and a
filter without matches is an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.sampler.reservoir import roughly_shuffled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance_core.api.dataset import LanceDataset
    from lance_core.api.fragment import LanceFragment

__all__ = [
    "FragmentSampler",
    "FullScanSampler",
    "Sampler",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
]

_SHUFFLED_BATCHES: Final = 256
"""Number of batches in memory while filtered batches are shuffled, as in pylance."""


class Sampler(ABC):
    """Determines which rows of a dataset are read, and in which order; ``__call__`` yields them in batches."""

    @abstractmethod
    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows; the arguments are those of :meth:`LanceDataset.scanner`."""


class FragmentSampler(Sampler):
    """Reads whole fragments. Subclasses determine which fragments, and their order."""

    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the fragments; further arguments are passed to :meth:`iter_fragments`."""
        yield from dataset.scanner(
            batch_size=batch_size,
            columns=columns,
            filter=filter,
            with_row_id=with_row_id,
            batch_readahead=batch_readahead,
            fragments=list(self.iter_fragments(dataset, *args, **kwargs)),
        ).to_batches()

    @abstractmethod
    def iter_fragments(self, dataset: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """Yield the fragments to read."""


class FullScanSampler(FragmentSampler):
    """Reads all fragments in order."""

    def iter_fragments(self, dataset: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """Yield all fragments."""
        yield from dataset.get_fragments()


class ShardedFragmentSampler(FragmentSampler):
    """Reads every ``world_size``-th fragment. This is fast, but balanced only if fragments have equal sizes.

    Args:
        rank: number of this process, starting from 0.
        world_size: number of processes.
        randomize: whether the fragments are shuffled before they are divided.
        seed: determines the order; the same in all processes.
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        super().__init__()
        self._rank = rank
        self._world_size = world_size
        self._randomize = randomize
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch: the number of the pass over the dataset. The order depends on it."""
        self._epoch = epoch

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedFragmentSampler:
        """Create the sampler for this process, whose rank is determined by ``torch.distributed``."""
        return ShardedFragmentSampler(*_rank_in_torch(), randomize=randomize, seed=seed)

    def iter_fragments(self, dataset: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """Yield the fragments of this process."""
        fragments = dataset.get_fragments()
        if self._randomize:
            Random(self._seed + self._epoch).shuffle(fragments)
        yield from fragments[self._rank :: self._world_size]


class ShardedBatchSampler(Sampler):
    """Reads every ``world_size``-th batch, so that all processes read about the same number of rows.

    With a filter, each process reads all matching rows and keeps every ``world_size``-th one; ``randomize`` then
    shuffles batches within a window only.

    Args:
        rank: number of this process, starting from 0.
        world_size: number of processes.
        randomize: whether the batches of the process are shuffled.
        seed: determines the order.
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        self._rank = rank
        self._world_size = world_size
        self._randomize = randomize
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch: the number of the pass over the dataset. The order depends on it."""
        self._epoch = epoch

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedBatchSampler:
        """Create the sampler for this process, whose rank is determined by ``torch.distributed``."""
        return ShardedBatchSampler(*_rank_in_torch(), randomize=randomize, seed=seed)

    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of this process; further arguments have no effect, as in pylance."""
        settings: dict[str, Any] = {"columns": columns, "batch_readahead": batch_readahead, "with_row_id": with_row_id}
        if filter is None:
            return self._all_rows(dataset, batch_size, settings)
        found = dataset.scanner(filter=filter, scan_in_order=True, **settings).to_batches()
        batches = _rebatched(self._every_nth_row(found), batch_size)
        return roughly_shuffled(batches, self._seed + self._epoch, _SHUFFLED_BATCHES) if self._randomize else batches

    def _all_rows(self, dataset: LanceDataset, batch_size: int, settings: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        total = dataset.count_rows()
        starts = list(range(self._rank * batch_size, total, self._world_size * batch_size))
        if self._randomize:
            Random(self._seed + self._epoch).shuffle(starts)
        for start in starts:
            rows = dataset.scanner(offset=start, limit=min(batch_size, total - start), **settings).to_table()
            yield from rows.combine_chunks().to_batches()

    def _every_nth_row(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        position = 0
        for batch in batches:
            first = (self._rank - position) % self._world_size
            yield batch.take(pa.array(np.arange(first, batch.num_rows, self._world_size)))
            position += batch.num_rows


class ShardedFixedBatchSampler(ShardedBatchSampler):
    """Yields the row numbers of each batch of this process; the rows of a batch are adjacent.

    The sampler is an iterable with a length, as ``torch.utils.data.DataLoader`` expects of its ``batch_sampler``.

    Args:
        rank: number of this process, starting from 0.
        world_size: number of processes.
        randomize: whether the batches of the process are shuffled.
        seed: determines the order.
        batch_size: number of rows of a batch.
        total_num_rows: number of rows of the dataset.

    Raises:
        InvalidInputError: ``batch_size`` is not positive, although the dataset has rows.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        randomize: bool = False,
        seed: int = 0,
        batch_size: int = 0,
        total_num_rows: int = 0,
    ) -> None:
        super().__init__(rank, world_size, randomize, seed)
        if batch_size <= 0 < total_num_rows:
            raise InvalidInputError(f"batch_size must be positive, found {batch_size}")
        self._batch_size = batch_size
        self._total_num_rows = total_num_rows

    def __len__(self) -> int:
        return -(-self._rows_per_process // self._batch_size) if self._total_num_rows else 0

    def __iter__(self) -> Iterator[list[int]]:
        if not self._total_num_rows:
            return
        start = self._rank * self._rows_per_process
        stop = min(start + self._rows_per_process, self._total_num_rows)
        size = self._batch_size
        batches = [list(range(first, min(first + size, stop))) for first in range(start, stop, size)]
        if self._randomize:
            Random(self._seed + self._epoch).shuffle(batches)
        yield from batches

    @staticmethod
    def from_torch(  # type: ignore[override]  # the reference's signature
        batch_size: int, total_num_rows: int, randomize: bool = False, seed: int = 0
    ) -> ShardedFixedBatchSampler:
        """Create the sampler for this process, whose rank is determined by ``torch.distributed``."""
        return ShardedFixedBatchSampler(*_rank_in_torch(), randomize, seed, batch_size, total_num_rows)

    @property
    def _rows_per_process(self) -> int:
        return -(-self._total_num_rows // self._world_size)


def _rebatched(batches: Iterable[pa.RecordBatch], batch_size: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of ``batch_size`` rows; the last one may be smaller."""
    kept: list[pa.RecordBatch] = []
    num_kept = 0
    for batch in batches:
        kept.append(batch)
        num_kept += batch.num_rows
        if num_kept > batch_size:
            (joined,) = pa.Table.from_batches(kept).combine_chunks().to_batches()
            while joined.num_rows > batch_size:
                yield joined.slice(0, batch_size)
                joined = joined.slice(batch_size)
            kept, num_kept = [joined], joined.num_rows
    if num_kept:
        yield from pa.Table.from_batches(kept).combine_chunks().to_batches()


def _rank_in_torch() -> tuple[int, int]:
    distributed = import_module("torch").distributed
    return distributed.get_rank(), distributed.get_world_size()
