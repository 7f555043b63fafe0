"""Guard: finds references to files that other writers added after a cleanup was planned.

Other writers may continue between planning and removal: they may tag a version to be removed, restore an old version,
or create a branch. Before each batch of removals, the guard checks again for versions, tags, and branch versions that
are not in the plan, and keeps the files to which they refer. A race remains possible between a check and the end of the
batch; it affects only a writer that tags, restores, or creates a branch from a version *in that batch*.

The guard also records which files have been removed: a version that must be kept after all counts as *spared* if all of
its files still exist, and as *damaged* otherwise.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from lance_core.cleanup.branches import manifests_of_others, read_branches
from lance_core.cleanup.ownership import owner_of, owners_of
from lance_core.cleanup.reachability import detached_owners, versions_on
from lance_core.errors import VersionNotFoundError
from lance_core.table.leases import TagsInForce, lease_path
from lance_core.table.paths import is_detached_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.cleanup.branches import BranchManifest, BranchRoot, Line
    from lance_core.table.paths import ManifestName

__all__ = ["Guard"]

_logger = logging.getLogger(__name__)


class Guard:
    """Protects files to which references were added after the plan was made.

    Args:
        line: the line that is cleaned up.
        known: the numbers of the versions that the plan took into account.
        removed: the manifests of the known versions that are to be removed.
        branch_manifests: the manifests of branches that the plan took into account.
        planned_at: time when the plan was made, in seconds since the epoch.
    """

    def __init__(
        self,
        line: Line,
        *,
        known: Iterable[int],
        removed: Iterable[ManifestName],
        branch_manifests: Iterable[BranchManifest],
        planned_at: float,
    ) -> None:
        """Initialize without reading anything."""
        self._line = line
        self._log = line.log
        self._known = set(known)
        self._removed = {name.version: name for name in removed}
        self._branch_manifests = set(branch_manifests)
        self._planned_at = planned_at
        self._gone_owners: set[str] = set()
        self._gone_versions: set[int] = set()
        self._asked_for: set[int] = set()
        self._detached: set[int] = set()
        self.spared_owners: set[str] = set()
        """Owners (see ``ownership.py``) to which new references were found; their files must be kept."""
        self.spared_versions: set[int] = set()
        """Versions that were planned for removal but are kept, with all their files."""
        self.damaged_versions: set[int] = set()
        """Versions that are still needed although some of their files have been removed."""

    def record_gone(self, path: str) -> None:
        """Record that a file has been removed."""
        self._gone_owners.add(owner_of(path))

    def record_gone_version(self, version: int) -> None:
        """Record that the manifest of a version has been removed, after its files."""
        self._gone_versions.add(version)

    def keeps(self, version: int) -> bool:
        """Return whether the manifest of a version that was planned for removal is kept."""
        return version in self.spared_versions or version in self.damaged_versions

    def look(self) -> None:
        """Find new references; no files may be removed while this runs.

        Raises:
            CorruptDataError: a new manifest, a tag, or a branch cannot be read. Nothing more may be removed.
            StorageError: a storage operation failed.
        """
        now = max(self._planned_at, time.time())
        in_force = TagsInForce.read(self._line.main.store, self._line.main.root, int(now * 1e9))
        # A lease that had expired when the cleanup was planned may have been renewed.
        self.spared_owners.update(map(lease_path, in_force.leases))
        for tag, version in versions_on(self._line, in_force.all).items():
            self._ask_for(version, f"tag {tag!r}")
            self._look_at_detached(version, f"tag {tag!r}")
        for version in self._log.held_versions(now):
            self._look_at_held(version)
        self._look_at_branches()
        # Last: the new manifest lists the files of a restored version, regardless of what was kept or removed before.
        for name in self._log.newer_than(0):
            if name.version not in self._known:
                self._known.add(name.version)
                self._look_at_version(name)

    def _look_at_detached(self, version: int, what: str) -> None:
        if version in self._detached or not is_detached_version(version):
            return
        self._detached.add(version)
        owners = detached_owners(self._log, version)
        self.spared_owners |= owners
        if not owners.isdisjoint(self._gone_owners):
            self._report_damage(version, what)

    def _look_at_held(self, version: int) -> None:
        """Keep a version that is about to be restored. The restoring writer detects a removal that has begun."""
        self.spared_owners |= detached_owners(self._log, version)
        name = self._removed.get(version)
        if name is None or version in self._asked_for or version in self._gone_versions:
            return
        try:
            owners = owners_of(self._log.read(name), self._log.root)
        except VersionNotFoundError:
            return
        if owners.isdisjoint(self._gone_owners):
            self._asked_for.add(version)
            self.spared_owners |= owners
            self.spared_versions.add(version)
            _logger.warning("%s: version %d is kept, because it is being restored", self._log.root, version)

    def _look_at_branches(self) -> None:
        new = manifests_of_others(self._line) - self._branch_manifests
        for branch in read_branches(self._line, new):
            if branch.held:
                self._look_at_branch(branch)
        self._branch_manifests |= new

    def _look_at_branch(self, branch: BranchRoot) -> None:
        self.spared_owners |= branch.held
        what = f"branch {branch.name!r}"
        self._ask_for(branch.forked_from, what)
        if not branch.held.isdisjoint(self._gone_owners):
            self._report_damage(branch.forked_from, what)

    def _look_at_version(self, name: ManifestName) -> None:
        owners = self._spare_owners_of(name)
        if owners is not None and not owners.isdisjoint(self._gone_owners):
            self._report_damage(name.version, "it")

    def _ask_for(self, version: int, what: str) -> None:
        """Handle a new reference to a version that was planned for removal."""
        name = self._removed.get(version)
        if name is None or version in self._asked_for:
            return
        self._asked_for.add(version)
        if version in self._gone_versions:
            self._report_damage(version, what)
            return
        owners = self._spare_owners_of(name)
        if owners is None:
            return
        if owners.isdisjoint(self._gone_owners):
            self.spared_versions.add(version)
            _logger.warning("%s: version %d is kept, because %s uses it", self._log.root, version, what)
        else:
            self._report_damage(version, what)

    def _report_damage(self, version: int, what: str) -> None:
        if version not in self.damaged_versions:
            self.damaged_versions.add(version)
            _logger.error(
                "%s: version %d is incomplete: %s was created after the cleanup had removed some files of the version",
                self._log.root,
                version,
                what,
            )

    def _spare_owners_of(self, name: ManifestName) -> set[str] | None:
        """Keep the files that a version refers to; return None if another process removed the version."""
        try:
            owners = owners_of(self._log.read(name), self._log.root)
        except VersionNotFoundError:
            return None
        self.spared_owners |= owners
        return owners
