"""Automatic cleanup: its settings in the table config, and the cleanup after a commit.

=======================================  ===============================================================================
``lance.auto_cleanup.interval``           clean up after each version whose number is a multiple of this; 0 means
                                          after every version; if not set, never clean up
``lance.auto_cleanup.older_than``         a duration with units, such as ``2weeks`` or ``1h30m``: only older
                                          versions are removed
``lance.auto_cleanup.retain_versions``    number of newest versions to keep
``lance.auto_cleanup.min_age``            a duration, such as ``10m``: newer versions are always kept;
                                          10 minutes if not set
``lance.auto_cleanup.delete_rate_limit``  maximum number of deletions per second
``…delete_concurrency``                   maximum number of concurrent deletions
``…referenced_branch``                    ``true`` or ``false``; has no effect: each branch is cleaned up by its own
                                          commits
=======================================  ===============================================================================

If neither ``older_than`` nor ``retain_versions`` is set, every version older than ``min_age`` is removed. The new
version, the version before it, tagged versions, and versions that a branch uses are kept. If a cleanup fails, a warning
is logged; the commit still succeeds.

Source: automatic cleanup of pylance 14.0.2. In pylance, however, the cleanup fails with a warning if a tagged version
is eligible for removal. pylance also ignores ``min_age``. This setting prevents a writer that is suspended just
before it commits from reusing the number of a removed version (:mod:`~lance_core.transactions.overtaken`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict

from lance_core.cleanup.durations import format_duration, parse_duration
from lance_core.cleanup.plan import plan_before
from lance_core.cleanup.policy import CleanupPolicy, count
from lance_core.errors import InvalidCleanupError, InvalidTypeError, LanceError

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["ENABLING_KEYS", "AutoCleanup", "AutoCleanupConfig", "clean_up_after", "enabling_entries", "initial_entries"]

_PREFIX: Final = "lance.auto_cleanup."
_INTERVAL: Final = f"{_PREFIX}interval"
_OLDER_THAN: Final = f"{_PREFIX}older_than"
_MIN_AGE: Final = f"{_PREFIX}min_age"
ENABLING_KEYS: Final = (_INTERVAL, _OLDER_THAN)
"""Config keys that are set to enable automatic cleanup and removed to disable it."""

_DEFAULT_INTERVAL: Final = 20
_DEFAULT_OLDER_THAN_SECONDS: Final = 14 * 86_400
_DEFAULT_MIN_AGE: Final = timedelta(minutes=10)
_NUMBER: Final = re.compile(r"\+?[0-9]+")
_MAX_NUMBER: Final = 2**64 - 1

_logger: Final = logging.getLogger(__name__)


class AutoCleanupConfig(TypedDict):
    """Settings for automatic cleanup: the removal of old versions after commits."""

    interval: int
    """Clean up after each version whose number is a multiple of this interval; 0 means after every version."""

    older_than_seconds: int
    """Remove only versions that were committed more than this number of seconds ago."""


@dataclass(frozen=True, slots=True)
class AutoCleanup:
    """The automatic cleanup settings in a table config.

    Attributes:
        interval: clean up after each version whose number is a multiple of this interval; 0 means after every version.
        policy: the policy that selects the versions to remove.
    """

    interval: int
    policy: CleanupPolicy

    @classmethod
    def due_after(cls, version: int, config: Mapping[str, str]) -> AutoCleanup | None:
        """Return the automatic cleanup to perform after the commit of a version, or None if no cleanup is due.

        Raises:
            InvalidCleanupError: a value in the config is invalid.
        """
        interval = _number(config, "interval")
        if interval is None or (interval and version % interval):
            return None
        return cls(interval, _policy(config))


def clean_up_after(log: VersionLog, manifest: Manifest) -> None:
    """Clean up after a commit if the config of the new version requires it. Failures are logged as warnings."""
    config = manifest.message.config
    if _INTERVAL not in config:
        return
    try:
        due = AutoCleanup.due_after(manifest.version, config)
        if due is None:
            return
        stats = plan_before(log, manifest, due.policy).execute()
    except LanceError as error:
        _logger.warning(
            "%s: version %d was committed, but the cleanup that followed failed: %s", log.root, manifest.version, error
        )
    else:
        _logger.info(
            "%s: automatic cleanup after the commit of version %d: versions removed: %d, bytes removed: %d",
            log.root,
            manifest.version,
            stats.old_versions,
            stats.bytes_removed,
        )


def initial_entries(options: Any) -> dict[str, str]:
    """Convert ``auto_cleanup_options`` to config entries of a new table; without options, there are no entries.

    Raises:
        InvalidTypeError: the options are not a mapping, or a value is not a whole number.
        InvalidCleanupError: an option is unknown, or a number is negative.
    """
    if options is None:
        return {}
    given = _checked(options)
    seconds = given.get("older_than_seconds", _DEFAULT_OLDER_THAN_SECONDS)
    return {_INTERVAL: str(given.get("interval", _DEFAULT_INTERVAL)), _OLDER_THAN: format_duration(seconds)}


def enabling_entries(options: Any) -> dict[str, str]:
    """Convert the options of ``enable_auto_cleanup`` to config entries; both options are required."""
    given = _checked(options)
    missing = [name for name in AutoCleanupConfig.__annotations__ if name not in given]
    if missing:
        raise InvalidCleanupError(f"auto_cleanup_config must contain {missing[0]!r}", argument="auto_cleanup_config")
    return {_INTERVAL: str(given["interval"]), _OLDER_THAN: f"{given['older_than_seconds']}s"}


def _checked(options: Any) -> dict[str, int]:
    if not isinstance(options, Mapping):
        raise InvalidTypeError(f"auto cleanup options must be a mapping, found {options!r:.100}")
    unknown = [name for name in options if name not in AutoCleanupConfig.__annotations__]
    if unknown:
        raise InvalidCleanupError(
            f"unknown auto cleanup option {unknown[0]!r:.100}; expected one of "
            f"{', '.join(AutoCleanupConfig.__annotations__)}"
        )
    numbers = {name: count(name, value) for name, value in options.items()}
    for name, number in numbers.items():
        if not 0 <= number <= _MAX_NUMBER:
            raise InvalidCleanupError(f"{name} must be between 0 and {_MAX_NUMBER}, found {number}", argument=name)
    return numbers


def _policy(config: Mapping[str, str]) -> CleanupPolicy:
    older_than, min_age = _duration(config, _OLDER_THAN), _duration(config, _MIN_AGE)
    _check_switch(config)
    ages = [older_than or timedelta(0), _DEFAULT_MIN_AGE if min_age is None else min_age]
    return CleanupPolicy.of(
        max(ages),
        _number(config, "retain_versions"),
        error_if_tagged_old_versions=False,
        delete_rate_limit=_number(config, "delete_rate_limit"),
        delete_concurrency=_number(config, "delete_concurrency"),
    )


def _duration(config: Mapping[str, str], key: str) -> timedelta | None:
    text = config.get(key)
    if text is None:
        return None
    try:
        return parse_duration(text)
    except InvalidCleanupError as error:
        raise InvalidCleanupError(f"{key}: {error}", key=key) from error


def _number(config: Mapping[str, str], name: str) -> int | None:
    key = f"{_PREFIX}{name}"
    text = config.get(key)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or int(text) > _MAX_NUMBER:
        raise InvalidCleanupError(f"{key} must be a whole number from 0 to {_MAX_NUMBER}, found {text!r:.100}", key=key)
    return int(text)


def _check_switch(config: Mapping[str, str]) -> None:
    key = f"{_PREFIX}referenced_branch"
    text = config.get(key)
    if text not in (None, "true", "false"):
        raise InvalidCleanupError(f"{key} must be true or false, found {text!r:.100}", key=key)
