"""Decides which versions are kept, and determines which files they reference.

Every manifest is read, one at a time, and only the names of its files are kept in memory. If a manifest cannot be read,
the cleanup fails before anything is removed, because that manifest might be the only one that refers to a file.

Source: cleanup of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lance_core.cleanup.branches import (
    BranchManifest,
    BranchRoot,
    Line,
    branch_manifests,
    manifests_of_others,
    read_branches,
)
from lance_core.cleanup.ownership import held_directories, owner_of, owners_of
from lance_core.errors import DatasetNotFoundError, InvalidCleanupError, VersionNotFoundError
from lance_core.table.feature_flags import require_writable
from lance_core.table.leases import TagsInForce
from lance_core.table.paths import is_detached_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_core.cleanup.inventory import StoredFile
    from lance_core.cleanup.policy import CleanupPolicy, VersionRule
    from lance_core.table.paths import ManifestName
    from lance_core.table.tags import TagRecord
    from lance_core.table.version_log import VersionLog

__all__ = ["KeepReason", "Survey", "detached_owners", "survey_versions", "versions_on"]


class KeepReason(StrEnum):
    """The reason why a version is kept."""

    CURRENT = "the dataset's current version, or a newer one"
    TAGGED = "tagged"
    LEASED = "leased by a reader"
    BRANCH = "a branch still uses its files"
    POLICY = "not selected for removal by the cleanup policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The references that the manifests of a table contain at one moment.

    Attributes:
        kept: maps each version that is kept to the reason for keeping it.
        removed: the manifest names of the versions to be removed, in ascending order.
        referenced: owners to which a kept version or a branch refers.
        verified: maps each owner to the last version that refers to it, among the versions to be removed. The files of
            these owners are not part of a write in progress.
        oldest_kept: commit time of the oldest kept version, in seconds since the epoch. In most directories, an
            unreferenced file is removed only if it is not newer than this version. If a version newer than the oldest
            kept version is removed, the value is None, and this limit does not apply.
        branches: the branches that descend from the line.
        branch_manifests: the manifests of branches that were taken into account.
        referenced_branches: branches created from a version that the policy selects or that no longer exists.
        expired_leases: paths of leases that no longer protect anything.
    """

    kept: Mapping[int, KeepReason]
    removed: tuple[ManifestName, ...]
    referenced: set[str]
    verified: Mapping[str, int]
    oldest_kept: float | None
    branches: tuple[BranchRoot, ...]
    branch_manifests: frozenset[BranchManifest]
    referenced_branches: tuple[BranchRoot, ...]
    expired_leases: frozenset[str] = frozenset()


def survey_versions(
    line: Line, policy: CleanupPolicy, *, read_version: int, files: Sequence[StoredFile], now_ns: int
) -> Survey:
    """Read all manifests, and decide which versions are kept.

    Args:
        line: the line that is cleaned up.
        policy: the versions that may be removed.
        read_version: the version of the handle; this version and all newer versions are kept.
        files: all stored files. They must be listed before this call, so that no file is newer than the manifests.
        now_ns: current time, in nanoseconds since the epoch.

    Raises:
        InvalidCleanupError: a tagged version matches the policy, and the policy does not allow that.
        CorruptDataError: a manifest, a tag, or a branch cannot be read.
        UnsupportedFeatureFlagError: a manifest needs a feature that this library does not support.
        DatasetNotFoundError: the dataset no longer has any versions.
    """
    log = line.log
    found = manifests_of_others(line) if line.branch else branch_manifests(file.path for file in files)
    branches = tuple(read_branches(line, found))
    names = log.newer_than(0)
    if not names:
        raise DatasetNotFoundError(f"no dataset exists at {log.uri}", path=log.root)
    in_force = TagsInForce.read(line.main.store, line.main.root, now_ns)
    tags, leases = versions_on(line, in_force.tags), versions_on(line, in_force.leases)
    stored = {owner_of(file.path) for file in files}
    reader = _VersionReader(
        rule=policy.rule([name.version for name in names], now_ns),
        read_version=read_version,
        tagged=frozenset(tags.values()),
        leased=frozenset(leases.values()),
        forked_from=frozenset(branch.forked_from for branch in branches if not branch.held.isdisjoint(stored)),
    )
    for name in names:
        reader.read(log, name)
    for version in {*tags.values(), *leases.values()}:
        reader.hold(detached_owners(log, version))
    if policy.error_if_tagged_old_versions:
        reader.refuse_tagged(tags)
    return reader.survey(branches, frozenset(found), in_force.expired)


