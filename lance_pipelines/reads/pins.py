"""Pins: the version of a dataset that a step reads.

A step reads the version that Dagster recorded as its input when the step began, regardless of later commits::

    5 append      6 compact      7 append
    recorded      read           not read: new data

If the step is retried, or its run failed and is executed again, it reads the same data version again. Therefore, every
read is recorded in the log of the run. See decision 22.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import dagster as dg
from dagster._core.events import EngineEventData
from dagster._core.execution.context.data_version_cache import InputAssetVersionInfo
from dagster._core.execution.context.system import StepExecutionContext

import lance_core
from lance_core.errors import VersionNotFoundError
from lance_core.metadata import open_version_log
from lance_pipelines.events.commit_events import DATA_VERSION_TAG
from lance_pipelines.events.data_version import is_unknown
from lance_pipelines.events.found_version import FoundVersion
from lance_pipelines.events.recorded_versions import RecordedVersions, is_event_at
from lance_pipelines.reads.held_leases import HeldLeases

__all__ = ["READ_VERSION_KEY", "Reader", "newest_version_of"]

READ_VERSION_KEY: Final = "lance/read_version"
"""Metadata key of the event for a read: the version that was read."""

_READ_DATA_VERSION_KEY: Final = "lance/read_data_version"
_READ_EVENT_KEY: Final = "lance/read_event"
_READ_ASSET_KEY: Final = "lance/read_asset"
_READ_TAG_KEY: Final = "lance/read_tag"

_DATA_VERSION: Final = re.compile(r"([0-9]+)-([0-9a-f]{8}|unknown)")
_MAX_EVENTS: Final = 50
"""Maximum number of events of a partitioned asset that are searched for the highest version."""

_MAX_ATTEMPTS: Final = 5
"""Maximum number of times that a version is looked up; another attempt follows if a cleanup removes it before it is
leased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """A data version that Dagster recorded.

    Attributes:
        data_version: the data version.
        storage_id: id of the event in the event log.
        run_id: the run that read this data version before; None for the input of this run.
    """

    data_version: str
    storage_id: int
    run_id: str | None = None

    @property
    def version(self) -> int:
        """The number in the data version: the version that changed the data."""
        return int(self.data_version.partition("-")[0])


@dataclass(frozen=True, slots=True)
class Reader:
    """Opens the datasets that a step reads.

    Attributes:
        step: the step; None outside a run, where the latest version is read without a lease.
        leases: holds the leases on what was opened.
    """

    step: StepExecutionContext | None
    leases: HeldLeases

    def open(
        self, key: dg.AssetKey, uri: str, storage_options: dict[str, str] | None = None, *, tag: str | None = None
    ) -> lance_core.LanceDataset:
        """Return a handle to the version of an asset's dataset that the step reads.

        Args:
            key: the asset.
            uri: the dataset's location.
            storage_options: credentials and settings of the dataset's store.
            tag: if given, the version is the one to which this tag refers, not the one that is recorded as the input.

        Raises:
            DatasetNotFoundError: the dataset does not exist.
            RefNotFoundError: the tag does not exist.
            VersionNotFoundError: the version that was recorded no longer exists.
        """
        step = self.step
        if step is None:
            return lance_core.dataset(uri, version=tag, storage_options=storage_options)
        if tag is not None:
            return self._open_tagged(step, key, uri, storage_options, tag)
        info = step.maybe_fetch_and_get_input_asset_version_info(key)
        candidates = _candidates(step, key, uri, info)
        holder = f"run {step.run_id}, step {step.step.key}"
        for _ in range(_MAX_ATTEMPTS):
            recorded, version = _find(step.instance, key, uri, storage_options, candidates)
            try:
                dataset = lance_core.dataset(uri, version=version, storage_options=storage_options)
                self.leases.take(dataset, holder)
                break
            except VersionNotFoundError as error:
                # A cleanup was faster; a later version may have the same data.
                gone = error
        else:
            raise gone
        if recorded is not None and info is not None:
            _set_provenance(step, key, info, recorded)
        _record(step, key, uri, dataset, recorded)
        return dataset

    def _open_tagged(
        self, step: StepExecutionContext, key: dg.AssetKey, uri: str, storage_options: dict[str, str] | None, tag: str
    ) -> lance_core.LanceDataset:
        """Return a handle to the version with a tag; a retry of the step reads the same version again."""
        earlier = next(_earlier_tagged_reads(step, key, uri, tag), None)
        for _ in range(_MAX_ATTEMPTS):
            version = tag if earlier is None else earlier
            try:
                dataset = lance_core.dataset(uri, version=version, storage_options=storage_options)
                self.leases.take(dataset, f"run {step.run_id}, step {step.step.key}")
                break
            except VersionNotFoundError as error:
                # The tag was moved, and a cleanup was faster than the lease.
                gone = error
        else:
            raise gone
        _record(step, key, uri, dataset, None, tag=tag)
        return dataset


