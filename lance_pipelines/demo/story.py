"""The steps of the demonstration: many small ingests, a few deletes, and then maintenance by the sensors alone.

::

    ingest     each run of the job ``ingest`` adds a batch as one fragment and creates a version; after a fifth of the
               batches, the version is tagged
    delete     each run of the job ``delete_rows`` writes a deletion file for every changed fragment and creates a
               version
    maintain   the sensors are started one after another, and nothing else is done: fragments that lost many rows are
               rewritten, small fragments are merged, and old versions and their files are removed, except the tagged
               version
    compare    check that rows, versions, files, and recorded events are as expected

After each step, the rows of the dataset are compared with the expected rows. The first failed check ends the
demonstration with :class:`FailedCheckError`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import lance_core
from lance_core.errors import LanceError
from lance_pipelines.demo.definitions import (
    CLEANUP_POLICY,
    COMPACTION_POLICY,
    DATASET,
    DELETION_POLICY,
    DOWNSTREAM,
)
from lance_pipelines.demo.dev_server import DevServer
from lance_pipelines.demo.events_data import DELETES, EMBEDDING_LENGTH, ExpectedRows, events, write_batch
from lance_pipelines.demo.reference_check import is_reference_installed, rows_by_version
from lance_pipelines.demo.snapshot import Snapshot
from lance_pipelines.jobs import job_name, request_config
from lance_pipelines.resources.spark import SPARK_RESOURCE

__all__ = ["FailedCheckError", "Story", "StoryOutcome"]

TAG: Final = "morning"

_RUN_SECONDS: Final = 600
_SENSOR_SECONDS: Final = 600
_UNFINISHED: Final = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")
_DATA_VERSION: Final = "dagster/data_version"
_AUTOMATION_JOB: Final = "__ASSET_JOB"
"""Dagster's job name for runs that an automation condition requests."""

