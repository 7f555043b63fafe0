"""Catches up with a dataset: reports commits that have no event yet, from the version last seen to the latest.

=============================  =========================================  ========================================
Commit                         changes rows                               changes none
=============================  =========================================  ========================================
by another program             materialization                            observation
by a run that reported it      none                                       none
by a run in progress           wait: continue from here at the next tick  none: the run will report it
by a run that ended silently   materialization                            observation
by a run silent for too long   materialization                            observation
reservation of fragment ids    -                                          none: the rewrite that follows is reported
=============================  =========================================  ========================================

A commit that changes rows must be reported before any later commit; otherwise, the asset's data version would revert to
an earlier one.

Versions may be removed before they are seen. If the next remaining version itself changed rows, it is reported.
Otherwise, its content (for a rewrite, the content before the rewrite) is compared with the content last seen and with
the contents recorded in the event log since then; these include contents recorded by maintenance runs of this project.
If one of them matches, the version has the same data version, which is reported only if the asset does not have it yet.
If none matches, the version is reported as a change: an unnecessary run downstream is better than stale data.

If a dataset is seen for the first time or was recreated, earlier versions are skipped. The data version of the latest
version is reported once, unless it is already recorded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, TypeAlias

import dagster as dg

from lance_core.errors import CorruptDataError, LanceError, VersionNotFoundError
from lance_core.metadata import ManifestName
from lance_pipelines.events.asset_metadata import VERSION_KEY, event_value
from lance_pipelines.events.commit_events import (
    EXTERNAL_WRITER,
    dataset_materialization,
    dataset_observation,
)
from lance_pipelines.events.data_version import data_version_of
from lance_pipelines.events.found_version import FoundVersion
from lance_pipelines.events.recorded_versions import RecordedVersions, find_data_version, is_event_at
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.runs.dead_runs import fail_dead_runs
from lance_pipelines.runs.silent_runs import describe_run, is_silent
from lance_pipelines.sensors.latest import Latest, stamp_of

__all__ = ["CaughtUp", "Mark", "catch_up"]

MAX_VERSIONS_PER_TICK: Final = 50

SILENT_RUN_WRITER: Final = "run"
"""Value of the tag ``lance/writer`` for commits by a run that ended without reporting them."""

_EVENT_TYPES: Final = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION}

_Event: TypeAlias = dg.AssetMaterialization | dg.AssetObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The last version of a dataset that the sensor has processed.

    Attributes:
        version: the version last seen.
        stamp: size and modification time of the version's manifest.
        content: digest of the version's content.
        data_version: the version's Dagster data version.
    """

    version: int
    stamp: str
    content: str
    data_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """The result of one tick for a dataset.

    Attributes:
        reason: the result, in one line.
        mark: the last version processed; if None, the next tick starts over.
        events: the events to report, oldest first.
    """

    reason: str
    mark: Mark | None = None
    events: tuple[_Event, ...] = ()


class _Report(Enum):
    """Whether a commit was reported as an event."""

    DONE = auto()
    """The event log contains the event."""

    PENDING = auto()
    """The run that made the commit is still in progress and has not reported it."""

    LOST = auto()
    """The run ended without reporting the commit, or has been silent for too long."""

    FOREIGN = auto()
    """This instance has no run that made the commit, so no run will report it."""


def catch_up(instance: dg.DagsterInstance, declaration: DatasetDeclaration, mark: Mark | None) -> CaughtUp:
    """Find the events to report for the versions of a dataset that are newer than the last version processed.

    Args:
        instance: the Dagster instance.
        declaration: the dataset.
        mark: the last version that the previous tick processed; None for a dataset that has not been seen before.

    Raises:
        LanceError: the dataset cannot be examined.
    """
    latest = Latest.find(declaration.uri, declaration.resolved_storage_options())
    if latest is None:
        return CaughtUp(reason="the dataset does not exist yet")
    if mark is not None and (mark.version, mark.stamp) == (latest.version, latest.stamp):
        return CaughtUp(reason=f"no versions after version {mark.version}", mark=mark)
    recorded = RecordedVersions.read(instance, declaration.key, declaration.uri)
    follower = _Follower(instance, declaration, latest, recorded)
    if mark is None or not _is_continued(latest, mark):
        return follower.begin()
    return follower.follow(mark)


