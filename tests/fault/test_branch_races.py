"""Several writers make, continue and delete the same branch at once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import RefAlreadyExistsError, RefConflictError, RefNotFoundError, StorageError

NUM_WRITERS = 8


def _rows(start: int, stop: int) -> pa.Table:
    return pa.table({"x": list(range(start, stop))})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    lance.write_dataset(_rows(0, 5), uri)
    lance.write_dataset(_rows(5, 6), uri, mode="append")
    return uri


@pytest.mark.parametrize("versions", [[2] * NUM_WRITERS, [1, 2] * (NUM_WRITERS // 2)], ids=["same", "different"])
def test_at_most_one_of_many_makes_a_branch(uri: str, versions: list[int]) -> None:
    """Of writers that start from one version exactly one; those of different versions may all give way."""
    barrier = Barrier(NUM_WRITERS)

    def make(version: int) -> object:
        handle = lance_core.dataset(uri)
        barrier.wait()
        try:
            return handle.create_branch("b", version).version
        except RefAlreadyExistsError as error:
            return error

    with ThreadPoolExecutor(NUM_WRITERS) as pool:
        results = list(pool.map(make, versions))
    winners = [result for result in results if isinstance(result, int)]
    assert len(winners) == 1 or (not winners and len(set(versions)) > 1)
    if not winners:
        assert lance_core.dataset(uri).branches.list() == {}
        return
    (winner,) = winners
    for reader in (lance, lance_core):
        assert reader.dataset(uri).branches.list()["b"]["parent_version"] == winner
        branch = reader.dataset(uri).checkout_version(("b", None))
        assert (branch.version, branch.count_rows()) == (winner, {1: 5, 2: 6}[winner])


def test_no_row_is_lost_on_a_branch(uri: str) -> None:
    lance_core.dataset(uri).create_branch("b")
    barrier = Barrier(NUM_WRITERS)

    def append(number: int) -> None:
        library = (lance, lance_core)[number % 2]
        barrier.wait()
        for row in range(3):
            start = 100 + 10 * number + row
            library.write_dataset(_rows(start, start + 1), f"{uri}/tree/b", mode="append")

    with ThreadPoolExecutor(NUM_WRITERS) as pool:
        list(pool.map(append, range(NUM_WRITERS)))
    expected = [*range(6), *(100 + 10 * number + row for number in range(NUM_WRITERS) for row in range(3))]
    for reader in (lance, lance_core):
        branch = reader.dataset(f"{uri}/tree/b")
        assert sorted(branch.to_table()["x"].to_pylist()) == expected
        assert [each["version"] for each in branch.versions()] == list(range(2, 2 + 1 + 3 * NUM_WRITERS))
        assert reader.dataset(uri).count_rows() == 6


def test_making_and_deleting_at_once_leaves_a_whole_main_line(uri: str) -> None:
    barrier = Barrier(NUM_WRITERS)

    def work(number: int) -> None:
        handle = lance_core.dataset(uri)
        barrier.wait()
        for _ in range(4):
            # A branch that is deleted while it is made has its files taken away.
            with suppress(RefAlreadyExistsError, RefConflictError, RefNotFoundError, StorageError):
                if number % 2:
                    handle.branches.delete("b")
                else:
                    handle.create_branch("b")

    with ThreadPoolExecutor(NUM_WRITERS) as pool:
        list(pool.map(work, range(NUM_WRITERS)))
    for reader in (lance, lance_core):
        assert reader.dataset(uri).count_rows() == 6
    with suppress(RefNotFoundError):
        lance_core.dataset(uri).branches.delete("b")
    assert lance_core.dataset(uri).create_branch("b").count_rows() == 6
