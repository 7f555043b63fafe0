"""Finds the uses of a branch: tags, branches created from it, and versions of other branches with files in its root.

If the branch has a record, its uses are determined from records and tags, and from the manifests of branches without a
record, which are being created or deleted. If the branch has no record, the records of other branches do not always
reveal that they were created from it, so the manifests of all other branches are read.

Source: ``RefConflictError`` of pylance 14.0.2; reading the manifests is specific to this library.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lance_core.cleanup.branches import Line, manifests_of_others
from lance_core.errors import RefConflictError, VersionNotFoundError
from lance_core.table.branches import branch_root
from lance_core.table.leases import TagsInForce
from lance_core.table.paths import BRANCH_ROOTS_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.table.branches import BranchRecord
    from lance_core.table.version_log import VersionLog

__all__ = ["refuse_when_used"]


def refuse_when_used(main: VersionLog, branch: str, records: Mapping[str, BranchRecord]) -> None:
    """Check that a branch is not in use, so that it may be removed.

    Args:
        main: the version log of the main branch.
        branch: name of the branch.
        records: the records of all branches.

    Raises:
        RefConflictError: the branch is needed.
        CorruptDataError: a manifest of another branch, which may use this branch, is damaged.
    """
    in_force = TagsInForce.read(main.store, main.root, time.time_ns()).all
    tags = [name for name, tag in in_force.items() if tag.branch == branch]
    own = records[branch].forks if branch in records else ()
    children = {
        name
        for name, record in records.items()
        if record.parent == branch or (own and len(record.forks) > len(own) and record.forks[: len(own)] == own)
    }
    children |= _borrowers(main, branch, told=frozenset(records if branch in records else ()))
    if tags or children:
        users = [f"{what} {sorted(names)}" for what, names in (("tags", tags), ("branches", children)) if names]
        raise RefConflictError(
            f"cannot delete branch {branch!r}: it is used by {' and '.join(users)}; delete them first", branch=branch
        )


def _borrowers(main: VersionLog, branch: str, *, told: frozenset[str]) -> set[str]:
    """Return the other branches with a base path in the root of a branch; branches in ``told`` are not checked."""
    inside = f"/{BRANCH_ROOTS_DIRECTORY}/{branch}/"
    found: set[str] = set()
    for each in manifests_of_others(Line(main, main, branch)):
        if each.branch in found or each.branch in told:
            continue
        try:
            manifest = main.at(branch_root(main.store, main.root, each.branch)).read(each.name)
        except VersionNotFoundError:
            # The manifest was removed after it was listed.
            continue
        if any(inside in f"{unquote(base.path).rstrip('/')}/" for base in manifest.message.base_paths):
            found.add(each.branch)
    return found
