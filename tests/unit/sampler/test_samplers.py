"""Samplers divide the rows of a dataset among processes exactly as the samplers of pylance do."""

import sys
from types import SimpleNamespace

import lance
import lance.sampler
import numpy as np
import pyarrow as pa
import pytest

import lance_core
import lance_core.sampler
from lance_core.errors import InvalidInputError

RANKS = [(rank, size) for size in (1, 2, 3, 7) for rank in range(size)]


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    """A table of eight fragments with some deleted rows."""
    location = str(tmp_path_factory.mktemp("sharded") / "t")
    numbers = np.arange(1000)
    dataset = lance_core.write_dataset(pa.table({"k": numbers, "s": numbers % 7}), location, max_rows_per_file=130)
    dataset.delete("k % 11 = 0")
    return location


def batches_of(library, sampler: str, uri: str, *args, epoch: int | None = None, **settings) -> list[dict]:
    names = ("rank", "world_size", "randomize", "seed")
    made = getattr(library.sampler, sampler)(*args, **{name: settings.pop(name) for name in names if name in settings})
    if epoch is not None:
        made.set_epoch(epoch)
    return [batch.to_pydict() for batch in made(library.dataset(uri), **settings)]


def assert_same(sampler: str, uri: str, *args, **settings) -> None:
    ours = batches_of(lance_core, sampler, uri, *args, **settings)
    assert ours == batches_of(lance, sampler, uri, *args, **settings)


def assert_same_rows(sampler: str, uri: str, *args, **settings) -> None:
    """Check that the rows and their order are the same, regardless of the division into batches."""
    ours, theirs = (batches_of(library, sampler, uri, *args, **settings) for library in (lance_core, lance))
    assert rows_of(ours) == rows_of(theirs)
    assert all(len(batch["k"]) <= settings.get("batch_size", 128) for batch in ours)


def rows_of(batches: list[dict]) -> list[dict]:
    return [row for batch in batches for row in pa.table(batch).to_pylist()]


def test_full_scan_yields_all_rows_in_order(uri: str) -> None:
    assert_same_rows("FullScanSampler", uri)
    assert_same_rows("FullScanSampler", uri, batch_size=50, columns=["k"], filter="s = 3", with_row_id=True)


@pytest.mark.parametrize(("rank", "size"), RANKS)
@pytest.mark.parametrize("randomize", [False, True])
def test_fragments_are_divided_among_processes_as_in_pylance(uri: str, rank: int, size: int, randomize: bool) -> None:
    assert_same_rows("ShardedFragmentSampler", uri, rank, size, randomize, seed=5, columns=["k"])
    assert_same_rows(
        "ShardedFragmentSampler", uri, rank, size, randomize, batch_size=40, filter="s = 3", with_row_id=True
    )


@pytest.mark.parametrize(("rank", "size"), RANKS)
@pytest.mark.parametrize("randomize", [False, True])
def test_batches_are_divided_among_processes_as_in_pylance(uri: str, rank: int, size: int, randomize: bool) -> None:
    assert_same("ShardedBatchSampler", uri, rank, size, randomize, seed=5)
    assert_same("ShardedBatchSampler", uri, rank, size, randomize, batch_size=40, columns=["k"])


def all_numbers(batches: list[dict]) -> list[int]:
    return [number for batch in batches for number in batch["k"]]


@pytest.mark.parametrize(("rank", "size"), RANKS)
@pytest.mark.parametrize(("filt", "batch_size"), [("s = 3", 5), ("s < 6", 40), ("k < 40", 128)])
def test_filtered_rows_are_divided_among_processes_as_in_pylance(
    uri: str, rank: int, size: int, filt: str, batch_size: int
) -> None:
    expected = lance.dataset(uri).to_table(filter=filt)["k"].to_pylist()[rank::size]
    found = batches_of(
        lance_core, "ShardedBatchSampler", uri, rank, size, batch_size=batch_size, filter=filt, columns=["k"]
    )
    assert all_numbers(found) == expected
    assert [len(batch["k"]) for batch in found[:-1]] == [batch_size] * (len(found) - 1)
    assert_same("ShardedBatchSampler", uri, rank, size, batch_size=batch_size, filter=filt)


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_filtered_batches_are_shuffled_as_in_pylance(uri: str, batch_size: int) -> None:
    settings = {"randomize": True, "seed": 3, "batch_size": batch_size, "filter": "s < 6"}
    assert_same("ShardedBatchSampler", uri, 1, 2, epoch=4, **settings)
    found = all_numbers(batches_of(lance_core, "ShardedBatchSampler", uri, 1, 2, **settings))
    assert found != sorted(found)
    assert sorted(found) == lance.dataset(uri).to_table(filter="s < 6")["k"].to_pylist()[1::2]


