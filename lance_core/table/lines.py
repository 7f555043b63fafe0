"""The lines of a dataset: its main branch and its branches, each with versions of its own.

A branch that was deleted and made again is another line under the same name; what tells the two is their record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_core.errors import (
    InvalidRefError,
    NotFoundError,
    RefNotFoundError,
    RetryableCommitConflictError,
    VersionNotFoundError,
)
from lance_core.table.branches import BranchRecord, branch_path, branch_root, check_branch_name, main_root
from lance_core.table.paths import ManifestName
from lance_core.table.refs import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["identity_of", "line_identity", "line_of", "main_line", "planned_line", "read_record"]

_CLOCK_SKEW_SECONDS: Final = 300
"""A version counts as younger than a branch only when it is so by more than the clocks of two writers may differ."""


def main_line(log: VersionLog, branch: str) -> VersionLog:
    """Return the versions of the main branch of a dataset, from those of any line."""
    root = main_root(log.root, branch)
    return log if root == log.root else log.at(root)


def line_identity(log: VersionLog, branch: str) -> Hashable:
    """Tells a branch from another of the same name, made after it was deleted; None for the main branch.

    Raises:
        RefNotFoundError: the branch was deleted.
    """
    main = main_line(log, branch)
    return None if main is log else identity_of(read_record(main, branch))


def read_record(main: VersionLog, branch: str) -> BranchRecord:
    """Return the record of a branch.

    Raises:
        RefNotFoundError: it has none.
        CorruptDataError: it is damaged.
    """
    path = branch_path(main.store, main.root, branch)
    try:
        return BranchRecord.parse(branch, main.store.get(path), path)
    except NotFoundError as error:
        raise RefNotFoundError(f"branch {branch!r} does not exist", branch=branch) from error


def identity_of(record: BranchRecord) -> tuple[Hashable, int]:
    """Return what tells the branch of a record from another of its name, and when it was made, in seconds."""
    return record.forks, record.created_at


def planned_line(log: VersionLog, manifest: Manifest) -> Hashable:
    """Return what the line of a version is told by that was opened some time ago and that a change is to be planned on.

    Returns:
        None on the main branch; a mark that is not a line's when the branch was made again since.

    Raises:
        RefNotFoundError: the branch was deleted.
        RetryableCommitConflictError: the version was cleaned up; whether the branch was made again does not show.
    """
    branch = manifest.message.branch
    identity = line_identity(log, branch) if branch else None
    if not isinstance(identity, tuple):
        return identity
    try:
        is_same = log.read(ManifestName(manifest.version, manifest.naming)).message == manifest.message
    except VersionNotFoundError as error:
        # A cleanup has removed it, or it was of another branch, made before this one. Clocks differ.
        if manifest.message.timestamp.seconds <= identity[1] + _CLOCK_SKEW_SECONDS:
            raise RetryableCommitConflictError(
                f"{log.root}: version {manifest.version} was cleaned up, so it is unknown whether branch {branch!r} "
                "was created again since; open the branch again",
                path=log.root,
                version=manifest.version,
                is_removed=True,
            ) from error
        is_same = True
    return identity if is_same else object()


def line_of(main: VersionLog, branch: str | None) -> VersionLog:
    """Return the versions of a branch, from those of the main branch; None or "main" for that itself.

    Raises:
        RefNotFoundError: no branch may have that name.
        InvalidTypeError: the name is not a string.
    """
    if branch is None or branch in ("", MAIN_BRANCH):
        return main
    try:
        check_branch_name(branch)
    except InvalidRefError as error:
        raise RefNotFoundError(f"branch {branch!r} does not exist", branch=branch) from error
    return main.at(branch_root(main.store, main.root, branch))
