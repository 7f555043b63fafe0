"""The lines of a dataset: the main branch and all other branches, each with its own versions.

If a branch is deleted and recreated, the old and the new branch are different lines with the same name. Their branch
records distinguish them.
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
from lance_core.table.tags import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["identity_of", "line_identity", "line_of", "main_line", "planned_line", "read_record"]

_CLOCK_SKEW_SECONDS: Final = 300
"""Assumed clock skew between writers: a version is newer than a branch only if it is newer by more than this time."""


def main_line(log: VersionLog, branch: str) -> VersionLog:
    """Return the version log of the main branch of a dataset, given the version log of any line."""
    root = main_root(log.root, branch)
    return log if root == log.root else log.at(root)


def line_identity(log: VersionLog, branch: str) -> Hashable:
    """Return the identity of a branch, which changes if it is deleted and recreated; None for the main branch.

    Raises:
        RefNotFoundError: the branch was deleted.
    """
    main = main_line(log, branch)
    return None if main is log else identity_of(read_record(main, branch))


def read_record(main: VersionLog, branch: str) -> BranchRecord:
    """Return the record of a branch.

    Raises:
        RefNotFoundError: the branch has no record.
        CorruptDataError: the record is damaged.
    """
    path = branch_path(main.store, main.root, branch)
    try:
        return BranchRecord.parse(branch, main.store.get(path), path)
    except NotFoundError as error:
        raise RefNotFoundError(f"branch {branch!r} does not exist", branch=branch) from error


def identity_of(record: BranchRecord) -> tuple[Hashable, int]:
    """Return the identity of a branch: its forks, and its creation time in seconds since the epoch."""
    return record.forks, record.created_at


def planned_line(log: VersionLog, manifest: Manifest) -> Hashable:
    """Return the identity of the line that a change is planned for, given the version that the change is based on.

    Returns:
        The identity of the branch; None for the main branch. If the branch has been recreated since the version was
        committed, the result is a value that differs from the identity of every line.

    Raises:
        RefNotFoundError: the branch was deleted.
        RetryableCommitConflictError: the version was cleaned up, so it is unknown whether the branch was recreated.
    """
    branch = manifest.message.branch
    identity = line_identity(log, branch) if branch else None
    if not isinstance(identity, tuple):
        return identity
    try:
        is_same = log.read(ManifestName(manifest.version, manifest.naming)).message == manifest.message
    except VersionNotFoundError as error:
        # A cleanup removed the version, or it belonged to an earlier branch with the same name. Clocks may differ.
        if manifest.message.timestamp.seconds <= identity[1] + _CLOCK_SKEW_SECONDS:
            raise RetryableCommitConflictError(
                f"{log.uri}: version {manifest.version} was cleaned up, so it is unknown whether branch {branch!r} "
                "has been recreated since; open the branch again",
                path=log.root,
                version=manifest.version,
                is_removed=True,
            ) from error
        is_same = True
    return identity if is_same else object()


def line_of(main: VersionLog, branch: str | None) -> VersionLog:
    """Return the version log of a branch, given the main branch's log; the name None or "main" denotes the main branch.

    Raises:
        RefNotFoundError: the name is not a valid branch name.
        InvalidTypeError: the name is not a string.
    """
    if branch is None or branch in ("", MAIN_BRANCH):
        return main
    try:
        check_branch_name(branch)
    except InvalidRefError as error:
        raise RefNotFoundError(f"branch {branch!r} does not exist", branch=branch) from error
    return main.at(branch_root(main.store, main.root, branch))