def newest_version_of(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    uri: str,
    data_version: str,
    storage_options: dict[str, str] | None = None,
) -> int:
    """Return the newest version that has a data version: the one that changed the data, or one of its compactions.

    Args:
        instance: the Dagster instance; its events describe versions that a cleanup has removed.
        key: the asset.
        uri: the dataset's location.
        data_version: the data version.
        storage_options: credentials and settings of the dataset's store.

    Raises:
        VersionNotFoundError: no version has the data version, or all versions that had it were removed.
    """
    log = open_version_log(uri, storage_options)
    first = int(data_version.partition("-")[0])
    current: FoundVersion | None = None
    for name in log.newer_than(first - 1):
        try:
            found = FoundVersion.read(log, name)
        except VersionNotFoundError:
            continue
        if current is None:
            if not _has(instance, key, uri, found, data_version):
                break
        elif found.changes_rows or not found.follows(current.version, current.content):
            break
        current = found
    if current is None:
        raise VersionNotFoundError(
            f"{key.to_user_string()}: the version that was recorded as the input (data version {data_version}) no "
            f"longer exists at {uri}; start a new run to read the version that is recorded now",
            uri=uri,
            data_version=data_version,
        )
    return current.version


def _has(instance: dg.DagsterInstance, key: dg.AssetKey, uri: str, found: FoundVersion, data_version: str) -> bool:
    """Return whether a version has a data version, according to the history or else to the event log."""
    if found.version == int(data_version.partition("-")[0]) and not is_unknown(data_version):
        return found.data_version == data_version
    return RecordedVersions.read(instance, key.to_user_string(), uri).find([found]) == data_version


def _find(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    uri: str,
    storage_options: dict[str, str] | None,
    candidates: Sequence[_Recorded],
) -> tuple[_Recorded | None, int | None]:
    """Return the first candidate that exists, and its version; if there are no candidates, None and None."""
    missing: VersionNotFoundError | None = None
    for recorded in candidates:
        try:
            return recorded, newest_version_of(instance, key, uri, recorded.data_version, storage_options)
        except VersionNotFoundError as error:
            missing = missing or error
    if missing is not None:
        raise missing
    return None, None


def _candidates(
    step: StepExecutionContext,
    key: dg.AssetKey,
    uri: str,
    info: InputAssetVersionInfo | None,
) -> list[_Recorded]:
    """Return what the step should read, best first; empty if Dagster has recorded no data version of this project."""
    if info is None:
        return []
    # What was materialized in this run is newer than what an earlier run has read.
    own_only = info.run_id == step.run_id
    earlier = next((read for read in _earlier_reads(step, key, uri, own_only=own_only)), None)
    if earlier is not None:
        return [earlier]
    # Partitions that were committed side by side may have been reported in any order.
    limit = _MAX_EVENTS if _is_partitioned(step, key) else 1
    wanted = dg.AssetRecordsFilter(asset_key=key, before_storage_id=info.storage_id + 1)
    is_change = info.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION
    fetch = step.instance.fetch_materializations if is_change else step.instance.fetch_observations
    found = [
        _Recorded(data_version=data_version, storage_id=record.storage_id)
        for record in fetch(wanted, limit=limit).records
        if (data_version := _data_version(record, uri)) is not None
    ]
    return sorted(found, key=lambda recorded: recorded.version, reverse=True)


def _is_partitioned(step: StepExecutionContext, key: dg.AssetKey) -> bool:
    assets = step.job_def.asset_layer
    return assets.has(key) and assets.get(key).partitions_def is not None


def _data_version(record: dg.EventLogRecord, uri: str) -> str | None:
    entry = record.event_log_entry
    event = entry.asset_materialization or entry.asset_observation
    if event is None or not is_event_at(event, uri):
        return None
    data_version = (event.tags or {}).get(DATA_VERSION_TAG)
    return data_version if data_version is not None and _DATA_VERSION.fullmatch(data_version) else None


