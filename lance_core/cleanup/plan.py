"""CleanupPlan: lists every file below a table's root, and records whether the file is kept or removed.

The explanation and the removal use the same plan. A plan describes the table at one point in time. When the plan is
executed, files to which references have been added since are kept.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.cleanup.branches import Line
from lance_core.cleanup.classification import UNVERIFIED_AGE, ClassifiedPath, Classifier, PathState
from lance_core.cleanup.guard import Guard
from lance_core.cleanup.inventory import list_files
from lance_core.cleanup.policy import count, switch
from lance_core.cleanup.reachability import KeepReason, survey_versions
from lance_core.cleanup.records import (
    CleanupCandidateFile,
    CleanupExplanation,
    CleanupReferencedBranch,
    CleanupStats,
    FileKind,
)
from lance_core.cleanup.removal import Removal, figures
from lance_core.errors import InvalidCleanupError, LanceError, NotFoundError
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
    is_staged_manifest_name,
    parse_manifest_name,
)
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lance_core.cleanup.branches import BranchManifest
    from lance_core.cleanup.inventory import StoredFile
    from lance_core.cleanup.policy import CleanupPolicy
    from lance_core.scan.table_view import Handle
    from lance_core.table.manifest import Manifest
    from lance_core.table.paths import ManifestName
    from lance_core.table.version_log import VersionLog

__all__ = ["DEFAULT_MAX_FILES", "CleanupPlan", "abandoned_manifests", "plan_before", "plan_cleanup", "plan_for"]

DEFAULT_MAX_FILES: Final = 1000
"""Default maximum number of files that an explanation lists."""

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
"""The order, by directory, in which the files of one version are removed; the manifest is removed last."""
_NAMED_IN_WARNINGS: Final = 5
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """A planned cleanup, created by :func:`plan_cleanup`. It can be executed once.

    Attributes:
        log: the version log of the table.
        policy: the cleanup policy.
        read_version: the number of the version that the caller's handle has checked out.
        planned_at: time when the plan was made, in seconds since the epoch (UTC).
        kept_versions: maps each version that is kept to the reason for keeping it.
        removed_versions: the manifest names of the versions to be removed, in ascending order.
        paths: every file below the root, ordered by path.
        referenced_branches: branches created from versions that the policy selects.
        branch_manifests: the manifests of branches that the plan took into account.
        branch: the name of the branch that is cleaned up; empty for the main branch.
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
        """The files to be removed, in the order of removal."""
        return sorted(self._in(PathState.REMOVABLE), key=_removal_order)

    @property
    def kept(self) -> list[ClassifiedPath]:
        """The files that are kept because something refers to them."""
        return self._in(PathState.KEPT)

    @property
    def protected(self) -> list[ClassifiedPath]:
        """The files that are kept because they may belong to a write that has not been committed yet."""
        return self._in(PathState.PROTECTED)

    @property
    def possibly_needed(self) -> list[ClassifiedPath]:
        """Leftovers of crashed writers that no cleanup removes; all other leftovers are removable or protected."""
        return self._in(PathState.POSSIBLY_NEEDED)

    @property
    def unrecognized(self) -> list[ClassifiedPath]:
        """The files that are not recognized as part of a table; they are kept."""
        return self._in(PathState.UNRECOGNIZED)

    @property
    def stats(self) -> CleanupStats:
        """Statistics of what the plan would remove."""
        return figures(self._in(PathState.REMOVABLE))

    def explanation(self, *, include_files: bool = False, max_files: int = DEFAULT_MAX_FILES) -> CleanupExplanation:
        """Return a description of the plan, in the same form as in pylance.

        Args:
            include_files: whether the description lists the files to remove.
            max_files: maximum number of files in the list.

        Raises:
            InvalidCleanupError: ``max_files`` is not positive.
            InvalidTypeError: an argument has the wrong type.
        """
        max_files = count("max_files", max_files)
        include_files = switch("include_files", include_files)
        if max_files <= 0:
            raise InvalidCleanupError(f"max_files must be positive, found {max_files}", argument="max_files")
        removable = self.removable
        listed = removable[:max_files] if include_files else []
        is_truncated = include_files and len(removable) > max_files
        warnings = [f"candidate_files truncated to {counted(max_files, 'entry', 'entries')}"] if is_truncated else []
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
        """Return up to two messages: one about unrecognized files, and one about leftovers that no cleanup removes."""
        found = {"unrecognized": self.unrecognized, "orphaned": self.possibly_needed}
        return [_describe(files, what, self.planned_at) for what, files in found.items() if files]

    def execute(self, on_batch: Callable[[int, int], object] = lambda num_files, num_bytes: None) -> CleanupStats:
        """Remove the planned files, except files to which references have been added since.

        Args:
            on_batch: called about once a second with the number and the total size of the files processed so far,
                which include files that are kept after all or could not be removed.

        Returns:
            Statistics of what was removed.

        Raises:
            CorruptDataError: a new version, tag, or branch cannot be read; nothing more was removed.
            StorageError: new references cannot be determined, because a storage operation failed.
        """
        guard = Guard(
            Line.of(self.log, self.branch),
            known={*self.kept_versions, *(name.version for name in self.removed_versions)},
            removed=self.removed_versions,
            branch_manifests=self.branch_manifests,
            planned_at=self.planned_at,
        )
        return Removal(self.log, guard, self.policy).run(self.removable, on_batch)

    def still_exists(self, file: ClassifiedPath) -> bool:
        """Return whether a file of the plan still exists; True if this cannot be determined."""
        try:
            self.log.store.head(self.log.store.join(self.log.root, *file.path.split("/")))
        except NotFoundError:
            return False
        except LanceError:
            # A file that cannot even be checked could not be removed.
            return True
        return True

    def _in(self, state: PathState) -> list[ClassifiedPath]:
        return [file for file in self.paths if file.state is state]

    def _candidate(self, file: ClassifiedPath) -> CleanupCandidateFile:
        return CleanupCandidateFile(
            path=self.log.store.join(self.log.root, *file.path.split("/")),
            kind=file.kind or "",
            unverified=not file.verified,
            size_bytes=file.num_bytes,
        )


