"""Random rows of a dataset: their number, their distribution, and their batches."""

import lance
import lance.sampler
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.sampler import maybe_sample, reservoir_sampling

TOTAL = 1000


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    """A table of three fragments with some deleted rows; every fourth value is null."""
    location = str(tmp_path_factory.mktemp("sampled") / "t")
    numbers = np.arange(TOTAL + 50)
    values = pa.array([None if number % 4 == 0 else int(number) for number in numbers])
    dataset = lance_core.write_dataset(
        pa.table({"k": numbers, "v": values}), location, max_rows_per_file=400, mode="create"
    )
    dataset.delete("k >= 100 and k < 150")
    return location


def numbers_of(batches, column: str = "k") -> list[int]:
    return [number for batch in batches for number in batch[column].to_pylist()]


@pytest.mark.parametrize("count", [1, 30, 64])
def test_same_numpy_seed_gives_the_same_rows_as_in_pylance(uri: str, count: int) -> None:
    np.random.seed(7)
    ours = list(maybe_sample(uri, count, ["v", "k"], batch_size=25))
    np.random.seed(7)
    theirs = list(lance.sampler.maybe_sample(uri, count, ["v", "k"], batch_size=25))
    assert [batch.to_pydict() for batch in ours] == [batch.to_pydict() for batch in theirs]
    assert [batch.num_rows for batch in ours] == [batch.num_rows for batch in theirs]


@pytest.mark.parametrize("dataset", [str, lance_core.dataset], ids=["location", "handle"])
def test_sample_of_more_rows_than_exist_returns_all_rows(uri: str, dataset) -> None:
    expected = lance_core.dataset(uri).to_table(columns=["k"])["k"].to_pylist()
    assert numbers_of(maybe_sample(dataset(uri), TOTAL, "k", batch_size=128)) == expected
    filtered = numbers_of(maybe_sample(dataset(uri), TOTAL + 1, "k", filt="k < 10"))
    assert filtered == list(range(10))


@pytest.mark.parametrize(("count", "max_takes"), [(999, 7), (998, 500), (100, 99), (64, 10), (3, 1)])
def test_ranges_of_rows_are_spread_over_the_dataset(uri: str, count: int, max_takes: int) -> None:
    batches = list(maybe_sample(uri, count, "k", batch_size=40, max_takes=max_takes))
    numbers = numbers_of(batches)
    assert len(set(numbers)) == len(numbers) == count
    assert numbers == sorted(numbers)
    assert all(batch.num_rows == 40 for batch in batches[:-1])
    live = [number for number in range(TOTAL + 50) if not 100 <= number < 150]
    positions = np.array([live.index(number) for number in numbers])
    assert np.count_nonzero(np.diff(positions) > 1) < max_takes


def test_each_part_of_the_dataset_contributes_a_proportional_number_of_rows(uri: str) -> None:
    numbers = np.array(numbers_of(maybe_sample(uri, 100, "k", max_takes=10)))
    live = np.array([number for number in range(TOTAL + 50) if not 100 <= number < 150])
    shares = np.bincount(np.searchsorted(live, numbers) * 10 // TOTAL)
    assert shares.tolist() == [10] * 10


@pytest.mark.parametrize("filt", ["v is not null", "V IS NOT NULL"])
@pytest.mark.parametrize("batch_size", [7, 50, 10240])
def test_sample_with_a_not_null_filter_returns_values_in_random_order(uri: str, filt: str, batch_size: int) -> None:
    batches = list(maybe_sample(uri, 100, "v", batch_size=batch_size, max_takes=20, filt=filt))
    numbers = numbers_of(batches, "v")
    assert len(set(numbers)) == len(numbers) == 100
    assert None not in numbers
    assert numbers != sorted(numbers)
    assert [batch.num_rows for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)


def test_sample_with_a_not_null_filter_returns_all_values_if_there_are_too_few(uri: str) -> None:
    batches = list(maybe_sample(uri, 999, "v", batch_size=100, filt="v is not null"))
    assert sorted(numbers_of(batches, "v")) == sorted(
        lance_core.dataset(uri).to_table(columns=["v"], filter="v is not null")["v"].to_pylist()
    )
    assert [batch.num_rows for batch in batches[:-1]] == [100] * (len(batches) - 1)


@pytest.mark.parametrize(("count", "expected"), [(10, 10), (500, 75)])
def test_sample_with_any_other_filter_is_taken_from_the_matching_rows(uri: str, count: int, expected: int) -> None:
    batches = list(maybe_sample(uri, count, ["v", "k"], batch_size=4, filt="k < 100 and v is not null"))
    numbers = numbers_of(batches)
    assert len(set(numbers)) == len(numbers) == expected
    assert all(number < 100 and number % 4 for number in numbers)
    assert batches[0].schema.names == ["v", "k"]


def test_sample_with_any_other_filter_without_matches_is_empty(uri: str) -> None:
    assert list(maybe_sample(uri, 10, "k", filt="k < 0")) == []


def test_sample_of_unknown_columns_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="'none' does not exist"):
        list(maybe_sample(uri, 10, "none"))


@pytest.mark.parametrize(("length", "k"), [(0, 3), (2, 3), (3, 3), (100, 3), (5, 0)])
def test_reservoir_contains_distinct_items_of_the_stream(length: int, k: int) -> None:
    items = reservoir_sampling(iter(range(length)), k)
    assert len(set(items)) == len(items) == min(length, k)
    assert set(items) <= set(range(length))


def test_reservoir_chooses_early_and_late_items_equally_often() -> None:
    chosen = np.bincount([item for _ in range(2000) for item in reservoir_sampling(range(10), 2)], minlength=10)
    # Each has 400 on average; 100 is more than five standard deviations.
    assert abs(chosen - 400).max() < 100
