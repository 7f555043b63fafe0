"""Differential replay: random operations of both implementations on one table of local disk.

After each operation the reference validates the table, both read equal rows of every new version (in one order, with
row ids and addresses), these are the rows that a model of the operations expects, queries that an index answers find
what a scan finds, and no file that was committed has changed. A version is nothing but files, and its rows follow from
their bytes: so no version that was compared before can have changed either. Reading all of them again by both, which is
what that stands in for, is done at intervals and at the end;
``test_every_version_matches_the_model_after_each_operation`` does it after each operation.

An operation that is planned on an older version may fail with a conflict; then nothing may have changed. A change that
hid rows is often followed by one of either side that was planned before it, and is aimed at the same fragment: at other
rows, or at the same ones too.
"""

from pathlib import Path

import pytest

from tests.support.replay.replay import replay


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(1)
def test_short_sequences_of_random_operations_match_the_model(seed: int, tmp_path: Path) -> None:
    replay(tmp_path, seed, 20, every=20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5, 8))
def test_longer_sequences_of_random_operations_match_the_model(seed: int, tmp_path: Path) -> None:
    replay(tmp_path, seed, 30, every=15)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_many_sequences_of_random_operations_match_the_model(seed: int, tmp_path: Path) -> None:
    replay(tmp_path, seed, 60, every=60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_long_sequences_of_random_operations_match_the_model(seed: int, tmp_path: Path) -> None:
    replay(tmp_path, seed, 200, every=100)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 104))
def test_every_version_matches_the_model_after_each_operation(seed: int, tmp_path: Path) -> None:
    replay(tmp_path, seed, 100, every=1)
