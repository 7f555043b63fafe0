"""Finds the files of a line (the main branch or another branch) that branches created from the line still use.

The root of a branch is below ``tree/`` and has its own manifests. They refer to files in the roots from which the
branch was created, until the branch has rewritten these files. Every manifest below ``tree/`` counts, including
manifests of branches without a record in ``_refs/branches``, because a new branch's manifest is written first. Detached
versions count if a tag refers to them, or if the branch has no other versions because it was created from a detached
version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lance_core.cleanup.ownership import borrowed_owners
from lance_core.errors import NotSupportedError, VersionNotFoundError
from lance_core.table.branches import branch_root, list_branches
from lance_core.table.feature_flags import require_writable
from lance_core.table.lines import main_line
from lance_core.table.paths import (
    BRANCH_ROOTS_DIRECTORY,
    MEM_WAL_DIRECTORY,
    VERSIONS_DIRECTORY,
    ManifestName,
    is_detached_version,
    parse_detached_name,
    parse_manifest_name,
)
from lance_core.table.tags import list_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_core.table.branches import BranchRecord, Fork
    from lance_core.table.version_log import VersionLog

__all__ = ["BranchManifest", "BranchRoot", "Line", "branch_manifests", "manifests_of_others", "read_branches"]


@dataclass(frozen=True, slots=True)
class Line:
    """The line (the main branch or another branch) that is cleaned up.

    Attributes:
        log: the version log of the line.
        main: the version log of the main branch of the same table.
        branch: the name of the branch; empty for the main branch.
    """

    log: VersionLog
    main: VersionLog
    branch: str = ""

    @classmethod
    def of(cls, log: VersionLog, branch: str) -> Self:
        """Return the line of the branch with the given name; an empty name means the main branch."""
        main = main_line(log, branch)
        return cls(log, main, "" if main is log else branch)


@dataclass(frozen=True, slots=True)
class BranchManifest:
    """The manifest of one version of a branch.

    Attributes:
        branch: the name of the branch.
        name: the name of the manifest, in the branch's own ``_versions/``.
    """

    branch: str
    name: ManifestName


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRoot:
    """A directory below ``tree/`` that contains versions.

    Attributes:
        name: the name of the branch.
        is_recorded: whether the branch has a record in ``_refs/branches``.
        forked_from: the version of the line from which the branch was created, directly or through other branches.
        held: the owners (:mod:`~lance_core.cleanup.ownership`) of those files that the versions of the branch use and
            that are in the root of the line.
    """

    name: str
    is_recorded: bool
    forked_from: int
    held: frozenset[str]


def branch_manifests(paths: Iterable[str]) -> set[BranchManifest]:
    """Select the manifests of branches from paths relative to the main root."""
    found: set[BranchManifest] = set()
    for path in paths:
        root, middle, file_name = path.rpartition(f"/{VERSIONS_DIRECTORY}/")
        if not middle or not root.startswith(f"{BRANCH_ROOTS_DIRECTORY}/") or f"/{MEM_WAL_DIRECTORY}/" in root:
            continue
        name = parse_manifest_name(file_name) or parse_detached_name(file_name)
        if name is not None:
            found.add(BranchManifest(root.partition("/")[2], name))
    return found


def manifests_of_others(line: Line) -> set[BranchManifest]:
    """List the manifests of all branches except those of the line itself."""
    root = line.main.root
    prefix = line.main.store.join(root, BRANCH_ROOTS_DIRECTORY)
    found = branch_manifests(info.path[len(root) :].lstrip("/") for info in line.main.store.list_recursive(prefix))
    return {manifest for manifest in found if manifest.branch != line.branch}


def read_branches(line: Line, manifests: Iterable[BranchManifest]) -> list[BranchRoot]:
    """Read the manifests of the branches that descend from a line, one at a time; other branches are omitted.

    Args:
        line: the line that is cleaned up.
        manifests: the manifests to read; manifests that no longer exist are skipped.

    Raises:
        NotSupportedError: the line is a branch, and it has no record, or the record does not contain the branch's
            origin.
        CorruptDataError: a manifest or a branch's record is damaged.
        UnsupportedFeatureFlagError: a manifest needs a feature that this library does not support.
    """
    by_branch: dict[str, list[ManifestName]] = {}
    for manifest in manifests:
        by_branch.setdefault(manifest.branch, []).append(manifest.name)
    if not by_branch:
        return []
    records = list_branches(line.main.store, line.main.root)
    own = _own_forks(line, records)
    if any(is_detached_version(name.version) for names in by_branch.values() for name in names):
        tags = {(tag.branch, tag.version) for tag in list_tags(line.main.store, line.main.root).values()}
        by_branch = {branch: _that_count(branch, names, tags) for branch, names in by_branch.items()}
    return [
        _read_branch(line, branch, names, records.get(branch), len(own))
        for branch, names in sorted(by_branch.items())
        if _may_go_back(records.get(branch), own)
    ]


def _own_forks(line: Line, records: Mapping[str, BranchRecord]) -> tuple[Fork, ...]:
    if not line.branch:
        return ()
    forks = records[line.branch].forks if line.branch in records else ()
    if not forks:
        raise NotSupportedError(
            f"cannot clean up branch {line.branch!r}: its record in _refs/branches is missing or does not contain the "
            "branch's origin, so the branches created from this branch cannot be determined",
            branch=line.branch,
        )
    return forks


def _may_go_back(record: BranchRecord | None, own: tuple[Fork, ...]) -> bool:
    """Return whether a branch descends from the line whose forks are ``own``; True if this cannot be determined."""
    if record is None or not record.forks:
        return True
    return len(record.forks) > len(own) and record.forks[: len(own)] == own


def _that_count(branch: str, names: list[ManifestName], tags: set[tuple[str | None, int]]) -> list[ManifestName]:
    """Return the versions of a branch that count; detached ones count only if tagged, or if there are no others."""
    found = [name for name in names if not is_detached_version(name.version) or (branch, name.version) in tags]
    return found or names


def _read_branch(
    line: Line, branch: str, names: list[ManifestName], record: BranchRecord | None, depth: int
) -> BranchRoot:
    branch_log = line.main.at(branch_root(line.main.store, line.main.root, branch))
    held: set[str] = set()
    for name in names:
        try:
            manifest = branch_log.read(name)
        except VersionNotFoundError:
            # The manifest was removed after it was listed, by a cleanup of the branch or together with the branch.
            continue
        require_writable(manifest.message)
        held |= borrowed_owners(manifest, line.log.root)
    forked_from = None if record is None else record.forked_at(depth)
    if forked_from is None:
        # The first version of a branch has the number of the version from which the branch was created.
        forked_from = min(name.version for name in names)
    return BranchRoot(name=branch, is_recorded=record is not None, forked_from=forked_from, held=frozenset(held))