def plan_cleanup(dataset: Handle, policy: CleanupPolicy, *, now_ns: int | None = None) -> CleanupPlan:
    """Decide what a cleanup would remove; nothing is changed.

    Args:
        dataset: a handle to the dataset; the version of the handle and all newer versions are kept.
        policy: the cleanup policy; see :meth:`CleanupPolicy.of`.
        now_ns: current time, in nanoseconds since the epoch; if None, the system clock is used.

    Raises:
        InvalidCleanupError: a tagged version matches, and the policy does not allow that.
        CorruptDataError: references cannot be determined, because a manifest, a tag, or a branch cannot be read.
        UnsupportedFeatureFlagError: a version needs a feature that this library does not support.
        NotSupportedError: the dataset is a branch that has no record, or whose record does not contain the branch's
            origin.
        StorageError: a storage operation failed.
    """
    return plan_for(dataset.view.log, dataset.view.manifest, policy, now_ns=now_ns)


def plan_for(log: VersionLog, manifest: Manifest, policy: CleanupPolicy, *, now_ns: int | None = None) -> CleanupPlan:
    """Plan a cleanup as :func:`plan_cleanup` does, with a manifest in place of a dataset handle."""
    if is_detached_version(manifest.version):
        raise InvalidCleanupError(
            f"{log.uri}: version {manifest.version} is detached, so newer versions cannot be determined; open a "
            "version that is not detached, and clean up from there",
            version=manifest.version,
        )
    return _plan(log, manifest.version, manifest.message.branch, policy, now_ns)


def plan_before(
    log: VersionLog, manifest: Manifest, policy: CleanupPolicy, *, now_ns: int | None = None
) -> CleanupPlan:
    """Plan a cleanup as :func:`plan_for` does, but also keep the version that precedes the given one."""
    return _plan(log, manifest.version - 1, manifest.message.branch, policy, now_ns)


def _plan(log: VersionLog, version: int, branch: str, policy: CleanupPolicy, now_ns: int | None) -> CleanupPlan:
    line = Line.of(log, branch)
    now_ns = time.time_ns() if now_ns is None else now_ns
    # A version that is only reserved in a manifest store also refers to files.
    log.settle()
    # Files are listed before versions, so the files of versions committed after the listing are not candidates.
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
    """Sort key: first files without a version, then version by version, with each version's manifest last."""
    version = -1 if file.goes_with is None else file.goes_with
    if file.kind is FileKind.MANIFEST:
        return version, len(_ORDER), file.path
    return version, _ORDER.index(file.path.partition("/")[0]), file.path


def _describe(files: list[ClassifiedPath], what: str, now: float) -> str:
    num_bytes = sum(file.num_bytes for file in files)
    names = ", ".join(file.path for file in files[:_NAMED_IN_WARNINGS])
    more = f" and {len(files) - _NAMED_IN_WARNINGS} more" if len(files) > _NAMED_IN_WARNINGS else ""
    days = int(max(0.0, now - min(file.modified_at for file in files)) // _DAY_SECONDS)
    size = f"{counted(num_bytes, 'byte')}; age of the oldest: {counted(days, 'day')}"
    kept = f"{counted(len(files), f'{what} file')} {'is' if len(files) == 1 else 'are'} kept"
    return f"{kept} ({size}): {names}{more}"


def abandoned_manifests(log: VersionLog, files: Iterable[StoredFile], *, before: float) -> frozenset[str]:
    """Return the paths of manifests that were staged for an external manifest store and will not be published.

    A writer stages a manifest as ``_versions/{manifest}-{uuid}`` and then inserts a row for the version into the
    manifest store. As long as this row contains the path of the staged manifest, it is the version's manifest. If the
    row does not contain the path of an old staged manifest, the writer crashed before it inserted the row, or after it
    published the version. The rows can be read only if the dataset is opened with its manifest store; otherwise, staged
    manifests are kept. pylance never removes staged manifests.

    Args:
        log: the version log of the table.
        files: the stored files.
        before: only files written before this time, in seconds since the epoch, are returned.

    Raises:
        StorageError: the manifest store could not be read.
    """
    found: set[str] = set()
    for file in files:
        directory, _, name = file.path.partition("/")
        if directory != VERSIONS_DIRECTORY or file.modified_at >= before or not is_staged_manifest_name(name):
            continue
        final, mark, _ = name.partition(".manifest-")
        parsed = parse_manifest_name(f"{final}.manifest") if mark else None
        if parsed is not None and log.protocol.has_abandoned(log, parsed, file.path):
            found.add(file.path)
    return frozenset(found)
