"""The outcomes of a commit, as values: each is expected and handled differently.

``attempt`` outcomes describe one try to create one version; ``commit`` outcomes describe the whole loop.
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
    """The version exists, once, and is this commit's.

    Attributes:
        manifest: its manifest.
    """

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class AlreadyCommitted:
    """An earlier commit of the same transaction made a version; nothing was done.

    Attributes:
        manifest: the manifest of that version.
    """

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another writer made the version first.

    Attributes:
        manifest: what it committed; None when the store refused although the name is free.
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
        version: the version that was to be made.
        cause: why it could not be determined.
    """

    version: int
    cause: LanceError


@dataclass(frozen=True, slots=True)
class Conflicted:
    """A later version makes the change impossible as it was planned.

    Attributes:
        verdict: retryable or incompatible.
        version: the version in the way.
        reason: what that version did.
        is_removed: the version was removed, so that what it did is not known.
    """

    verdict: Verdict
    version: int
    reason: str
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class Contended:
    """Every attempt lost its race, or time ran out.

    Attributes:
        num_attempts: attempts made.
    """

    num_attempts: int


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The version was made too late, after newer ones that do not hold its change; the table is without it.

    It was withdrawn, or undone by a newer version when it was the latest. A cleanup may have seen it and may remove the
    files that it named, so they must not be committed again.

    Attributes:
        version: the version that was made.
        latest: the latest version.
    """

    version: int
    latest: int


@dataclass(frozen=True, slots=True)
class TableExists:
    """A table was to be created where there is one.

    Attributes:
        version: its latest version.
    """

    version: int


AttemptOutcome: TypeAlias = Committed | LostRace | NotLanded | Overtaken | Unknown
CommitOutcome: TypeAlias = (
    Committed | AlreadyCommitted | Conflicted | Contended | TableExists | NotLanded | Overtaken | Unknown
)
