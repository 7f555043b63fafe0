"""VersionLog: finds, reads, and creates the versions of a table.

Versions are found by listing ``_versions/``, never by probing increasing numbers: a cleanup may leave gaps below the
latest version, and probing would stop at the first gap. If the store lists in lexical order, V2 names are listed from
the newest version to the oldest, and listing stops as soon as possible. A version with a given number is opened without
listing, first by its V2 name and then by its V1 name.

The log also writes the transaction file of a new version.

A commit protocol (:mod:`~lance_core.table.commit_protocols`) decides which writer creates a version. The external
protocol stores the latest version in a database, and may have to finish a commit before its manifest can be read.

Source: version discovery of pylance 14.0.2.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from lance_core.errors import CorruptDataError, LanceError, NotFoundError, VersionNotFoundError
from lance_core.io.object_store import shown_path
from lance_core.io.removal import remove_objects
from lance_core.table.commit_protocols.conditional import ConditionalCreate
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_file import is_kept_inline
from lance_core.table.paths import (
    HOLD_PREFIX,
    TRANSACTIONS_DIRECTORY,
    VERSION_HINT_NAME,
    VERSIONS_DIRECTORY,
    ManifestName,
    ManifestNaming,
    hold_name,
    is_detached_version,
    manifest_name,
    newer_manifest_names,
    newest_manifest_names,
    parse_hold_name,
    parse_manifest_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa

    from lance_core.io.object_store import ObjectInfo, ObjectStore, PutOutcome
    from lance_core.io.uri import Place
    from lance_core.table.commit_protocols.api import CommitProtocol

__all__ = ["VersionLog"]

_LONGEST_HOLD_SECONDS: Final = 3600
"""Holds (files that protect a version from cleanups) of at least this age are ignored, because they are assumed to be
leftovers of crashed processes."""

_HINT_SWITCH: Final = "LANCE_USE_VERSION_HINT"
_OFF: Final = frozenset({"0", "false", "off"})

_NAMINGS: Final = (ManifestNaming.V2, ManifestNaming.V1)


class VersionLog:
    """Finds, reads, and creates the versions of one table.

    Args:
        store: the store of the table.
        root: path of the table in the store.
        protocol: decides which writer creates a version; if None, the store itself decides.
        place: the URI from which the store was opened, for messages; if None, messages contain paths.
    """

    def __init__(
        self, store: ObjectStore, root: str, protocol: CommitProtocol | None = None, place: Place | None = None
    ) -> None:
        """Initialize without reading anything."""
        self._store = store
        self._root = root
        self._protocol = ConditionalCreate() if protocol is None else protocol
        self._place = place

    @property
    def store(self) -> ObjectStore:
        """The store of the table."""
        return self._store

    @property
    def root(self) -> str:
        """Path of the table in the store."""
        return self._root

    @property
    def protocol(self) -> CommitProtocol:
        """The commit protocol, which decides which writer creates a version."""
        return self._protocol

    @property
    def uri(self) -> str:
        """The location of the table, as shown in messages: its URI, or its path if it was opened by a path."""
        return self.uri_of(self._root)

    def uri_of(self, path: str) -> str:
        """Return a path in the store in the form that messages contain; see :attr:`uri`."""
        return shown_path(self._store, path) if self._place is None else self._place.uri(path)

    def at(self, root: str) -> VersionLog:
        """Return the version log of another table in the same store, such as a branch, with the same protocol."""
        return VersionLog(self._store, root, self._protocol, self._place)

    def with_protocol(self, protocol: CommitProtocol) -> VersionLog:
        """Return the version log of the same table with another protocol."""
        return VersionLog(self._store, self._root, protocol, self._place)

    def path(self, name: ManifestName) -> str:
        """Return the path of a version's manifest."""
        return self._store.join(self._root, VERSIONS_DIRECTORY, manifest_name(name.version, name.naming))

    def latest(self) -> ManifestName | None:
        """Return the latest version; None if the table does not exist.

        Raises:
            CorruptDataError: manifests of both naming schemes occur.
        """
        # During a listing, the latest version may be removed and a newer one created; the listing may then miss both.
        return self._protocol.latest(self) or self._newest_listed() or self._newest_listed()

    def adopt(self, name: ManifestName) -> None:
        """If the table has an external manifest store, register an existing version that was opened by its number."""
        if not is_detached_version(name.version):
            self._protocol.adopt(self, name, self._newest_listed)

    def _newest_listed(self) -> ManifestName | None:
        newest: ManifestName | None = None
        if not self._store.capabilities.lexical_listing:
            for name in newest_manifest_names(list(self._file_names())):
                self._check_naming(newest, name)
                newest = name
            return newest
        for name in self._listed():
            self._check_naming(newest, name)
            if newest is None or name.version > newest.version:
                newest = name
            if self._is_newest_first(name):
                break
        return newest

    def settle(self) -> None:
        """Finish the commit of a version that the external manifest store has accepted but that is not listed yet."""
        self._protocol.latest(self)

    def newer_than(self, version: int) -> list[ManifestName]:
        """Return the versions after ``version``, in ascending order, using a single listing.

        Raises:
            CorruptDataError: manifests of both naming schemes occur.
        """
        found: list[ManifestName] = []
        seen: ManifestName | None = None
        listed = (
            self._listed()
            if self._store.capabilities.lexical_listing
            else newer_manifest_names(list(self._file_names()), version)
        )
        for name in listed:
            self._check_naming(seen, name)
            seen = name
            if name.version > version:
                found.append(name)
            elif self._is_newest_first(name):
                break
        return sorted(found, key=lambda name: name.version)

    def surely_newer_than(self, version: int) -> list[ManifestName]:
        """Like :meth:`newer_than`, but list again if nothing is found and listings of the store may be incomplete."""
        newer = self.newer_than(version)
        return newer or ([] if self._store.capabilities.lexical_listing else self.newer_than(version))

    def read(self, name: ManifestName) -> Manifest:
        """Return the manifest of a version.

        Raises:
            VersionNotFoundError: the manifest does not exist.
            CorruptDataError: the file is not a manifest of this version.
        """
        path = self.path(name)
        try:
            buffer = self._get(name)
        except NotFoundError as error:
            raise VersionNotFoundError(
                f"{self.uri} has no version {name.version}: {self.uri_of(path)} does not exist",
                version=name.version,
                path=path,
            ) from error
        return Manifest.parse(buffer, path=self.uri_of(path), name=name)

    def read_latest(self) -> Manifest | None:
        """Return the manifest of the latest version; None if the table does not exist.

        A cleanup may remove the latest version right after it is found. There is then a newer version, which is read.

        Raises:
            VersionNotFoundError: the latest version has no manifest.
            CorruptDataError: the manifest is damaged, or manifests of both naming schemes occur.
        """
        name = self.latest()
        while name is not None:
            try:
                return self.read(name)
            except VersionNotFoundError:
                newest = self.latest()
                if newest == name:
                    raise
                name = newest
        return None

    def read_version(self, version: int) -> Manifest:
        """Return the manifest of the version with this number, under either naming scheme, without listing.

        Raises:
            VersionNotFoundError: the version does not exist.
        """
        if is_detached_version(version):
            return self.read(ManifestName(version, ManifestNaming.V2))
        if not 0 < version < 2**63:
            raise VersionNotFoundError(f"{self.uri} has no version {version}", version=version)
        for naming in _NAMINGS:
            try:
                return self.read(ManifestName(version, naming))
            except VersionNotFoundError:
                continue
        raise VersionNotFoundError(f"{self.uri} has no version {version}", version=version)

    def manifest_info(self, name: ManifestName) -> ObjectInfo:
        """Return the size and modification time of a manifest that was listed.

        Raises:
            NotFoundError: the manifest no longer exists.
            StorageError: a storage operation failed.
        """
        return self._store.head(self.path(name))

    def manifest_bytes(self, version: int) -> int:
        """Return the size of a version's manifest in bytes, after finishing its commit if needed.

        Raises:
            VersionNotFoundError: the version does not exist.
        """
        if 0 < version < 2**64:
            for naming in _NAMINGS[:1] if is_detached_version(version) else _NAMINGS:
                name = ManifestName(version, naming)
                with suppress(NotFoundError):
                    return self._store.head(self.path(name)).num_bytes
                if self._protocol.recover(self, name):
                    return self._store.head(self.path(name)).num_bytes
        raise VersionNotFoundError(f"{self.uri} has no version {version}", version=version)

    def create(self, name: ManifestName, data: bytes, depends_on: Collection[str] = ()) -> PutOutcome:
        """Commit a version: create its manifest unless a manifest with this name exists.

        Args:
            name: the name of the manifest.
            data: the manifest.
            depends_on: files that must be made durable before the version becomes visible.

        Raises:
            UnsafeStoreError: the store cannot create a file atomically, so that two writers could both succeed.
            StorageError: a storage operation failed; the caller must check whether the version exists.
        """
        return self._protocol.create(self, name, data, depends_on)

    def transaction_path(self, file_name: str) -> str:
        """Return the path of a transaction file."""
        return self._store.join(self._root, TRANSACTIONS_DIRECTORY, file_name)

    def record_transaction(self, file_name: str, serialized: bytes) -> None:
        """Write a transaction file.

        The file is made durable only if the manifest does not contain the transaction; otherwise, nothing depends on
        the file.

        Raises:
            StorageError: a storage operation failed.
        """
        durable = not is_kept_inline(serialized)
        self._store.put(self.transaction_path(file_name), serialized, durable=durable)

    def withdraw(self, name: ManifestName) -> None:
        """Remove the manifest of a version that was never part of the table's history.

        Raises:
            StorageError: a storage operation failed.
        """
        self._store.delete(self.path(name))

    def write_hint(self, version: int) -> None:
        """After a commit, record the latest version for other implementations if the store needs it; ignore failures.

        ``latest_version_hint.json`` contains exactly ``{"version":N}``. It may be missing, stale, too high, or invalid,
        and this library never relies on it: versions are found by listing. It is kept up to date because the reference
        implementation reads it when it commits to a store that does not list in order. Setting
        ``LANCE_USE_VERSION_HINT`` to ``0``, ``false``, or ``off`` disables it.
        """
        if not self._store.capabilities.version_hint or os.environ.get(_HINT_SWITCH, "").strip().lower() in _OFF:
            return
        path = self._store.join(self._root, VERSIONS_DIRECTORY, VERSION_HINT_NAME)
        with suppress(LanceError):
            self._store.put(path, b'{"version":%d}' % version, durable=False)

    @contextmanager
    def hold(self, version: int) -> Iterator[None]:
        """Protect a version from cleanups by this library, for at most one hour.

        Raises:
            StorageError: a storage operation failed.
        """
        mark = self._store.join(self._root, VERSIONS_DIRECTORY, hold_name(version, int(time.time())))
        try:
            self._store.put(mark, b"", durable=False)
            yield
        finally:
            remove_objects(self._store, [mark])

    def held_versions(self, now: float) -> set[int]:
        """Return the versions that are protected by a hold. Raises ``StorageError`` if a storage operation fails.

        Args:
            now: current time in seconds since the epoch.
        """
        held = set()
        for name in self._file_names():
            hold = parse_hold_name(name)
            if hold is not None and abs(now - hold.since) < _LONGEST_HOLD_SECONDS:
                held.add(hold.version)
            elif self._store.capabilities.lexical_listing and name > HOLD_PREFIX and not name.startswith(HOLD_PREFIX):
                break
        return held

    def require_commits(self) -> None:
        """Check that versions can be created, before anything is written; the result is cached for the store.

        Raises:
            UnsafeStoreError: the store cannot create a file atomically, so that two writers could both succeed.
            StorageError: it could not be determined whether creation is atomic.
        """
        self._protocol.require(self)

    def create_file(self, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Create a file that is not a version, such as a tag, unless it exists; raises the errors of :meth:`create`."""
        return self._protocol.create_file(self, path, data)

    def _get(self, name: ManifestName) -> pa.Buffer:
        try:
            return self._store.get(self.path(name))
        except NotFoundError:
            if not self._protocol.recover(self, name):
                raise
        return self._store.get(self.path(name))

    def _file_names(self) -> Iterator[str]:
        return self._store.list_names(self._store.join(self._root, VERSIONS_DIRECTORY))

    def _listed(self) -> Iterator[ManifestName]:
        for file_name in self._file_names():
            name = parse_manifest_name(file_name)
            if name is not None:
                yield name

    def _is_newest_first(self, name: ManifestName) -> bool:
        """Return whether all names listed after this name belong to older versions."""
        return self._store.capabilities.lexical_listing and name.naming is ManifestNaming.V2

    def _check_naming(self, seen: ManifestName | None, name: ManifestName) -> None:
        if seen is not None and seen.naming is not name.naming:
            raise CorruptDataError(
                f"{self.uri} has manifests of both naming schemes: a migration to V2 names was interrupted; "
                "finish it with migrate_manifest_paths_v2",
                path=self._root,
            )
