"""Writers of both implementations concurrently delete different rows of one fragment; no delete is planned again."""

import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lance_core
from lance_core.commit.commit import commit
from lance_core.transactions.options import CommitOptions
from tests.support.deletes import planned_delete

NUM_WRITERS = 3
DELETES_EACH = 6


def _run(targets: list[threading.Thread]) -> None:
    for thread in targets:
        thread.start()
    for thread in targets:
        thread.join(timeout=300)
        assert not thread.is_alive()


@pytest.mark.parametrize("with_reference", [False, True], ids=["lance_core", "both"])
def test_simultaneous_deletes_of_different_rows_of_one_fragment_all_succeed(
    tmp_path: Path, with_reference: bool
) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"a": pa.array(range(100), pa.int64())}), uri)
    failures: list[BaseException] = []

    def ours(writer: int) -> None:
        try:
            for number in range(DELETES_EACH):
                log = lance_core.dataset(uri).log
                rows = {0: BitMap([10 * writer + number])}
                version = log.latest().version
                commit(log, planned_delete(log, version, rows), CommitOptions(affected_rows=rows, max_retries=200))
        except BaseException as error:
            failures.append(error)
            raise

    def theirs() -> None:
        try:
            for number in range(DELETES_EACH):
                lance.dataset(uri).delete(f"a = {90 + number}")
        except BaseException as error:
            failures.append(error)
            raise

    writers = [threading.Thread(target=ours, args=(writer,)) for writer in range(NUM_WRITERS)]
    _run(writers + ([threading.Thread(target=theirs)] if with_reference else []))
    assert not failures
    gone = {10 * writer + number for writer in range(NUM_WRITERS) for number in range(DELETES_EACH)}
    if with_reference:
        gone |= {90 + number for number in range(DELETES_EACH)}
    dataset = lance_core.dataset(uri)
    assert dataset.version == 1 + len(gone)
    assert dataset.to_table()["a"].to_pylist() == [row for row in range(100) if row not in gone]
    dataset.validate()
    lance.dataset(uri).validate()
    # Each version has one deleted row more than its predecessor: no delete was lost.
    counts = [lance_core.dataset(uri, version=version).count_rows() for version in range(1, dataset.version + 1)]
    assert counts == list(range(100, 100 - dataset.version, -1))
