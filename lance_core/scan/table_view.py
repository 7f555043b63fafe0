"""TableView: one version of a dataset, as used by the functions that implement the API's methods.

A view is immutable. It consists of the location, the manifest, the options, and a locator for files. The functions
accept a view; those that create a version return a view of the new version. Frequently used values are cached on first
use.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    InvalidTypeError,
    RetryableCommitConflictError,
    VersionNotFoundError,
)
from lance_core.file.session import Session, checked_session, key_of
from lance_core.places.location import locked, open_log, uri_text
from lance_core.places.references import open_version, read_manifest, to_moment
from lance_core.places.uris import line_uri, recorded_root
from lance_core.public.version_info import version_info
from lance_core.scan.early_fragments import with_row_counts
from lance_core.scan.existing_files import describe_data_file
from lance_core.scan.row_id_lookup import RowIdLookup
from lance_core.scan.scan_source import ScanSource
from lance_core.table.base_options import inherited_options, with_base_params
from lance_core.table.base_paths import FileLocator
from lance_core.table.fragment import Fragments
from lance_core.table.lines import planned_line
from lance_core.table.paths import is_detached_version

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from lance_core.places.location import CommitLock
    from lance_core.places.references import Reference
    from lance_core.public.data_file_metadata import DataFile
    from lance_core.public.version_info import Version
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["Destination", "Handle", "TableView"]

_MAX_READS: Final = 10
"""Maximum number of attempts to read the latest version; a cleanup may remove the version before it is read."""

_NOT_ASKED: Final = object()
"""Placeholder for the value of ``TableView.line`` before it is first requested."""


class TableView:
    """One version of a dataset.

    Args:
        uri: location of the branch that contains the version; the main branch counts as a branch.
        log: the log of that branch's versions.
        manifest: manifest of the version.
        storage_options: the storage options with which the dataset was opened.
        line: the value of :attr:`line`; None if it is unknown.
        session: caches information about open files; None for a new session.

    Raises:
        CorruptDataError: the manifest is damaged.
        UnsupportedFeatureFlagError: the version needs a feature that this library does not support.

    Attributes:
        locator: locates the files of the version.
        session: caches information about open files, for this version and all views derived from it.
    """

    def __init__(
        self,
        uri: str,
        log: VersionLog,
        manifest: Manifest,
        storage_options: dict[str, str] | None,
        line: Hashable = None,
        session: Session | None = None,
    ) -> None:
        """Check that the manifest can be read by this library; this does not read any files."""
        manifest.check_readable()
        self.uri: Final = uri
        self.log: Final = log
        self.manifest: Final = manifest
        self.storage_options: Final = storage_options
        self.locator: Final = FileLocator(log.store, log.root, manifest.base_paths, storage_options)
        self.session: Final = Session() if session is None else session
        self.session.share_counters(log.store)
        self._line: Hashable = _NOT_ASKED if line is None else line

    @classmethod
    def open(
        cls,
        uri: str | Path,
        version: int | str | None,
        storage_options: dict[str, str] | None,
        commit_lock: CommitLock | None,
        session: Session | None = None,
    ) -> Self:
        """Read one manifest. The arguments and errors are those of ``LanceDataset``."""
        text = uri_text(uri)
        opened = open_log(text, storage_options, commit_lock)
        log, manifest = open_version(opened, version)
        return cls(line_uri(text, of=opened, to=log), log, manifest, storage_options, session=session)

    def at(self, reference: Reference) -> Self:
        """Return a view of another version of the dataset.

        Args:
            reference: a version number on this branch, a tag name, or a tuple (branch, number); None or "main" as
                the branch means the main branch, and None as the number means the latest version.

        Raises:
            VersionNotFoundError: the version does not exist.
            RefNotFoundError: the tag or branch does not exist.
            InvalidTypeError: ``reference`` is neither a number, a string, nor such a tuple.
        """
        if reference is None:
            raise InvalidTypeError("version must be a number, a tag name, or a tuple (branch, number), found None")
        log, manifest = open_version(self.log, reference, branch=self.branch)
        line = self.known_line if log.root == self.log.root else None
        uri = line_uri(self.uri, of=self.log, to=log)
        return type(self)(uri, log, manifest, self.storage_options, line, self.session)

    def as_of(self, time: datetime | str) -> Self:
        """Return a view of the latest version of this branch that was committed before a time.

        Args:
            time: a ``datetime``, or an ISO 8601 date or time; without a time zone, local time.

        Raises:
            VersionNotFoundError: no version was committed before this time.
            InvalidInputError: the string is not an ISO 8601 date or time.
            InvalidTypeError: ``time`` is neither a string nor a ``datetime``.
        """
        moment = to_moment(time)
        before = [found["version"] for found in self.versions() if found["timestamp"] < moment]
        if not before:
            raise VersionNotFoundError(f"{self.uri} has no version committed before {moment}", asof=str(moment))
        return self.at(max(before))

    def latest(self) -> Self:
        """Return a view of the latest version of this branch, even if the branch was deleted and recreated."""
        return type(self)(self.uri, self.log, read_manifest(self.log, None), self.storage_options, session=self.session)

    def of_line(self, line: Hashable) -> Self:
        """Return the same view with a known value of :attr:`line`."""
        return type(self)(self.uri, self.log, self.manifest, self.storage_options, line, self.session)

    def showing(self, manifest: Manifest) -> Self:
        """Return a view of a different version of this branch, whose manifest has already been read."""
        return type(self)(self.uri, self.log, manifest, self.storage_options, self.known_line, self.session)

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.manifest.version

    @property
    def latest_version(self) -> int:
        """The number of the latest version of this branch, which is looked up again at every access.

        Raises:
            DatasetNotFoundError: the dataset no longer exists.
        """
        latest = self.log.latest()
        if latest is None:
            raise DatasetNotFoundError(f"dataset '{self.uri}' no longer exists", path=self.uri)
        return latest.version

    @property
    def branch(self) -> str:
        """The name of the branch; empty on the main branch."""
        return self.manifest.message.branch

    @cached_property
    def schema(self) -> Schema:
        """The schema with field ids. It is parsed only once, because parsing many columns takes a long time."""
        return self.manifest.schema

    @property
    def line(self) -> Hashable:
        """The identity of this version's branch, which changes if the branch is recreated; None on the main branch."""
        if self._line is _NOT_ASKED:
            self._line = planned_line(self.log, self.manifest)
        return self._line

    @property
    def known_line(self) -> Hashable:
        """The value of :attr:`line` if it has been requested before; None otherwise."""
        return None if self._line is _NOT_ASKED else self._line

    @cached_property
    def counted_manifest(self) -> Manifest:
        """The manifest with the row counts of all fragments; missing counts are read from data files.

        Raises:
            NotFoundError: a data file is missing.
            CorruptDataError: a data file is damaged.
        """
        return with_row_counts(self.manifest, self.locator, self.session)

    @cached_property
    def recorded_rows(self) -> int | None:
        """The number of live rows; None if the manifest does not record all row counts."""
        return self.manifest.totals.num_live_rows

    @property
    def fragments(self) -> Sequence[Fragment]:
        """The records of all fragments, with row counts; raises the errors of :attr:`counted_manifest`."""
        return Fragments(self.counted_manifest.message.fragments)

    def versions(self) -> list[Version]:
        """Return a description of every version of this branch, oldest first; reads every manifest."""
        return [version_info(self.log.read(name)) for name in self.log.newer_than(0)]

    def lineage(self, num_versions: int) -> list[int]:
        """Return the numbers of this version and of earlier versions, newest first.

        A detached version has no history, so only its own number is returned.

        Args:
            num_versions: maximum number of versions; at least 1.
        """
        if is_detached_version(self.version):
            return [self.version]
        newer = self.log.newer_than(max(self.version - num_versions, 0))
        return [name.version for name in reversed(newer) if name.version <= self.version]

    def find_fragment(self, fragment_id: int) -> Fragment | None:
        """Return the record of a fragment, or None if the fragment does not exist."""
        return next((fragment for fragment in self.fragments if fragment.id == fragment_id), None)

    def describe_data_file(self, path: str, base_id: int | None = None) -> tuple[DataFile, int]:
        """Describe an existing file with columns of the table; see :mod:`~lance_core.scan.existing_files`."""
        return describe_data_file(self.schema, self.locator, path, base_id)

    def source(self, fragment_ids: Sequence[int] | None = None) -> ScanSource:
        """Return the source for a scan of all fragments, or of the given fragments in the given order.

        Raises:
            InvalidInputError: a fragment does not exist.
        """
        if fragment_ids is None:
            return self._whole
        by_id = {fragment.id: fragment for fragment in self.fragments}
        missing = [fragment_id for fragment_id in fragment_ids if fragment_id not in by_id]
        if missing:
            raise InvalidInputError(f"version {self.version} has no fragment {missing[0]}")
        return self._source_of([by_id[fragment_id] for fragment_id in fragment_ids])

    def source_of(self, fragment: Fragment) -> ScanSource:
        """Return the source for a scan of one fragment."""
        return self._source_of((fragment,))

    @cached_property
    def _whole(self) -> ScanSource:
        return ScanSource(self.schema, self.fragments, self.locator, None, self.session, totals=self.manifest.totals)

    def _source_of(self, fragments: Sequence[Fragment]) -> ScanSource:
        return ScanSource(self.schema, fragments, self.locator, self.fragments, self.session)

    @cached_property
    def row_lookup(self) -> RowIdLookup:
        """Finds rows of this version by their ids."""
        message = self.manifest.message
        created = (message.timestamp.seconds, message.timestamp.nanos, message.transaction_file)
        version = (key_of(self.log.store), self.log.root, self.version, *created)
        return RowIdLookup(self.fragments, self.locator, self.session, version)

    def recorded_root(self) -> str:
        """Return the root of this branch, in the form recorded in manifests."""
        return recorded_root(self.uri, self.log)


