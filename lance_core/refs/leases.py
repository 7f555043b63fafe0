"""Leases on versions: a cleanup keeps a leased version until the lease is released or expires.

::

    lease = lease_version(dataset, holder="nightly report", duration=timedelta(hours=1))
    ...                                     # read dataset; call lease.renew() before the hour is over
    lease.release()

A process that is killed does not release its lease; the version is then protected until the lease expires.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError, RefNotFoundError
from lance_core.refs.tags import Tags
from lance_core.table.leases import LEASE_PREFIX, lease_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.scan.table_view import Handle

__all__ = ["VersionLease", "lease_version"]


class VersionLease:
    """A lease on one version, returned by :func:`lease_version`."""

    def __init__(self, tags: _LeaseTags, *, version: int, holder: str, duration: timedelta) -> None:
        """Initialize without writing anything."""
        self._tags = tags
        self._holder = holder
        self._duration = duration
        self.name: Final = f"{LEASE_PREFIX}{uuid.uuid4().hex[:16]}"
        """Name of the tag that is the lease."""
        self.version: Final = version
        """Number of the leased version."""
        self.expires_at = datetime.now(UTC) + duration
        """Time at which the lease expires."""

    def take(self) -> None:
        """Create the tag; :func:`lease_version` describes the errors."""
        expires_at = datetime.now(UTC) + self._duration
        self._tags.lease(self.name, self.version, lease_metadata(self._holder, expires_at))
        self.expires_at = expires_at

    def renew(self) -> None:
        """Renew the lease for its full duration from now. A lease that has been removed is created again.

        Raises:
            VersionNotFoundError: the lease had expired, and a cleanup has removed the version.
            CommitOutcomeUnknownError: as for :func:`lease_version`.
            StorageError: a storage operation failed; the lease is unchanged.
        """
        now = datetime.now(UTC)
        try:
            self._tags.replace_metadata(self.name, lease_metadata(self._holder, now + self._duration))
        except RefNotFoundError:
            self.take()
            return
        if now >= self.expires_at:
            self._tags.require_version(self.version)
        self.expires_at = now + self._duration

    def release(self) -> None:
        """End the lease; nothing happens if it no longer exists.

        Raises:
            StorageError: a storage operation failed; the lease ends when it expires.
        """
        with suppress(RefNotFoundError):
            self._tags.delete(self.name)


class _LeaseTags(Tags):
    """The tags of a table, with the operations that only leases need."""

    def lease(self, name: str, version: int, metadata: Mapping[str, str]) -> None:
        """Create the tag of a lease."""
        self._create(name, version, metadata)

    def require_version(self, version: int) -> None:
        """Raise ``VersionNotFoundError`` if a version of the handle's branch no longer exists."""
        self._line.manifest_bytes(version)


def lease_version(dataset: Handle, *, holder: str, duration: timedelta) -> VersionLease:
    """Protect the version of a handle against cleanups for a limited time.

    Args:
        dataset: a handle to the version.
        holder: who needs the version; stored in the lease.
        duration: time after which the lease expires unless it is renewed. It should be much longer than the differences
            between the clocks of the processes that use the table.

    Raises:
        InvalidInputError: the duration is not positive, or too long for a date.
        VersionNotFoundError: a cleanup has removed the version.
        RefConflictError: the branch of the version is being deleted.
        CommitOutcomeUnknownError: it could not be determined whether the lease was created, or whether it is valid.
        StorageError: a storage operation failed.
    """
    if duration <= timedelta(0):
        raise InvalidInputError(f"the duration of a lease must be positive, found {duration}")
    view = dataset.view
    tags = _LeaseTags(view.log, view.manifest)
    try:
        lease = VersionLease(tags, version=view.version, holder=holder, duration=duration)
        lease.take()
    except OverflowError as error:
        raise InvalidInputError(f"a lease must expire before the year 10000, found a duration of {duration}") from error
    return lease
