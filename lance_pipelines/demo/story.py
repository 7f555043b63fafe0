"""The steps of the demonstration: many small ingests, a few deletes, and then maintenance by the sensors alone.

::

    ingest     runs of the ingest jobs add an hour of events, and replace and add profiles; after a fifth of the
               batches, a version of the events is tagged; after half of them, the vector index is built
    delete     runs of the job ``delete_rows`` delete profiles
    maintain   the sensors are started, and nothing else is done: fragments that lost many rows are rewritten, small
               fragments are merged, the index is updated, and old versions are removed, except the tagged one
    compare    check that rows, search results, versions, files, and recorded events are as expected

After each step, the rows of the datasets are compared with the expected rows. The first failed check ends the
demonstration with :class:`FailedCheckError`. Without the optional extra ``pylance``, there is no index.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

import lance_core
from lance_core.errors import LanceError
from lance_pipelines.demo.batches import DELETES, HOURS, ExpectedRows, events, profiles, query_vector, write_batch
from lance_pipelines.demo.definitions import (
    AUTOMATION_SENSOR,
    DATASETS,
    DOWNSTREAM,
    EVENTS,
    POLICY,
    PROFILES,
    landing_directory,
)
from lance_pipelines.demo.dev_server import DevServer
from lance_pipelines.demo.reference_check import is_reference_installed, nearest_by_index, rows_by_version
from lance_pipelines.demo.snapshot import Snapshot
from lance_pipelines.jobs import job_name, request_config
from lance_pipelines.maintenance.history import read_history, render_history
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.settings import Settings

__all__ = ["FailedCheckError", "Story", "StoryOutcome"]

TAG: Final = "morning"

_SECONDS: Final = 600
"""How long to wait for one run, or for the sensors to finish their work; several times the usual duration."""

_UNFINISHED: Final = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")
_DATA_VERSION: Final = "dagster/data_version"
_SENSORS: Final = {
    "materialize_deletions": "lance_deletion_sensor",
    "compact": "lance_compaction_sensor",
    "optimize_indices": "lance_index_sensor",
    "cleanup": "lance_cleanup_sensor",
}
"""Maps each operation to the sensor that requests its runs."""

_BATCHES: Final = {EVENTS: events, PROFILES: profiles}
_KEYS: Final = {EVENTS: "id", PROFILES: "user"}


class FailedCheckError(LanceError):
    """A check of the demonstration failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryOutcome:
    """The result of a demonstration that passed.

    Attributes:
        before: snapshot of each dataset before the sensors were started.
        after: snapshot of each dataset at the end.
        history: the runs of maintenance jobs, with what they did and cost.
        checks: descriptions of the checks that passed, in order.
    """

    before: dict[str, Snapshot]
    after: dict[str, Snapshot]
    history: str
    checks: tuple[str, ...]


