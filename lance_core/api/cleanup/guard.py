"""Guard: what has come to refer to files since a cleanup was planned.

Between the plan and a removal others go on: a tag is set on a version that is to go, an old version is restored, a
branch is made. The guard looks again, before each batch of removals, for versions, tags and branch versions that the
plan does not know, and spares what they name. What remains is the time between a look and the end of its batch; only
who tags, restores or branches one of the versions *whose turn it is* can fall into it.

Who comes too late is told: the guard knows what is gone, so a version counts as spared only when all of its files are
there, and as damaged otherwise.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from lance_core.api.cleanup.branches import manifests_of_others, read_branches
from lance_core.api.cleanup.ownership import owner_of, owners_of
from lance_core.api.cleanup.reachability import detached_owners, tagged_versions
from lance_core.errors import VersionNotFoundError
from lance_core.table.paths import is_detached_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.api.cleanup.branches import BranchManifest, BranchRoot, Line
    from lance_core.table.paths import ManifestName

__all__ = ["Guard"]

_logger = logging.getLogger(__name__)


class Guard:
    """Keeps a removal away from what is referred to by now.

    Args:
        line: whose versions.
        known: the versions that the plan has taken into account.
        removed: those of them that go.
        branch_manifests: the branches' versions that the plan has taken into account.
        planned_at: seconds since the epoch.
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
        """Nothing is read."""
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
        """Owners whose files stay."""
        self.spared_versions: set[int] = set()
        """Versions that were to go and stay whole."""
        self.damaged_versions: set[int] = set()
        """Versions that are wanted, and name files that are gone."""

    def record_gone(self, path: str) -> None:
        """A file has been removed."""
        self._gone_owners.add(owner_of(path))

    def record_gone_version(self, version: int) -> None:
        """The manifest of a version has been removed, after its files."""
        self._gone_versions.add(version)

    def keeps(self, version: int) -> bool:
        """Whether the manifest of a version that was to go stays."""
        return version in self.spared_versions or version in self.damaged_versions

    def look(self) -> None:
        """Find what is new; nothing may be removed meanwhile.

        Raises:
            CorruptDataError: a new manifest, a tag or a branch cannot be read: nothing more may be removed.
            StorageError: the outside world failed.
        """
        for tag, version in tagged_versions(self._line).items():
            self._ask_for(version, f"tag {tag!r}")
            self._look_at_detached(version, f"tag {tag!r}")
        for version in self._log.held_versions(max(self._planned_at, time.time())):
            self._look_at_held(version)
        self._look_at_branches()
        # Last: what a restored version names is in the new manifest, whatever was spared or removed before.
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
        """Spare a version that somebody is about to restore; of one whose turn has come he finds files missing."""
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
            _logger.warning("%s: version %d was to be cleaned up and stays: it is restored", self._log.root, version)

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
        """A version that was to go is wanted after all."""
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
            _logger.warning("%s: version %d was to be cleaned up and stays: %s came", self._log.root, version, what)
        else:
            self._report_damage(version, what)

    def _report_damage(self, version: int, what: str) -> None:
        if version not in self.damaged_versions:
            self.damaged_versions.add(version)
            _logger.error(
                "%s: version %d is not whole: %s came when the cleanup had removed files of it already",
                self._log.root,
                version,
                what,
            )

    def _spare_owners_of(self, name: ManifestName) -> set[str] | None:
        """Spare what a version names; None when somebody else has removed the version."""
        try:
            owners = owners_of(self._log.read(name), self._log.root)
        except VersionNotFoundError:
            return None
        self.spared_owners |= owners
        return owners
