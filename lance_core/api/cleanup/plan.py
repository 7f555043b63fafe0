"""CleanupPlan: every file below a table's root, and what becomes of it.

The explanation and the removal come from the same plan, so the one says what the other does. A plan is about one
moment; what has come to refer to files since then is spared when it is executed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.api.cleanup.branches import Line
from lance_core.api.cleanup.classification import UNVERIFIED_AGE, ClassifiedPath, Classifier, PathState
from lance_core.api.cleanup.guard import Guard
from lance_core.api.cleanup.inventory import list_files
from lance_core.api.cleanup.policy import count, switch
from lance_core.api.cleanup.reachability import KeepReason, survey_versions
from lance_core.api.cleanup.records import (
    CleanupCandidateFile,
    CleanupExplanation,
    CleanupReferencedBranch,
    CleanupStats,
    FileKind,
)
from lance_core.api.cleanup.removal import Removal, figures
from lance_core.api.cleanup.staged import abandoned_manifests
from lance_core.errors import InvalidCleanupError
from lance_core.table.branches import nested_roots
from lance_core.table.paths import (
    BLOBS_DIRECTORY,
    DATA_DIRECTORY,
    DELETIONS_DIRECTORY,
    INDICES_DIRECTORY,
    REFS_DIRECTORY,
    REUSE_MAPS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    VERSIONS_DIRECTORY,
    is_detached_version,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.api.cleanup.branches import BranchManifest
    from lance_core.api.cleanup.policy import CleanupPolicy
    from lance_core.api.dataset import LanceDataset
    from lance_core.table.manifest import Manifest
    from lance_core.table.paths import ManifestName
    from lance_core.table.version_log import VersionLog

__all__ = ["DEFAULT_MAX_FILES", "CleanupPlan", "plan_before", "plan_cleanup", "plan_for"]

DEFAULT_MAX_FILES: Final = 1000
"""Files that an explanation lists."""

_ORDER: Final = (
    VERSIONS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    DATA_DIRECTORY,
    BLOBS_DIRECTORY,
    INDICES_DIRECTORY,
    DELETIONS_DIRECTORY,
    REUSE_MAPS_DIRECTORY,
    REFS_DIRECTORY,
)
"""The order in which the files of one version go; its manifest follows."""
_NAMED_IN_WARNINGS: Final = 5
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What a cleanup would do. Made by :func:`plan_cleanup`; executed once.

    Attributes:
        log: the versions of the table.
        policy: the terms.
        read_version: the version of the handle.
        planned_at: seconds since the epoch, UTC.
        kept_versions: the versions that stay, and why.
        removed_versions: the versions that go, ascending.
        paths: every file below the root, ordered by path.
        referenced_branches: branches that go back to versions which the terms select.
        branch_manifests: the branches' versions that were taken into account.
        branch: the branch that the table is; empty for the main line.
    """

    log: VersionLog
    policy: CleanupPolicy
    read_version: int
    planned_at: float
    kept_versions: Mapping[int, KeepReason]
    removed_versions: tuple[ManifestName, ...]
    paths: tuple[ClassifiedPath, ...]
    referenced_branches: tuple[CleanupReferencedBranch, ...] = ()
    branch_manifests: frozenset[BranchManifest] = frozenset()
    branch: str = ""

    @property
    def removable(self) -> list[ClassifiedPath]:
        """The files that go, in the order in which they go."""
        return sorted(self._in(PathState.REMOVABLE), key=_removal_order)

    @property
    def kept(self) -> list[ClassifiedPath]:
        """The files that stay because something refers to them."""
        return self._in(PathState.KEPT)

    @property
    def protected(self) -> list[ClassifiedPath]:
        """The files that stay because they may belong to a write that is not committed yet."""
        return self._in(PathState.PROTECTED)

    @property
    def residue(self) -> list[ClassifiedPath]:
        """What killed writers left in a form that no cleanup removes; all other forms are removable or protected."""
        return self._in(PathState.RESIDUE)

    @property
    def strangers(self) -> list[ClassifiedPath]:
        """The files that are no part of a table."""
        return self._in(PathState.STRANGER)

    @property
    def stats(self) -> CleanupStats:
        """Figures of what would be removed."""
        return figures(self._in(PathState.REMOVABLE))

    def explanation(self, *, include_files: bool = False, max_files: int = DEFAULT_MAX_FILES) -> CleanupExplanation:
        """The plan in the reference's form.

        Args:
            include_files: whether to list files.
            max_files: how many at most.

        Raises:
            InvalidCleanupError: ``max_files`` is not positive.
            InvalidTypeError: an argument of another type.
        """
        max_files = count("max_files", max_files)
        include_files = switch("include_files", include_files)
        if max_files <= 0:
            raise InvalidCleanupError(f"max_files must be positive, found {max_files}", argument="max_files")
        removable = self.removable
        listed = removable[:max_files] if include_files else []
        is_truncated = include_files and len(removable) > max_files
        warnings = [f"candidate_files truncated to {max_files} entries"] if is_truncated else []
        return CleanupExplanation(
            read_version=self.read_version,
            stats=figures(removable),
            candidate_files=[self._candidate(file) for file in listed],
            candidate_files_truncated=is_truncated,
            candidate_file_limit=max_files,
            referenced_branches=list(self.referenced_branches),
            warnings=warnings + self.warnings(),
        )

    def warnings(self) -> list[str]:
        """What stays although nothing refers to it, in words; empty when there is nothing of the kind."""
        found = {
            "no part of a table and stay": self.strangers,
            "left by killed writers and stay": self.residue,
        }
        return [_describe(files, what, self.planned_at) for what, files in found.items() if files]

    def execute(self) -> CleanupStats:
        """Remove what the plan names, except what is referred to by now.

        Returns:
            Figures of what was removed.

        Raises:
            CorruptDataError: a version, tag or branch that is new cannot be read; nothing more was removed.
            StorageError: the outside world failed in a way that leaves open what is referred to.
        """
        guard = Guard(
            Line.of(self.log, self.branch),
            known={*self.kept_versions, *(name.version for name in self.removed_versions)},
            removed=self.removed_versions,
            branch_manifests=self.branch_manifests,
            planned_at=self.planned_at,
        )
        return Removal(self.log, guard, self.policy).run(self.removable)

    def _in(self, state: PathState) -> list[ClassifiedPath]:
        return [file for file in self.paths if file.state is state]

    def _candidate(self, file: ClassifiedPath) -> CleanupCandidateFile:
        return CleanupCandidateFile(
            path=self.log.store.join(self.log.root, *file.path.split("/")),
            kind=file.kind or "",
            unverified=not file.verified,
            size_bytes=file.num_bytes,
        )


