"""CleanupPolicy: the versions that may be removed, and limits on the removal of their files.

A version is removed if it matches all given options: it is older than ``older_than``, *and* it is not among the newest
``retain_versions`` versions, *and* it is among ``versions``. The version of the handle, all newer versions, tagged
versions, and versions that a branch still needs are always kept.

Source: cleanup policy of pylance 14.0.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.errors import InvalidCleanupError, InvalidTypeError
from lance_core.public.arguments import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DEFAULT_OLDER_THAN", "MAX_CONCURRENCY", "CleanupPolicy", "VersionRule", "count", "switch"]

DEFAULT_OLDER_THAN: Final = timedelta(days=14)
"""Default of ``older_than``, used if no option that selects versions is given."""

MAX_CONCURRENCY: Final = 64
"""Maximum number of threads that remove files; more threads would not make removal any faster."""

_NO_TIME: Final = timedelta(0)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPolicy:
    """Determines which versions and files a cleanup may remove. Create it with :meth:`of`, which checks the values.

    ``lance_pipelines/maintenance/policy.py`` has a class with the same name: the part of a declaration that specifies
    when a dataset is cleaned up. Policies of this class are created from it.

    Attributes:
        older_than: remove only versions that were created longer ago than this; if None, versions of any age match.
        retain_versions: number of newest versions to keep; if None, no minimum number of versions is kept.
        versions: remove only these versions; if None, all versions match.
        delete_unverified: whether to also remove files that are less than 7 days old and to which no version has ever
            referred. Safe only if no other process uses the table: the files may belong to a write that has not been
            committed yet.
        error_if_tagged_old_versions: whether to raise an error if a tagged version matches. If False, tagged versions
            are kept without an error.
        delete_rate_limit: maximum number of files to delete per second; None means no limit.
        delete_concurrency: maximum number of files to delete at the same time; None means the default.
    """

    older_than: timedelta | None = None
    retain_versions: int | None = None
    versions: frozenset[int] | None = None
    delete_unverified: bool = False
    error_if_tagged_old_versions: bool = True
    delete_rate_limit: int | None = None
    delete_concurrency: int | None = None

    @classmethod
    def of(
        cls,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Iterable[int] | None = None,
        delete_concurrency: int | None = None,
    ) -> CleanupPolicy:
        """Return a policy with checked values. Without options that select versions, ``older_than`` is two weeks.

        Raises:
            InvalidCleanupError: a number is out of range, or the list of versions is empty.
            InvalidTypeError: a value has the wrong type.
        """
        if older_than is None and retain_versions is None and versions is None:
            older_than = DEFAULT_OLDER_THAN
        return cls(
            older_than=_duration(older_than),
            retain_versions=_positive("retain_versions", retain_versions),
            versions=_version_set(versions),
            delete_unverified=switch("delete_unverified", delete_unverified, default=False),
            error_if_tagged_old_versions=switch(
                "error_if_tagged_old_versions", error_if_tagged_old_versions, default=True
            ),
            delete_rate_limit=_positive("delete_rate_limit", delete_rate_limit),
            delete_concurrency=_positive("delete_concurrency", delete_concurrency),
        )

    def rule(self, versions: Sequence[int], now_ns: int) -> VersionRule:
        """Apply the policy to a table at one moment.

        Args:
            versions: the numbers of all versions of the table, in ascending order.
            now_ns: current time, in nanoseconds since the epoch.
        """
        before_ns = None if self.older_than is None else now_ns - self.older_than // _MICROSECOND * 1000
        before_version = None
        if self.retain_versions is not None and versions:
            before_version = versions[max(len(versions) - self.retain_versions, 0)]
        return VersionRule(before_ns=before_ns, before_version=before_version, versions=self.versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRule:
    """A policy applied to a table at one moment.

    Attributes:
        before_ns: select only versions committed before this time, in nanoseconds since the epoch; None means any time.
        before_version: select only versions with lower numbers than this; None means any number.
        versions: select only these versions; None means any version.
    """

    before_ns: int | None
    before_version: int | None
    versions: frozenset[int] | None

    def selects(self, version: int, timestamp_ns: int) -> bool:
        """Return whether a version matches the whole policy."""
        return (
            (self.before_ns is None or timestamp_ns < self.before_ns)
            and (self.before_version is None or version < self.before_version)
            and (self.versions is None or version in self.versions)
        )


def count(name: str, value: Any) -> int:
    """Convert an argument to an ``int``; booleans are rejected.

    Raises:
        InvalidTypeError: the value is not a whole number; the message contains the name of the argument.
    """
    if isinstance(value, bool):
        raise InvalidTypeError(f"{name} must be a whole number, found {value!r}", argument=name)
    return whole_number(name, value)


def switch(name: str, value: Any, *, default: bool | None = None) -> bool:
    """Convert an argument to a ``bool``; None means the default, if there is one. Strings such as "no" are rejected.

    Raises:
        InvalidTypeError: the value is not a boolean; the message contains the name of the argument.
    """
    if value is None and default is not None:
        return default
    if not isinstance(value, bool | np.bool_):
        raise InvalidTypeError(f"{name} must be True or False, found {value!r}", argument=name)
    return bool(value)


def _duration(older_than: timedelta | None) -> timedelta | None:
    if older_than is None:
        return None
    if not isinstance(older_than, timedelta):
        raise InvalidTypeError(f"older_than must be a timedelta, found {older_than!r}", argument="older_than")
    if older_than < _NO_TIME:
        raise InvalidCleanupError(f"older_than must not be negative, found {older_than}", argument="older_than")
    # The reference treats zero as "any age", even for a version whose writer's clock was ahead.
    return older_than or None


def _positive(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    number = count(name, value)
    if number < 1:
        raise InvalidCleanupError(f"{name} must be at least 1, found {number}", argument=name)
    return number


def _version_set(versions: Iterable[int] | None) -> frozenset[int] | None:
    if versions is None:
        return None
    if isinstance(versions, str | bytes | bytearray) or not isinstance(versions, Iterable):
        raise InvalidTypeError(f"versions must be a list of whole numbers, found {versions!r}", argument="versions")
    numbers = frozenset(count("a version number in versions", version) for version in versions)
    if not numbers:
        raise InvalidCleanupError("versions must not be an empty list", argument="versions")
    if min(numbers) < 0:
        raise InvalidCleanupError(f"versions must not be negative, found {min(numbers)}", argument="versions")
    return numbers
