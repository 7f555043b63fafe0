"""A real daemon that is killed again and again: no request is lost or doubled, and a broken store stops no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.metadata import MAY_CHANGE_ROWS
from lance_pipelines.events.data_version import data_version_at, data_version_of
from tests.support.daemon import Daemon

pytestmark = pytest.mark.slow

FOREIGN, BUSY = "foreign", "busy"
SENSORS = ("lance_version_sensor", "lance_compaction_sensor", "lance_deletion_sensor")

DEFINITIONS = """
from pathlib import Path

import dagster as dg

from lance_pipelines import CompactionPolicy, DatasetDeclaration, DeletionPolicy, MaintenancePolicy, build_definitions
from lance_pipelines.ops import rewrite_fragments
from tests.support.no_spark import NoSpark, rewrite_without_session

rewrite_fragments.rewrite_tasks = rewrite_without_session
LAKE = Path(__file__).parent / "lake"
POLICY = MaintenancePolicy(
    compaction=CompactionPolicy(target_rows_per_fragment=1000, min_small_fragments=4),
    deletion=DeletionPolicy(max_deleted_fraction=0.1),
    cleanup=None,
)
UNREACHABLE = {
    "aws_endpoint": "http://127.0.0.1:1", "allow_http": "true", "aws_region": "us-east-1",
    "aws_access_key_id": "a", "aws_secret_access_key": "b", "client_max_retries": "0",
}
broken = DatasetDeclaration(key="broken", uri="s3://nowhere/broken.lance", storage_options=UNREACHABLE)
others = [DatasetDeclaration(key=key, uri=f"{LAKE}/{key}.lance", maintenance=POLICY) for key in ("foreign", "busy")]
defs = dg.Definitions.merge(
    build_definitions(
        [broken, *others],
        spark=NoSpark(),
        sensor_interval_seconds=1,
        maintenance_status=dg.DefaultSensorStatus.RUNNING,
    ),
    dg.Definitions(executor=dg.in_process_executor),
)
"""


class Lake:
    """The two datasets that work, the daemon that maintains them, and the rows that they must have."""

    def __init__(self, directory: Path, daemon: Daemon) -> None:
        self.uris = {key: str(directory / "lake" / f"{key}.lance") for key in (FOREIGN, BUSY)}
        self.daemon = daemon
        self.expected: dict[str, set[int]] = {key: set() for key in self.uris}

    def write(self, key: str) -> None:
        """Append five fragments and delete a row: with pylance, or with this library."""
        library = lance if key == FOREIGN else lance_core
        for _ in range(5):
            first = max(self.expected[key], default=-1) + 1
            rows = pa.table({"id": range(first, first + 10)})
            library.write_dataset(rows, self.uris[key], mode="append" if self.expected[key] else "create")
            self.expected[key] |= set(range(first, first + 10))
        library.dataset(self.uris[key]).delete(f"id = {first}")
        self.expected[key] -= {first}

    def reported(self, key: str) -> list[str]:
        """Return the data versions of the materializations, oldest first."""
        records = self.daemon.instance.fetch_materializations(dg.AssetKey(key), limit=1000, ascending=True).records
        return [record.asset_materialization.tags["dagster/data_version"] for record in records]

    def changes(self, key: str) -> list[str]:
        """Return the data versions of all versions that changed rows, from the history of the dataset."""
        dataset = lance_core.dataset(self.uris[key])
        found = []
        for version in range(1, dataset.version + 1):
            transaction = dataset.read_transaction(version)
            if MAY_CHANGE_ROWS[transaction.operation.arm]:
                found.append(data_version_of(version, transaction.uuid))
        return found

    def is_current(self, key: str) -> bool:
        """Return whether the latest data version is reported."""
        return self.reported(key)[-1:] == [data_version_at(self.uris[key], None)]

    def is_maintained(self) -> bool:
        """Return whether no run is in progress, both datasets are compact, and all changes are reported."""
        return self.daemon.is_idle() and all(
            len(lance_core.dataset(uri).get_fragments()) < 4 and self.is_current(key) for key, uri in self.uris.items()
        )


@pytest.mark.timeout(1500)
def test_a_daemon_killed_at_any_moment_neither_loses_nor_duplicates_a_request(tmp_path) -> None:
    with Daemon(tmp_path, DEFINITIONS) as daemon:
        lake = Lake(tmp_path, daemon)
        for key in lake.uris:
            lake.write(key)
        daemon.wait_until(lambda: all(map(lake.is_current, lake.uris)), "the datasets are not tracked")
        # Otherwise, a run that has been requested already might compact the next writes as well.
        daemon.wait_until(lake.is_maintained, "the datasets are not maintained")

        def has_new_run() -> Callable[[], bool]:
            before = len(daemon.runs())
            return lambda: len(daemon.runs()) > before

        def has_new_materialization() -> Callable[[], bool]:
            before = len(lake.reported(FOREIGN))
            return lambda: len(lake.reported(FOREIGN)) > before

        def has_new_tick(sensor: str) -> Callable[[], bool]:
            before = len(daemon.ticks(sensor))
            return lambda: len(daemon.ticks(sensor)) > before

        moments = [has_new_run, has_new_materialization, *(lambda s=sensor: has_new_tick(s) for sensor in SENSORS)]
        for moment in moments:
            is_reached = moment()
            for key in lake.uris:
                lake.write(key)
            daemon.wait_until(is_reached, "nothing happens after writes")
            daemon.kill()
            daemon.start()
        daemon.wait_until(lake.is_maintained, "the datasets are not maintained", seconds=600)

        runs = daemon.runs()
        assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
        for tag in ("dagster/run_key", "lance/work"):
            values = [run.tags[tag] for run in runs]
            assert len(values) == len(set(values)), "a request was doubled"
        assert {run.tags["lance/dataset"] for run in runs} == set(lake.uris), "the broken dataset has no runs"
        for key, uri in lake.uris.items():
            reported = list(dict.fromkeys(lake.reported(key)))
            assert reported == [change for change in lake.changes(key) if change in set(reported)]
            assert set(lake.changes(key)[6:]) <= set(reported), "no change after the first look is lost"
            for library in (lance, lance_core):
                assert set(library.dataset(uri).to_table()["id"].to_pylist()) == lake.expected[key]
            assert lance.dataset(uri).count_rows() == len(lake.expected[key])
        for sensor in SENSORS:
            skipped = [tick.skip_reason for tick in daemon.ticks(sensor) if tick.skip_reason]
            assert all("broken: cannot be examined" in reason for reason in skipped), sensor
            assert skipped
