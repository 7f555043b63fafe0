"""CommitOptions: the options of a commit, passed as one object from a public method to the last step of the commit."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.public.arguments import whole_number
from lance_core.table.paths import ManifestNaming

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from pyroaring import BitMap

    from lance_core.table.manifest import Manifest
    from lance_core.versions import LanceFileVersion

__all__ = ["DEFAULT_COMMIT_TIMEOUT", "DEFAULT_MAX_RETRIES", "CommitOptions", "CommitProgress"]

DEFAULT_MAX_RETRIES: Final = 20
"""Default value of ``max_retries``, the same as in the reference implementation."""

DEFAULT_COMMIT_TIMEOUT: Final = timedelta(minutes=30)


@dataclass(slots=True)
class CommitProgress:
    """The progress of a commit, for a caller that removes its own files after an exception.

    Attributes:
        may_be_committed: whether a version may refer to the files of the transaction, now or later. Set before the step
            that can create such a version, and reset when that step is known to have failed.
        attempted: the versions that the commit tried to create. If the outcome is unknown, any of them may exist.
        made: the version that the commit created; None if it has created none.
        line: the identity of the branch at the start of the first attempt; it changes if the branch is recreated.
    """

    may_be_committed: bool = False
    attempted: list[Manifest] = field(default_factory=list)
    made: Manifest | None = None
    line: Hashable = None

    @property
    def needs_files(self) -> bool:
        """Whether a version refers, or may refer, to the files of the transaction, so that they must be kept."""
        return self.made is not None or self.may_be_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """The options of a commit.

    Attributes:
        max_retries: maximum number of attempts after the first. With 0, an overwrite can only create the version
            directly after the one that it was planned on.
        timeout: no attempt starts once this much time has passed; None for no limit.
        create_only: whether to fail if the dataset already exists.
        naming: the naming scheme for the manifests of a newly created dataset.
        stable_row_ids: whether a newly created dataset uses stable row ids.
        storage_options: options for the stores of base paths.
        affected_rows: the physical positions of the rows that a delete or update removes, by fragment id. If given, the
            change can be merged with concurrent changes to different rows; if None, it must be planned again after such
            changes.
        refuses_new_rows: whether versions that may add or change rows, in any fragment, conflict with the change. Set
            it for a change that applies to all rows that match a predicate, including rows that others add
            concurrently.
        unsynced_files: paths of files in the store of the table that must become durable before the version appears.
        checks_files: whether to check the files that the operation adds: new data files, and the deletion files of a
            change without ``affected_rows``. The checks are not needed if the caller has just written the files.
        file_version: the data file version for an Overwrite without data files; None for the table's version or, for a
            new table, the default version.
        is_first_try: whether this is the first commit of this transaction; if so, no version created by it can exist
            yet.
        progress: records the progress of the commit; use a separate object for each commit. Its attribute ``line`` is
            taken from the handle with which the change was planned.
        wait: a function that sleeps for the given number of seconds.
        rng: the source of randomness for waiting times.

    Raises:
        InvalidInputError: a limit is out of range.
        InvalidTypeError: ``max_retries`` is not a whole number, or ``timeout`` is not a timedelta.
    """

    max_retries: int = DEFAULT_MAX_RETRIES
    timeout: timedelta | None = DEFAULT_COMMIT_TIMEOUT
    create_only: bool = False
    naming: ManifestNaming = ManifestNaming.V2
    stable_row_ids: bool = False
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    affected_rows: Mapping[int, BitMap] | None = None
    refuses_new_rows: bool = False
    unsynced_files: tuple[str, ...] = field(default=(), repr=False)
    checks_files: bool = True
    file_version: LanceFileVersion | None = None
    is_first_try: bool = False
    progress: CommitProgress = field(default_factory=CommitProgress)
    wait: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        """Check the limits."""
        if whole_number("max_retries", self.max_retries) < 0:
            raise InvalidInputError(f"max_retries must be at least 0, found {self.max_retries}")
        if self.timeout is not None and not isinstance(self.timeout, timedelta):
            raise InvalidTypeError(f"commit_timeout must be a timedelta, found {self.timeout!r}")
        if self.timeout is not None and self.timeout <= timedelta(0):
            raise InvalidInputError(f"commit_timeout must be positive, found {self.timeout.total_seconds():g} seconds")
