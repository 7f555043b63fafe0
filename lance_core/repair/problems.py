"""Defines the problems that the doctor can find, such as leftovers of crashed writers and missing data files."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_core.table.old_writers import OldDefect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.cleanup.inventory import StoredFile

__all__ = ["ADVICE", "Problem", "ProblemKind"]


class ProblemKind(StrEnum):
    """The kinds of problems that the doctor can find in a table."""

    TEMPORARY_FILE = "temporary file"
    STAGED_MANIFEST = "staged manifest"
    ABANDONED_MANIFEST = "abandoned manifest"
    UNRECORDED_BRANCH = "branch without a record"
    MIXED_NAMES = "interrupted migration"
    EMPTY_MANIFEST = "empty manifest"
    LOST_VERSION = "lost version"
    ROW_COUNTS = OldDefect.ROW_COUNTS.value
    SHARED_FIELD_IDS = OldDefect.SHARED_FIELD_IDS.value
    UNDERSTATED_FORMAT = OldDefect.UNDERSTATED_FORMAT.value
    OVERLAPPING_COVERAGE = OldDefect.OVERLAPPING_COVERAGE.value
    UNRELIABLE_COVERAGE = OldDefect.UNRELIABLE_COVERAGE.value
    MIXED_FORMATS = "mixed formats"
    MISSING_DATA_FILE = "missing data file"
    UNREACHABLE_BASE = "unreachable base path"


_BY_COMMIT: Final = "reads return correct results; the next commit repairs the defect"

_NAMED_ONLY: Final = frozenset(
    {
        *map(ProblemKind, OldDefect),
        ProblemKind.MIXED_FORMATS,
        ProblemKind.MISSING_DATA_FILE,
        ProblemKind.UNREACHABLE_BASE,
    }
)

ADVICE: Final[Mapping[ProblemKind, str]] = MappingProxyType(
    {
        ProblemKind.TEMPORARY_FILE: "remove the file",
        ProblemKind.STAGED_MANIFEST: "remove the manifest",
        ProblemKind.ABANDONED_MANIFEST: "remove the manifest; the external manifest store does not refer to it",
        ProblemKind.UNRECORDED_BRANCH: "remove the branch, or complete it with create_branch",
        ProblemKind.MIXED_NAMES: "complete the migration to V2 manifest names",
        ProblemKind.EMPTY_MANIFEST: "remove the manifest; nothing was committed",
        ProblemKind.LOST_VERSION: (
            "remove the version's row from the external manifest store; the staged manifest is missing"
        ),
        ProblemKind.ROW_COUNTS: _BY_COMMIT,
        ProblemKind.SHARED_FIELD_IDS: _BY_COMMIT,
        ProblemKind.UNDERSTATED_FORMAT: _BY_COMMIT,
        ProblemKind.OVERLAPPING_COVERAGE: _BY_COMMIT,
        ProblemKind.UNRELIABLE_COVERAGE: "rebuild the index; otherwise, it will not be used after the next commit",
        ProblemKind.MIXED_FORMATS: "restore a version whose data files all have the same format",
        ProblemKind.MISSING_DATA_FILE: "restore the file, or restore a version that does not need it",
        ProblemKind.UNREACHABLE_BASE: (
            "make the location available, or copy its files and pass the new path with the same id to add_bases"
        ),
    }
)
"""Maps each kind of problem to advice on how to solve it."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem that the doctor found.

    Attributes:
        kind: the kind of problem.
        branch: the branch in which it was found; empty for the main branch.
        place: where the problem is: for example, a path below the root of the branch, the name of a branch, or a
            version number.
        age_seconds: time since the newest file of the problem was written; None if unknown.
        is_repairable: whether the doctor can repair the problem, because it is old enough and repairing it is safe.
        reason: the reason why repairing the problem is not safe; empty if it is safe.
        traces: the files that reveal the problem, as they were found.
    """

    kind: ProblemKind
    branch: str
    place: str
    age_seconds: float | None = field(compare=False)
    is_repairable: bool
    reason: str = ""
    traces: tuple[StoredFile, ...] = field(default=(), repr=False, compare=False)

    @property
    def is_named_only(self) -> bool:
        """Whether the doctor only reports problems of this kind and cannot repair them."""
        return self.kind in _NAMED_ONLY

    @property
    def advice(self) -> str:
        """The advice for this kind of problem."""
        return ADVICE[self.kind]

    def is_same(self, other: Problem) -> bool:
        """Return whether a problem from another diagnosis is the same, and unchanged."""
        return (self.kind, self.branch, self.place, self.reason) == (
            other.kind,
            other.branch,
            other.place,
            other.reason,
        ) and self.traces == other.traces