class Story:
    """One run of the demonstration.

    Args:
        server: a running server for the definitions of the demonstration.
        settings: the settings of the server.
        tell: called with each line of output.
        num_ingests: number of batches, of which each dataset gets half.
        rows_per_ingest: number of rows in each batch.
    """

    def __init__(
        self,
        server: DevServer,
        settings: Settings,
        *,
        tell: Callable[[str], None],
        num_ingests: int = 20,
        rows_per_ingest: int = 500,
    ) -> None:
        """Initialize without starting a process."""
        self._server = server
        self._api = server.api
        self._uris = {dataset: Path(settings.dataset_uri(dataset)) for dataset in DATASETS}
        self._history = settings.history_uri
        self._landing = landing_directory(settings.warehouse)
        self._tell = tell
        self._num_rounds = num_ingests // len(DATASETS)
        self._rows_per_ingest = rows_per_ingest
        self._expected = {dataset: ExpectedRows(_KEYS[dataset]) for dataset in DATASETS}
        self._checks: list[str] = []
        self._num_changes = dict.fromkeys(DATASETS, 0)
        self._is_indexed = is_reference_installed()

    def run(self) -> StoryOutcome:
        """Run the demonstration.

        Raises:
            FailedCheckError: a check failed.
            LanceError: the server or a dataset cannot be used.
        """
        if not self._is_indexed:
            self._tell(
                "no index will be built, because pylance is not installed: pip install 'lance-pipelines[pylance]'"
            )
        num_tagged, num_indexed = max(1, self._num_rounds // 5), self._num_rounds // 2
        self._ingest(range(num_tagged))
        tagged_version, tagged_rows = self._tag(), self._expected[EVENTS].rows
        self._ingest(range(num_tagged, num_indexed))
        if self._is_indexed:
            self._finish(self._api.launch(job_name("build_index", EVENTS), request_config("build_index")))
            self._tell(f"the vector index of {EVENTS} was built")
        self._ingest(range(num_indexed, self._num_rounds))
        self._delete_all()
        self._wait_for_downstream()
        before = self._snapshots()
        self._check_wear(before)
        nearest_before = self._search("before maintenance")
        downstream_before = self._downstream_runs()
        self._maintain(tagged_version)
        after = self._snapshots()
        for dataset in DATASETS:
            self._check_rows(dataset, "after maintenance")
        nearest_after = self._search("after maintenance")
        self._check("the search finds the same events as before", holds=nearest_before == nearest_after)
        self._check_tagged(tagged_version, tagged_rows)
        self._check_reference(after[EVENTS].versions, tagged_version, tagged_rows.num_rows)
        self._check_events(downstream_before)
        history = render_history(read_history(self._history))
        return StoryOutcome(before=before, after=after, history=history, checks=tuple(self._checks))

    # ── Ingest, tag, delete ─────────────────────────────────────────────────────────────────────────────────────────

    def _ingest(self, numbers: range) -> None:
        """Ingest batches of both datasets, one batch of each dataset at the same time."""
        for number in numbers:
            runs = []
            for dataset in DATASETS:
                batch = _BATCHES[dataset](number, self._rows_per_ingest)
                write_batch(self._landing / dataset, number, batch)
                self._expected[dataset].upsert(batch)
                partition = HOURS[number] if dataset == EVENTS else None
                runs.append(self._api.launch(job_name("ingest", dataset), {}, partition=partition))
            for dataset, run_id in zip(DATASETS, runs, strict=True):
                self._finish(run_id)
                self._num_changes[dataset] += 1
                self._check_rows(dataset, f"after ingest {number + 1} of {self._num_rounds}")

    def _tag(self) -> int:
        dataset = lance_core.dataset(self._uris[EVENTS])
        dataset.tags.create(TAG, dataset.version)
        self._tell(f"version {dataset.version} of {EVENTS} is tagged {TAG!r}")
        return dataset.version

    def _delete_all(self) -> None:
        for delete in DELETES:
            run_config = request_config("delete_rows", predicate=delete.predicate)
            self._finish(self._api.launch(job_name("delete_rows", PROFILES), run_config))
            self._num_changes[PROFILES] += 1
            num_rows = self._expected[PROFILES].delete(delete)
            self._check_rows(PROFILES, f"after deleting {amount(num_rows, 'row')} where {delete.predicate}")

    def _finish(self, run_id: str) -> None:
        """Wait for a run to succeed."""
        link = f"{self._server.url}/runs/{run_id}"
        self._server.wait_until(
            partial(self._has_ended, run_id),
            f"run {run_id} did not finish",
            seconds=_SECONDS,
            heartbeat=lambda: self._tell(f"  waiting for a run ({self._api.status(run_id).lower()}): {link}"),
        )
        status = self._api.status(run_id)
        if status != "SUCCESS":
            raise FailedCheckError(f"run {run_id} ended with status {status}; see {link}")

    def _has_ended(self, run_id: str) -> bool:
        return self._api.status(run_id) not in _UNFINISHED

    # ── Maintenance ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _maintain(self, tagged_version: int) -> None:
        """Start the sensors, and wait until they have brought both datasets within the limits of the policy.

        Compaction also drops deleted rows, so its sensor is started only after the materialization of deletions was
        requested.
        """
        known = {run["runId"] for run in self._api.runs()}
        operations = [name for name in _SENSORS if self._is_indexed or name != "optimize_indices"]
        first, *others = operations
        wait = partial(
            self._server.wait_until, seconds=_SECONDS, heartbeat=lambda: self._tell_waiting(operations, known)
        )
        self._start(first)
        wait(lambda: job_name(first, PROFILES) in self._jobs_since(known), f"{_SENSORS[first]} requested no run")
        for operation in others:
            self._start(operation)
        self._tell("from here on, only the sensors act")
        wait(partial(self._is_at_rest, operations, known, tagged_version), "the sensors did not finish their work")
        done = self._jobs_since(known)
        for operation in operations:
            jobs = sorted(done & {job_name(operation, dataset) for dataset in DATASETS})
            self._check(f"{_SENSORS[operation]} requested {', '.join(jobs) or 'a run'}", holds=bool(jobs))
        for dataset in DATASETS:
            for what, holds in self._goals(dataset, tagged_version).items():
                self._check(f"{dataset}: {what}", holds=holds)

    def _start(self, operation: str) -> None:
        sensor = _SENSORS[operation]
        self._api.start_sensor(sensor)
        self._tell(f"{sensor} was started")

    def _jobs_since(self, known: set[str]) -> set[str]:
        """Return the jobs of the runs that are not among the known ones.

        Raises:
            FailedCheckError: one of these runs failed.
        """
        runs = [run for run in self._api.runs() if run["runId"] not in known]
        for run in runs:
            if run["status"] in ("FAILURE", "CANCELED"):
                raise FailedCheckError(
                    f"a run of {run['jobName']} ended with status {run['status']}; see "
                    f"{self._server.url}/runs/{run['runId']}"
                )
        return {run["jobName"] for run in runs}

    def _is_at_rest(self, operations: list[str], known: set[str], tagged_version: int) -> bool:
        """Return whether every operation has run, no run is active, and both datasets have the expected state."""
        jobs = self._jobs_since(known)
        if not all(any(job_name(name, dataset) in jobs for dataset in DATASETS) for name in operations):
            return False
        if self._api.runs(*_UNFINISHED):
            return False
        return all(all(self._goals(dataset, tagged_version).values()) for dataset in DATASETS)

    def _goals(self, dataset: str, tagged_version: int) -> dict[str, bool]:
        """Return the states that the sensors must reach, and whether each of them is reached."""
        look = Snapshot.take(self._uris[dataset], POLICY)
        most, versions = self._most_fragments(dataset), set(look.versions[-1:])
        if dataset == EVENTS:
            versions.add(tagged_version)
        goals = {
            f"at most {most} fragments": look.fragments <= most,
            "no deleted rows, and no deletion files": look.deleted_rows == look.deletion_files == 0,
            f"only versions {sorted(versions)}": set(look.versions) == versions,
            "health grade A": look.grade == "A",
        }
        if look.unindexed_rows is not None:
            goals["the index covers all rows"] = look.unindexed_rows == 0
        return goals

    def _most_fragments(self, dataset: str) -> int:
        """Return how many fragments the policy allows: full ones, and fewer small ones than a compaction merges."""
        policy = POLICY.compaction
        assert policy is not None  # noqa: S101  # the demonstration's own policy
        return self._expected[dataset].num_rows // policy.target_rows_per_fragment + policy.min_small_fragments - 1

    def _tell_waiting(self, operations: list[str], known: set[str]) -> None:
        """Tell which runs are active, or, if there are none, what the sensors wait for."""
        active = [run for run in self._api.runs(*_UNFINISHED) if run["runId"] not in known]
        for run in active:
            self._tell(
                f"  waiting for {run['jobName']} ({run['status'].lower()}): {self._server.url}/runs/{run['runId']}"
            )
        for operation in [] if active else operations:
            sensor = _SENSORS[operation]
            tick = self._api.last_tick(sensor)
            reason = "" if tick is None else f" ({tick.skip_reason})"
            self._tell(f"  waiting for {sensor}{reason}: {self._server.url}/automation")

    # ── Checks ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check(self, what: str, *, holds: bool) -> None:
        if not holds:
            raise FailedCheckError(f"check failed; expected: {what}")
        self._checks.append(what)
        self._tell(what)

    def _snapshots(self) -> dict[str, Snapshot]:
        return {dataset: Snapshot.take(self._uris[dataset], POLICY) for dataset in DATASETS}

    def _check_wear(self, before: dict[str, Snapshot]) -> None:
        for dataset, look in before.items():
            self._check(
                f"before maintenance: {dataset} has {look.fragments} fragments, {look.deleted_rows} deleted rows, "
                f"{len(look.versions)} versions, and health grade {look.grade}",
                holds=look.fragments > self._most_fragments(dataset) and look.grade != "A",
            )

    def _check_rows(self, dataset: str, when: str) -> None:
        expected = self._expected[dataset].rows
        rows = lance_core.dataset(self._uris[dataset]).to_table().sort_by(_KEYS[dataset]).combine_chunks()
        self._check(f"{when}: {dataset} has exactly the {expected.num_rows} expected rows", holds=rows.equals(expected))

    def _search(self, when: str) -> list[int]:
        """Search for the nearest vectors, and check that a search with the index finds the same rows."""
        uri = self._uris[EVENTS]
        query = {"column": "embedding", "q": query_vector(), "k": 5}
        found = lance_core.dataset(uri).to_table(columns=["id"], nearest=query)["id"].to_pylist()
        self._tell(f"{when}: the events nearest to a vector are {found}")
        if self._is_indexed:
            by_index = nearest_by_index(uri, {**query, "nprobes": 4})
            self._check(f"{when}: a search with the index finds the same events", holds=by_index == found)
        return [int(number) for number in found]

    def _check_tagged(self, version: int, rows: pa.Table) -> None:
        tagged = lance_core.dataset(self._uris[EVENTS], version=TAG)
        found = tagged.to_table().sort_by(_KEYS[EVENTS]).combine_chunks()
        self._check(
            f"tag {TAG!r} still refers to version {version}, which has {rows.num_rows} rows",
            holds=tagged.version == version and found.equals(rows),
        )

    def _check_reference(self, versions: tuple[int, ...], tagged_version: int, tagged_rows: int) -> None:
        if not is_reference_installed():
            self._tell("the reference implementation is not installed; its check is skipped")
            return
        found = rows_by_version(self._uris[EVENTS], versions)
        expected = dict.fromkeys(versions, self._expected[EVENTS].num_rows) | {tagged_version: tagged_rows}
        self._check(
            f"the reference implementation validates and reads versions {list(versions)} of {EVENTS}",
            holds=found == expected,
        )

    def _check_events(self, downstream_before: dict[str, list[str]]) -> None:
        for dataset, num_changes in self._num_changes.items():
            recorded = self._api.asset_events(dataset)
            changes = [tags[_DATA_VERSION] for tags in recorded.materializations]
            self._check(
                f"each of {amount(num_changes, 'data change')} was recorded as a materialization of {dataset}",
                holds=len(changes) == len(set(changes)) == num_changes,
            )
            maintained = recorded.observations[: -1 if dataset == EVENTS and self._is_indexed else None]
            self._check(
                f"maintenance produced {amount(len(maintained), 'observation')} of {dataset}, all with data version "
                f"{changes[0]}",
                holds=bool(maintained) and {tags[_DATA_VERSION] for tags in maintained} == {changes[0]},
            )
            num_runs = len(downstream_before[dataset])
            self._check(
                f"{DOWNSTREAM[dataset]} ran {amount(num_runs, 'time')} for {amount(num_changes, 'change')}, and never "
                "for maintenance",
                holds=self._downstream_runs()[dataset] == downstream_before[dataset] and 0 < num_runs <= num_changes,
            )

    def _wait_for_downstream(self) -> None:
        """Wait until a tick that began after the end of all runs has requested no further run."""

        def has_caught_up() -> bool:
            tick = self._api.last_tick(AUTOMATION_SENSOR)
            if tick is None or not tick.is_skipped:
                return False
            return all(run["endTime"] is not None and run["endTime"] < tick.time for run in self._api.runs())

        self._server.wait_until(
            has_caught_up,
            "the downstream assets did not catch up",
            seconds=_SECONDS,
            heartbeat=lambda: self._tell(f"  waiting for the downstream assets: {self._server.url}/runs"),
        )

    def _downstream_runs(self) -> dict[str, list[str]]:
        """Return the ids of the runs of the asset downstream of each dataset, newest first."""
        return {dataset: self._api.asset_events(name).run_ids for dataset, name in DOWNSTREAM.items()}