_SPARK_CONFIG: Final = {"spark.master": "local[2,2]", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Spark settings for a short startup time; the demonstration has only a few rows."""


class FailedCheckError(LanceError):
    """A check of the demonstration failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryOutcome:
    """The result of a demonstration that passed.

    Attributes:
        before: snapshot of the dataset before the sensors were started.
        after: snapshot of the dataset at the end.
        checks: descriptions of the checks that passed, in order.
    """

    before: Snapshot
    after: Snapshot
    checks: tuple[str, ...]


class Story:
    """One run of the demonstration.

    Args:
        server: a running server for the dataset :data:`~lance_pipelines.demo.definitions.DATASET`.
        uri: location of the dataset.
        inputs: an existing, empty directory for the input files.
        tell: called with each line of output.
        num_ingests: number of batches.
        rows_per_ingest: number of rows in each batch.
    """

    def __init__(
        self,
        server: DevServer,
        uri: Path,
        inputs: Path,
        *,
        tell: Callable[[str], None],
        num_ingests: int = 20,
        rows_per_ingest: int = 500,
    ) -> None:
        """Initialize without starting a process."""
        self._server = server
        self._api = server.api
        self._uri = uri
        self._inputs = inputs
        self._tell = tell
        self._num_ingests = num_ingests
        self._rows_per_ingest = rows_per_ingest
        self._expected = ExpectedRows()
        self._checks: list[str] = []
        self._num_changes = 0

    def run(self) -> StoryOutcome:
        """Run the demonstration.

        Raises:
            FailedCheckError: a check failed.
            LanceError: the server or the dataset cannot be used.
        """
        num_tagged = self._num_ingests // 5
        self._ingest(range(num_tagged))
        tagged_version, tagged_rows = self._tag(), self._expected.rows
        self._ingest(range(num_tagged, self._num_ingests))
        self._delete_all()
        self._wait_for_downstream()
        before = Snapshot.take(self._uri)
        self._check(
            f"before maintenance: more than {self._most_fragments()} fragments, and at least 1 deleted row (found "
            f"{before.fragments} fragments, {before.deleted_rows} deleted rows, {len(before.versions)} versions)",
            holds=before.fragments > self._most_fragments() and before.deleted_rows > 0,
        )
        downstream_runs = self._downstream_data_versions()
        self._maintain(tagged_version)
        after = Snapshot.take(self._uri)
        self._check_rows("after maintenance")
        self._check_tagged(tagged_version, tagged_rows)
        self._check_reference(after, tagged_version, tagged_rows.num_rows)
        self._check_events(downstream_runs)
        return StoryOutcome(before=before, after=after, checks=tuple(self._checks))

    # ── Ingest, tag, delete ─────────────────────────────────────────────────────────────────────────────────────────

    def _ingest(self, batches: range) -> None:
        for number in batches:
            self._finish(self._launch_ingest(number))
            self._expected.append(events(number, self._rows_per_ingest))
            self._check_rows(f"after ingest {number + 1} of {self._num_ingests}")
            self._wait_for_request()

    def _launch_ingest(self, number: int) -> str:
        path = write_batch(self._inputs, number, self._rows_per_ingest)
        asset_config = {
            "source": {"format": "parquet", "paths": [str(path)]},
            "vector_columns": {"embedding": EMBEDDING_LENGTH},
        }
        run_config = {
            "ops": {DATASET: {"config": asset_config}},
            "resources": {SPARK_RESOURCE: {"config": {"spark_config": _SPARK_CONFIG}}},
        }
        return self._api.launch(job_name("ingest", DATASET), run_config)

    def _tag(self) -> int:
        dataset = lance_core.dataset(self._uri)
        dataset.tags.create(TAG, dataset.version)
        self._tell(f"version {dataset.version} is tagged {TAG!r}")
        return dataset.version

    def _delete_all(self) -> None:
        for delete in DELETES:
            run_config = request_config("delete_rows", predicate=delete.predicate)
            self._finish(self._api.launch(job_name("delete_rows", DATASET), run_config))
            num_rows = self._expected.delete(delete)
            self._check_rows(f"after {num_rows} rows were deleted where {delete.predicate}")
            self._wait_for_request()

    def _finish(self, run_id: str) -> None:
        """Wait for a run to succeed."""
        self._server.wait_until(partial(self._has_ended, run_id), f"run {run_id} did not finish", seconds=_RUN_SECONDS)
        status = self._api.status(run_id)
        if status != "SUCCESS":
            raise FailedCheckError(f"run {run_id} ended with {status}; see {self._server.url}/runs/{run_id}")
        self._num_changes += 1

    def _has_ended(self, run_id: str) -> bool:
        return self._api.status(run_id) not in _UNFINISHED

    # ── Maintenance ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _maintain(self, tagged_version: int) -> None:
        """Start the sensors one after another; each must act and bring the dataset within the limits of its policy."""
        known = {run["runId"] for run in self._api.runs()}
        most, worst = self._most_fragments(), DELETION_POLICY.max_deleted_fraction
        stages: tuple[tuple[str, str, str, Callable[[Snapshot], bool]], ...] = (
            (
                "lance_deletion_sensor",
                job_name("materialize_deletions", DATASET),
                f"no fragment has more than {worst:.0%} deleted rows",
                lambda look: look.worst_deleted_fraction <= worst,
            ),
            (
                "lance_compaction_sensor",
                job_name("compact", DATASET),
                f"at most {most} fragments remain, and they have no deleted rows",
                lambda look: look.fragments <= most and look.deleted_rows == 0,
            ),
            (
                "lance_cleanup_sensor",
                job_name("cleanup", DATASET),
                f"only the newest versions and tagged version {tagged_version} remain, and there are no deletion files",
                lambda look: (
                    look.deletion_files == 0
                    and set(look.versions) == {tagged_version, *look.versions[-CLEANUP_POLICY.retain_versions :]}
                ),
            ),
        )
        for sensor, job, what, is_reached in stages:
            self._api.start_sensor(sensor)
            self._tell(f"{sensor} was started")
            self._server.wait_until(
                partial(self._is_at_rest, known, job, is_reached), f"{sensor} did not finish", seconds=_SENSOR_SECONDS
            )
            self._check(what, holds=is_reached(Snapshot.take(self._uri)))

    def _is_at_rest(self, known: set[str], job: str, is_reached: Callable[[Snapshot], bool]) -> bool:
        """Return whether a job ran, no run is active, and the dataset has the expected state; report new ended runs."""
        runs = self._api.runs()
        for run in runs:
            if run["status"] in ("FAILURE", "CANCELED"):
                raise FailedCheckError(f"run {run['runId']} of {run['jobName']} ended with {run['status']}")
            if run["status"] == "SUCCESS" and run["runId"] not in known:
                known.add(run["runId"])
                self._tell(f"  run {run['runId'][:8]} of {run['jobName']} succeeded")
        has_run = any(run["jobName"] == job for run in runs)
        is_busy = any(run["status"] in _UNFINISHED for run in runs)
        return has_run and not is_busy and is_reached(Snapshot.take(self._uri))

    def _most_fragments(self) -> int:
        return max(1, self._expected.num_rows // COMPACTION_POLICY.target_rows_per_fragment)

    # ── Checks ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check(self, what: str, *, holds: bool) -> None:
        if not holds:
            raise FailedCheckError(f"check failed; expected: {what}")
        self._checks.append(what)
        self._tell(what)

    def _check_rows(self, when: str) -> None:
        rows = lance_core.dataset(self._uri).to_table().sort_by("id").combine_chunks()
        self._check(
            f"{when}: the {self._expected.num_rows} rows that were ingested and not deleted",
            holds=rows.equals(self._expected.rows),
        )

    def _check_tagged(self, version: int, rows: Any) -> None:
        tagged = lance_core.dataset(self._uri, version=TAG)
        found = tagged.to_table().sort_by("id").combine_chunks()
        self._check(
            f"tag {TAG!r} still refers to version {version}, which has {rows.num_rows} rows",
            holds=tagged.version == version and found.equals(rows),
        )

    def _check_reference(self, after: Snapshot, tagged_version: int, tagged_rows: int) -> None:
        if not is_reference_installed():
            self._tell("the reference implementation is not installed; its check is skipped")
            return
        found = rows_by_version(self._uri, after.versions)
        expected = dict.fromkeys(after.versions, self._expected.num_rows) | {tagged_version: tagged_rows}
        self._check(
            f"the reference implementation validates and reads versions {list(after.versions)}",
            holds=found == expected,
        )

    def _check_events(self, downstream_before: list[str]) -> None:
        recorded = self._api.asset_events(DATASET)
        changes = [tags[_DATA_VERSION] for tags in recorded.materializations]
        num_changes = self._num_ingests + len(DELETES)
        self._check(
            f"{num_changes} data changes were recorded as {num_changes} materializations of {DATASET}",
            holds=len(changes) == len(set(changes)) == num_changes,
        )
        self._check(
            f"maintenance produced {len(recorded.observations)} observations, all with data version {changes[0]}",
            holds=bool(recorded.observations)
            and {tags[_DATA_VERSION] for tags in recorded.observations} == {changes[0]},
        )
        self._check(
            f"{DOWNSTREAM} ran {num_changes} times, once for each change, and never for maintenance",
            holds=self._downstream_data_versions() == downstream_before and len(downstream_before) == num_changes,
        )

    def _wait_for_request(self) -> None:
        """Wait until a run of the downstream asset was requested because of the last change.

        The run itself may still be in progress at the next change, which then requests another run.
        """

        def is_requested() -> bool:
            return sum(run["jobName"] == _AUTOMATION_JOB for run in self._api.runs()) >= self._num_changes

        self._server.wait_until(is_requested, f"no run of {DOWNSTREAM} was requested", seconds=_RUN_SECONDS)

    def _wait_for_downstream(self) -> None:
        """Wait until the downstream asset has run for every change."""

        def has_caught_up() -> bool:
            newest = self._api.asset_events(DATASET).materializations[0][_DATA_VERSION]
            seen = self._downstream_data_versions()
            return len(seen) >= self._num_changes and seen[0] == newest

        self._server.wait_until(has_caught_up, f"{DOWNSTREAM} did not run", seconds=_RUN_SECONDS)

    def _downstream_data_versions(self) -> list[str]:
        """Return the data versions of the dataset that the downstream asset ran for, newest first."""
        key = f"dagster/input_data_version/{DATASET}"
        return [tags[key] for tags in self._api.asset_events(DOWNSTREAM).materializations]