def _earlier_reads(step: StepExecutionContext, key: dg.AssetKey, uri: str, *, own_only: bool) -> Iterator[_Recorded]:
    """Yield what earlier attempts of the step have read, first in this run, and then in the runs that it repeats.

    A successful run does not count: if it is executed again, the step reads what is recorded now.
    """
    run = step.dagster_run
    if step.previous_attempt_count:
        yield from _reads_of(step, run.run_id, key, uri)
    while run.parent_run_id is not None and not own_only:
        parent = step.instance.get_run_by_id(run.parent_run_id)
        if parent is None or parent.is_success:
            return
        yield from _reads_of(step, parent.run_id, key, uri)
        run = parent


def _reads_of(step: StepExecutionContext, run_id: str, key: dg.AssetKey, uri: str) -> Iterator[_Recorded]:
    for metadata in _read_events(step, run_id, key, uri):
        data_version, storage_id = metadata.get(_READ_DATA_VERSION_KEY), metadata.get(_READ_EVENT_KEY)
        if isinstance(data_version, str) and isinstance(storage_id, int):
            yield _Recorded(data_version=data_version, storage_id=storage_id, run_id=run_id)


def _earlier_tagged_reads(step: StepExecutionContext, key: dg.AssetKey, uri: str, tag: str) -> Iterator[int]:
    """Yield the versions that earlier attempts of the step in this run have read by a tag."""
    if step.previous_attempt_count:
        for metadata in _read_events(step, step.run_id, key, uri):
            version = metadata.get(READ_VERSION_KEY)
            if metadata.get(_READ_TAG_KEY) == tag and isinstance(version, int):
                yield version


def _read_events(step: StepExecutionContext, run_id: str, key: dg.AssetKey, uri: str) -> Iterator[Mapping[str, object]]:
    """Yield the metadata of the events for what the step has read of a dataset in a run, oldest first."""
    for entry in step.instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        if entry.dagster_event is None or entry.step_key != step.step.key:
            continue
        metadata = {name: value.value for name, value in entry.dagster_event.engine_event_data.metadata.items()}
        if metadata.get(_READ_ASSET_KEY) == key.to_user_string() and metadata.get("dagster/uri") == uri:
            yield metadata


def _record(
    step: StepExecutionContext,
    key: dg.AssetKey,
    uri: str,
    dataset: lance_core.LanceDataset,
    recorded: _Recorded | None,
    *,
    tag: str | None = None,
) -> None:
    """Log the read as an event of the run; Dagster would log metadata of an input as an observation of the asset."""
    metadata: dict[str, dg.MetadataValue] = {
        _READ_ASSET_KEY: dg.MetadataValue.text(key.to_user_string()),
        "dagster/uri": dg.MetadataValue.text(uri),
        READ_VERSION_KEY: dg.MetadataValue.int(dataset.version),
    }
    why = "the latest: no data version is recorded"
    if tag is not None:
        metadata[_READ_TAG_KEY] = dg.MetadataValue.text(tag)
        why = f"tag {tag}"
    if recorded is not None:
        metadata[_READ_DATA_VERSION_KEY] = dg.MetadataValue.text(recorded.data_version)
        metadata[_READ_EVENT_KEY] = dg.MetadataValue.int(recorded.storage_id)
        why = f"data version {recorded.data_version}"
        if recorded.run_id is not None:
            why += ", as in the first attempt" if recorded.run_id == step.run_id else f", as in run {recorded.run_id}"
    step.instance.report_engine_event(
        f"Reads {key.to_user_string()} at version {dataset.version} ({why})",
        step.dagster_run,
        EngineEventData(metadata),
        step_key=step.step.key,
    )


def _set_provenance(
    step: StepExecutionContext, key: dg.AssetKey, info: InputAssetVersionInfo, recorded: _Recorded
) -> None:
    """Make Dagster record the version that was read as the input, if it differs from the one that Dagster has recorded.

    Dagster has no public interface for this. If it were not done, the output would not be shown as stale.
    """
    records = step.input_asset_records
    if recorded.run_id is not None and isinstance(records, dict):
        records[key] = replace(info, storage_id=recorded.storage_id, data_version=dg.DataVersion(recorded.data_version))
