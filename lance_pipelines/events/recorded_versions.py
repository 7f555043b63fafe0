"""Reads the event log for information about versions of a dataset that no longer exist.

The data version of a version is found by walking back to the last version that changed rows. A cleanup may have removed
that version. However, most events record a version, a digest of its content, and its data version. Consecutive versions
between which no row changed share one data version, so a single event determines the data version of all of them::

    9 append      10 compact     11 compact     12 configuration
    removed       removed,       exists,        exists
                  recorded       records what
                                 it replaced

A run can be configured with a location different from the declared one; the events of such a run are ignored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import dagster as dg

from lance_core.errors import VersionNotFoundError
from lance_core.metadata import open_version_log
from lance_pipelines.events.asset_metadata import CONTENT_KEY, URI_KEY, VERSION_KEY, event_value
from lance_pipelines.events.commit_events import DATA_VERSION_TAG
from lance_pipelines.events.data_version import data_version_of, is_unknown
from lance_pipelines.events.found_version import FoundVersion
from lance_pipelines.ingest.declaration import DatasetKey, key_parts
from lance_pipelines.settings import absolute_uri

__all__ = ["RecordedVersion", "RecordedVersions", "find_data_version", "is_event_at"]

_MAX_EVENTS: Final = 200
"""Maximum number of events of each kind that are read, starting with the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedVersion:
    """The content of one event.

    Attributes:
        version: the version that the event describes.
        data_version: the data version that the event records.
        content: digest of the version's content; None if the event does not record it.
        run_id: id of the run that logged the event; empty if no run logged it.
        is_materialization: whether the event is a materialization, which reports new data.
    """

    version: int
    data_version: str
    content: str | None
    run_id: str
    is_materialization: bool

    def describes(self, found: FoundVersion) -> bool:
        """Return whether the event describes this version.

        The number alone is not sufficient, because a recreated dataset has the same version numbers.
        """
        if self.version != found.version:
            return False
        return self.run_id == found.run_id if self.content is None else self.content == found.content


@dataclass(frozen=True, slots=True)
class RecordedVersions:
    """The recorded events of one dataset, newest first."""

    points: tuple[RecordedVersion, ...]

    @classmethod
    def read(cls, instance: dg.DagsterInstance, dataset: DatasetKey, uri: str) -> Self:
        """Query the event log.

        Args:
            instance: the Dagster instance.
            dataset: the dataset's asset key.
            uri: the dataset's location; events for other locations are ignored.
        """
        key = dg.AssetKey(key_parts(dataset))
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
        """Return whether the asset has a materialization with this data version."""
        return any(point.is_materialization and point.data_version == data_version for point in self.points)

    def find(self, chain: Iterable[FoundVersion], *, after: int = 0) -> str | None:
        """Return the data version that consecutive versions share; None if it is not recorded.

        Args:
            chain: the versions, in ascending order; no row changed between them.
            after: events for this version and for earlier versions are ignored.
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


def find_data_version(
    instance: dg.DagsterInstance,
    dataset: DatasetKey,
    uri: str,
    version: int,
    *,
    storage_options: dict[str, str] | None = None,
) -> str:
    """Return the data version of one version, from the history or the event log; a placeholder if neither contains it.

    Args:
        instance: the Dagster instance with the event log.
        dataset: the dataset's asset key.
        uri: the dataset's location.
        version: the version.
        storage_options: credentials and settings of the dataset's store.

    Raises:
        VersionNotFoundError: the dataset has no such version.
        LanceError: the history cannot be read.
    """
    chain = _walk_back(uri, version, storage_options)
    oldest = chain[0]
    if oldest.changes_rows:
        return oldest.data_version
    known = RecordedVersions.read(instance, dataset, uri).find(chain)
    return known or data_version_of(oldest.version, None)


def is_event_at(event: dg.AssetMaterialization | dg.AssetObservation, uri: str) -> bool:
    """Return whether an event is about the dataset at this location, or records no location."""
    told = event_value(event, URI_KEY)
    return not isinstance(told, str) or absolute_uri(told) == absolute_uri(uri)


def _walk_back(uri: str, version: int, storage_options: dict[str, str] | None) -> Sequence[FoundVersion]:
    """Return consecutive versions up to ``version``, from the last one that changed rows, if it still exists."""
    log = open_version_log(uri, storage_options)
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