@pytest.mark.parametrize("filt", [None, "s < 6"])
@pytest.mark.parametrize("sampler", ["ShardedFragmentSampler", "ShardedBatchSampler"])
def test_each_epoch_has_its_own_order(uri: str, sampler: str, filt: str | None) -> None:
    orders = [
        all_numbers(
            batches_of(lance_core, sampler, uri, 0, 1, True, epoch=epoch, batch_size=20, filter=filt, columns=["k"])
        )
        for epoch in (0, 0, 1)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


def test_sampler_with_a_filter_without_matches_yields_nothing(uri: str) -> None:
    assert batches_of(lance_core, "ShardedBatchSampler", uri, 0, 2, filter="k < 0") == []


@pytest.mark.parametrize("filt", [None, "s = 3"])
def test_batches_of_a_single_process_include_row_ids_when_requested(uri: str, filt: str | None) -> None:
    found = batches_of(lance_core, "ShardedBatchSampler", uri, 0, 1, filter=filt, with_row_id=True, columns=["k"])
    expected = lance.dataset(uri).to_table(filter=filt, with_row_id=True, columns=["k"])
    assert [number for batch in found for number in batch["_rowid"]] == expected["_rowid"].to_pylist()


@pytest.mark.parametrize("sampler", ["ShardedFragmentSampler", "ShardedBatchSampler"])
def test_samplers_do_not_change_the_global_random_state(uri: str, sampler: str) -> None:
    import random

    random.seed(1)
    state = random.getstate()
    batches_of(lance_core, sampler, uri, 0, 2, True)
    assert random.getstate() == state


@pytest.mark.parametrize(("rank", "size"), RANKS)
@pytest.mark.parametrize("total", [0, 1, 10, 1000])
@pytest.mark.parametrize("randomize", [False, True])
def test_row_numbers_of_batches_equal_those_of_pylance(rank: int, size: int, total: int, randomize: bool) -> None:
    ours, theirs = (
        library.sampler.ShardedFixedBatchSampler(rank, size, randomize, 3, batch_size=30, total_num_rows=total)
        for library in (lance_core, lance)
    )
    ours.set_epoch(2)
    theirs.set_epoch(2)
    assert list(ours) == list(theirs)
    assert len(ours) == len(theirs)


def test_batch_sampler_without_rows_is_empty_and_one_without_a_size_is_refused() -> None:
    empty = lance_core.sampler.ShardedFixedBatchSampler(0, 2)
    assert len(empty) == 0
    assert list(empty) == []
    with pytest.raises(InvalidInputError, match="batch_size must be positive, found 0"):
        lance_core.sampler.ShardedFixedBatchSampler(0, 2, total_num_rows=10)


def test_sampler_takes_the_rank_from_torch(uri: str, monkeypatch) -> None:
    distributed = SimpleNamespace(get_rank=lambda: 1, get_world_size=lambda: 3)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=distributed))
    dataset = lance_core.dataset(uri)
    for sampler in (lance_core.sampler.ShardedFragmentSampler, lance_core.sampler.ShardedBatchSampler):
        expected = [batch.to_pydict() for batch in sampler(1, 3, True, 7)(dataset)]
        assert [batch.to_pydict() for batch in sampler.from_torch(randomize=True, seed=7)(dataset)] == expected
    fixed = lance_core.sampler.ShardedFixedBatchSampler
    assert list(fixed.from_torch(10, 100, True, 7)) == list(fixed(1, 3, True, 7, 10, 100))


def test_custom_sampler_selects_fragments(uri: str) -> None:
    class Last(lance_core.sampler.FragmentSampler):
        def iter_fragments(self, dataset, *args, count=1, **kwargs):
            yield from dataset.get_fragments()[-count:]

    dataset = lance_core.dataset(uri)
    found = [number for batch in Last()(dataset, count=2) for number in batch["k"].to_pylist()]
    assert found == [number for number in range(780, 1000) if number % 11]
