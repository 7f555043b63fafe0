"""CommitSettings: the settings of a commit."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lance_core.table.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from pyroaring import BitMap

__all__ = ["DEFAULT_MAX_RETRIES", "CommitProgress", "CommitSettings"]

DEFAULT_MAX_RETRIES: Final = 20
"""Default value of ``max_retries``, the same as in the reference implementation."""


@dataclass(slots=True)
class CommitProgress:
    """The progress of a commit, for a caller that removes its own files after an exception.

    Attributes:
        may_land: whether a version may refer to the files of the transaction, now or later. Set before the step that
            can create such a version, and reset when that step is known to have failed.
        made: the version that the commit created; None if it has created none.
        line: the identity of the branch at the start of the first attempt; it changes if the branch is re-created.
    """

    may_land: bool = False
    made: Manifest | None = None
    line: Hashable = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSettings:
    """The settings of a commit.

    Attributes:
        max_retries: maximum number of attempts after the first. With 0, an overwrite can only create the version
            directly after the one that it was planned on.
        timeout_seconds: no attempt starts once this many seconds have passed; None for no limit.
        create_only: whether to fail if the table already exists.
        is_first_try: whether this is the first commit of this transaction; if so, no version created by it can exist
            yet.
        template: the empty manifest from which a new table starts.
        affected_rows: the physical positions of the rows that a delete or update removes, by fragment id; they are
            needed to merge the change with other changes. None if unknown.
        storage_options: options for the stores of base paths.
        progress: records the progress of the commit.
        wait: a function that sleeps for the given number of seconds.
        rng: the source of randomness for waiting times.
    """

    max_retries: int = DEFAULT_MAX_RETRIES
    timeout_seconds: float | None = None
    create_only: bool = False
    is_first_try: bool = False
    template: Manifest = field(default_factory=Manifest.empty)
    affected_rows: Mapping[int, BitMap] | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    progress: CommitProgress = field(default_factory=CommitProgress)
    wait: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
