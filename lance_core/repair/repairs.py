"""Repairs the problems that the doctor found. Repairs can be repeated; they do nothing if nothing remains to repair."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError
from lance_core.refs.branch_removal import remove_branch_root
from lance_core.repair.diagnosis import diagnose
from lance_core.repair.problems import Problem, ProblemKind
from lance_core.repair.unrecorded import is_known_file
from lance_core.table.branches import branch_root
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.migration import migrate_to_v2_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_core.table.version_log import VersionLog

__all__ = ["repair"]


def repair(log: VersionLog, problem: Problem) -> bool:
    """Repair a problem, after checking that it still exists and is unchanged.

    Args:
        log: the version log of the table's main branch.
        problem: a repairable problem that :func:`diagnose` returned.

    Returns:
        Whether the problem was repaired; False if it no longer exists or has changed, because a writer is still active.

    Raises:
        InvalidInputError: the problem is not repairable.
        CorruptDataError: a migration found two different manifests of the same version.
        StorageError: a storage operation failed; calling this again continues the repair.
    """
    if not problem.is_repairable:
        why = problem.reason or "the problem is not old enough, or problems of this kind are only reported"
        raise InvalidInputError(f"{problem.kind} {problem.place} cannot be repaired: {why}")
    if not any(map(problem.is_same, diagnose(log))):
        return False
    line = log.at(branch_root(log.store, log.root, problem.branch)) if problem.branch else log
    _REPAIRS[problem.kind](line, problem)
    return True


def _remove_file(log: VersionLog, problem: Problem) -> None:
    log.store.delete(log.store.join(log.root, *problem.place.split("/")))


def _remove_branch(log: VersionLog, problem: Problem) -> None:
    remove_branch_root(log, problem.place, only=is_known_file)


def _finish_migration(log: VersionLog, problem: Problem) -> None:
    migrate_to_v2_names(log)


def _remove_row(log: VersionLog, problem: Problem) -> None:
    if isinstance(log.protocol, ExternalCommit):
        log.protocol.withdraw(log, int(problem.place))


_REPAIRS: Final[Mapping[ProblemKind, Callable[[VersionLog, Problem], None]]] = MappingProxyType(
    {
        ProblemKind.TEMPORARY_FILE: _remove_file,
        ProblemKind.STAGED_MANIFEST: _remove_file,
        ProblemKind.ABANDONED_MANIFEST: _remove_file,
        ProblemKind.UNRECORDED_BRANCH: _remove_branch,
        ProblemKind.MIXED_NAMES: _finish_migration,
        ProblemKind.EMPTY_MANIFEST: _remove_file,
        ProblemKind.LOST_VERSION: _remove_row,
    }
)