class Handle:
    """The version that a user's handle to a dataset refers to; after each change through the handle, the new version.

    Functions that create several versions, such as a compaction, use a handle instead of a view.

    Args:
        view: the version to which the handle refers at first.
    """

    def __init__(self, view: TableView) -> None:
        """Initialize without reading anything."""
        self._view = view
        self._lock = Lock()

    @property
    def view(self) -> TableView:
        """The version that this handle has checked out."""
        return self._view

    def show(self, view: TableView) -> None:
        """Move the handle to a version that was committed through it, as in pylance, but never to an older version."""
        with self._lock:
            if view.version >= self._view.version:
                self._view = view


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A dataset to write to, given by a location or a handle. A location need not contain a dataset.

    Attributes:
        uri: location of the dataset.
        log: version log of the dataset.
        manifest: the version to which the handle refers; None for a location, or if there is no dataset.
        storage_options: the storage options for the write.
        line: the value of :attr:`TableView.line`; None if it is unknown.
        session: the session of the handle, or the one that was given; None for a location without one.
    """

    uri: str
    log: VersionLog
    manifest: Manifest | None = None
    storage_options: dict[str, str] | None = field(default=None, repr=False)
    line: Hashable = None
    session: Session | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        base: str | Path | Handle,
        storage_options: dict[str, str] | None = None,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        commit_lock: CommitLock | None = None,
        session: Session | None = None,
    ) -> Self:
        """Return the destination for the arguments of ``write_dataset`` and ``LanceDataset.commit``; reads no version.

        Args:
            base: the location, or a handle.
            storage_options: credentials and settings of the store; if None, those of the handle.
            base_store_params: maps base paths to the options of their stores; if None, those of the handle.
            commit_lock: a lock that each commit holds while it creates its version.
            session: the session of the handle that is returned; if None, that of ``base``, if it is a handle.

        Raises:
            InvalidTypeError: ``base`` is neither a location nor a handle, or another argument has a wrong type.
            InvalidInputError: the URI is malformed, or a lock cannot be used with it.
        """
        if isinstance(base, Handle):
            view = base.view
            return cls(
                uri=view.uri,
                log=locked(view.log, commit_lock),
                manifest=view.manifest,
                storage_options=inherited_options(view.storage_options, storage_options, base_store_params),
                line=view.line,
                session=checked_session(session) or view.session,
            )
        uri = uri_text(base)
        options = with_base_params(storage_options, base_store_params)
        log = open_log(uri, options, commit_lock)
        return cls(uri=uri, log=log, storage_options=options, session=checked_session(session))

    def with_latest(self) -> Self:
        """Return the destination with its manifest: that of the handle, or else the latest, if there is a dataset.

        Raises:
            RetryableCommitConflictError: cleanups removed the latest version every time before it could be read.
        """
        if self.manifest is not None:
            return self
        for _ in range(_MAX_READS):
            manifest = self.log.read_latest()
            try:
                line = None if manifest is None else planned_line(self.log, manifest)
            except RetryableCommitConflictError:
                # A cleanup has removed the version after it was listed.
                continue
            return replace(self, manifest=manifest, line=line)
        raise RetryableCommitConflictError(
            f"{self.log.uri}: cannot read the latest version: in each of {_MAX_READS} attempts, a cleanup removed the "
            "version that was the latest when the attempt started",
            path=self.log.root,
        )

    def showing(self, manifest: Manifest, line: Hashable = None) -> TableView:
        """Return a view of the version that a write created; ``line`` as for :class:`TableView`."""
        return TableView(self.uri, self.log, manifest, self.storage_options, line, self.session)
