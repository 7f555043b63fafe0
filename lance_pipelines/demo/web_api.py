"""Client for the GraphQL interface of a Dagster web server, which the server's own pages use, too."""

import json
import urllib.request
from dataclasses import dataclass
from typing import Any, Final

from lance_core.errors import StorageError

__all__ = ["AssetEvents", "Tick", "WebApi"]

_TIMEOUT_SECONDS: Final = 60

_LOCATIONS: Final = """
query { workspaceOrError { ... on Workspace { locationEntries {
  name loadStatus locationOrLoadError { __typename ... on PythonError { message } } } } } }
"""
_LAUNCH: Final = """
mutation Launch($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename
  ... on LaunchRunSuccess { run { runId } }
  ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }
"""
_RUN: Final = "query Run($runId: ID!) { runOrError(runId: $runId) { ... on Run { status } } }"
_RUNS: Final = """
query Runs($statuses: [RunStatus!]) { runsOrError(filter: {statuses: $statuses}) {
  ... on Runs { results { runId jobName status endTime } } } }
"""
_START_SENSOR: Final = """
mutation Start($selector: SensorSelector!) { startSensor(sensorSelector: $selector) {
  __typename ... on Sensor { name } ... on PythonError { message } } }
"""
_SENSORS: Final = """
query Sensors($selector: RepositorySelector!) { sensorsOrError(repositorySelector: $selector) {
  ... on Sensors { results { name sensorState { status } } } } }
"""
_LAST_TICK: Final = """
query Tick($selector: SensorSelector!) { sensorOrError(sensorSelector: $selector) {
  ... on Sensor { sensorState { ticks(limit: 1) { timestamp status skipReason } } } } }
"""
_ASSET_EVENTS: Final = """
query Events($path: [String!]!) { assetOrError(assetKey: {path: $path}) { ... on Asset {
  assetMaterializations { runId tags { key value } }
  assetObservations { tags { key value } } } } }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetEvents:
    """The recorded events of an asset, newest first.

    Attributes:
        materializations: the tags of each materialization.
        observations: the tags of each observation.
        run_ids: the id of the run of each materialization; empty if it has none.
    """

    materializations: list[dict[str, str]]
    observations: list[dict[str, str]]
    run_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A tick of a sensor.

    Attributes:
        time: when the tick began, in seconds since 1970.
        is_skipped: whether the tick has ended and requested no run.
        skip_reason: why the tick requested no run; empty if it gave no reason.
    """

    time: float
    is_skipped: bool
    skip_reason: str


class WebApi:
    """The GraphQL interface of a Dagster web server.

    Args:
        url: URL of the server.
        location: name of the code location.
    """

    def __init__(self, url: str, location: str) -> None:
        """Initialize without sending a request."""
        self._url = url
        self._selector = {"repositoryLocationName": location, "repositoryName": "__repository__"}
        self._location = location

    def is_loaded(self) -> bool:
        """Return whether the code location is loaded.

        Raises:
            StorageError: the code cannot be loaded.
        """
        entries = self.query(_LOCATIONS)["workspaceOrError"]["locationEntries"]
        for entry in entries:
            found = entry["locationOrLoadError"]
            if found is not None and found["__typename"] == "PythonError":
                raise StorageError(f"the code location {entry['name']} cannot be loaded: {found['message']}")
        return [(entry["name"], entry["loadStatus"]) for entry in entries] == [(self._location, "LOADED")]

    def launch(self, job: str, run_config: dict[str, Any], *, partition: str | None = None) -> str:
        """Launch a job in the same way as the launchpad of the web interface, and return the id of the run.

        Args:
            job: name of the job.
            run_config: configuration of the run.
            partition: key of the partition for which it runs; None if it is not for a partition.

        Raises:
            StorageError: the server did not launch the run.
        """
        tags = [] if partition is None else [{"key": "dagster/partition", "value": partition}]
        params = {
            "selector": {**self._selector, "jobName": job},
            "runConfigData": run_config,
            "executionMetadata": {"tags": tags},
        }
        launched = self.query(_LAUNCH, params=params)["launchRun"]
        if launched["__typename"] != "LaunchRunSuccess":
            raise StorageError(f"the job {job} was not launched; the web server answered: {launched}")
        run_id: str = launched["run"]["runId"]
        return run_id

    def status(self, run_id: str) -> str:
        """Return the status of a run in Dagster's spelling, for example ``SUCCESS``."""
        status: str = self.query(_RUN, runId=run_id)["runOrError"]["status"]
        return status

    def runs(self, *statuses: str) -> list[dict[str, Any]]:
        """Return the runs with one of these statuses, or all runs if none is given.

        Each run has the keys ``runId``, ``jobName``, ``status``, and ``endTime``, in seconds since 1970.
        """
        runs: list[dict[str, Any]] = self.query(_RUNS, statuses=list(statuses) or None)["runsOrError"]["results"]
        return runs

    def start_sensor(self, name: str) -> None:
        """Start a sensor.

        Raises:
            StorageError: the server did not start the sensor.
        """
        started = self.query(_START_SENSOR, selector={**self._selector, "sensorName": name})["startSensor"]
        if started["__typename"] != "Sensor":
            raise StorageError(f"the sensor {name} was not started; the web server answered: {started}")

    def sensors(self) -> dict[str, str]:
        """Return the status of each sensor by name: ``RUNNING`` or ``STOPPED``."""
        found = self.query(_SENSORS, selector=self._selector)["sensorsOrError"]["results"]
        return {sensor["name"]: sensor["sensorState"]["status"] for sensor in found}

    def last_tick(self, sensor: str) -> Tick | None:
        """Return the latest tick of a sensor; None if there is none."""
        selector = {**self._selector, "sensorName": sensor}
        ticks = self.query(_LAST_TICK, selector=selector)["sensorOrError"].get("sensorState", {}).get("ticks", [])
        if not ticks:
            return None
        return Tick(
            time=ticks[0]["timestamp"],
            is_skipped=ticks[0]["status"] == "SKIPPED",
            skip_reason=ticks[0]["skipReason"] or "",
        )

    def asset_events(self, asset: str) -> AssetEvents:
        """Return the recorded events of an asset; empty if there are none."""
        found = self.query(_ASSET_EVENTS, path=[asset])["assetOrError"]
        materializations = found.get("assetMaterializations", [])
        return AssetEvents(
            materializations=[_tags(event) for event in materializations],
            observations=[_tags(event) for event in found.get("assetObservations", [])],
            run_ids=[event["runId"] for event in materializations],
        )

    def query(self, query: str, **variables: Any) -> dict[str, Any]:
        """Return the data of the response to a query or a mutation.

        Raises:
            StorageError: the server rejected the query or mutation.
        """
        request = urllib.request.Request(
            f"{self._url}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            answer = json.load(response)
        if "errors" in answer:
            raise StorageError(f"the web server rejected a query: {answer['errors']}")
        data: dict[str, Any] = answer["data"]
        return data


def _tags(event: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in event["tags"]}
