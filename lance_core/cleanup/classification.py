"""Classification of stored files: rules based on the path, age, and owner of each file, without I/O.

A file of a removable kind (:mod:`lance_core.cleanup.path_rules`) is removed if it is *verified*: a version to be
removed references its owner (:mod:`lance_core.cleanup.ownership`), and no kept version does. It is also removed if it
is *unverified*: no version references its owner, and the file is at least 7 days old; writes are assumed to be
committed within that time. Everything else is kept: files of kept versions, files that no version references yet
(*protected*), leftovers that other processes may still need (*possibly needed*), and files that are not part of a table
(*unrecognized*). ``guard.py`` checks again for new references while files are being removed.

A file that no version references is removed only if pylance would also find it: pylance checks every file in
``_indices`` and ``_fri``, every file that is at least 7 days old in ``data`` and ``_blobs``, and in other directories
only files that are not newer than the oldest kept version (``Survey.oldest_kept``). This restriction does not apply to
leftovers of crashed writers.

A file that several versions reference is removed together with the last of these versions. Therefore, each version
remains complete until its own removal starts.

Source: cleanup of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lance_core.cleanup.ownership import held_directories, owner_of
from lance_core.cleanup.path_rules import UNRECOGNIZED, PathState, Settled, rule_for
from lance_core.cleanup.records import FileKind
from lance_core.table.paths import (
    BLOBS_DIRECTORY,
    BRANCH_ROOTS_DIRECTORY,
    DATA_DIRECTORY,
    INDICES_DIRECTORY,
    REUSE_MAPS_DIRECTORY,
    VERSIONS_DIRECTORY,
    parse_hold_name,
    parse_manifest_name,
)

if TYPE_CHECKING:
    from lance_core.cleanup.inventory import StoredFile
    from lance_core.cleanup.reachability import Survey

__all__ = ["UNVERIFIED_AGE", "ClassifiedPath", "Classifier", "PathState"]

UNVERIFIED_AGE: Final = timedelta(days=7)
"""Age below which, by default, a file that no version refers to is kept."""

_UNBOUNDED: Final = frozenset({INDICES_DIRECTORY, REUSE_MAPS_DIRECTORY})
"""Directories in which pylance's cleanup examines every file."""
_BOUNDED_BY_AGE: Final = frozenset({DATA_DIRECTORY, BLOBS_DIRECTORY})
"""Directories in which pylance's cleanup examines every file that is at least 7 days old."""

_NESTED: Final = Settled(PathState.KEPT, "part of another branch")


@dataclass(frozen=True, slots=True)
class ClassifiedPath:
    """A file and its classification.

    Attributes:
        path: path relative to the root.
        num_bytes: size of the file.
        modified_at: modification time, in seconds since the epoch (UTC).
        state: what the cleanup does with the file.
        reason: the reason for this state, as text.
        kind: the kind of file; None if files like this are never removed.
        goes_with: the version together with which the file is removed: the last removed version that refers to it; None
            if it is not removed with a version.
    """

    path: str
    num_bytes: int
    modified_at: float
    state: PathState
    reason: str
    kind: FileKind | None = None
    goes_with: int | None = None

    @property
    def verified(self) -> bool:
        """Whether a version to be removed refers to the file."""
        return self.goes_with is not None