def plan_cleanup(dataset: LanceDataset, policy: CleanupPolicy, *, now_ns: int | None = None) -> CleanupPlan:
    """Decide what a cleanup would remove; nothing is changed.

    Args:
        dataset: the handle; its version and everything newer stays.
        policy: the terms; ``CleanupPolicy.of(…)`` makes one.
        now_ns: nanoseconds since the epoch; None for the clock's.

    Raises:
        InvalidCleanupError: a tagged version fulfils the terms, and the policy does not want that.
        CorruptDataError: a manifest, a tag or a branch cannot be read, so that it is open what is referred to.
        UnsupportedFeatureFlagError: a version needs a feature that this library does not have.
        NotSupportedError: the dataset is a branch whose record does not tell where it comes from.
        StorageError: the outside world failed.
    """
    return plan_for(dataset.log, dataset.manifest, policy, now_ns=now_ns)


def plan_for(log: VersionLog, manifest: Manifest, policy: CleanupPolicy, *, now_ns: int | None = None) -> CleanupPlan:
    """:func:`plan_cleanup` for the version of a manifest."""
    if is_detached_version(manifest.version):
        raise InvalidCleanupError(
            f"{log.root}: version {manifest.version} is detached, so that it is open which versions are newer; clean "
            "up from a handle on a version of the lineage",
            version=manifest.version,
        )
    return _plan(log, manifest.version, manifest.message.branch, policy, now_ns)


def plan_before(
    log: VersionLog, manifest: Manifest, policy: CleanupPolicy, *, now_ns: int | None = None
) -> CleanupPlan:
    """:func:`plan_cleanup` for the version before that of a manifest: both stay."""
    return _plan(log, manifest.version - 1, manifest.message.branch, policy, now_ns)


def _plan(log: VersionLog, version: int, branch: str, policy: CleanupPolicy, now_ns: int | None) -> CleanupPlan:
    line = Line.of(log, branch)
    now_ns = time.time_ns() if now_ns is None else now_ns
    # A version that is only reserved holds files too.
    log.settle()
    # Files first, versions after: what is committed in between is known, and its files are no candidates.
    files = list_files(log)
    survey = survey_versions(line, policy, read_version=version, files=files, now_ns=now_ns)
    classifier = Classifier(
        survey,
        delete_unverified=policy.delete_unverified,
        now=now_ns / 1e9,
        nested_roots=nested_roots(file.path for file in files) if line.branch else (),
        abandoned=abandoned_manifests(log, files, before=now_ns / 1e9 - UNVERIFIED_AGE.total_seconds()),
    )
    return CleanupPlan(
        log=log,
        policy=policy,
        read_version=version,
        planned_at=now_ns / 1e9,
        kept_versions=survey.kept,
        removed_versions=survey.removed,
        paths=tuple(classifier.classify(file) for file in files),
        referenced_branches=tuple(
            CleanupReferencedBranch(name=branch.name, referenced_version=branch.forked_from)
            for branch in survey.referenced_branches
        ),
        branch_manifests=survey.branch_manifests,
        branch=line.branch,
    )


def _removal_order(file: ClassifiedPath) -> tuple[int, int, str]:
    """What no version names, then one version after the other: its own files, and its manifest."""
    version = -1 if file.goes_with is None else file.goes_with
    if file.kind is FileKind.MANIFEST:
        return version, len(_ORDER), file.path
    return version, _ORDER.index(file.path.partition("/")[0]), file.path


def _describe(files: list[ClassifiedPath], what: str, now: float) -> str:
    num_bytes = sum(file.num_bytes for file in files)
    names = ", ".join(file.path for file in files[:_NAMED_IN_WARNINGS])
    more = f" and {len(files) - _NAMED_IN_WARNINGS} more" if len(files) > _NAMED_IN_WARNINGS else ""
    days = max(0.0, now - min(file.modified_at for file in files)) // _DAY_SECONDS
    return f"{len(files)} file(s), {num_bytes} bytes, up to {days:.0f} day(s) old, are {what}: {names}{more}"
