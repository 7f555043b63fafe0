"""What became of a commit: values, because each is expected and asks for something else.

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
    """The write failed or was refused, and it could not be found out whether the version is this commit's.

    Attributes:
        version: the version that was to be made.
        cause: why it could not be found out.
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
    """

    verdict: Verdict
    version: int
    reason: str


@dataclass(frozen=True, slots=True)
class Contended:
    """Every attempt lost its race, or time ran out.

    Attributes:
        num_attempts: attempts made.
    """

    num_attempts: int


@dataclass(frozen=True, slots=True)
class TableExists:
    """A table was to be created where there is one.

    Attributes:
        version: its latest version.
    """

    version: int


AttemptOutcome: TypeAlias = Committed | LostRace | NotLanded | Unknown
CommitOutcome: TypeAlias = Committed | AlreadyCommitted | Conflicted | Contended | TableExists | NotLanded | Unknown
