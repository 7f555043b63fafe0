"""What the doctor can find: one record for each trace of a killed writer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ADVICE", "Ailment", "Finding"]


class Ailment(StrEnum):
    """A kind of trace."""

    TEMPORARY_FILE = "temporary file"
    STAGED_MANIFEST = "staged manifest"
    ABANDONED_MANIFEST = "abandoned manifest"
    UNRECORDED_BRANCH = "branch without a record"
    MIXED_NAMES = "half a migration"
    EMPTY_MANIFEST = "empty manifest"
    LOST_VERSION = "lost version"


ADVICE: Final[Mapping[Ailment, str]] = MappingProxyType(
    {
        Ailment.TEMPORARY_FILE: "remove it",
        Ailment.STAGED_MANIFEST: "remove it",
        Ailment.ABANDONED_MANIFEST: "remove it; no row of the manifest store names it",
        Ailment.UNRECORDED_BRANCH: "remove it, or make the branch again with create_branch",
        Ailment.MIXED_NAMES: "finish the migration to V2 names",
        Ailment.EMPTY_MANIFEST: "remove it; nothing was committed",
        Ailment.LOST_VERSION: "remove the row of the manifest store; what its writer staged is gone",
    }
)
"""What mends each."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One trace.

    Attributes:
        ailment: what it is.
        place: a path below the root, the name of a branch, or the number of a version.
        age_seconds: since anything of it was written; None when nobody knows.
        is_ripe: whether it may be mended: it is old enough, and it is safe.
    """

    ailment: Ailment
    place: str
    age_seconds: float | None
    is_ripe: bool

    @property
    def advice(self) -> str:
        """What mends it."""
        return ADVICE[self.ailment]
