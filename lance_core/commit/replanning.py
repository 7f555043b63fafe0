"""Plans a change again on the latest version after a conflict, within limits.

Source: retry policy of deletes and updates of pylance 14.0.2.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    InvalidTypeError,
    NotFoundError,
    RetryableCommitConflictError,
    TooMuchWriteContentionError,
)
from lance_core.public.arguments import whole_number
from lance_core.transactions.backoff import SlotBackoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.scan.table_view import TableView
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["DEFAULT_CONFLICT_RETRIES", "DEFAULT_RETRY_TIMEOUT", "RetryPolicy", "plan_until_committed"]

DEFAULT_CONFLICT_RETRIES: Final = 10
DEFAULT_RETRY_TIMEOUT: Final = timedelta(seconds=30)

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits how often, and for how long, a change is planned again after conflicts.

    Attributes:
        retries: the maximum number of times that the change is planned again.
        timeout: the change is not planned again once this much time has passed.
    """

    retries: int = DEFAULT_CONFLICT_RETRIES
    timeout: timedelta = DEFAULT_RETRY_TIMEOUT

    def check(self) -> None:
        """Check the values.

        Raises:
            InvalidInputError: ``retries`` or ``timeout`` is negative.
            InvalidTypeError: ``retries`` is not a whole number, or ``timeout`` is not a timedelta.
        """
        if whole_number("conflict_retries", self.retries) < 0:
            raise InvalidInputError(f"conflict_retries must be at least 0, found {self.retries}")
        if not isinstance(self.timeout, timedelta):
            raise InvalidTypeError(f"retry_timeout must be a timedelta, found {type(self.timeout).__name__}")
        if self.timeout < timedelta(0):
            raise InvalidInputError(
                f"retry_timeout must not be negative, found {self.timeout.total_seconds():g} seconds"
            )


def plan_until_committed(
    view: TableView, change: str, policy: RetryPolicy, attempt: Callable[[TableView], _Result]
) -> tuple[_Result, int]:
    """Plan and commit a change; after a conflict, do so again based on the latest version.

    Args:
        view: the version on which the first attempt is based.
        change: what is committed, for messages ("delete").
        policy: the limits on planning again.
        attempt: plans the change on a version, and commits it.

    Returns:
        The result of the attempt that succeeded, and the number of attempts.

    Raises:
        DatasetNotFoundError: the dataset no longer exists.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        LanceError: an attempt failed for any other reason than a conflict.
    """
    log, started = view.log, time.monotonic()
    # Later views keep the identity of the branch: a change is never planned again on a branch that was re-created.
    _ = view.line
    backoff = SlotBackoff(random.Random())
    for number in range(1, policy.retries + 2):
        attempt_started = time.monotonic()
        try:
            return attempt(view), number
        except RetryableCommitConflictError as error:
            conflict: RetryableCommitConflictError | NotFoundError = error
        except NotFoundError as error:
            # A cleanup may have removed the files of the version on which the change was planned.
            if not _is_outdated(view):
                raise
            conflict = error
        failed = time.monotonic()
        wait_seconds = backoff.next_seconds(failed - attempt_started)
        if number > policy.retries or failed - started + wait_seconds >= policy.timeout.total_seconds():
            break
        time.sleep(wait_seconds)
        view = view.showing(_latest(log))
    raise TooMuchWriteContentionError(
        f"{log.root}: the {change} failed: every attempt had a conflict (number of attempts: {number}); the last "
        f"conflict was: {conflict}",
        path=log.root,
        attempts=number,
    ) from conflict


def _is_outdated(view: TableView) -> bool:
    latest = view.log.latest()
    return latest is not None and latest.version > view.version


def _latest(log: VersionLog) -> Manifest:
    latest = log.read_latest()
    if latest is None:
        raise DatasetNotFoundError(f"dataset '{log.root}' no longer exists", path=log.root)
    return latest