class Classifier:
    """Classifies files.

    Args:
        survey: the references that the manifests of all versions contain.
        delete_unverified: whether files that no version refers to are removed regardless of their age.
        now: current time, in seconds since the epoch.
        nested_roots: directories inside a branch, each with a trailing slash, that are the roots of other branches.
        abandoned: paths of staged manifests that will not be published.
    """

    def __init__(
        self,
        survey: Survey,
        *,
        delete_unverified: bool,
        now: float,
        nested_roots: tuple[str, ...] = (),
        abandoned: frozenset[str] = frozenset(),
    ) -> None:
        """Initialize without reading anything."""
        self._abandoned = abandoned
        self._nested_roots = nested_roots
        self._survey = survey
        self._held_directories = held_directories(survey.referenced)
        self._delete_unverified = delete_unverified
        self._young_from = now - UNVERIFIED_AGE.total_seconds()
        self._removed = {name.version for name in survey.removed}
        recorded = [branch for branch in survey.branches if branch.is_recorded]
        lost = [branch for branch in survey.branches if not branch.is_recorded]
        self._branch_roots = tuple(f"{BRANCH_ROOTS_DIRECTORY}/{branch.name}/" for branch in recorded)
        self._lost_roots = tuple(f"{BRANCH_ROOTS_DIRECTORY}/{branch.name}/" for branch in lost)

    def classify(self, file: StoredFile) -> ClassifiedPath:
        """Return the classification of a file."""
        if file.path.startswith(self._nested_roots):
            return _settle(file, _NESTED)
        directory, _, rest = file.path.partition("/")
        if directory == VERSIONS_DIRECTORY and parse_manifest_name(rest) is not None:
            return self._manifest(file, rest)
        if directory == BRANCH_ROOTS_DIRECTORY:
            return _settle(file, self._of_branch(file.path))
        if file.path in self._survey.expired_leases:
            return _classified(file, PathState.REMOVABLE, "expired lease", FileKind.RESIDUE)
        if file.path in self._abandoned:
            return _classified(file, PathState.REMOVABLE, "staged manifest of a crashed writer", FileKind.RESIDUE)
        verdict = rule_for(directory, rest)
        if isinstance(verdict, Settled):
            return _settle(file, verdict)
        return self._candidate(file, directory, verdict)

    def _manifest(self, file: StoredFile, name: str) -> ClassifiedPath:
        parsed = parse_manifest_name(name)
        version = None if parsed is None else parsed.version
        if version in self._removed:
            return _classified(file, PathState.REMOVABLE, "version to be removed", FileKind.MANIFEST, version)
        reason = None if version is None else self._survey.kept.get(version)
        # A listed manifest that is in neither set was removed by another cleanup in the meantime.
        return _classified(file, PathState.KEPT, reason or "already removed by another process", FileKind.MANIFEST)

    def _of_branch(self, path: str) -> Settled:
        if path.startswith(self._branch_roots):
            return Settled(PathState.KEPT, "part of a branch")
        if path.startswith(self._lost_roots):
            return Settled(PathState.POSSIBLY_NEEDED, "part of a branch that has no record")
        return UNRECOGNIZED

    def _candidate(self, file: StoredFile, directory: str, kind: FileKind) -> ClassifiedPath:
        owner = owner_of(file.path)
        if file.path.startswith(self._held_directories):
            return _classified(file, PathState.KEPT, "in a base path that a kept version uses", kind)
        if owner in self._survey.referenced:
            return _classified(file, PathState.KEPT, "referenced by a version that is kept", kind)
        last = self._survey.verified.get(owner)
        if last is not None:
            return _classified(file, PathState.REMOVABLE, "referenced only by versions to be removed", kind, last)
        is_hold = directory == VERSIONS_DIRECTORY and parse_hold_name(file.path.rpartition("/")[2]) is not None
        if (is_hold or not self._delete_unverified) and file.modified_at >= self._young_from:
            return _classified(file, PathState.PROTECTED, "less than 7 days old", kind)
        if kind is FileKind.RESIDUE:
            return _classified(file, PathState.REMOVABLE, "leftover of a crashed writer", kind)
        if not self._is_searched(file, directory):
            return _classified(file, PathState.PROTECTED, "newer than the oldest version that is kept", kind)
        return _classified(file, PathState.REMOVABLE, "not referenced by any version", kind)

    def _is_searched(self, file: StoredFile, directory: str) -> bool:
        """Return whether a cleanup by pylance would find a file that no version refers to."""
        bound = self._survey.oldest_kept
        if bound is None or directory in _UNBOUNDED:
            return True
        return directory in _BOUNDED_BY_AGE or file.modified_at <= bound


def _settle(file: StoredFile, verdict: Settled) -> ClassifiedPath:
    return _classified(file, verdict.state, verdict.reason)


def _classified(
    file: StoredFile, state: PathState, reason: str, kind: FileKind | None = None, goes_with: int | None = None
) -> ClassifiedPath:
    return ClassifiedPath(file.path, file.num_bytes, file.modified_at, state, reason, kind, goes_with)
