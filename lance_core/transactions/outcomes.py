"""Outcomes of a commit, as values: each is expected, and each is handled differently.

``AttemptOutcome`` describes one attempt to create a version; ``CommitOutcome`` describes the whole loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lance_core.errors import LanceError
    from lance_core.table.manifest import Manifest
    from lance_core.transactions.conflicts import Verdict

__all__ = [
    "AlreadyCommitted",
    "AttemptOutcome",
    "CommitOutcome",
    "Committed",
    "Conflicted",
    "Contended",
    "LostRace",
    "NotLanded",
    "Overtaken",
    "TableExists",
    "Unknown",
]


@dataclass(frozen=True, slots=True)
class Committed:
    """This commit created the version, exactly once.

    Attributes:
        manifest: the manifest of the version.
    """

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class AlreadyCommitted:
    """An earlier commit of the same transaction created a version; nothing was done.

    Attributes:
        manifest: the manifest of that version.
    """

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another writer created the version first.

    Attributes:
        manifest: the manifest that the other writer committed; None if the store refused although the name is free.
    """

    manifest: Manifest | None


@dataclass(frozen=True, slots=True)
class NotLanded:
    """The write failed, and the version does not exist.

    Attributes:
        cause: the failure.
    """

    cause: LanceError


@dataclass(frozen=True, slots=True)
class Unknown:
    """The write failed or was refused, and it could not be determined whether the version is this commit's.

    Attributes:
        version: the version that the commit tried to create.
        cause: the reason why this could not be determined.
    """

    version: int
    cause: LanceError


@dataclass(frozen=True, slots=True)
class Conflicted:
    """The change, as planned, conflicts with a later version.

    Attributes:
        verdict: retryable or incompatible.
        version: the conflicting version.
        reason: the change made by that version.
        is_removed: whether that version was removed, so that its change is unknown.
    """

    verdict: Verdict
    version: int
    reason: str
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class Contended:
    """Other writers committed first at every attempt, or the time limit was reached.

    Attributes:
        num_attempts: the number of attempts.
    """

    num_attempts: int


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The version was created too late, after newer versions without its change; the table does not have the change.

    The version was removed, or reverted by a newer version if it was the latest. A cleanup may have read the version
    and may remove the files that it referred to, so these files must not be committed again.

    Attributes:
        version: the version that was created.
        latest: the latest version.
    """

    version: int
    latest: int


@dataclass(frozen=True, slots=True)
class TableExists:
    """The table to be created already exists.

    Attributes:
        version: latest version of the existing table.
    """

    version: int


AttemptOutcome: TypeAlias = Committed | LostRace | NotLanded | Overtaken | Unknown
CommitOutcome: TypeAlias = (
    Committed | AlreadyCommitted | Conflicted | Contended | TableExists | NotLanded | Overtaken | Unknown
)
