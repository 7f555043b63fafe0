"""Plans a change again on the latest version after a conflict, within limits.

Source: retry policy of deletes and updates of pylance 14.0.2.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeGuard

from lance_core.errors import (
    CommitOutcomeUnknownError,
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
    from types import TracebackType

    from lance_core.scan.table_view import Handle, TableView
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["DEFAULT_CONFLICT_RETRIES", "DEFAULT_RETRY_TIMEOUT", "Attempts", "Replanning", "RetryPolicy"]

DEFAULT_CONFLICT_RETRIES: Final = 10
DEFAULT_RETRY_TIMEOUT: Final = timedelta(seconds=30)


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
        what = "the number of retries after a conflict"
        if whole_number(what, self.retries) < 0:
            raise InvalidInputError(f"{what} must be at least 0, found {self.retries}")
        if not isinstance(self.timeout, timedelta):
            raise InvalidTypeError(f"retry_timeout must be a timedelta, found {type(self.timeout).__name__}")
        if self.timeout < timedelta(0):
            raise InvalidInputError(
                f"retry_timeout must not be negative, found {self.timeout.total_seconds():g} seconds"
            )


class Replanning:
    """Plans a change again on the latest version after each conflict; used as a context manager for each attempt.

    ::

        attempts = Replanning(view, "delete", policy)
        while True:
            with attempts as view:
                return commit(plan(view))

    The error for a conflict does not leave the ``with`` block, unless a limit is reached.

    Args:
        view: the version on which the first attempt is based.
        change: what is committed, for messages ("delete").
        policy: the limits on retries after a conflict.
        is_idempotent: whether committing the change twice has the same effect as committing it only the second time.
            Such a change is also planned again if it created a version, but it is unknown whether newer versions are
            based on that version.

    Attributes:
        number: the number of attempts so far.
        unknown: the error of the last attempt whose outcome is unknown; None if there was none.

    Raises:
        DatasetNotFoundError: the dataset no longer exists.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: a limit is reached, and the outcome of one of the attempts is unknown.
    """

    def __init__(self, view: TableView, change: str, policy: RetryPolicy, *, is_idempotent: bool = False) -> None:
        """Start the time limit."""
        self._is_idempotent = is_idempotent
        self.unknown: CommitOutcomeUnknownError | None = None
        self._view = view
        self._change = change
        self._policy = policy
        self._backoff = SlotBackoff(random.Random())
        self._started = self._attempt_started = time.monotonic()
        self.number = 0
        # Later views keep the identity of the branch: a change is never planned again on a branch that was recreated.
        _ = view.line

    def __enter__(self) -> TableView:
        """Start an attempt; return the version to plan on."""
        self.number += 1
        self._attempt_started = time.monotonic()
        return self._view

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """After a conflict, wait and move to the latest version."""
        if self._may_repeat(error):
            self.unknown = error
        elif not self._is_conflict(error):
            return False
        failed = time.monotonic()
        wait_seconds = self._backoff.next_seconds(failed - self._attempt_started)
        is_late = failed - self._started + wait_seconds >= self._policy.timeout.total_seconds()
        log = self._view.log
        if self.number > self._policy.retries or is_late:
            if self.unknown is not None:
                raise self.unknown
            raise TooMuchWriteContentionError(
                f"{log.uri}: the {self._change} failed: every attempt had a conflict (number of attempts: "
                f"{self.number}); the last conflict was: {error}",
                path=log.root,
                attempts=self.number,
            ) from error
        time.sleep(wait_seconds)
        self._view = self._view.showing(_latest(log))
        return True

    def _may_repeat(self, error: BaseException | None) -> TypeGuard[CommitOutcomeUnknownError]:
        is_created = isinstance(error, CommitOutcomeUnknownError) and error.context.get("is_created", False)
        return self._is_idempotent and bool(is_created)

    def _is_conflict(self, error: BaseException | None) -> bool:
        if isinstance(error, NotFoundError):
            # A cleanup may have removed the files of the version on which the change was planned.
            return _is_outdated(self._view)
        return isinstance(error, RetryableCommitConflictError)


class Attempts:
    """The attempts of a change that is planned with a handle, which is moved to the version of each attempt.

    ::

        attempts = Attempts(dataset, "delete", policy)
        while True:
            with attempts:
                return commit(plan(dataset))

    Args:
        dataset: a handle to the version on which the first attempt is based.
        change: what is committed, for messages ("delete").
        policy: the limits on retries after a conflict.
        is_idempotent: as for :class:`Replanning`.

    Raises:
        InvalidInputError: a limit is negative.
        DatasetNotFoundError: the dataset no longer exists.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: a limit is reached, and the outcome of one of the attempts is unknown.
    """

    def __init__(self, dataset: Handle, change: str, policy: RetryPolicy, *, is_idempotent: bool = False) -> None:
        """Start the time limit."""
        policy.check()
        self._dataset = dataset
        self._replanning = Replanning(dataset.view, change, policy, is_idempotent=is_idempotent)

    @property
    def number(self) -> int:
        """The number of attempts so far."""
        return self._replanning.number

    @property
    def may_be_committed(self) -> bool:
        """Whether the outcome of an earlier attempt is unknown."""
        return self._replanning.unknown is not None

    def __enter__(self) -> None:
        """Start an attempt, and move the handle to the version to plan on."""
        self._dataset.show(self._replanning.__enter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """After a conflict, wait, and read the latest version."""
        return self._replanning.__exit__(kind, error, traceback)


def _is_outdated(view: TableView) -> bool:
    latest = view.log.latest()
    return latest is not None and latest.version > view.version


def _latest(log: VersionLog) -> Manifest:
    latest = log.read_latest()
    if latest is None:
        raise DatasetNotFoundError(f"dataset '{log.uri}' no longer exists", path=log.root)
    return latest
