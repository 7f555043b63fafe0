"""Outcomes of a commit, as values instead of exceptions: all of them are expected, and each is handled differently.

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
    "NotCreated",
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
    """An earlier commit of the same transaction created a version; this commit created none.

    Attributes:
        manifest: the manifest of that version.
    """

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another writer created the version first.

    Attributes:
        manifest: the manifest that the other writer committed; None if the store rejected the create, but no such
            version was found afterward.
    """

    manifest: Manifest | None


@dataclass(frozen=True, slots=True)
class NotCreated:
    """The write failed, and the version does not exist.

    Attributes:
        cause: the error that the store reported.
    """

    cause: LanceError


@dataclass(frozen=True, slots=True)
class Unknown:
    """The write failed or was rejected, and it could not be determined whether this commit created the version.

    Attributes:
        version: the version that the commit tried to create.
        cause: the reason why this could not be determined.
        is_created: whether the commit created the version, but newer versions might not be built on it.
    """

    version: int
    cause: LanceError
    is_created: bool = False


@dataclass(frozen=True, slots=True)
class Conflicted:
    """The change, as planned, conflicts with a later version.

    Attributes:
        verdict: retryable or incompatible.
        version: the conflicting version.
        reason: the reason for the conflict, in which "it" means that version.
        is_removed: whether that version was removed, so that its change is unknown.
    """

    verdict: Verdict
    version: int
    reason: str
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class Contended:
    """Other writers committed first, until the maximum number of attempts or the time limit was reached.

    Attributes:
        num_attempts: the number of attempts.
    """

    num_attempts: int


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The version was created too late; its change is not part of the table.

    The version was removed; if it was the latest version, a newer version reverted it instead. A cleanup may have read
    the version and may remove its files, so these files must not be committed again.

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
        version: the latest version of the existing table.
    """

    version: int


AttemptOutcome: TypeAlias = Committed | LostRace | NotCreated | Overtaken | Unknown
CommitOutcome: TypeAlias = (
    Committed | AlreadyCommitted | Conflicted | Contended | TableExists | NotCreated | Overtaken | Unknown
)
