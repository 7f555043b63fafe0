"""Random nested tables in format 2.0 have the bytes of the reference, and the same rows in both directions."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from tests.support.tables_v2_0 import (
    compact,
    random_table,
    read_ours,
    read_theirs,
    take_ours,
    write_ours,
    write_theirs,
)

NUM_ROWS = [1, 2, 7, 8, 9, 63, 100, 150, 257]


def _check_seed(directory: Path, seed: int, longest: int | None = None) -> None:
    rng = random.Random(seed)
    num_rows = rng.choice(NUM_ROWS) if longest is None else rng.randint(1, longest)
    table = random_table(rng, num_rows)
    expected = table.to_pylist()
    ours, theirs = directory / "ours.lance", directory / "theirs.lance"
    write_ours(ours, [table])
    write_theirs(theirs, [table])
    assert ours.read_bytes() == theirs.read_bytes()
    assert read_ours(ours).to_pylist() == expected
    assert read_theirs(ours).to_pylist() == expected
    cuts = sorted({0, num_rows, *(rng.randint(0, num_rows) for _ in range(rng.randint(1, 4)))})
    batches = [compact(table.slice(start, stop - start)) for start, stop in itertools.pairwise(cuts)]
    write_ours(ours, batches, data_cache_bytes=rng.choice([0, 100, 10_000]))
    write_theirs(theirs, batches, data_cache_bytes=1)
    assert read_theirs(ours).to_pylist() == expected
    for path in (ours, theirs):
        assert read_ours(path).to_pylist() == expected
        for _ in range(4):
            start = rng.randint(0, num_rows)
            stop = rng.randint(start, num_rows)
            assert read_ours(path, start, stop).to_pylist() == expected[start:stop]
            rows = sorted(rng.randrange(num_rows) for _ in range(rng.randint(0, 8)))
            assert take_ours(path, rows).to_pylist() == [expected[row] for row in rows]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(8)
def test_random_tables_in_format_2_0_have_the_same_bytes_and_rows_as_in_pylance(tmp_path: Path, seed: int) -> None:
    _check_seed(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_more_random_tables_in_format_2_0_have_the_same_bytes_and_rows_as_in_pylance(tmp_path: Path, seed: int) -> None:
    _check_seed(tmp_path, seed, longest=3000)
