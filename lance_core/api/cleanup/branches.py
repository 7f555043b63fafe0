"""What branches hold of the main line.

The root of a branch lies below ``tree/`` and has manifests of its own; they name files of the main root as long as the
branch has not rewritten them. Every manifest below ``tree/`` counts, also one of a branch that has no record yet, or
none any more: a branch is made manifest first, record second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.api.cleanup.ownership import borrowed_owners
from lance_core.errors import VersionNotFoundError
from lance_core.table.feature_flags import require_writable
from lance_core.table.paths import BRANCH_ROOTS_DIRECTORY, VERSIONS_DIRECTORY, ManifestName, parse_manifest_name
from lance_core.table.refs import list_branches
from lance_core.table.version_log import VersionLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_core.table.refs import BranchRecord

__all__ = ["BranchManifest", "BranchRoot", "branch_manifests", "read_branches"]


@dataclass(frozen=True, slots=True)
class BranchManifest:
    """One version of a branch.

    Attributes:
        branch: its name.
        name: of the manifest, in the branch's own ``_versions/``.
    """

    branch: str
    name: ManifestName


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRoot:
    """A directory below ``tree/`` that has versions.

    Attributes:
        name: the branch.
        is_recorded: whether the branch has a record.
        forked_from: the version of the main line that it goes back to.
        held: owners that its versions name in another root.
    """

    name: str
    is_recorded: bool
    forked_from: int
    held: frozenset[str]


def branch_manifests(paths: Iterable[str]) -> set[BranchManifest]:
    """The manifests of branches among paths relative to the main root."""
    found: set[BranchManifest] = set()
    for path in paths:
        root, middle, file_name = path.rpartition(f"/{VERSIONS_DIRECTORY}/")
        if not middle or not root.startswith(f"{BRANCH_ROOTS_DIRECTORY}/"):
            continue
        name = parse_manifest_name(file_name)
        if name is not None:
            found.add(BranchManifest(root.partition("/")[2], name))
    return found


def read_branches(log: VersionLog, manifests: Iterable[BranchManifest]) -> list[BranchRoot]:
    """Read manifests of branches, one at a time.

    Args:
        log: the versions of the main line.
        manifests: which to read; one that is gone by now is skipped.

    Raises:
        CorruptDataError: a manifest or a branch's record is damaged.
        UnsupportedFeatureFlagError: a manifest needs a feature that this library does not have.
    """
    by_branch: dict[str, list[ManifestName]] = {}
    for manifest in manifests:
        by_branch.setdefault(manifest.branch, []).append(manifest.name)
    if not by_branch:
        return []
    records = list_branches(log.store, log.root)
    return [_read_branch(log, branch, names, records) for branch, names in sorted(by_branch.items())]


def _read_branch(
    log: VersionLog, branch: str, names: list[ManifestName], records: Mapping[str, BranchRecord]
) -> BranchRoot:
    branch_log = VersionLog(log.store, log.store.join(log.root, BRANCH_ROOTS_DIRECTORY, *branch.split("/")))
    held: set[str] = set()
    for name in names:
        try:
            manifest = branch_log.read(name)
        except VersionNotFoundError:
            # Removed since it was listed, by a cleanup of the branch or with the branch.
            continue
        require_writable(manifest.message)
        held |= borrowed_owners(manifest)
    record = records.get(branch)
    forked_from = None if record is None else record.forked_from
    if forked_from is None:
        # The first version of a branch has the number of the version that it was made from.
        forked_from = min(name.version for name in names)
    return BranchRoot(name=branch, is_recorded=record is not None, forked_from=forked_from, held=frozenset(held))
