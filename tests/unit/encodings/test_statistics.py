"""Statistics estimated from samples of the values of a leaf."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.statistics import (
    common_packed_bits,
    expected_distinct,
    runs_per_value,
    sampled_counts,
    spread,
)

LENGTHS = [0, 1, 2, 63, 64, 65, 100, 4096, 4097, 12_289, 100_000, 1_000_003]


@pytest.mark.parametrize("num_values", LENGTHS)
@pytest.mark.parametrize("num_samples", [1, 64, 4096])
def test_sample_positions_contain_one_position_of_every_part(num_values, num_samples):
    positions = spread(num_values, num_samples)
    assert len(positions) == min(num_values, num_samples)
    parts = np.arange(len(positions) + 1) * num_values // max(1, len(positions))
    assert bool(((parts[:-1] <= positions) & (positions < parts[1:])).all())
    assert positions.tolist() == spread(num_values, num_samples).tolist()


def test_sample_positions_are_the_same_on_every_platform():
    assert spread(100, 4).tolist() == [14, 26, 71, 77]


@pytest.mark.parametrize("period", [2, 3, 5, 7, 8, 16, 24, 25, 48, 50, 64, 100])
@pytest.mark.parametrize("num_values", [20_000, 50_000, 100_000, 204_800])
def test_sample_positions_do_not_align_with_periodic_values(num_values, period):
    residues = np.bincount(spread(num_values, 4096) % period, minlength=period)
    # Within five standard deviations of a fair share.
    fair = 4096 / period
    assert residues.min() > fair - 5 * np.sqrt(fair)
    assert residues.max() < fair + 5 * np.sqrt(fair)


@pytest.mark.parametrize("every", [2, 3, 24, 48, 5000])
def test_sampled_counts_sample_only_valid_values(every):
    values = pa.array([f"v{row % 5}" if row % every == 0 else None for row in range(100_000)])
    counts = sampled_counts(values)
    assert counts.sum() >= min(256, 100_000 // every)
    assert len(counts) == len(values.drop_null().unique())


def test_sampled_counts_of_only_nulls_are_empty():
    assert sampled_counts(pa.nulls(5000, pa.string())).tolist() == []


def test_sampled_counts_find_a_single_valid_value():
    values = pa.array([None] * 70_001 + ["x"] + [None] * 9)
    assert sampled_counts(values).tolist() == [1]


def test_sampled_counts_cover_only_the_slice():
    values = pa.array(["a", None, "b"] * 1000).slice(1, 2000)
    assert len(sampled_counts(values)) == 2


@pytest.mark.parametrize("num_distinct", [2, 400, 5000, 60_000])
def test_distinct_values_of_equal_frequency_are_estimated_closely(num_distinct):
    values = pa.array(np.random.default_rng(3).integers(0, num_distinct, 1_000_000))
    assert expected_distinct(sampled_counts(values)) == pytest.approx(num_distinct, rel=0.2)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9])
def test_distinct_estimate_is_high_despite_one_frequent_value(share):
    random = np.random.default_rng(3)
    values = np.where(random.random(1_000_000) < share, 0, np.arange(1_000_000))
    assert expected_distinct(sampled_counts(pa.array(values))) > 50_000


def test_distinct_values_of_unequal_frequency_are_not_overestimated():
    values = np.random.default_rng(3).zipf(1.3, 1_000_000)
    assert expected_distinct(sampled_counts(pa.array(values))) < len(np.unique(values))


def test_estimated_bit_width_of_alternating_blocks_is_between_their_widths():
    blocks = np.ones((6400, 16), np.uint32)
    blocks[::100] = 1 << 30
    blocks[::2] = 1 << 10
    assert 4 < common_packed_bits(blocks) < 8


def test_estimated_runs_per_value_of_periodic_runs_is_close_to_the_actual_value():
    # Runs of 8 at the start of every 32nd part, no runs elsewhere.
    words = np.arange(1 << 17)
    words.reshape(32, -1)[:, :512] //= 8
    assert runs_per_value(words, 0.5) > 0.8


@pytest.mark.parametrize("words", [np.zeros(1, np.int64), np.zeros(0, np.int64)])
def test_runs_per_value_is_one_for_at_most_one_value(words):
    assert runs_per_value(words, 1.0) == 1.0


def test_runs_per_value_is_exact_for_few_runs():
    words = np.repeat(np.arange(10_000), 10)
    assert runs_per_value(words, 0.9) == (10_000 + 24) / 100_000
