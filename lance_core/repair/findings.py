"""What the doctor can find: traces of crashed writers, defects that old releases left, data files that are missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_core.table.old_writers import OldDefect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.cleanup.inventory import StoredFile

__all__ = ["ADVICE", "Ailment", "Finding"]


class Ailment(StrEnum):
    """What can be wrong with a table."""

    TEMPORARY_FILE = "temporary file"
    STAGED_MANIFEST = "staged manifest"
    ABANDONED_MANIFEST = "abandoned manifest"
    UNRECORDED_BRANCH = "branch without a record"
    MIXED_NAMES = "half a migration"
    EMPTY_MANIFEST = "empty manifest"
    LOST_VERSION = "lost version"
    ROW_COUNTS = OldDefect.ROW_COUNTS.value
    SHARED_FIELD_IDS = OldDefect.SHARED_FIELD_IDS.value
    UNDERSTATED_FORMAT = OldDefect.UNDERSTATED_FORMAT.value
    OVERLAPPING_COVERAGE = OldDefect.OVERLAPPING_COVERAGE.value
    UNRELIABLE_COVERAGE = OldDefect.UNRELIABLE_COVERAGE.value
    MIXED_FORMATS = "mixed formats"
    MISSING_DATA_FILE = "missing data file"


_BY_COMMIT: Final = "reads are right; any commit repairs it"

_NAMED_ONLY: Final = frozenset({*map(Ailment, OldDefect), Ailment.MIXED_FORMATS, Ailment.MISSING_DATA_FILE})

ADVICE: Final[Mapping[Ailment, str]] = MappingProxyType(
    {
        Ailment.TEMPORARY_FILE: "remove it",
        Ailment.STAGED_MANIFEST: "remove it",
        Ailment.ABANDONED_MANIFEST: "remove it; no row of the manifest store names it",
        Ailment.UNRECORDED_BRANCH: "remove it, or make the branch again with create_branch",
        Ailment.MIXED_NAMES: "finish the migration to V2 names",
        Ailment.EMPTY_MANIFEST: "remove it; nothing was committed",
        Ailment.LOST_VERSION: "remove the row of the manifest store; what its writer staged is gone",
        Ailment.ROW_COUNTS: _BY_COMMIT,
        Ailment.SHARED_FIELD_IDS: _BY_COMMIT,
        Ailment.UNDERSTATED_FORMAT: _BY_COMMIT,
        Ailment.OVERLAPPING_COVERAGE: _BY_COMMIT,
        Ailment.UNRELIABLE_COVERAGE: "build the index again; from the next commit on it is not used",
        Ailment.MIXED_FORMATS: "restore a version whose data files are all of one format",
        Ailment.MISSING_DATA_FILE: "put it back, or restore a version that does not need it",
    }
)
"""What mends each."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One of them.

    Attributes:
        ailment: what it is.
        branch: whose line it was found in; empty for the main line.
        place: a path below the root of the line, the name of a branch, or the number of a version.
        age_seconds: since anything of it was written; None when nobody knows.
        is_ripe: whether it may be mended here: it is old enough, and it is safe.
        reason: why it is not safe; empty when it is.
        traces: the files that it was told by, as they were.
    """

    ailment: Ailment
    branch: str
    place: str
    age_seconds: float | None = field(compare=False)
    is_ripe: bool
    reason: str = ""
    traces: tuple[StoredFile, ...] = field(default=(), repr=False, compare=False)

    @property
    def is_named_only(self) -> bool:
        """Whether it is something that the doctor does not mend."""
        return self.ailment in _NAMED_ONLY

    @property
    def advice(self) -> str:
        """What mends it."""
        return ADVICE[self.ailment]

    def is_same(self, other: Finding) -> bool:
        """Whether another look has found the same, and nothing about it has changed."""
        return (self.ailment, self.branch, self.place, self.reason) == (
            other.ailment,
            other.branch,
            other.place,
            other.reason,
        ) and self.traces == other.traces
