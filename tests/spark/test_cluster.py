"""Verbs on a standalone cluster of two workers with tables in S3 have correct results even if processes are killed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import lance
import pytest

import lance_core
from tests.support.s3_servers import CEPH_PROGRAMS, S3Server, ceph_server, moto_server
from tests.support.spark_cluster import SparkCluster, end, spark_cluster

pytestmark = pytest.mark.spark

ROWS = 20_000
DEADLINE_SECONDS = 300


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    has_ceph = all(shutil.which(program) for program in CEPH_PROGRAMS)
    with ceph_server(tmp_path_factory.mktemp("ceph")) if has_ceph else moto_server() as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("spark")) as running:
        yield running


class Table:
    """A table in S3 that drivers on the cluster change."""

    def __init__(self, cluster: SparkCluster, store: S3Server, marks: Path) -> None:
        self.cluster, self.store, self.marks = cluster, store, marks
        self.uri, self.options = store.uri(), store.options()
        marks.mkdir()

    def request(self, verb: str, **more: Any) -> dict[str, Any]:
        return {"verb": verb, "uri": self.uri, "options": self.options, "marks": str(self.marks), **more}

    def apply(self, verb: str, **more: Any) -> dict[str, Any]:
        return self.cluster.run(self.request(verb, **more))

    def rows(self) -> list[tuple[int, str]]:
        dataset = lance.dataset(self.uri, storage_options=self.options)
        dataset.validate()
        return sorted((row["id"], row["word"]) for row in dataset.to_table().to_pylist())

    @property
    def version(self) -> int:
        return lance_core.dataset(self.uri, storage_options=self.options).version

    def unused_files(self) -> set[str]:
        """Return the data files to which no version refers."""
        dataset = lance_core.dataset(self.uri, storage_options=self.options)
        used: set[str] = set()
        for each in dataset.versions():
            used |= dataset.checkout_version(each["version"]).manifest.data_file_paths
        return {key.removeprefix("data/") for key in self.store.keys(self.uri) if key.startswith("data/")} - used

    def clean_up(self) -> None:
        dataset = lance_core.dataset(self.uri, storage_options=self.options)
        dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)


@pytest.fixture
def table(cluster: SparkCluster, store: S3Server, tmp_path: Path) -> Table:
    """A table with two versions."""
    made = Table(cluster, store, tmp_path / "marks")
    data = [(0, ROWS // 2), (ROWS // 2, ROWS)]
    for start, stop in data:
        frame = lance_core.write_dataset(
            rows_of(start, stop), made.uri, mode="append", max_rows_per_file=1000, storage_options=made.options
        )
    assert frame.version == 2
    return made


def rows_of(start: int, stop: int, text: str = "old") -> Any:
    import pyarrow as pa

    return pa.table(
        {"id": pa.array(range(start, stop), pa.int64()), "word": [f"{text} {each}" for each in range(start, stop)]}
    )


def expected(changes: dict[int, str]) -> list[tuple[int, str]]:
    found = {number: f"old {number}" for number in range(ROWS)} | changes
    return sorted(found.items())


@pytest.mark.slow
def test_reads_and_writes_on_a_cluster_return_and_add_the_correct_rows(table: Table) -> None:
    assert table.apply("read") == {"n": ROWS, "total": ROWS * (ROWS - 1) // 2, "ids": ROWS}
    assert table.apply("write", start=ROWS, stop=ROWS + 100, text="new") == {"version": 3, "rows": 100}
    assert table.rows() == expected({number: f"new {number}" for number in range(ROWS, ROWS + 100)})
    assert not table.unused_files()


def cases(values: tuple[str, ...], short: str) -> list[Any]:
    """Return parameters of which one is ``slow``, and the others take too long for that."""
    return [pytest.param(value, marks=pytest.mark.slow if value == short else pytest.mark.soak) for value in values]


EVENTS = ("fails", "executor", "straggles")
"""Each of them happens to one verb in the slow tests, and to the others in the soak tests."""


@pytest.mark.parametrize("event", cases(EVENTS, "fails"))
def test_write_on_a_cluster_survives_failures(table: Table, event: str) -> None:
    assert table.apply("write", start=ROWS, stop=ROWS + 100, text="new", event=event)["version"] == 3
    assert table.rows() == expected({number: f"new {number}" for number in range(ROWS, ROWS + 100)})
    assert (table.marks / "done-0-1").exists()
    assert table.version == 3
    table.clean_up()
    assert not table.unused_files()


@pytest.mark.parametrize("event", cases(EVENTS, "executor"))
def test_upsert_on_a_cluster_survives_failures(table: Table, event: str) -> None:
    done = table.apply("upsert", start=ROWS - 100, stop=ROWS + 100, text="new", event=event)
    assert done == {"version": 3, "updated": 100, "inserted": 100}
    assert table.rows() == expected({number: f"new {number}" for number in range(ROWS - 100, ROWS + 100)})
    assert (table.marks / "done-0-1").exists()
    assert table.version == 3
    table.clean_up()
    assert not table.unused_files()


@pytest.mark.parametrize("event", cases(EVENTS, "straggles"))
def test_compaction_on_a_cluster_survives_failures(table: Table, event: str) -> None:
    # One version reserves the ids of the new fragments.
    assert table.apply("compact", event=event)["version"] == 4
    assert table.rows() == expected({})
    assert (table.marks / "done-0-1").exists()
    table.clean_up()
    assert not table.unused_files()


@pytest.mark.parametrize("verb", cases(("write", "upsert", "compact"), "upsert"))
def test_killed_driver_leaves_no_version_and_its_files_can_be_cleaned_up(table: Table, verb: str) -> None:
    request = table.request(verb, start=ROWS - 100, stop=ROWS + 100, text="new", event="driver")
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        driver = table.cluster.start(request, output, errors)
        try:
            deadline = time.monotonic() + DEADLINE_SECONDS
            while not (table.marks / "done-0-0").exists():
                assert driver.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        finally:
            end(driver)
    assert table.version == 2
    assert table.rows() == expected({})
    assert table.unused_files()
    (table.marks / "done-0-1").touch()
    assert table.apply("read")["n"] == ROWS
    table.clean_up()
    assert not table.unused_files()
    assert table.rows() == expected({})
