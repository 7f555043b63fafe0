"""Who needs a branch: tags, branches that were made from it, and versions of others that keep files in its root.

Where a branch has a record, the records and tags tell, and the manifests of branches that have none: they are being
made or deleted. Where it has none, the way to a branch that was made from it may not be known either, so the manifests
of all other branches are asked.

Source: ``RefConflictError`` of pylance 14.0.2; that manifests are asked is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from lance_core.cleanup.branches import Line, manifests_of_others
from lance_core.errors import RefConflictError, VersionNotFoundError
from lance_core.table.branches import branch_root
from lance_core.table.paths import BRANCH_ROOTS_DIRECTORY
from lance_core.table.refs import list_tags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.table.branches import BranchRecord
    from lance_core.table.version_log import VersionLog

__all__ = ["refuse_when_used"]


def refuse_when_used(main: VersionLog, branch: str, records: Mapping[str, BranchRecord]) -> None:
    """Find out whether a branch may be removed.

    Args:
        main: the versions of the main branch.
        branch: its name.
        records: of all branches.

    Raises:
        RefConflictError: it is needed.
        CorruptDataError: the manifest of a branch that is asked is damaged.
    """
    tags = [name for name, tag in list_tags(main.store, main.root).items() if tag.branch == branch]
    own = records[branch].forks if branch in records else ()
    children = {
        name
        for name, record in records.items()
        if record.parent == branch or (own and len(record.forks) > len(own) and record.forks[: len(own)] == own)
    }
    children |= _borrowers(main, branch, told=frozenset(records if branch in records else ()))
    if tags or children:
        raise RefConflictError(
            f"branch {branch!r} is used by tags {sorted(tags)} and branches {sorted(children)}; delete these first",
            branch=branch,
        )


def _borrowers(main: VersionLog, branch: str, *, told: frozenset[str]) -> set[str]:
    """The other branches whose manifests have a base path in the root of a branch; those ``told`` of are not asked."""
    inside = f"/{BRANCH_ROOTS_DIRECTORY}/{branch}/"
    found: set[str] = set()
    for each in manifests_of_others(Line(main, main, branch)):
        if each.branch in found or each.branch in told:
            continue
        try:
            manifest = main.at(branch_root(main.store, main.root, each.branch)).read(each.name)
        except VersionNotFoundError:
            # Removed since it was listed.
            continue
        if any(inside in f"{unquote(base.path).rstrip('/')}/" for base in manifest.message.base_paths):
            found.add(each.branch)
    return found