def _is_continued(latest: Latest, mark: Mark) -> bool:
    """Return whether the dataset is the one that the mark describes, not a recreated one."""
    marked = [name for name in latest.names if name.version == mark.version]
    if not marked:
        return latest.version > mark.version
    return stamp_of(latest.log, marked[0]) == mark.stamp


@dataclass(frozen=True, slots=True)
class _Follower:
    instance: dg.DagsterInstance
    declaration: DatasetDeclaration
    latest: Latest
    recorded: RecordedVersions

    def begin(self) -> CaughtUp:
        """Start following a dataset, at its latest version."""
        found = FoundVersion.read(self.latest.log, self.latest.names[-1])
        data_version = find_data_version(
            self.instance,
            self.declaration.key,
            self.declaration.uri,
            found.version,
            storage_options=self.declaration.resolved_storage_options(),
        )
        started = CaughtUp(reason=f"tracking starts at version {found.version}", mark=self._mark(found, data_version))
        told = self.recorded.latest_materialization
        if told is not None and told.data_version == data_version:
            return started
        changed = self._find(int(data_version.partition("-")[0])) or found
        report = self._report(changed)
        if report is _Report.PENDING:
            return CaughtUp(reason=self._waits(changed))
        event = self._event(changed, report, data_version, is_change=True)
        return started if event is None else replace(started, events=(event,))

    def follow(self, mark: Mark) -> CaughtUp:
        """Report the versions that are newer than the mark."""
        new = self._names_after(mark.version)
        events: list[_Event] = []
        trouble = ""
        for name in new[:MAX_VERSIONS_PER_TICK]:
            try:
                found = FoundVersion.read(self.latest.log, name)
                report = self._report(found)
                is_change, data_version = self._classify(found, mark)
                if report is _Report.PENDING and is_change:
                    trouble = f"; {self._waits(found)}"
                    break
                shown = self._shown_data_version(found, data_version)
                event = self._event(found, report, shown, is_change=is_change)
                mark = self._mark(found, data_version)
            except LanceError as error:
                if _is_unreadable(error) and name != new[-1]:
                    continue
                trouble = f"; version {name.version} cannot be read: {error}"
                break
            if event is not None:
                events.append(event)
        return CaughtUp(reason=self._summary(mark, len(events)) + trouble, mark=mark, events=tuple(events))

    def _classify(self, found: FoundVersion, mark: Mark) -> tuple[bool, str]:
        """Return whether a version is new data since the mark, and its data version."""
        # The previous version may no longer exist: then only the mark shows that this one changed nothing.
        if found.changes_rows and not found.repeats(mark.content):
            return True, found.data_version
        if found.repeats(mark.content) or found.follows(mark.version, mark.content):
            return False, mark.data_version
        known = self.recorded.find(self._unchanged_from(found), after=mark.version)
        if known is None:
            return True, data_version_of(found.version, None)
        return known != mark.data_version and not self.recorded.is_materialized(known), known

    def _unchanged_from(self, found: FoundVersion) -> Iterator[FoundVersion]:
        """Return a version and those after it up to the next change; they share one data version."""
        yield found
        for name in self._names_after(found.version)[: MAX_VERSIONS_PER_TICK - 1]:
            try:
                later = FoundVersion.read(self.latest.log, name)
            except (VersionNotFoundError, CorruptDataError):
                return
            if later.changes_rows or not later.follows(found.version, found.content):
                return
            yield later
            found = later

    def _names_after(self, version: int) -> Sequence[ManifestName]:
        return [name for name in self.latest.names if name.version > version]

    def _shown_data_version(self, found: FoundVersion, data_version: str) -> str:
        """Return the data version for the event, so that the asset's data version never reverts to an earlier one.

        A run may have reported a later version before this one was found. Every later read of the dataset has
        included this version, too.
        """
        told = self.recorded.latest_materialization
        return data_version if told is None or told.version <= found.version else told.data_version

    def _report(self, found: FoundVersion) -> _Report:
        if found.run_id is None:
            return _Report.FOREIGN
        return _find_report(self.instance, found.run_id, self.declaration, found.version)

    def _event(self, found: FoundVersion, report: _Report, data_version: str, *, is_change: bool) -> _Event | None:
        """Return the event that is still to be reported for a version; None if there is none."""
        if found.only_reserves_ids and not is_change:
            return None
        # Changes in versions that were removed before this one are reported even if this one is reported by its run.
        if report in (_Report.DONE, _Report.PENDING) and is_change == found.changes_rows:
            return None
        make = dataset_materialization if is_change else dataset_observation
        return make(
            dataset=self.declaration.key,
            uri=self.declaration.uri,
            op=found.operation,
            report_metadata=found.facts(),
            version=found.version,
            data_version=data_version,
            writer=SILENT_RUN_WRITER if report is _Report.LOST else EXTERNAL_WRITER,
            policy=self.declaration.maintenance,
            column_descriptions=self.declaration.column_descriptions,
            storage_options=self.declaration.resolved_storage_options(),
        )

    def _waits(self, found: FoundVersion) -> str:
        run = None if found.run_id is None else self.instance.get_run_by_id(found.run_id)
        who = f"run {found.run_id}" if run is None else describe_run(self.instance, run)
        return f"waiting for {who}, which created version {found.version}"

    def _find(self, version: int) -> FoundVersion | None:
        names = [name for name in self.latest.names if name.version == version]
        return FoundVersion.read(self.latest.log, names[0]) if names else None

    def _mark(self, found: FoundVersion, data_version: str) -> Mark:
        return Mark(
            version=found.version,
            stamp=stamp_of(self.latest.log, found.name) or "",
            content=found.content,
            data_version=data_version,
        )

    def _summary(self, mark: Mark, num_events: int) -> str:
        left = self.latest.version - mark.version
        more = f", {left} version{'' if left == 1 else 's'} remaining" if left else ""
        return f"version {mark.version}: {num_events} event{'' if num_events == 1 else 's'}{more}"


