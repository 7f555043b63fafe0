"""CleanupPolicy: which versions may be removed, and how their files are removed.

The options are combined with "and": a version is removed when it is older than ``older_than`` *and* not one of the
newest ``retain_versions`` *and* one of ``versions``, as far as given. These are always kept: the version of the handle
and all newer ones, tagged versions, and versions that a branch still needs.

Source: policy of pylance 14.0.2.
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
"""Used when no option is given."""

MAX_CONCURRENCY: Final = 64
"""Maximum number of threads that remove files; more do not make any store faster."""

_NO_TIME: Final = timedelta(0)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPolicy:
    """What a cleanup may remove. Create it with :meth:`of`, which checks the values.

    ``lance_pipelines/maintenance/policy.py`` has a class of the same name: the part of a declaration that says when a
    dataset is cleaned up, and from which this policy is made.

    Attributes:
        older_than: only versions older than this; None for any age.
        retain_versions: keep this many of the newest versions; None for no limit.
        versions: only these; None for all.
        delete_unverified: also remove files that no version has ever referred to and that are less than 7 days old.
            Only safe when no other process uses the table: they may belong to a write that is not committed yet.
        error_if_tagged_old_versions: fail when a tagged version matches, instead of keeping it.
        delete_rate_limit: deletions per second; None for no limit.
        delete_concurrency: deletions at a time; None for the default.
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
        """Return a policy with checked values; two weeks if no option is given.

        Raises:
            InvalidCleanupError: a number out of its range, or no version listed.
            InvalidTypeError: a value of another type.
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
        """Return the policy applied to a table.

        Args:
            versions: the numbers of all its versions, ascending.
            now_ns: nanoseconds since the epoch.
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
        before_ns: only versions committed before; None for any.
        before_version: only versions below; None for any.
        versions: only these; None for any.
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
    """Return a whole number; booleans are rejected.

    Raises:
        InvalidTypeError: names the argument.
    """
    if isinstance(value, bool):
        raise InvalidTypeError(f"{name} must be a whole number, found {value!r}", argument=name)
    return whole_number(name, value)


def switch(name: str, value: Any, *, default: bool | None = None) -> bool:
    """Return True or False; None means the default, if there is one. A string such as "no" is rejected.

    Raises:
        InvalidTypeError: names the argument.
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
    numbers = frozenset(count("versions", version) for version in versions)
    if not numbers:
        raise InvalidCleanupError("versions must not be empty when it is given", argument="versions")
    if min(numbers) < 0:
        raise InvalidCleanupError(f"versions must not be negative, found {min(numbers)}", argument="versions")
    return numbers
