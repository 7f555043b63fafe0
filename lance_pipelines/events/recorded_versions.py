"""What the event log records about a dataset's versions, for the part of its history that no longer exists.

The data version of a version is found by walking back to the last version that changed rows. A cleanup may remove it.
But most events record a version, a digest of its content and its data version: known points of the same history.
Versions between which no row changed share one data version, so a single known point determines it for all of them::

    9 append      10 compact     11 compact     12 configuration
    removed       removed,       is there:      is there
                  recorded       names what it
                                 replaced

Runs can be configured with another location than the declared one; their events do not count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import dagster as dg

from lance_core.errors import VersionNotFoundError
from lance_core.metadata import open_version_log
from lance_pipelines.events.asset_metadata import CONTENT_KEY, URI_KEY, VERSION_KEY
from lance_pipelines.events.commit_events import DATA_VERSION_TAG
from lance_pipelines.events.data_version import data_version_of, is_unknown
from lance_pipelines.events.found_version import FoundVersion
from lance_pipelines.settings import absolute_uri

__all__ = ["RecordedVersion", "RecordedVersions", "event_value", "find_data_version", "is_event_at"]

_MAX_EVENTS: Final = 200
"""Number of events of each kind that are read, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedVersion:
    """The content of one event.

    Attributes:
        version: the version of the event.
        data_version: the data version of the event.
        content: digest of the content of the version; None when not recorded.
        run_id: the run that logged it; empty when no run did.
        is_materialization: whether it reports new data.
    """

    version: int
    data_version: str
    content: str | None
    run_id: str
    is_materialization: bool

    def describes(self, found: FoundVersion) -> bool:
        """Return whether the event is about this version: numbers repeat if a dataset is deleted and recreated."""
        if self.version != found.version:
            return False
        return self.run_id == found.run_id if self.content is None else self.content == found.content


@dataclass(frozen=True, slots=True)
class RecordedVersions:
    """The events of one dataset, the newest first."""

    points: tuple[RecordedVersion, ...]

    @classmethod
    def read(cls, instance: dg.DagsterInstance, dataset: str, uri: str) -> Self:
        """Query the event log.

        Args:
            instance: the Dagster instance.
            dataset: the declaration's name.
            uri: the location that the events must have.
        """
        key = dg.AssetKey(dataset)
        materializations = instance.fetch_materializations(key, limit=_MAX_EVENTS).records
        observations = instance.fetch_observations(key, limit=_MAX_EVENTS).records
        records = sorted([*materializations, *observations], key=lambda record: record.storage_id, reverse=True)
        points = [point for record in records if (point := _point(record.event_log_entry, uri)) is not None]
        told = {point.data_version for point in points if point.is_materialization}
        # An observation without a known data version is ignored, unless the asset recorded the same value.
        return cls(tuple(p for p in points if p.data_version in told or not is_unknown(p.data_version)))

    @property
    def latest_materialization(self) -> RecordedVersion | None:
        """The latest materialization of the asset."""
        return next((point for point in self.points if point.is_materialization), None)

    def is_materialized(self, data_version: str) -> bool:
        """Return whether this data was reported to the asset."""
        return any(point.is_materialization and point.data_version == data_version for point in self.points)

    def find(self, chain: Iterable[FoundVersion], *, after: int = 0) -> str | None:
        """Return the data version of versions between which no row changed.

        Args:
            chain: those versions, ascending.
            after: events of this version and earlier ones do not count.
        """
        return next((known for found in chain if (known := self._find(found, after)) is not None), None)

    def _find(self, found: FoundVersion, after: int) -> str | None:
        for point in self.points:
            if point.describes(found):
                return point.data_version
        earlier = [point for point in self.points if after < point.version < found.version]
        same = [point for point in earlier if point.content == found.content_before]
        if not same:
            return None
        match = max(same, key=lambda point: point.version)
        # A restored version has the content of an earlier one, and yet rows changed in between.
        between = {point.data_version for point in earlier if point.version > match.version}
        return match.data_version if between <= {match.data_version} else None


def find_data_version(instance: dg.DagsterInstance, dataset: str, uri: str, version: int) -> str:
    """Return the data version of one version: from the history, otherwise from the event log, or a placeholder.

    Args:
        instance: has the events.
        dataset: the declaration's name.
        uri: the dataset's location.
        version: the version.

    Raises:
        VersionNotFoundError: the dataset has no such version.
        LanceError: the history cannot be read.
    """
    chain = _walk_back(uri, version)
    oldest = chain[0]
    if oldest.changes_rows:
        return oldest.data_version
    known = RecordedVersions.read(instance, dataset, uri).find(chain)
    return known or data_version_of(oldest.version, None)


def event_value(event: dg.AssetMaterialization | dg.AssetObservation, key: str) -> object:
    """Return a value of an event's metadata; None when it is absent."""
    value = event.metadata.get(key)
    return None if value is None else value.value


def is_event_at(event: dg.AssetMaterialization | dg.AssetObservation, uri: str) -> bool:
    """Return whether an event is about the dataset at this location, or records no location."""
    told = event_value(event, URI_KEY)
    return not isinstance(told, str) or absolute_uri(told) == absolute_uri(uri)


def _walk_back(uri: str, version: int) -> Sequence[FoundVersion]:
    """Return the versions up to one, ascending, from the last that changed rows or whose predecessor was removed."""
    log = open_version_log(uri)
    names = [name for name in log.newer_than(0) if name.version <= version]
    if not names or names[-1].version != version:
        raise VersionNotFoundError(f"{uri}: version {version} does not exist", uri=uri, version=version)
    chain: list[FoundVersion] = []
    for name in reversed(names):
        try:
            found = FoundVersion.read(log, name)
        except VersionNotFoundError:
            # Removed since it was listed; the wanted one itself must exist.
            if not chain:
                raise
            break
        if chain and not chain[-1].follows(found.version, found.content):
            break
        chain.append(found)
        if found.changes_rows:
            break
    return chain[::-1]


def _point(entry: dg.EventLogEntry, uri: str) -> RecordedVersion | None:
    event = entry.asset_materialization or entry.asset_observation
    if event is None or not is_event_at(event, uri):
        return None
    data_version = (event.tags or {}).get(DATA_VERSION_TAG)
    if data_version is None:
        return None
    version, content = event_value(event, VERSION_KEY), event_value(event, CONTENT_KEY)
    return RecordedVersion(
        version=version if isinstance(version, int) else 0,
        data_version=data_version,
        content=content if isinstance(content, str) else None,
        run_id=entry.run_id,
        is_materialization=isinstance(event, dg.AssetMaterialization),
    )