def versions_on(line: Line, tags: Mapping[str, TagRecord]) -> dict[str, int]:
    """Return the version numbers of those tags that are on a line, keyed by tag name."""
    return {
        name: tag.version for name, tag in tags.items() if ("" if tag.is_on_main_line else tag.branch) == line.branch
    }


def detached_owners(log: VersionLog, version: int) -> set[str]:
    """Return the owners of the files of a tagged version if it is detached: only the tag protects these files."""
    if not is_detached_version(version):
        return set()
    try:
        manifest = log.read_version(version)
    except VersionNotFoundError:
        return set()
    require_writable(manifest.message)
    return owners_of(manifest, log.root)


class _VersionReader:
    """Reads the manifests and collects their references."""

    def __init__(
        self,
        *,
        rule: VersionRule,
        read_version: int,
        tagged: frozenset[int],
        leased: frozenset[int],
        forked_from: frozenset[int],
    ) -> None:
        self._rule = rule
        self._read_version = read_version
        self._tagged = tagged
        self._leased = leased
        self._forked_from = forked_from
        self._kept: dict[int, KeepReason] = {}
        self._removed: list[ManifestName] = []
        self._referenced: set[str] = set()
        self._verified: dict[str, int] = {}
        self._oldest_kept_ns: int | None = None
        self._newest_removed_ns = -1
        self._selected: set[int] = set()

    def read(self, log: VersionLog, name: ManifestName) -> None:
        try:
            manifest = log.read(name)
        except VersionNotFoundError:
            if name.version >= self._read_version:
                raise
            # Another cleanup has removed the version since it was listed.
            return
        require_writable(manifest.message)
        reason = self._reason(name.version, manifest.timestamp_ns)
        if reason is None:
            self._removed.append(name)
            # Versions are processed in ascending order: the last one is kept.
            owners = owners_of(manifest, log.root)
            self._verified.update(dict.fromkeys(owners, name.version))
            self._referenced.update(held_directories(owners))
        else:
            self._kept[name.version] = reason
            self._referenced |= owners_of(manifest, log.root)
        # The reference limits its search before it checks branches.
        if reason is None or reason is KeepReason.BRANCH:
            self._newest_removed_ns = max(self._newest_removed_ns, manifest.timestamp_ns)
        elif self._oldest_kept_ns is None or manifest.timestamp_ns < self._oldest_kept_ns:
            self._oldest_kept_ns = manifest.timestamp_ns

    def hold(self, owners: set[str]) -> None:
        self._referenced |= owners

    def refuse_tagged(self, tags: Mapping[str, int]) -> None:
        in_the_way = {tag: version for tag, version in tags.items() if self._kept.get(version) is KeepReason.TAGGED}
        if in_the_way:
            listed = ", ".join(f"{tag!r} (version {version})" for tag, version in in_the_way.items())
            raise InvalidCleanupError(
                f"{len(set(in_the_way.values()))} tagged version(s) match the cleanup policy: {listed}; delete the "
                "tags, or set error_if_tagged_old_versions=False to keep these versions",
                tags=in_the_way,
            )

    def survey(
        self, branches: tuple[BranchRoot, ...], manifests: frozenset[BranchManifest], expired_leases: frozenset[str]
    ) -> Survey:
        for branch in branches:
            self._referenced |= branch.held
        bounded = self._oldest_kept_ns is not None and self._newest_removed_ns <= self._oldest_kept_ns
        listed = {*self._kept, *(name.version for name in self._removed)}
        return Survey(
            kept=self._kept,
            removed=tuple(self._removed),
            referenced=self._referenced,
            verified=self._verified,
            oldest_kept=self._oldest_kept_ns / 1e9 if bounded and self._oldest_kept_ns is not None else None,
            branches=branches,
            branch_manifests=manifests,
            referenced_branches=tuple(
                branch
                for branch in branches
                if branch.is_recorded and (branch.forked_from in self._selected or branch.forked_from not in listed)
            ),
            expired_leases=expired_leases,
        )

    def _reason(self, version: int, timestamp_ns: int) -> KeepReason | None:
        """Return the reason to keep a version; None if it is removed."""
        is_selected = self._rule.selects(version, timestamp_ns)
        if is_selected:
            self._selected.add(version)
        if version >= self._read_version:
            return KeepReason.CURRENT
        if not is_selected:
            return KeepReason.POLICY
        if version in self._tagged:
            return KeepReason.TAGGED
        if version in self._leased:
            return KeepReason.LEASED
        return KeepReason.BRANCH if version in self._forked_from else None