def _is_unreadable(error: LanceError) -> bool:
    """Return whether a version cannot be read because it was removed since it was listed, or is damaged."""
    return isinstance(error, (VersionNotFoundError, CorruptDataError))


def _find_report(instance: dg.DagsterInstance, run_id: str, declaration: DatasetDeclaration, version: int) -> _Report:
    """Return whether a run has reported its commit of this version.

    A run commits, and then reports the commit as an event; the run may end between the two steps. An event for a later
    version covers this one, because a run that needs several commits reports only the last. Events of runs that were
    configured with a location other than the declared one do not count.
    """
    # The run is read first: an event that it logs after that is then not mistaken for a missing one.
    run = _find_run(instance, run_id)
    if run is None:
        return _Report.FOREIGN
    if any(reported >= version for reported in _reported_versions(instance, run_id, declaration)):
        return _Report.DONE
    return _Report.LOST if run.is_finished or is_silent(instance, run) else _Report.PENDING


def _find_run(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun | None:
    run = instance.get_run_by_id(run_id)
    if run is not None and not run.is_finished and fail_dead_runs(instance):
        return instance.get_run_by_id(run_id)
    return run


def _reported_versions(instance: dg.DagsterInstance, run_id: str, declaration: DatasetDeclaration) -> Iterator[int]:
    key = dg.AssetKey(declaration.key)
    for entry in instance.all_logs(run_id, of_type=_EVENT_TYPES):
        event = entry.asset_materialization or entry.asset_observation
        if event is not None and event.asset_key == key and is_event_at(event, declaration.uri):
            version = event_value(event, VERSION_KEY)
            if isinstance(version, int):
                yield version
